"""The screen of a run that goes on in this process: in a process of its own, so that neither slows the other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqew.terminal.exits import CommandError, Exit


def check_terminal() -> None:
    """Raise `CommandError` unless there is a terminal to show a screen on."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(
            "--tui needs a terminal. Leave it out: `plainbench tui` shows the run from another one.", Exit.INVALID
        )


@contextmanager
def watched(run: Path) -> Iterator[Callable[[], bool]]:
    """Show the run in that folder while the block runs, and after that until the user quits.

    Quitting earlier does not end the run. The function that is yielded returns True while the screen is still there.
    """
    screen = subprocess.Popen([sys.executable, "-m", "plainbench.cli.main", "tui", str(run)])
    try:
        yield lambda: screen.poll() is None
    finally:
        screen.wait()
