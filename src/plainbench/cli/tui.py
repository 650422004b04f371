"""`plainbench tui`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from plainbench.cli.command import Command
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.session import TerminalSession


@click.command(cls=Command)
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.pass_obj
def tui(session: TerminalSession, run: Path | None) -> int | None:
    """Watch a run, or a recorded one again.

    RUN is the folder of a run; without it, the newest under ./runs. Space pauses the view, or plays a recorded run;
    the arrow keys step, the line at the bottom can be clicked; p looks at messages, j jumps to a topic or a time.
    """
    from plainbench.record.find import newest
    from plainbench.tui.app import PlainBench

    folder = newest(run or Path("runs"))
    if session.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(
            f"This needs a terminal. For figures: plainbench stats --run {folder}; for plots: plainbench report "
            f"{folder}.",
            Exit.INVALID,
        )
    app = PlainBench(folder)
    app.run()
    if app.failure is not None:
        raise app.failure
    return None
