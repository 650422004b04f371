"""Requests, and the kinds of response to them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sqew.errors import SqewError
from sqew.model import GuardKey
from sqew.operations import Operation

if TYPE_CHECKING:
    from sqew.http.router import Route
    from sqew.http.wire.connection import Connection
    from sqew.observe.tracing import Trace

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
HTML = b"text/html; charset=utf-8"
NDJSON = b"application/x-ndjson"
EVENTS = b"text/event-stream"

Headers = tuple[tuple[bytes, bytes], ...]

_HELD_BYTES = 256 * 1024
"""Most bytes of a streamed body that are buffered for a handler that is slower than its client."""
_CHUNK_COST = 64
"""Bytes that a buffered chunk takes besides its own: clients may send them one byte at a time."""


class Request:
    """A request: its head, its body once it has arrived, and the route that answers it."""

    # What most requests leave as it is, they have from the class: to set it all would take half a microsecond.
    is_http10 = False
    weight = 0
    """The bytes of its body that count for `max_buffered_bytes`."""
    keep_alive = True
    body = b""
    stream: BodyStream | None = None
    task: asyncio.Task[None] | None = None
    waits = False
    """True if its task waits for messages, which must not be given to a client that has left."""
    waited_s = 0.0
    """Seconds for which there was nothing for it, and it chose to wait."""
    refusal: SqewError | None = None
    """The error with which it will be refused, as far as its head tells."""
    id = b""
    started = 0.0

    # Set by the application.
    route: Route | None = None
    params: tuple[str, ...] = ()
    options: Any = None
    """The query string, as the route's type for it."""
    data: Any = None
    """The body, as the route's type for it."""
    key: GuardKey | None = None
    """The key that it must be signed with."""
    key_id = ""
    """The key that it came with; empty: it came with the server's token, or there is no token."""
    only_queue: str | None = None
    """The queue whose key it came with: on a route that names no queue, it may touch no other."""
    queue: str | None = None
    """The queue that it names, if its path does not."""
    rows = 0
    """Messages that it dealt with, for the log."""
    trace: Trace | None = None
    """The request's span, if it is sampled."""

    def __init__(
        self, connection: Connection, method: bytes, path: bytes, query: bytes, headers: dict[bytes, bytes]
    ) -> None:
        self.connection = connection
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers

    def header(self, name: bytes) -> str | None:
        """Return a header as a string, decoded from UTF-8 or, if it is not that, from Latin-1."""
        value = self.headers.get(name)
        if value is None:
            return None
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.decode("latin-1")

    @property
    def is_gone(self) -> bool:
        """True if the client has left and can't read a response. It asks the kernel: use it only where it matters."""
        return self.connection.has_left()

    def is_wanted(self) -> bool:
        """Return True if the client is still there, as far as the kernel knows: 0.3 µs.

        Messages are taken only for clients that are.
        """
        return not self.connection.has_left()


def is_json(request: Request) -> bool:
    """Return True if Content-Type says JSON, or is missing."""
    given = request.headers.get(b"content-type")
    if given is None or given == JSON:
        return True
    kind = given.partition(b";")[0].strip().lower()
    return kind == b"application/json" or kind.endswith(b"+json") or kind == b"text/json"


def next_page(after: int | str | None) -> Headers:
    """Return the header that says where the next page of a bare list begins, if there is one."""
    return () if after is None else ((b"x-sqew-after", str(after).encode()),)


class Response(Struct, frozen=True, gc=False):
    """A whole response."""

    status: int
    body: bytes = b""
    content_type: bytes = JSON
    headers: Headers = ()


class Stream(Struct, frozen=True):
    """A response that is written piece by piece, as fast as its client reads."""

    chunks: AsyncIterator[bytes]
    content_type: bytes
    status: int = 200
    headers: Headers = ()


class Call(Struct, frozen=True, gc=False):
    """A response that takes one operation: it joins the transaction of this tick of the loop.

    A `Receive` that finds nothing may wait for ``wait_ms`` (None: as long as its queue's policy says). If the operation
    fails, ``otherwise`` may return another call to make, or another response. If its result is a list that can't be
    rendered as it is, ``looked_up`` returns a response that reads the store once more.
    """

    operation: Operation[Any]
    render: Callable[[Any], Response]
    wait_ms: int | None = 0
    otherwise: Callable[[SqewError], Awaitable[Call | Response] | None] | None = None
    looked_up: Callable[[Any], Awaitable[Response] | None] | None = None


class SharedCall(Struct, frozen=True, gc=False):
    """The responses to several requests that take one operation for all of them."""

    operation: Operation[Any]
    render: Callable[[Any, Sequence[Request]], list[Response]]
    """Returns a response for each of the requests, from the result."""


class BodyStream:
    """The body of a request, while it arrives. Reading pauses if the handler is slower than the client."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._ended = False
        self._failure: Exception | None = None
        self._arrived = asyncio.Event()

    def feed(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._held += len(chunk) + _CHUNK_COST
        if self._held > _HELD_BYTES:
            self._connection.hold_up()
        self._arrived.set()

    def end(self, failure: Exception | None = None) -> None:
        """End the body: all of it has arrived, or the rest never will."""
        self._ended, self._failure = True, failure
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._held -= len(chunk) + _CHUNK_COST
                if self._held <= _HELD_BYTES:
                    self._connection.resume()
                yield chunk
            if self._failure is not None:
                # If it stayed here, all that its traceback leads to would stay until the next garbage collection.
                failure, self._failure = self._failure, None
                try:
                    raise failure
                finally:
                    del failure
            if self._ended:
                return
            self._arrived.clear()
            await self._arrived.wait()
