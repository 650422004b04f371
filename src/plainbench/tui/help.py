"""All keys, on one page."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

_KEYS = (
    ("space", "freeze what is shown, or go on; play a recorded run"),
    ("← →", "a step back or on; with shift, ten"),
    ("home, end", "to the beginning; to the end, and on with the run"),
    ("+ -", "play faster, slower"),
    ("n, b", "to the next fault, to the one before"),
    ("j", "jump to a topic, a lane or a time"),
    ("↑ ↓", "choose a topic or lane"),
    ("p, enter", "look at its messages, without taking them"),
    ("w", "rates and latencies of the last 5 s, 30 s, or all"),
    ("m", "latency end to end, enqueue → claim, claim → ack"),
    ("z", "graphs of the whole run, or of a minute"),
    ("q", "quit; a run goes on without being watched"),
)


class Keys(ModalScreen[None]):
    """A page of all keys, which the usual keys close."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter,space", "dismiss", "Back")]
    CSS = """
    Keys { align: center middle; }
    Keys > Static { width: auto; max-width: 96%; height: auto; padding: 0 1; }
    Keys > Static { background: $surface; border: round $primary; }
    """

    def compose(self) -> ComposeResult:
        text = Text()
        for key, meaning in _KEYS:
            text.append(f"{key:>10}", style="bold")
            text.append(f"  {meaning}\n")
        text.append("\nThe line under the graphs can be clicked.", style="dim")
        page = Static(text)
        page.border_title = "Keys"
        yield page
