"""`sqew demo`."""

from __future__ import annotations

import sys

import click

from sqew.cli.session import QueueSession
from sqew.terminal.command import Command
from sqew.terminal.screen import screen_on


@click.command(cls=Command)
@click.pass_obj
def demo(session: QueueSession) -> None:
    """Show a queue at work, step by step.

    It uses a file of its own in a temporary folder, unless --db names one that does not exist yet.
    """
    from sqew.cli.tour import run

    run(screen_on(sys.stdout, session.plain), session.flags.get("db"))
