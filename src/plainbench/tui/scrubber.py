"""The position in the run: a line to look at, and to click on."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widget import Widget

from plainbench.tui.history import LEFT, RIGHT
from plainbench.tui.numbers import clock


class Scrubber(Widget):
    """A line from the run's beginning to its end."""

    DEFAULT_CSS = "Scrubber { height: 1; }"

    class Sought(Message):
        """A click on a time."""

        def __init__(self, part: float) -> None:
            self.part = part
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="scrubber")
        self._at = self._end = 0

    @property
    def _line(self) -> int:
        return max(1, self.size.width - LEFT - RIGHT)

    def show(self, at_us: int, end_us: int) -> None:
        self._at, self._end = at_us, max(1, end_us)
        self.refresh()

    def render(self) -> Text:
        line = self._line
        position = min(line - 1, self._at * line // max(1, self._end))
        text = Text(no_wrap=True)
        text.append(clock(self._at).ljust(LEFT), style="bold")
        text.append("━" * position, style="green")
        text.append("●", style="bold green")
        text.append("─" * (line - position - 1), style="dim")
        text.append(clock(self._end).rjust(RIGHT), style="dim")
        return text

    def on_click(self, event: events.Click) -> None:
        """Post the time that was clicked."""
        if LEFT <= event.x < LEFT + self._line:
            self.post_message(self.Sought((event.x - LEFT) / max(1, self._line - 1)))
