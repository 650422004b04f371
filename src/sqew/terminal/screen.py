"""What a terminal can show: how wide it is, whether it has colours, and which characters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TextIO

import click

USUAL_WIDTH = 80
"""Where nothing says how wide it is."""
_WITHOUT_COLOURS = ("dumb", "unknown")


@dataclass(frozen=True)
class Screen:
    """Where something is drawn."""

    width: int = USUAL_WIDTH
    colours: bool = False
    unicode: bool = True
    is_live: bool = False
    """Whether a line can be written over."""

    def paint(self, text: str, **look: Any) -> str:
        """A text in a look, in the words of `click.style`; on a screen without colours, the text."""
        return click.style(text, **look) if self.colours and text and look else text

    @property
    def ellipsis(self) -> str:
        """What stands for something that is missing."""
        return "…" if self.unicode else "~"

    @property
    def rule(self) -> str:
        """What a thin line is made of."""
        return "─" if self.unicode else "-"


def screen_on(stream: TextIO, plain: bool) -> Screen:
    """What a stream can show now. ``plain``: without colours and other escape sequences."""
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
