"""Sessions: the options of one run of a command line, and its output."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from sqew.terminal.exits import CommandError, Exit

if TYPE_CHECKING:
    from sqew.terminal.output import Part


class TerminalSession:
    """A run of a command line, as its options describe it."""

    def __init__(self) -> None:
        self.flags: dict[str, str] = {}
        self.config: str | None = None
        self.debug = False
        self.json = False
        self.read_only = False
        self.plain = bool(os.environ.get("NO_COLOR"))

    def show(self, document: Any, *parts: Part) -> None:
        """Show the result: the document for machines, or the parts for people."""
        from sqew.terminal import output

        if self.json:
            output.write_json(document)
        else:
            output.write(parts, self.plain)

    def note(self, sentence: str) -> None:
        """Tell people something that is not the result."""
        if not self.json:
            click.echo(sentence, err=True)

    def confirm(self, action: str, yes: bool, *, everything: bool = False) -> None:
        """Ask on a terminal before something that can't be undone.

        A script that names what to delete means it. One that says ``everything`` may not know how much that is: it
        needs --yes.
        """
        if yes or not (everything or sys.stdin.isatty()):
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise CommandError(
                f"{action} can't be undone, and there is no terminal to ask on. Add --yes.", Exit.INVALID
            )
        if not click.confirm(f"{action}?", err=True):
            raise CommandError("Nothing was changed.", Exit.FAILED)
