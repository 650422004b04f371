"""Names and their addresses, as the system knows them."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import socket
import threading
from collections.abc import Callable, Sequence

_MOST_AT_A_TIME = 256


def look_up(host: str) -> list[str]:
    """The addresses of a host, best first; raises OSError when there are none."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


class Names:
    """Looks names up without keeping anybody waiting who did not ask for them.

    Each name is looked up in a thread of its own, by one at a time: in a pool of threads a few names whose servers
    don't answer would hold up all others, and the end of the process too.
    """

    def __init__(self, lookup: Callable[[str], Sequence[str]]) -> None:
        self._lookup = lookup
        self._pending: dict[str, asyncio.Future[Sequence[str]]] = {}

    async def addresses_of(self, host: str) -> Sequence[str]:
        """The addresses of a host. Those who ask for it while it is being looked up get the same answer."""
        pending = self._pending.get(host)
        if pending is None:
            if len(self._pending) >= _MOST_AT_A_TIME:
                raise OSError(errno.EAGAIN, "too many names are being looked up")
            loop = asyncio.get_running_loop()
            pending = loop.create_future()
            threading.Thread(target=self._find, args=(host, pending, loop), name="sqew-names", daemon=True).start()
            self._pending[host] = pending
            pending.add_done_callback(lambda _: self._pending.pop(host))
        # Shielded, because others may wait for it too.
        return await asyncio.shield(pending)

    def _find(self, host: str, pending: asyncio.Future[Sequence[str]], loop: asyncio.AbstractEventLoop) -> None:
        report: Callable[[], object]
        try:
            report = functools.partial(pending.set_result, self._lookup(host))
        except (OSError, UnicodeError) as error:
            report = functools.partial(pending.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(report)
