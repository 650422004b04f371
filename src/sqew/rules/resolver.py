"""A resolver of names: it looks up their addresses with the system's own resolver, and caches them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import socket
import threading
from collections.abc import Callable, Sequence

KEPT_S = 60.0
"""Seconds for which the addresses of a name are used before it is looked up again."""
_MOST_AT_A_TIME = 256
_MOST_KEPT = 4_096


def look_up(host: str) -> list[str]:
    """Return the addresses of a host, best first; raise OSError if there are none."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Resolver:
    """A resolver in which a slow name delays only the callers that asked for it.

    Each name is looked up once at a time, in a thread of its own: in a pool of threads a few names whose servers don't
    answer would hold up all others, and the end of the process too. Addresses are cached for a while: so a name that
    has been resolved never waits behind names that don't answer.
    """

    def __init__(self, lookup: Callable[[str], Sequence[str]], kept_s: float = KEPT_S) -> None:
        self._lookup, self._kept_s = lookup, kept_s
        self._pending: dict[str, asyncio.Future[Sequence[str]]] = {}
        # With the time until which they are used; the oldest first.
        self._kept: dict[str, tuple[float, Sequence[str]]] = {}

    async def addresses_of(self, host: str) -> Sequence[str]:
        """Return the addresses of a host. Concurrent callers share one lookup."""
        until, found = self._kept.get(host, (0.0, ()))
        if asyncio.get_running_loop().time() < until:
            return found
        pending = self._pending.get(host)
        if pending is None:
            if len(self._pending) >= _MOST_AT_A_TIME:
                raise BlockingIOError(errno.EAGAIN, "too many names are being looked up")
            loop = asyncio.get_running_loop()
            pending = loop.create_future()
            threading.Thread(target=self._find, args=(host, pending, loop), name="sqew-names", daemon=True).start()
            self._pending[host] = pending
            pending.add_done_callback(functools.partial(self._found, host))
        # Shielded, because others may wait for it too.
        return await asyncio.shield(pending)

    def _found(self, host: str, pending: asyncio.Future[Sequence[str]]) -> None:
        del self._pending[host]
        if pending.cancelled() or pending.exception() is not None:
            return
        self._kept.pop(host, None)
        if len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[host] = asyncio.get_running_loop().time() + self._kept_s, pending.result()

    def _find(self, host: str, pending: asyncio.Future[Sequence[str]], loop: asyncio.AbstractEventLoop) -> None:
        report: Callable[[], object]
        try:
            report = functools.partial(pending.set_result, self._lookup(host))
        except (OSError, UnicodeError) as error:
            report = functools.partial(pending.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(report)
