"""One HTTP/1.1 connection: bytes in, requests out, answers in order.

llhttp (through httptools) does the parsing, strictly. What is added here is what a server on a network needs besides:
deadlines for everything a client may be slow at, caps for everything it may send too much of, pipelining, keep-alive,
100-continue, streaming both ways with backpressure, and a polite end.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from typing import Protocol, cast

import httptools
from msgspec import Struct

from sqew.errors import BadRequest, HeadersTooLarge, RequestTimeout, SqewError, TooLarge
from sqew.http.exchange import Headers, Request, Response, Stream

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_MOST_PIPELINED = 1_024
_PIPELINE_PAUSE = 32
"""With so many requests waiting for their turn, or one so large among them, no more are read."""
_PIPELINE_PAUSE_BYTES = 65_536
_LINGER_S = 2.0
"""After a refusal the client may still be sending: for so long it is read and dropped, so that it sees the answer."""
_READ_WHEN_REFUSED = 65_536
"""How large a body may be to be read although its request is refused already."""
_ONCE = frozenset({b"host", b"content-length", b"transfer-encoding", b"authorization", b"content-type"})
"""Headers that mean something only once. Two of them are how requests are smuggled."""


class Bounds(Struct, frozen=True):
    """How slow and how large a client may be."""

    header_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 75.0
    write_s: float = 30.0
    max_header_bytes: int = 65_536
    max_body_bytes: int = 16 * 1024 * 1024
    max_connections: int = 20_000


class Application(Protocol):
    """What a connection needs from above it."""

    def begin(self, request: Request) -> None:
        """The head of a request is there. Finds its route; raises `SqewError` to refuse it before its body comes."""

    def handle(self, request: Request) -> None:
        """Answer a request that is complete, or whose body is streamed: now or later, by `Connection.respond`."""

    def failure(self, request: Request | None, error: SqewError) -> Response:
        """How to say that something is wrong with a request."""


class Hub(Protocol):
    """What the connections of a server share."""

    bounds: Bounds
    application: Application
    connections: set[Connection]
    is_draining: bool

    def head(self, status: int, content_type: bytes) -> bytes:
        """The first lines of an answer, up to the content-length's value."""

    def forget(self, connection: Connection) -> None:
        """A connection was closed."""

    def now(self) -> float: ...

    def new_id(self) -> bytes:
        """A name for a request that brought none."""


class Connection(asyncio.Protocol):
    """One client's connection."""

    __slots__ = (
        "_advancing", "_body", "_body_bytes", "_busy", "_closing", "_current", "_discarding", "_drained", "_head_bytes",
        "_headers", "_held_up", "_hub", "_parser", "_queue", "_target", "_transport", "_unwanted", "deadline",
        "is_gone",
    )  # fmt: skip

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._transport: asyncio.Transport = _NO_TRANSPORT
        self._parser = httptools.HttpRequestParser(self)
        # The request whose head or body is being read.
        self._current: Request | None = None
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._unwanted = ""
        # Those that wait for their turn, and the one that is being answered.
        self._queue: deque[Request | SqewError] = deque()
        self._busy: Request | None = None
        self._advancing = False
        self._closing = False
        self._discarding = False
        self._held_up = False
        self._drained: asyncio.Future[None] | None = None
        self.is_gone = False
        self.deadline = math.inf

    @property
    def hub(self) -> Hub:
        """What it shares with the others."""
        return self._hub

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        hub = self._hub
        if len(hub.connections) >= hub.bounds.max_connections or hub.is_draining:
            self._transport.abort()
            return
        hub.connections.add(self)
        self.deadline = hub.now() + hub.bounds.idle_s

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        self._hub.forget(self)
        self._queue.clear()
        gone = BadRequest("The connection was closed before the request was complete.")
        for request in (self._current, self._busy):
            if request is not None and request.stream is not None:
                request.stream.end(gone)
        self._hang_up()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def eof_received(self) -> bool:
        """The client will send nothing more. Who waits for it may be gone; who has asked gets the answer."""
        self._closing = True
        if self._current is not None and self._current.stream is not None:
            self._current.stream.end(BadRequest("The body of the request ended before it was complete."))
        if self._busy is not None and self._busy.task is not None and self._busy.stream is None:
            self._hang_up()
            return False
        is_open = self._busy is not None or bool(self._queue)
        return is_open and self._transport.get_extra_info("sslcontext") is None

    def _hang_up(self) -> None:
        if self._busy is not None and self._busy.task is not None:
            self._busy.task.cancel()

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()
        self.deadline = self._hub.now() + self._hub.bounds.write_s

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        self.deadline = math.inf if self._busy is not None else self._hub.now() + self._hub.bounds.idle_s
        self._advance()

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The request itself was complete, and is answered in HTTP/1.1: nobody is obliged to upgrade.
            self._parser = httptools.HttpRequestParser(self)
            rest = data[upgrade.args[0] :]
            if rest:
                self.data_received(rest)
            return
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, SqewError):
                self._refuse(cause)
            elif isinstance(cause, Exception) and not isinstance(error, httptools.HttpParserInvalidMethodError):
                raise cause from None
            else:
                self._refuse(BadRequest(f"This is not HTTP/1.1: {str(error) or type(error).__name__}."))
            return
        if self._head_bytes:
            # Still in the head of a request.
            self._head_bytes += len(data)
            if self._head_bytes > self._hub.bounds.max_header_bytes:
                self._refuse(self._headers_too_large())
        self._advance()

    # The parser's side

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = {}
        self._unwanted = ""
        self._head_bytes = 1
        if self._busy is None:
            self.deadline = self._hub.now() + self._hub.bounds.header_s

    def on_url(self, url: bytes) -> None:
        self._target += url
        if len(self._target) > self._hub.bounds.max_header_bytes:
            raise self._headers_too_large()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._current is not None:
            return  # a trailer
        name = name.lower()
        headers = self._headers
        if name in headers:
            if name in _ONCE:
                self._unwanted = name.decode("latin-1")
            value = headers[name] + b", " + value
        headers[name] = value

    def on_headers_complete(self) -> None:
        headers, bounds = self._headers, self._hub.bounds
        self._head_bytes = 0
        size = len(self._target)
        for name, value in headers.items():
            size += len(name) + len(value) + 4
        if size > bounds.max_header_bytes:
            raise self._headers_too_large()
        path, _, query = self._target.partition(b"?")
        parser = self._parser
        request = Request(self, parser.get_method(), path, query)
        request.headers = headers
        request.keep_alive = parser.should_keep_alive()
        if parser.get_http_version() != "1.1":
            request.is_http10 = True
        elif b"host" not in headers:
            raise BadRequest("An HTTP/1.1 request needs a Host header. Add one.")
        if self._unwanted:
            raise BadRequest(f"There are two {self._unwanted} headers. Send one.")
        if not path.startswith(b"/"):
            request.path, request.query = _origin_form(self._target, request.method)
        request.started = self._hub.now()
        self._current = request
        if self._busy is None:
            self.deadline = request.started + bounds.body_s
        length = headers.get(b"content-length")
        try:
            self._hub.application.begin(request)
        except SqewError as error:
            # A small body is read to its end, so that the connection can go on.
            if b"transfer-encoding" in headers or b"expect" in headers or int(length or 0) > _READ_WHEN_REFUSED:
                raise
            request.refusal = error
        if length is not None and int(length) > bounds.max_body_bytes and request.stream is None:
            raise self._body_too_large()
        expects = b"expect" in headers and headers[b"expect"].lower() == b"100-continue" and not request.is_http10
        if expects and self._busy is None and not self._queue:
            # Only to the client whose turn it is: behind others' answers it would be taken for one of theirs.
            self._transport.write(_CONTINUE)
        if request.stream is not None:
            self._queue.append(request)

    def on_body(self, body: bytes) -> None:
        request = self._current
        assert request is not None
        if request.stream is not None:
            request.stream.feed(body)
            self.deadline = self._hub.now() + self._hub.bounds.body_s
            return
        self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > self._hub.bounds.max_body_bytes:
            raise self._body_too_large()

    def on_message_complete(self) -> None:
        request = self._current
        if request is None:
            return
        self._current = None
        if request.stream is not None:
            request.stream.end()
            self.deadline = math.inf
        else:
            request.body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body, self._body_bytes = [], 0
            if self._busy is None:
                self.deadline = math.inf
            self._queue.append(request)
        waiting = len(self._queue)
        if waiting > _MOST_PIPELINED:
            raise BadRequest(f"More than {_MOST_PIPELINED} requests wait on this connection. Read some answers first.")
        if waiting > _PIPELINE_PAUSE or (waiting > 1 and len(request.body) > _PIPELINE_PAUSE_BYTES):
            self.hold_up()

    def _headers_too_large(self) -> SqewError:
        return HeadersTooLarge(
            f"The request's URL and headers have more than {self._hub.bounds.max_header_bytes} bytes. Send fewer."
        )

    def _body_too_large(self) -> SqewError:
        return TooLarge(
            f"The request has more than {self._hub.bounds.max_body_bytes} bytes (max_request_bytes). "
            "Send less at once, or import it as a stream."
        )

    # Answering

    def _advance(self) -> None:
        """Start on what waits, one request at a time, so that answers come in order."""
        if self._advancing or self._busy is not None:
            return
        self._advancing = True
        try:
            while self._queue and self._busy is None and self._drained is None and not self.is_gone:
                waiting = self._queue.popleft()
                if isinstance(waiting, SqewError):
                    self._write_refusal(waiting)
                    return
                self._busy = waiting
                if waiting.stream is None:
                    self.deadline = math.inf
                self._hub.application.handle(waiting)
        finally:
            self._advancing = False
        if self._held_up and len(self._queue) <= _PIPELINE_PAUSE // 4:
            self.go_on()

    def respond(self, request: Request, response: Response) -> None:
        """Write the answer to the request whose turn it is."""
        if self.is_gone or self._busy is not request:
            return
        body = response.body
        if self._closing or self._hub.is_draining or (request.stream is not None and self._current is request):
            # An answer that comes before the end of its body ends the connection: the rest would be read as a request.
            request.keep_alive = False
        self._transport.write(
            b"%b%d\r\n%b\r\n%b"
            % (
                self._hub.head(response.status, response.content_type),
                len(body),
                self._further_headers(request, response.headers),
                b"" if request.method == b"HEAD" else body,
            )
        )
        self._answered(request)

    def _further_headers(self, request: Request, headers: Headers) -> bytes:
        further = b"x-request-id: %b\r\n" % request.id
        if headers:
            further += b"".join([b"%b: %b\r\n" % pair for pair in headers])
        if not request.keep_alive:
            further += b"connection: close\r\n"
        elif request.is_http10:
            further += b"connection: keep-alive\r\n"
        return further

    def _answered(self, request: Request) -> None:
        self._busy = None
        if not request.keep_alive:
            self._say_goodbye(abruptly=self._current is None and not self._queue)
            return
        waits = self._head_bytes or self._current is not None
        bounds = self._hub.bounds
        self.deadline = self._hub.now() + (bounds.header_s if waits else bounds.idle_s)
        self._advance()

    async def stream(self, request: Request, stream: Stream) -> None:
        """Write an answer piece by piece."""
        if self.is_gone or self._busy is not request:
            return
        if self._closing or self._hub.is_draining or request.is_http10:
            request.keep_alive = False
        # The prefix ends with "content-length: ", which this answer does not have.
        head = self._hub.head(stream.status, stream.content_type).rpartition(b"content-length: ")[0]
        framing = b"" if request.is_http10 else b"transfer-encoding: chunked\r\n"
        self._transport.write(head + framing + self._further_headers(request, stream.headers) + b"\r\n")
        try:
            if request.method != b"HEAD":
                async for chunk in stream.chunks:
                    if self.is_gone:
                        return
                    if chunk:
                        self._transport.write(chunk if request.is_http10 else b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    if self._drained is not None:
                        await self._drained
                if not request.is_http10:
                    self._transport.write(b"0\r\n\r\n")
        except BaseException:
            # The reader must not take what it has for the whole.
            self._transport.abort()
            raise
        finally:
            with contextlib.suppress(RuntimeError):
                await stream.chunks.aclose()  # type: ignore[attr-defined]  # they are all generators
        self._answered(request)

    def _refuse(self, error: SqewError) -> None:
        """The request that is being read can't be made sense of, nor anything after it."""
        if self._current is not None and self._current.stream is not None:
            self._current.stream.end(error)
        else:
            self._queue.append(error)
        self._discarding = True
        self._advance()

    def _write_refusal(self, error: SqewError) -> None:
        request = self._current or Request(self, b"GET", b"/", b"")
        request.id = request.id or self._hub.new_id()
        request.keep_alive = False
        request.stream = None
        self._current = None
        self._busy = request
        self.respond(request, self._hub.application.failure(request if request.route else None, error))

    def _say_goodbye(self, *, abruptly: bool) -> None:
        """Close, but not under the hands of a client that is still sending: it would not see the answer."""
        self._discarding = True
        if abruptly:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            with contextlib.suppress(OSError, RuntimeError):
                self._transport.write_eof()
        self.go_on()
        self.deadline = self._hub.now() + _LINGER_S

    # Time, and flow

    def timed_out(self) -> None:
        """The deadline has passed."""
        self.deadline = math.inf
        if self._drained is not None or self._discarding:
            self._transport.abort()
        elif self._current is not None and self._current.stream is not None:
            self._refuse(RequestTimeout("The body of the request stopped coming. Send it again."))
        elif self._head_bytes or self._current is not None:
            self._refuse(RequestTimeout("The request did not come whole in time. Send it again."))
        else:
            self._transport.close()

    def drain(self) -> None:
        """The server ends: close now, or after the answers that are due."""
        self._closing = True
        if self._busy is None and not self._queue:
            self._transport.close()

    def hold_up(self) -> None:
        """Read no more for now."""
        if not self._held_up and not self.is_gone:
            self._held_up = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Read again."""
        if self._held_up and not self.is_gone:
            self._held_up = False
            self._transport.resume_reading()


_NO_TRANSPORT = asyncio.Transport()
"""Before the first one is made."""


def _origin_form(target: bytes, method: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request target that is not a path: a proxy's absolute form, or ``OPTIONS *``."""
    if method == b"OPTIONS" and target == b"*":
        return b"/", b""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError as error:
        raise BadRequest("The request target is not a path. Send one that begins with '/'.") from error
    if not url.schema or not url.host:
        raise BadRequest("The request target is not a path. Send one that begins with '/'.")
    return url.path or b"/", url.query or b""
