"""`sqew migrate`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from sqew.cli.session import QueueSession
from sqew.errors import BadValue, StoreUnavailable, StoreUnusable
from sqew.installing import to_install
from sqew.settings import FORMS, is_database, without_password
from sqew.terminal.command import Command
from sqew.terminal.exits import CommandError, Exit, complain
from sqew.terminal.output import Column, Part, Table, plural
from sqew.terminal.progress import Bar

if TYPE_CHECKING:
    from sqew.stores.transfer.copy import Moved


@click.command(cls=Command)
@click.option("--from", "source", metavar="FILE", help="The file.  [default: the setting db]")
@click.option("--to", "target", metavar="URL", help="The database.  [default: the setting database_url]")
@click.option("--restart", is_flag=True, help="Delete what an interrupted move has copied, and begin anew.")
@click.pass_obj
def migrate(session: QueueSession, source: str | None, target: str | None, restart: bool) -> int:
    """Copy a file's queues to a PostgreSQL database.

    Messages with their leases, the archive, subscriptions, deliveries, schedules, keys and figures come along, and all
    ids stay as they are. Stop every program that uses the file first; it is left as it was. An interrupted move goes on
    where it was when you run it again. At the end all rows are counted: exit code 6 if some are missing.
    """
    url = _target(session, target)
    path, where = source or session.settings.db, without_password(url)
    moved = _move(session, path, url, restart)
    session.show(_document(path, where, moved), *_parts(path, where, moved))
    if not moved.ok:
        complain("Not all rows are in the database, so its queues were not made. Begin anew with --restart.")
    return Exit.OK if moved.ok else Exit.DAMAGE


for option in migrate.params:
    if isinstance(option, click.Option) and option.name in ("db", "url"):
        option.hidden = True


def _target(session: QueueSession, given: str | None) -> str:
    if "url" in session.flags:
        raise CommandError(
            "`sqew migrate` copies a file, not what a server holds. Run it where the file is, without --url.",
            Exit.INVALID,
        )
    if given is not None:
        if not is_database(given):
            raise BadValue(f"--to can't be {without_password(given)!r}: it must be {FORMS['database'][0]}.")
        session.flags["database_url"] = given
    session.use_shared()
    if not session.settings.database_url:
        raise CommandError("Say where to: --to postgresql://user@host/name, or SQEW_DATABASE_URL.", Exit.INVALID)
    return session.settings.database_url


def _move(session: QueueSession, path: str, url: str, restart: bool) -> Moved:
    try:
        from sqew.stores.transfer.copy import COPYING, move_in
    except ImportError as error:
        raise StoreUnusable(f"PostgreSQL needs more than the base install: {to_install('postgres')}.") from error
    copied = "Nothing was copied yet"
    with Bar(COPYING, session.plain) as bar:

        def reach(doing: str, done: int, total: int) -> None:
            nonlocal copied
            if doing == COPYING:
                copied = f"{done} of {plural(total, 'row')} are copied"
            bar.doing = doing
            bar.reach(done, total)

        try:
            return asyncio.run(move_in(path, url, reach, restart=restart))
        except (KeyboardInterrupt, StoreUnavailable) as error:
            if isinstance(error, StoreUnavailable) and not error.was_there:
                raise
            bar.hide()
            why, code = (
                (error, Exit.STORE) if isinstance(error, StoreUnavailable) else ("Interrupted.", Exit.INTERRUPTED)
            )
            raise CommandError(
                f"{why} {copied}, and the file is as it was: run the same command again to go on from there.", code
            ) from error


def _document(path: str, where: str, moved: Moved) -> dict[str, Any]:
    return {
        "from": path,
        "to": where,
        "ok": moved.ok,
        "resumed": moved.resumed,
        "rows": moved.rows,
        "tables": {name: {"file": here, "database": there} for name, (here, there) in moved.tables.items()},
    }


def _parts(path: str, where: str, moved: Moved) -> list[Part]:
    table = Table(
        [Column("what"), Column("in the file", right=True), Column("in the database", right=True)],
        [(name.replace("_", " "), here, there) for name, (here, there) in moved.tables.items() if here or there],
        "The file holds nothing.",
    )
    if not moved.ok:
        return [table]
    return [
        table,
        f"Copied {path} to {where}: {plural(moved.rows, 'row')}, none missing.",
        f"To compare them queue by queue: sqew stats --db {path}, and sqew stats --database-url {where}",
    ]
