"""A connection that is kept between the steps of a long read."""

from __future__ import annotations

from threading import Lock

import apsw


class KeptReader:
    """Room for one connection that is not in use just now. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: apsw.Connection | None = None
        self._closed = False

    def take(self) -> apsw.Connection | None:
        """Return the connection that was kept, if there is one: it is the caller's now."""
        with self._lock:
            kept, self._kept = self._kept, None
            return kept

    def keep(self, connection: apsw.Connection) -> bool:
        """Keep a connection for the next step; return True if there was room for it."""
        with self._lock:
            if self._closed or self._kept is not None:
                return False
            self._kept = connection
            return True

    def close(self) -> None:
        """Close the connection that was kept, and keep none from now on."""
        with self._lock:
            self._closed = True
            if self._kept is not None:
                self._kept.close(True)
                self._kept = None
