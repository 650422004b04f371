"""`sqew migrate`."""

from __future__ import annotations

import asyncio

import click

from sqew.cli.command import Command
from sqew.cli.exits import Exit, Failure, complain
from sqew.cli.output import Column, Table, plural
from sqew.cli.progress import Bar
from sqew.cli.session import Session
from sqew.errors import StoreUnusable
from sqew.settings import without_password


@click.command(cls=Command)
@click.option("--from", "source", metavar="FILE", help="The file.  [default: the setting db]")
@click.option("--to", "target", metavar="URL", help="The database.  [default: the setting database_url]")
@click.option("--restart", is_flag=True, help="Delete what an interrupted move has copied, and begin anew.")
@click.pass_obj
def migrate(session: Session, source: str | None, target: str | None, restart: bool) -> int:
    """Copy a file's queues to a PostgreSQL database.

    Messages with their leases, the archive, subscriptions, deliveries, schedules, keys and figures come along, and all
    ids stay as they are. Stop whoever uses the file first; it is left as it was. An interrupted move goes on where it
    was when you run it again. At the end all rows are counted: exit code 6 if some are missing.
    """
    if target is not None:
        session.flags["database_url"] = target
    settings = session.settings
    if not settings.database_url:
        raise Failure("Say where to: --to postgresql://user@host/name, or SQEW_DATABASE_URL.", Exit.INVALID)
    path, where = source or settings.db, without_password(settings.database_url)
    try:
        from sqew.moving_in import move_in
    except ImportError as error:
        raise StoreUnusable("PostgreSQL needs more than the base install: pip install 'sqew[postgres]'.") from error
    with Bar("copying rows", session.plain) as bar:
        moved = asyncio.run(move_in(path, settings.database_url, bar.reach, restart=restart))
    session.show(
        {
            "from": path,
            "to": where,
            "ok": moved.ok,
            "resumed": moved.resumed,
            "rows": moved.rows,
            "tables": {name: {"file": here, "database": there} for name, (here, there) in moved.tables.items()},
        },
        Table(
            [Column("table"), Column("in the file", right=True), Column("in the database", right=True)],
            [(name.removeprefix("sqew_"), str(here), str(there)) for name, (here, there) in moved.tables.items()],
        ),
        f"Copied {path} to {where}: {plural(moved.rows, 'row')}, none missing." if moved.ok else "",
    )
    if not moved.ok:
        complain("Not all rows are in the database, so its queues were not made. Begin anew with --restart.")
    return Exit.OK if moved.ok else Exit.DAMAGE
