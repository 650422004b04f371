"""A bar on stderr for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import click

from sqew.terminal.cells import cut, width
from sqew.terminal.screen import Screen, screen_on

QUIET_SECONDS = 1.0
"""Work that takes less than this shows nothing."""
_BETWEEN_DRAWINGS = 0.1
_LONGEST, _SHORTEST = 40, 4
_CROSSED_IN_SECONDS = 2.0


class Bar:
    """A progress bar. It is shown on terminals only, and leaves no trace there."""

    def __init__(
        self, doing: str, plain: bool, total: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.doing = doing
        self._plain, self._total, self._clock = plain, total, clock
        self._started = clock()
        self._next = self._started + QUIET_SECONDS
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()

    def reach(self, done: int, total: int | None = None) -> None:
        """Show how much is done."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _BETWEEN_DRAWINGS
        screen = screen_on(sys.stderr, self._plain)
        if screen.is_live:
            line = bar_line(self.doing, done, total or self._total, now - self._started, screen)
            self._is_drawn = True
            _overwrite(line, screen)

    def hide(self) -> None:
        """Clear the line, so that something else can be written. The next progress draws the bar again."""
        if self._is_drawn:
            _overwrite("", screen_on(sys.stderr, self._plain))
            self._is_drawn = False


def _overwrite(line: str, screen: Screen) -> None:
    # Spaces, not an escape sequence: --no-color is for terminals that know none. From the start of the line, the ^C
    # that a terminal shows is written over as well.
    rest = " " * (screen.width - 1 - width(click.unstyle(line)))
    sys.stderr.write(f"\r{line}{rest}\r")
    sys.stderr.flush()


def bar_line(doing: str, done: int, total: int | None, seconds: float, screen: Screen) -> str:
    """Return a line with the task, a bar, how much is done and the time taken. A narrow screen has no room for the bar.

    >>> bar_line("sending", 5, 20, 61, Screen(width=42))
    'sending ━━━───────────  5/20  25% 0:01:01'
    """
    count = f"{done:{len(str(total))}}/{total} {100 * min(done, total) // total:3}%" if total else str(done)
    minutes = int(seconds) // 60
    clock = f"{minutes // 60}:{minutes % 60:02}:{int(seconds) % 60:02}"
    room = screen.width - 1 - len(f" {count} {clock}")
    if room < 1:
        return cut(count, screen.width - 1, screen.ellipsis)
    doing = cut(doing, room, screen.ellipsis)
    length = min(room - width(doing) - 1, _LONGEST)
    bar = [_bar(*_lit(length, done, total, seconds), length, screen)] if length >= _SHORTEST else []
    return " ".join([doing, *bar, screen.paint(count, fg="green"), screen.paint(clock, fg="yellow")])


def _lit(length: int, done: int, total: int | None, seconds: float) -> tuple[int, int]:
    """Return the start and end of the lit part of a bar. It goes to and fro if the total is unknown."""
    if total:
        return 0, length * min(done, total) // total
    piece = length // 4
    way = seconds / _CROSSED_IN_SECONDS % 2
    start = round((length - piece) * (way if way < 1 else 2 - way))
    return start, start + piece


def _bar(start: int, end: int, length: int, screen: Screen) -> str:
    lit, unlit = ("━", "─") if screen.unicode else ("#", "-")
    before, after = (screen.paint(unlit * count, dim=True) for count in (start, length - end))
    return before + screen.paint(lit * (end - start), fg="cyan") + after
