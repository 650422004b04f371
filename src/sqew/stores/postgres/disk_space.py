"""Room on the database's disk, as far as the database has reported it: the disk is not ours to look at."""

from __future__ import annotations

import logging
from time import monotonic

from sqew.errors import StoreFull

_log = logging.getLogger("sqew.postgres")

_BELIEVED_S = 10.0
"""Seconds for which a disk is believed to be full after a write found it so: then others may try again."""


class DatabaseSpace:
    """A server's knowledge of the room on the database's disk."""

    def __init__(self) -> None:
        self._lack: StoreFull | None = None
        self._met_at = 0.0

    def ran_out(self, error: StoreFull) -> None:
        """Record that something could not be stored. The log says so once."""
        if self._lack is None:
            _log.error("the database has no room left", extra={"fields": {"error": str(error)}})
        self._lack, self._met_at = error, monotonic()

    def was_found(self) -> None:
        """Record that a message could be stored."""
        if self._lack is not None:
            _log.info("the database has room again")
        self._lack = None

    def check(self) -> None:
        """Raise `StoreFull` if there was no room a moment ago."""
        if self._lack is not None and monotonic() - self._met_at < _BELIEVED_S:
            raise StoreFull(str(self._lack))
