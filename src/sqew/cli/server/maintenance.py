"""`sqew backup` and `sqew check`."""

from __future__ import annotations

import click
import msgspec

from sqew.cli.queues.stats import file_bytes
from sqew.cli.session import QueueSession
from sqew.errors import StoreDamaged
from sqew.rules.values import shown
from sqew.terminal.command import Command
from sqew.terminal.exits import Exit, complain
from sqew.terminal.output import byte_count, plural
from sqew.terminal.progress import Bar


@click.command(cls=Command)
@click.argument("to", metavar="FILE")
@click.pass_obj
def backup(session: QueueSession, to: str) -> None:
    """Copy the file while it is in use.

    The copy appears only when it is complete.
    """
    session.check_file("backup", "pg_dump --format=custom")
    with session.open_file() as q, Bar("copying pages", session.plain) as bar:
        q.backup(to, bar.reach)
    size = file_bytes(to)
    session.show(
        {"file": session.settings.db, "backup": to, "bytes": size},
        f"Copied {session.settings.db} to {to} ({byte_count(size)}).",
    )


@click.command(cls=Command)
@click.pass_obj
def check(session: QueueSession) -> int:
    """Read the whole file and look for damage.

    Ends with exit code 6 if there is any.
    """
    session.check_file("check", "pg_amcheck")
    file = session.settings.db
    can_be_opened = True
    try:
        with session.look_at_file() as q, Bar("checking messages", session.plain) as bar:
            report = q.check(bar.reach)
    except StoreDamaged as error:
        from sqew.stores.sqlite.upkeep import CheckReport, structural_problems  # here: the help must not wait for it

        # Of one that is no database at all this says so, and raises as well.
        problems = structural_problems(file)
        report = CheckReport(0, 0, [], problems or [str(error.__cause__ or error)])
        can_be_opened = False
    sentence = f"Checked {plural(report.messages, 'message')} and {report.archived} in the archive: "
    verdict = "all is well." if report.ok else "there is damage."
    session.show({"ok": report.ok, **msgspec.to_builtins(report)}, sentence + verdict)
    for problem in report.problems:
        complain(f"Damage: {problem}")
    if report.problems:
        still = (
            "; until then `sqew export --queue NAME` writes what can still be read of a queue" if can_be_opened else ""
        )
        complain(f"Restore {file} from a backup{still}.")
    if report.damaged:
        ids = ", ".join(map(str, report.damaged))
        complain(
            f"The stored body or headers of these messages changed on the disk: {ids}. Restore them from a backup."
        )
    if report.damaged_deliveries:
        ids = ", ".join(map(str, report.damaged_deliveries))
        complain(
            f"What these deliveries post, or where to, changed on the disk: {ids}. "
            "Drop them, and publish their events again."
        )
    if report.damaged_schedules:
        names = ", ".join(map(shown, report.damaged_schedules))
        complain(f"These schedules changed on the disk: {names}. Delete them and create them again.")
    return Exit.OK if report.ok else Exit.DAMAGE
