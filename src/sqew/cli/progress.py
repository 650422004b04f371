"""A bar on stderr for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sqew.cli.output import console_on

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

QUIET_SECONDS = 1.0
"""What takes less than this shows nothing."""


class Bar:
    """How far something is. On anything but a terminal it shows nothing."""

    def __init__(self, doing: str, plain: bool, total: int | None = None) -> None:
        self._doing, self._plain, self._total = doing, plain, total
        self._drawn: tuple[Progress, TaskID] | None = None
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()

    def reach(self, done: int, total: int | None = None) -> None:
        """So much is done."""
        if self._drawn is None:
            if time.monotonic() - self._started < QUIET_SECONDS or not sys.stderr.isatty():
                return
            self._drawn = self._draw()
        progress, task = self._drawn
        progress.update(task, completed=done, total=total or self._total)

    def _draw(self) -> tuple[Progress, TaskID]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        progress = Progress(*columns, console=console_on(sys.stderr, self._plain), transient=True)
        progress.start()
        return progress, progress.add_task(self._doing, total=self._total)
