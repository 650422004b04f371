"""Sessions of `sqew`: the settings that all commands of a run share, and where the queues are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.session import TerminalSession

# What is imported in the functions below is not needed to show the help, and costs more than all the rest.
if TYPE_CHECKING:
    from pathlib import Path

    from sqew.client import Client
    from sqew.embedded import Queue
    from sqew.rules.limits import Limits
    from sqew.settings import Settings

    Queues = Queue | Client
    """The queues that a command works on: in a file or a database, or on a server."""

_PLACES = {"db": "--db names a file", "database_url": "--database-url a database", "url": "--url a server"}
"""The flags that say where the queues are."""


class QueueSession(TerminalSession):
    """A run of `sqew`: the settings, and the queues that its commands work on."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The settings in force, from flags, environment, file and defaults."""
        if self._settings is None:
            # A file that a flag names is meant, whatever is set.
            flags = {"database_url": "", **self.flags} if "db" in self.flags else self.flags
            self._settings = self._resolve(flags, shared=False)
        return self._settings

    def settings_of_server(self) -> tuple[Settings, list[str]]:
        """Return the settings that a server here has, and notices for its operator on where they came from."""
        from sqew.settings import placed, unused

        settings, notices = placed(self._resolve(self.flags, shared=True), os.environ)
        return settings, [*notices, *unused(os.environ, settings)]

    def use_shared(self) -> None:
        """Read DATABASE_URL too, for a command that is meant to use it."""
        self._settings = self._resolve(self.flags, shared=True)

    def _resolve(self, flags: dict[str, str], *, shared: bool) -> Settings:
        from pathlib import Path

        from sqew.settings import find_file, resolve

        return resolve(flags, os.environ, find_file(self.config, os.environ, Path.cwd()), shared=shared)

    @property
    def limits(self) -> Limits:
        """The limits of messages and batches. A server has limits of its own, and reports them itself."""
        if self.url:
            from sqew.client.calls import SENDABLE

            return SENDABLE
        from sqew.core.engine import limits_of

        return limits_of(self.settings)

    @property
    def url(self) -> str:
        """The server to use; empty for a file or a database. A flag takes precedence over other settings."""
        named = [flag for flag in _PLACES if self.flags.get(flag)]
        if len(named) > 1:
            places = " and ".join(_PLACES[flag] for flag in named[:2])
            raise CommandError(f"{places}. Give one of the two.", Exit.INVALID)
        return "" if named and named != ["url"] else self.settings.url

    @property
    def database(self) -> str:
        """The database to use, without its password; empty for a file or a server."""
        from sqew.settings import without_password

        return "" if self.url or not self.settings.database_url else without_password(self.settings.database_url)

    def open(self, *, create: bool = False) -> Queues:
        """Open the queues: on the server, in the database or in the file. Only commands that add queues make a file."""
        self._check_may_write()
        return self.connect() if self.url else self.open_file(create=create)

    def _check_may_write(self) -> None:
        if self.read_only:
            raise CommandError(
                "--read-only is for commands that only look: this one may change the file.", Exit.INVALID
            )

    def connect(self) -> Client:
        """Return a client of the server."""
        from sqew.client import Client

        self._log()
        # Whoever types a command is told at once that the server is not there, and decides what to do.
        return Client(self.url, token=self.settings.auth_token, retries=0)

    def open_file(self, *, create: bool = False) -> Queue:
        """Open the file, or the database in its place."""
        from pathlib import Path

        from sqew.embedded import Queue

        self._check_may_write()
        self._log()
        if create:
            is_new = not self.database and not Path(self.settings.db).exists()
            q = Queue.open(settings=self.settings)
            if is_new:
                self._report_new_file()
            return q
        with self._with_other_places():
            return Queue.open(settings=self.settings, create=False)

    @contextmanager
    def reader(self) -> Iterator[Queues]:
        """Open the queues for a command that changes nothing: of a file that can't be written it sees a copy."""
        if self.url:
            self._check_is_file()
            with self.connect() as client:
                yield client
        else:
            with self.look_at_file() as q:
                yield q

    def _check_is_file(self) -> None:
        if self.read_only and (self.url or self.database):
            raise CommandError("--read-only looks at a file. Name it with --db FILE.", Exit.INVALID)

    @contextmanager
    def look_at_file(self) -> Iterator[Queue]:
        """Open the file or database for a command that changes nothing; a copy of a file that can't be written."""
        from pathlib import Path

        from sqew.stores.sqlite.connection import may_be_written

        self._check_is_file()
        path = Path(self.settings.db)
        cannot = not self.database and path.is_file() and not may_be_written(path)
        if not (cannot or self.read_only):
            with self.open_file() as q:
                yield q
            return
        if cannot:
            self.note(f"{path} can't be written here, so this looks at a copy of it as it is now.")
        with self._copied(path) as q:
            yield q

    @contextmanager
    def _copied(self, path: Path) -> Iterator[Queue]:

        from msgspec.structs import replace

        from sqew.cli.copies import folder_for_copy
        from sqew.embedded import Queue
        from sqew.stores.sqlite.snapshot import snapshot

        self._log()
        with folder_for_copy() as folder:
            copy = f"{folder}/{path.name}"
            with self._with_other_places():
                snapshot(str(path), copy)
            # Nothing that happens to the copy is to be logged, or told to those who use the file.
            settings = replace(self.settings, db=copy, event_log="", durability="fast")
            with Queue.open(settings=settings, create=False) as q:
                yield q

    @contextmanager
    def _with_other_places(self) -> Iterator[None]:
        """Add the other places that the queues may be in to the error that the file is missing."""
        from pathlib import Path

        from sqew.errors import StoreUnusable

        try:
            yield
        except StoreUnusable as error:
            if self.settings.database_url or Path(self.settings.db).exists():
                raise
            raise StoreUnusable(" ".join([str(error), *self._other_places(always=True)])) from error

    def _report_new_file(self) -> None:
        """Report that a file was made, if a server or a database may have been meant."""
        places = self._other_places(always=False)
        if places:
            self.note(" ".join([f"The new file {self.settings.db} was made for it.", *places]))

    def _other_places(self, *, always: bool) -> list[str]:
        """Return sentences on other places of the queues than a file that is the default, or that a shared variable
        names.

        ``always``: also if nothing was found.
        """
        from sqew.cli.other_places import hints, named_by

        source = self.settings.sources["db"]
        return hints(self.settings, os.environ, always=always) if source == "default" else named_by(source)

    def _log(self) -> None:
        import logging

        logging.basicConfig(level=self.settings.log_level.upper(), format="sqew: %(message)s")

    def check_file(self, command: str, instead: str) -> None:
        """Raise if a server or a database is to be used where only a file will do. ``instead``: PostgreSQL's own."""
        if self.database:
            raise CommandError(
                f"`sqew {command}` works on a file, and {self.database} is none. PostgreSQL has its own for that: "
                f"{instead}.",
                Exit.INVALID,
            )
        if self.url:
            raise CommandError(
                f"`sqew {command}` works on the file itself, not through a server. Run it where the file is, "
                "with --db FILE.",
                Exit.INVALID,
            )


def now_ms() -> int:
    """Return the time on the queue's clock."""
    from sqew.clock import Clock

    return Clock().now()
