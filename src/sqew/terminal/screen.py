"""The abilities of a terminal: its width, its colours and its characters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TextIO

import click

USUAL_WIDTH = 80
"""The width if the terminal does not say."""
_WITHOUT_COLOURS = ("dumb", "unknown")


@dataclass(frozen=True)
class Screen:
    """The abilities of the terminal, or other stream, that is written to."""

    width: int = USUAL_WIDTH
    colours: bool = False
    unicode: bool = True
    is_live: bool = False
    """True if a line can be overwritten."""

    def paint(self, text: str, **look: Any) -> str:
        """Return a styled string (``look``: the arguments of `click.style`); without colours, the string unchanged."""
        return click.style(text, **look) if self.colours and text and look else text

    @property
    def ellipsis(self) -> str:
        """The sign for something that is cut off."""
        return "…" if self.unicode else "~"

    @property
    def rule(self) -> str:
        """The character that a thin line is made of."""
        return "─" if self.unicode else "-"


def screen_on(stream: TextIO, plain: bool) -> Screen:
    """Return the abilities of a stream now. ``plain``: without colours and other escape sequences."""
    is_able = stream.isatty() and os.environ.get("TERM") not in _WITHOUT_COLOURS
    encoding = (stream.encoding or "").lower()
    return Screen(_width(stream), is_able and not plain, encoding.startswith("utf"), is_able)


def _width(stream: TextIO) -> int:
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except OSError:  # it is no terminal
        return USUAL_WIDTH
