"""`sqew spark doctor`."""

from __future__ import annotations

from contextlib import nullcontext

import click
import msgspec

from sqew.cli.session import QueueSession
from sqew.cli.spark.work import advancing, java_unheard
from sqew.terminal.command import Command
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.output import Facts, plural
from sqew.terminal.progress import Bar


@click.command(cls=Command)
@click.option("--quick", is_flag=True, help="Only look, and start no Spark.")
@click.pass_obj
def doctor(session: QueueSession, quick: bool) -> None:
    """Say whether Spark can run here, and what to do where it can't.

    It looks at Python, Spark, Arrow and Java, and then has Spark do something small.
    """
    from sqew.spark.runtime.doctor import examine, try_it

    findings = list(examine())
    if not quick and not any(finding.trouble for finding in findings):
        with nullcontext() if session.debug else java_unheard(), Bar("trying", session.plain) as bar, advancing(bar):
            findings.append(try_it())
    reasons = [finding.trouble for finding in findings if finding.trouble]
    session.show(
        {"ok": not reasons, "findings": msgspec.to_builtins(findings)},
        Facts([(finding.part, finding.found) for finding in findings]),
        *reasons,
    )
    if reasons:
        raise CommandError(
            f"Spark can't run here: {plural(len(reasons), 'thing')} to put right, see above.", Exit.FAILED
        )
    session.note("Spark can run here.")
