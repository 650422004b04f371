"""What all commands of one run share: the settings, the open file, and how answers are shown."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sqew.cli.exits import Exit, Failure

# What is imported in the functions below is not needed to show the help, and costs more than all the rest.
if TYPE_CHECKING:
    from sqew.cli.output import Part
    from sqew.embedded import Queue
    from sqew.operations import Operation
    from sqew.rules import Limits
    from sqew.settings import Settings

R = TypeVar("R")


class Session:
    """One run of the command line, as its options describe it."""

    def __init__(self) -> None:
        self.flags: dict[str, str] = {}
        self.config: str | None = None
        self.debug = False
        self.json = False
        self.plain = bool(os.environ.get("NO_COLOR"))
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The settings in force, from flags, environment, file and defaults."""
        if self._settings is None:
            from pathlib import Path

            from sqew.settings import find_file, resolve

            self._settings = resolve(self.flags, os.environ, find_file(self.config, os.environ, Path.cwd()))
        return self._settings

    @property
    def limits(self) -> Limits:
        """How large messages and batches may be."""
        from sqew.rules import Limits

        return Limits(**{name: getattr(self.settings, name) for name in Limits.__struct_fields__})

    def open(self, *, create: bool = False) -> Queue:
        """Open the file. Only commands that add a queue make one."""
        import logging

        from sqew.embedded import Queue

        logging.basicConfig(level=self.settings.log_level.upper(), format="sqew: %(message)s")
        return Queue.open(settings=self.settings, create=create)

    def show(self, document: Any, *parts: Part) -> None:
        """Answer: the document for machines, or the parts for people."""
        from sqew.cli import output

        if self.json:
            output.write_json(document)
        else:
            output.write(parts, self.plain)

    def note(self, sentence: str) -> None:
        """Tell people something that is not the answer."""
        if not self.json:
            click.echo(sentence, err=True)

    def confirm(self, action: str, yes: bool) -> None:
        """Ask before something that can't be undone; off a terminal, where nobody can answer, --yes must say so."""
        if yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Failure(f"{action} can't be undone, and there is no terminal to ask on. Add --yes.", Exit.INVALID)
        if not click.confirm(f"{action}?", err=True):
            raise Failure("Nothing was changed.", Exit.FAILED)


def do(queue: Queue, operation: Operation[R]) -> R:
    """One operation of `sqew.operations`, for what `Queue` has no method of its own."""
    return queue.run(operation)


def now_ms() -> int:
    """The time on the queue's clock."""
    from sqew.clock import Clock

    return Clock().now()
