"""The messages of a topic, looked at without taking them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import msgspec
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from plainbench.drivers.sqew import NUMBER
from sqew.errors import SqewError
from sqew.model import Message
from sqew.terminal.output import shown

_COLUMNS = (("n", 12), ("lane", 10), ("state", 8), ("attempts", 9), ("body", 0))


class Peek(ModalScreen[None]):
    """A list of messages, and the whole of the one under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,p", "dismiss", "Back"),
        Binding("r", "look", "Look again"),
    ]
    CSS = """
    Peek { align: center middle; }
    Peek > Vertical { width: 94%; height: 90%; background: $surface; border: round $primary; padding: 0 1; }
    Peek DataTable { height: 1fr; }
    Peek VerticalScroll { height: 40%; border-top: solid $primary-darken-2; }
    """

    def __init__(self, title: str, note: str, look: Callable[[], list[Message]]) -> None:
        super().__init__()
        self._title, self._note, self._look = title, note, look
        self._messages: list[Message] = []

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = self._note
            yield DataTable(cursor_type="row", cell_padding=0)
            with VerticalScroll():
                yield Static("Looking …", id="body", markup=False)
            yield Footer()

    def on_mount(self) -> None:
        """Look for the first time."""
        table = self.query_one(DataTable)
        fixed = sum(width for _, width in _COLUMNS)
        for name, width in _COLUMNS:
            table.add_column(name, width=width or max(20, self.size.width * 94 // 100 - fixed - 6))
        self.action_look()

    @work(thread=True, exclusive=True)
    def action_look(self) -> None:
        """Look in a thread: the queue may be locked for a while on purpose."""
        try:
            messages, failure = self._look(), ""
        except SqewError as error:
            messages, failure = [], str(error)
        self.app.call_from_thread(self._show, messages, failure)

    def _show(self, messages: list[Message], failure: str) -> None:
        self._messages = messages
        table = self.query_one(DataTable)
        table.clear()
        for message in messages:
            table.add_row(*_cells(message))
        self._say(failure or ("" if messages else "There are no messages."))
        if messages:
            self._show_body(0)
        table.focus()

    @on(DataTable.RowHighlighted)
    def _moved(self, event: DataTable.RowHighlighted) -> None:
        self._show_body(event.cursor_row)

    def _show_body(self, row: int) -> None:
        if row < len(self._messages):
            self._say(_whole(self._messages[row]))

    def _say(self, text: str) -> None:
        self.query_one("#body", Static).update(Text(text))


def _cells(message: Message) -> list[Text]:
    number = message.headers.get(NUMBER, f"id {message.id}")
    body = "(damaged)" if message.damaged else shown(message.body[:500].decode(errors="replace"))
    cells = (number, message.lane, message.state, message.attempts, body)
    return [Text(shown(cell), no_wrap=True, overflow="ellipsis") for cell in cells]


def _whole(message: Message) -> str:
    facts = [f"id {message.id}", f"priority {message.priority}"]
    facts += [f"group {message.group}"] if message.group else []
    headers = msgspec.json.encode(message.headers).decode()
    body = message.body
    if message.format == "json" and not message.damaged:
        body = msgspec.json.format(body, indent=2)
    lines = [shown(line) for line in body.decode(errors="replace").splitlines()]
    return "\n".join([", ".join(facts) + f", headers {shown(headers)}", "", *lines])
