"""The question where to go: to a topic, or to a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from plainbench.tui.numbers import clock, time_of
from sqew.errors import nearest

Target = int | tuple[str, str]
"""A time in microseconds; or a topic and a lane."""


class Jump(ModalScreen[Target | None]):
    """A line to type into. An entry that can't be found is reported, and can be corrected."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Back")]
    CSS = """
    Jump { align: center middle; }
    Jump > Vertical { width: 60; max-width: 94%; height: auto; background: $surface; border: round $primary; }
    Jump Static { padding: 0 2; color: $text-muted; height: auto; }
    """

    def __init__(self, places: Sequence[tuple[str, str]], end_us: int) -> None:
        super().__init__()
        self._places = {f"{topic}/{lane}" if lane else topic: (topic, lane) for topic, lane in places}
        self._end_us = end_us

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Jump to a topic, a lane or a time"
            yield Input(placeholder="orders, orders/priority, 1:23.5", suggester=SuggestFromList(self._places))
            yield Static(f"Times are from 0:00 to {clock(self._end_us)}.", markup=False)

    @on(Input.Submitted)
    def _go(self, event: Input.Submitted) -> None:
        typed = event.value.strip()
        if typed in self._places:
            self.dismiss(self._places[typed])
        elif (at := time_of(typed)) is not None:
            self.dismiss(min(at, self._end_us))
        else:
            near = nearest(typed, self._places)
            self.query_one(Static).update(f"'{typed}' is neither a topic of this run nor a time{near}.")
