"""Commands whose worker was killed: it can't end them any more, so the lab does."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_FOLDER = "commands"


def note(run: Path, pid: int) -> None:
    """Record that this process has started a command."""
    folder = run / _FOLDER
    folder.mkdir(exist_ok=True)
    (folder / str(pid)).write_text(str(os.getpid()))


def forget(run: Path, pid: int) -> None:
    """Forget a command that has ended."""
    (run / _FOLDER / str(pid)).unlink(missing_ok=True)


def end(run: Path, worker: int) -> None:
    """End all commands of a worker that is no more, with the processes that they have started."""
    for file in (run / _FOLDER).glob("*"):
        if file.read_text() == str(worker):
            with suppress(ProcessLookupError):
                os.killpg(int(file.name), signal.SIGKILL)
            file.unlink()
