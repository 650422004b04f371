"""Pool of connections that are kept open for the next request to the same place."""

from __future__ import annotations

import asyncio

from sqew.background.webhooks.connection import EndpointConnection, Origin


class IdleConnections:
    """Idle connections: ``most`` at a time, each for ``idle_s``, none that was made more than ``oldest_s`` ago."""

    def __init__(self, idle_s: float, oldest_s: float, most: int) -> None:
        self._idle_s, self._oldest_s, self._most = idle_s, oldest_s, most
        self._by_origin: dict[Origin, list[EndpointConnection]] = {}
        # The one that has rested longest first.
        self._in_order: dict[EndpointConnection, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._in_order)

    def take(self, origin: Origin) -> EndpointConnection | None:
        """Return the idle connection to this place that was used last, if there is one."""
        resting = self._by_origin.get(origin)
        if not resting:
            return None
        connection = resting[-1]
        self.forget(connection)
        return connection

    def put(self, connection: EndpointConnection) -> None:
        """Keep a connection, if it can be used again."""
        now = asyncio.get_running_loop().time()
        if not connection.is_reusable or now - connection.made_at >= self._oldest_s or not self._most:
            connection.abort()
            return
        if len(self._in_order) >= self._most:
            self._drop_oldest()
        connection.rests_since = now
        self._in_order[connection] = None
        self._by_origin.setdefault(connection.origin, []).append(connection)
        if self._timer is None:
            self._wait()

    def forget(self, connection: EndpointConnection) -> None:
        """Remove a connection that is in use again, or gone."""
        if connection not in self._in_order:
            return
        del self._in_order[connection]
        resting = self._by_origin[connection.origin]
        resting.remove(connection)
        if not resting:
            del self._by_origin[connection.origin]

    def close(self) -> None:
        """Close the idle connections, and keep none from now on."""
        self._most = 0
        while self._in_order:
            self._drop_oldest()
        if self._timer is not None:
            self._timer.cancel()

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._in_order))
        self.forget(oldest)
        oldest.abort()

    def _wait(self) -> None:
        """Schedule a sweep for when the first of them has been idle for long enough."""
        due = next(iter(self._in_order)).rests_since + self._idle_s
        self._timer = asyncio.get_running_loop().call_at(due, self._sweep)

    def _sweep(self) -> None:
        rested = asyncio.get_running_loop().time() - self._idle_s
        while self._in_order and next(iter(self._in_order)).rests_since <= rested:
            self._drop_oldest()
        self._timer = None
        if self._in_order:
            self._wait()
