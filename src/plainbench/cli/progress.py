"""Progress of a run on stderr: a line that changes on a terminal, and one every ten seconds anywhere else."""

from __future__ import annotations

import sys
import time

import click

from plainbench.run.supervisor import Supervisor
from sqew.terminal.cells import cut, width
from sqew.terminal.screen import screen_on

_DRAWN_EVERY_S = 0.2
_REPORT_EVERY_S = 10.0


class Watching:
    """An observer of the supervisor that shows a run's progress. On a terminal it leaves no trace."""

    def __init__(self, plain: bool, quiet: bool) -> None:
        self._plain, self._quiet = plain, quiet
        self._began = self._last = time.monotonic()
        self._is_drawn = False

    def __call__(self, supervisor: Supervisor) -> None:
        self.say(_depths(supervisor))

    def say(self, doing: str) -> None:
        """Show the progress, unless something was shown just now."""
        screen, now = screen_on(sys.stderr, self._plain), time.monotonic()
        if self._quiet or now - self._last < (_DRAWN_EVERY_S if screen.is_live else _REPORT_EVERY_S):
            return
        self._last = now
        line = f"{int(now - self._began)} s  {doing}"
        if screen.is_live:
            line = cut(line, screen.width - 1, screen.ellipsis)
            sys.stderr.write(f"\r{line}{' ' * (screen.width - 1 - width(line))}\r")
            sys.stderr.flush()
            self._is_drawn = True
        else:
            click.echo(line, err=True)

    def hide(self) -> None:
        """Clear the line."""
        if self._is_drawn:
            screen = screen_on(sys.stderr, self._plain)
            sys.stderr.write(f"\r{' ' * (screen.width - 1)}\r")
            sys.stderr.flush()
            self._is_drawn = False


def _depths(supervisor: Supervisor) -> str:
    topics = []
    for topic, lanes in supervisor.depths.items():
        totals: dict[str, int] = {}
        for counts in lanes.values():
            for state, count in counts.items():
                if not state.endswith("_bytes"):
                    totals[state] = totals.get(state, 0) + count
        topics.append(f"{topic}: " + ", ".join(f"{count} {state}" for state, count in totals.items() if count))
    return "; ".join(topic if not topic.endswith(": ") else f"{topic}nothing" for topic in topics)
