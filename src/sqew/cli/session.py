"""What all commands of one run share: the settings, where the queues are, and how answers are shown."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from sqew.cli.exits import Exit, Failure

# What is imported in the functions below is not needed to show the help, and costs more than all the rest.
if TYPE_CHECKING:
    from sqew.cli.output import Part
    from sqew.client import Client
    from sqew.embedded import Queue
    from sqew.rules import Limits
    from sqew.settings import Settings

    Queues = Queue | Client
    """What a command works on: queues in a file or a database, or on a server."""

_PLACES = {"db": "--db names a file", "database_url": "--database-url a database", "url": "--url a server"}
"""The flags that say where the queues are."""


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

            # A file that a flag names is meant, whatever is set.
            flags = {"database_url": "", **self.flags} if "db" in self.flags else self.flags
            self._settings = resolve(flags, os.environ, find_file(self.config, os.environ, Path.cwd()))
        return self._settings

    @property
    def limits(self) -> Limits:
        """How large messages and batches may be. A server has limits of its own, and tells of them itself."""
        if self.url:
            from sqew.client.calls import SENDABLE

            return SENDABLE
        from sqew.engine import limits_of

        return limits_of(self.settings)

    @property
    def url(self) -> str:
        """The server that is meant; nothing where it is a file or a database. A flag says more than what is set."""
        named = [flag for flag in _PLACES if self.flags.get(flag)]
        if len(named) > 1:
            places = " and ".join(_PLACES[flag] for flag in named[:2])
            raise Failure(f"{places}. Give one of the two.", Exit.INVALID)
        return "" if named and named != ["url"] else self.settings.url

    @property
    def database(self) -> str:
        """The database that is meant, without its password; nothing where it is a file or a server."""
        from sqew.settings import without_password

        return "" if self.url or not self.settings.database_url else without_password(self.settings.database_url)

    def open(self, *, create: bool = False) -> Queues:
        """The queues: on the server, in the database or in the file. Only commands that add a queue make a file."""
        return self.connect() if self.url else self.open_file(create=create)

    def connect(self) -> Client:
        """The server."""
        from sqew.client import Client

        self._log()
        # Whoever types a command is told at once that the server is not there, and decides what to do.
        return Client(self.url, token=self.settings.auth_token, retries=0)

    def open_file(self, *, create: bool = False) -> Queue:
        """The file, or the database in its place."""
        from sqew.embedded import Queue

        self._log()
        return Queue.open(settings=self.settings, create=create)

    def _log(self) -> None:
        import logging

        logging.basicConfig(level=self.settings.log_level.upper(), format="sqew: %(message)s")

    def check_file(self, command: str, instead: str) -> None:
        """Raise if a server or a database is meant, where only a file will do. ``instead``: what PostgreSQL has."""
        if self.database:
            raise Failure(
                f"`sqew {command}` works on a file, and {self.database} is none. PostgreSQL has its own for that: "
                f"{instead}.",
                Exit.INVALID,
            )
        if self.url:
            raise Failure(
                f"`sqew {command}` works on the file itself, not through a server. Run it where the file is, "
                "with --db FILE.",
                Exit.INVALID,
            )

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

    def confirm(self, action: str, yes: bool, *, everything: bool = False) -> None:
        """Ask on a terminal before something that can't be undone.

        A script that names what is to go means it. One that says ``everything`` may not know how much that is: it
        needs --yes.
        """
        if yes or not (everything or sys.stdin.isatty()):
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise Failure(f"{action} can't be undone, and there is no terminal to ask on. Add --yes.", Exit.INVALID)
        if not click.confirm(f"{action}?", err=True):
            raise Failure("Nothing was changed.", Exit.FAILED)


def now_ms() -> int:
    """The time on the queue's clock."""
    from sqew.clock import Clock

    return Clock().now()
