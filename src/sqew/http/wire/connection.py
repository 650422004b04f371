"""The server's end of an HTTP/1.1 connection: bytes in, requests out, responses in order.

llhttp (through httptools) does the parsing, strictly. Added here is what a server on a network needs besides: deadlines
for everything a client may be slow at, caps for everything it may send too much of, pipelining, keep-alive,
100-continue, streaming both ways with backpressure, and a polite end.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import select
from typing import cast

import httptools

from sqew.errors import BadRequest, HeadersTooLarge, Overloaded, RequestTimeout, SqewError, TooLarge
from sqew.http.wire.contract import ConnectionOwner
from sqew.http.wire.exchange import TEXT, Headers, Request, Response, Stream
from sqew.http.wire.heads import KnownHead, check_encoding, check_http10, origin_form, size_of

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CROWDED = b"There are as many connections as max_connections allows. Try again in a moment.\n"
_PARSED_AT_ONCE = 16_384
"""Bytes parsed at a time. All requests in them are made before the first is answered: in 64 KiB there may be 2,500,
which take 3 MiB.
"""
_PIPELINE_PAUSE = 32
_PIPELINE_PAUSE_BYTES = 65_536
"""Requests that wait for their turn, and bytes read since the first of them, at which reading pauses: 32 of 64 KiB
each, behind responses that a client does not read, took 2 MiB on each connection, from anybody who connects.
"""
_LINGER_S = 2.0
"""Seconds to read and drop what a client still sends after a refusal, so that it sees the response."""
_READ_WHEN_REFUSED = 65_536
"""Largest body that is read although its request is refused already."""
_SMALL_BODY = 65_536
"""Largest body that is received however many large ones are held: small requests never wait for large ones."""
_COME_BACK_MS = 1_000
_WRITTEN_AT_ONCE = 262_144
"""Bytes of a streamed response that are handed over before the client must have read: besides what is being read for
it, that is all that a client can cost that doesn't read.
"""
_LEAST_PROGRESS = 16_384
"""Bytes of what waits for it that a client must have taken each time its deadline for reading has come."""
_MOST_REPEATS = 100
"""Most headers that may repeat a name. Joining them takes time that grows with their square."""
_MOST_HEADERS = 500
"""Most headers of a request. In 64 KiB there may be 16,000 of them, which take 3 MiB when they are parsed."""
_ONCE = frozenset({b"host", b"content-length", b"transfer-encoding", b"authorization", b"content-type"})
"""Headers that mean something only once. Two of them are how requests are smuggled."""
_SPECIAL = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"amz-sdk-invocation-id"})
"""Headers that keep a head from being cached: they say how its body comes, or, from AWS's clients, hold a number that
never repeats.
"""
_END_OF_HEAD = b"\r\n\r\n"
_PLAIN_LINE = re.compile(rb"([A-Z]+) (/[A-Za-z0-9/_-]+) HTTP/1\.1\r\n")
"""The first line of a request whose path can be read in one way only."""
_MOST_REMEMBERED = 1_024
"""Most heads that are cached, for all connections together."""
_LONGEST_REMEMBERED = 2_048
_BODILESS = frozenset({204, 304})
_NO_HEADERS: dict[bytes, bytes] = {}
_HAS_LEFT = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class Connection(asyncio.Protocol):
    """A client's connection."""

    __slots__ = (
        "_advancing", "_awaits_continue", "_body", "_body_skipped", "_busy", "_closing", "_current", "_discarding",
        "_drained", "_fed", "_has_left", "_head_bytes", "_headers", "_held_up", "_leaving", "_parser", "_queue",
        "_repeats", "_target", "_took_body", "_transport", "_unread", "_unwanted", "_unwritten", "_waiting",
        "_weight", "deadline", "is_gone", "server", "write_deadline",
    )  # fmt: skip

    def __init__(self, server: ConnectionOwner) -> None:
        self.server = server
        self._transport: asyncio.Transport = _NO_TRANSPORT
        self._parser = httptools.HttpRequestParser(self)
        # The request whose head or body is being read, and what came after it and must wait to be parsed.
        self._current: Request | None = None
        self._target = b""
        self._headers = _NO_HEADERS
        self._repeats = 0
        self._unwanted = ""
        # How much of its head there is; within its body, how much came without any of the body in it.
        self._head_bytes = self._fed = 0
        self._body: bytes | bytearray = b""
        self._weight = 0
        self._took_body = self._body_skipped = False
        self._awaits_continue = False
        self._unread = b""
        # Those that wait for their turn, and the one that is being answered.
        self._queue: list[Request | SqewError] = []
        # How much was read since one of them had to wait.
        self._waiting = 0
        self._busy: Request | None = None
        self._advancing = False
        self._has_left = False
        # What asks the kernel whether the client has left; made when that is first asked.
        self._leaving: select.poll | None = None
        self._closing = False
        self._discarding = False
        self._held_up = False
        self._drained: asyncio.Future[None] | None = None
        self._unwritten = 0
        self.is_gone = False
        # When the client must have sent something, and when it must have read something.
        self.deadline = self.write_deadline = math.inf

    @property
    def is_busy(self) -> bool:
        """True if a request is being answered."""
        return self._busy is not None

    @property
    def buffered_bytes(self) -> int:
        """The bytes buffered of its large requests."""
        return self._weight

    @property
    def peer(self) -> str:
        """The address at the other end, as far as the network tells."""
        name = self._transport.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "unix"

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        server = self.server
        if len(server.connections) >= server.limits.max_connections:
            self._discarding = True
            framing = b"%d\r\nretry-after: 1\r\nconnection: close\r\n\r\n" % len(_CROWDED)
            self._transport.write(server.head(503, TEXT) + framing + _CROWDED)
            self._transport.close()
            return
        server.connections.add(self)
        self.deadline = server.now() + server.limits.idle_s

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        self.server.forget(self)
        gone = BadRequest("The connection was closed before the request was complete.")
        for request in (self._current, self._busy):
            if request is not None and request.stream is not None:
                request.stream.end(gone)
        if self._busy is not None and self._busy.task is not None:
            self._busy.task.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        # All that refers back to it: otherwise it and what it has read would stay until the next garbage collection.
        self._parser, self._current, self._busy = _NO_PARSER, None, None
        self.server.buffered_bytes -= self._weight
        self._queue.clear()
        self._unread = self._body = b""

    def eof_received(self) -> bool:
        """Note that the client will send nothing more. If it waits for messages, it is taken to be gone; otherwise it
        still gets its response.
        """
        self._has_left = self._closing = True
        current, busy = self._current, self._busy
        self._current, self._head_bytes = None, 0
        if current is not None and current.stream is not None:
            current.stream.end(BadRequest("The body of the request ended before it was complete."))
        if busy is not None and busy.waits and busy.task is not None:
            busy.task.cancel()
            return False
        is_open = busy is not None or bool(self._queue)
        return is_open and self._transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        self._drained = asyncio.get_running_loop().create_future()
        self._expect_reader()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None
        self.write_deadline = math.inf
        if self._busy is None:
            self.deadline = self.server.now() + self._patience()
        self._advance()

    def data_received(self, data: bytes) -> None:
        if self._is_at_rest():
            self._receive_first(data)
        elif len(data) <= _PARSED_AT_ONCE and not self._unread:
            self._parse(data)
            self._advance_after(len(data))
        else:
            self._receive_much(data)

    def _is_at_rest(self) -> bool:
        """Return True if all that was received has been answered."""
        return (
            self._busy is None
            and self._current is None
            and self._drained is None
            and not self._head_bytes
            and not self._queue
            and not self._unread
            and not self._closing
            and not self._discarding
        )

    def _receive_first(self, data: bytes) -> None:
        """Receive the beginning of a request. Most come whole, and with a head that has been parsed before."""
        end = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        head, server = data[:end], self.server
        known = server.known_heads.get(head) or self._known_but_for_its_path(head)
        if known is not None and known.length == len(data) - end:
            request = Request(self, known.method, known.path, known.query, known.headers)
            request.body, request.started = data[end:], server.now()
            self._busy, self.deadline = request, math.inf
            if known.handler is None:
                self.start(request)
            else:
                known.handler.take(request)
            return
        if len(data) > _PARSED_AT_ONCE:
            self._receive_much(data)
            return
        self._parse(data)
        if len(self._queue) == 1 and self._current is None:
            self._remember(head, self._queue[0], len(data) - end)
        self._advance_after(len(data))

    def _known_but_for_its_path(self, head: bytes) -> KnownHead | None:
        """Return a known head for one that differs only in its path from one that was parsed before."""
        tails = self.server.known_tails
        if not tails or len(head) > _LONGEST_REMEMBERED or (line := _PLAIN_LINE.match(head)) is None:
            return None
        known = tails.get((line[1], head[line.end() :]))
        return known and KnownHead(known.method, line[2], b"", known.headers, known.length)

    def start(self, request: Request) -> None:
        """Begin and handle a request that has arrived in full."""
        application = self.server.application
        try:
            application.begin(request)
        except SqewError as error:
            request.refusal = error.with_traceback(None)
        application.handle(request)

    def _remember(self, head: bytes, request: Request | SqewError, length: int) -> None:
        """Remember a head that can only mean one thing: a request with a body of known length, and nothing special.

        Of a head that names a message, only what follows the path is cached: it hardly comes again, and would push
        others out.
        """
        if (
            len(head) <= _LONGEST_REMEMBERED
            and isinstance(request, Request)
            and request.keep_alive
            and not request.is_http10
            and request.refusal is None
            and request.stream is None
            and len(request.body) == length
            and _SPECIAL.isdisjoint(request.headers)
        ):
            if request.route is not None and request.route.names_one:
                self._remember_tail(head, request, length)
                return
            known_heads = self.server.known_heads
            if len(known_heads) >= _MOST_REMEMBERED:
                known_heads.clear()
            handler = self.server.application.handler_of_head(request)
            known_heads[head] = KnownHead(request.method, request.path, request.query, request.headers, length, handler)

    def _remember_tail(self, head: bytes, request: Request, length: int) -> None:
        """Remember a head without its path, which is hardly ever asked for again."""
        line, tails = _PLAIN_LINE.match(head), self.server.known_tails
        if line is None or request.method == b"POST":
            # (What is posted to some paths is read while it comes.)
            return
        if len(tails) >= _MOST_REMEMBERED:
            tails.clear()
        known = KnownHead(request.method, b"", b"", request.headers, length)
        tails[line[1], head[line.end() :]] = known

    def _receive_much(self, data: bytes) -> None:
        """Parse in pieces: there may be thousands of requests, and the first ones' responses may have to wait."""
        self._unread += data
        self._parse_on()

    def _parse_on(self) -> None:
        while self._unread and not self._held_up:
            piece, self._unread = self._unread[:_PARSED_AT_ONCE], self._unread[_PARSED_AT_ONCE:]
            self._parse(piece)
            self._advance_after(len(piece))

    def _parse(self, data: bytes) -> None:
        while data and not self._discarding:
            self._fed = self._head_bytes + len(data)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                self._parser = self._parser_after_upgrade()
                continue
            except httptools.HttpParserError as error:
                self._refuse(_reason(error))
                return
            if self._took_body:
                self._took_body = False
            elif self._head_bytes or self._current is not None:
                self._count_head(len(data))
            return

    def _parser_after_upgrade(self) -> httptools.HttpRequestParser:
        """Return a parser for the body of a request to upgrade: llhttp expects none, but it has one if not upgraded."""
        if self._current is None:
            return httptools.HttpRequestParser(self)
        length = self._current.headers.get(b"content-length")
        framing = b"transfer-encoding: chunked" if length is None else b"content-length: " + length
        parser = httptools.HttpRequestParser(_BodyOf(self))
        parser.feed_data(b"POST / HTTP/1.1\r\nconnection: close\r\n" + framing + b"\r\n\r\n")
        return parser

    def _count_head(self, size: int) -> None:
        """Count the bytes of heads, trailers and chunk extensions, which may be long, but not endless."""
        if self._head_bytes == 1 and self._current is None and self._busy is None:
            self.deadline = self.server.now() + self.server.limits.header_s
        self._head_bytes += size
        # The first piece of a head may have had others before it. When it is complete, it is measured exactly.
        if self._head_bytes > self.server.limits.max_header_bytes + _PARSED_AT_ONCE:
            self._refuse(self._headers_too_large())

    # The parser's side

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = {}
        self._head_bytes = 1

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._current is not None:
            return  # a trailer
        name = name.lower()
        headers = self._headers
        if name in headers:
            self._repeats += 1
            if name in _ONCE:
                self._unwanted = name.decode("latin-1")
            if self._repeats > _MOST_REPEATS:
                raise HeadersTooLarge(f"More than {_MOST_REPEATS} headers repeat another's name. Send each once.")
            value = headers[name] + b", " + value
        elif len(headers) >= _MOST_HEADERS:
            raise HeadersTooLarge(f"The request has more than {_MOST_HEADERS} headers. Send fewer.")
        headers[name] = value

    def on_headers_complete(self) -> None:
        headers, bounds = self._headers, self.server.limits
        self._headers, self._head_bytes = _NO_HEADERS, 0
        # Only then can it be too large: most requests come in one small piece.
        if self._fed > bounds.max_header_bytes and size_of(self._target, headers) > bounds.max_header_bytes:
            raise self._headers_too_large()
        path, _, query = self._target.partition(b"?")
        parser = self._parser
        request = Request(self, parser.get_method(), path, query, headers)
        request.keep_alive = parser.should_keep_alive()
        request.started = self.server.now()
        self._current = request
        if parser.get_http_version() != "1.1":
            request.is_http10 = True
            check_http10(parser.get_http_version(), headers)
        elif b"host" not in headers:
            raise BadRequest("An HTTP/1.1 request needs a Host header. Add one.")
        if self._repeats:
            self._check_repeats()
        if not path.startswith(b"/"):
            request.path, request.query = origin_form(self._target, request.method)
        if self._busy is None:
            self.deadline = request.started + bounds.body_s
        length = int(headers.get(b"content-length", 0))
        has_body = length > 0
        if b"transfer-encoding" in headers:
            has_body = True
            check_encoding(headers[b"transfer-encoding"])
        if b"upgrade" in headers or request.method == b"CONNECT":
            self._check_upgrade(request, has_body)
        try:
            self.server.application.begin(request)
        except SqewError as error:
            # A small body is read to its end, so that the connection can go on.
            if b"transfer-encoding" in headers or b"expect" in headers or length > _READ_WHEN_REFUSED:
                raise
            request.refusal = error.with_traceback(None)
        if request.stream is not None:
            self._queue.append(request)
        elif length > bounds.max_body_bytes:
            raise self._body_too_large()
        elif length > _SMALL_BODY:
            self.server.application.expect_large(request)
            if self.server.buffered_bytes + length > bounds.max_buffered_bytes:
                raise self._crowded()
        if has_body and b"expect" in headers and not request.is_http10:
            self._awaits_continue = headers[b"expect"].lower() == b"100-continue"

    def _check_repeats(self) -> None:
        name, self._unwanted, self._repeats = self._unwanted, "", 0
        if name:
            raise BadRequest(f"There are two {name} headers. Send one.")

    def _check_upgrade(self, request: Request, has_body: bool) -> None:
        if request.method == b"CONNECT":
            raise BadRequest("This is not a proxy, so it does not take CONNECT. Send the request itself.")
        if has_body and self._parser.should_upgrade():
            self._body_skipped = True
            request.keep_alive = False

    def _invite_body(self) -> None:
        """Say 100 Continue, but only at the request's turn: earlier, it would be taken for another's response."""
        ahead = self._busy or (self._queue[0] if self._queue else None)
        if (ahead is None or ahead is self._current) and not self._discarding:
            self._awaits_continue = False
            self._transport.write(_CONTINUE)

    def on_body(self, body: bytes) -> None:
        request = self._current
        assert request is not None
        self._took_body, self._head_bytes = True, 0
        if request.stream is not None:
            self.deadline = self.server.now() + self.server.limits.body_s
            request.stream.feed(body)
            return
        if request.refusal is not None:
            return  # It is read only so that the connection can go on.
        if not self._body:
            self._body = body
        else:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body
        size = len(self._body)
        if size > self.server.limits.max_body_bytes:
            raise self._body_too_large()
        if size > _SMALL_BODY:
            self.weigh(request, size)

    def weigh(self, request: Request, size: int) -> None:
        """Count what is held of a large body, from its arrival until the request is answered."""
        if self.is_gone:
            return
        server, more = self.server, size - request.weight
        if not request.weight:
            server.application.expect_large(request)
        request.weight = size
        self._weight += more
        server.buffered_bytes += more
        if server.buffered_bytes > server.limits.max_buffered_bytes:
            raise self._crowded()

    def on_message_complete(self) -> None:
        request = self._current
        assert request is not None
        if self._body_skipped:
            self._body_skipped = False
            return
        self._current, self._head_bytes, self._awaits_continue = None, 0, False
        if request.stream is not None:
            request.stream.end()
            self.deadline = math.inf
        else:
            request.body = bytes(self._body)
            self._body = b""
            self._queue.append(request)
        if len(self._queue) > _PIPELINE_PAUSE:
            self.hold_up()

    def _headers_too_large(self) -> SqewError:
        return HeadersTooLarge(
            f"The request's URL and headers have more than {self.server.limits.max_header_bytes} bytes. Send fewer."
        )

    def _body_too_large(self) -> SqewError:
        return TooLarge(
            f"The request has more than {self.server.limits.max_body_bytes} bytes (max_request_bytes). "
            "Send less at once, or import it as a stream."
        )

    def _crowded(self) -> SqewError:
        return Overloaded("it holds as many bytes of large requests as max_buffered_bytes allows", _COME_BACK_MS)

    # Answering

    def _advance_after(self, size: int) -> None:
        """Start what can be started after so many more bytes were parsed, and pause reading if too much must wait."""
        self._advance()
        if self._queue:
            self._waiting += size
            if self._waiting > _PIPELINE_PAUSE_BYTES:
                self.hold_up()

    def _advance(self) -> None:
        """Start on what waits, one request at a time, so that responses come in order."""
        if self._advancing or self._busy is not None:
            return
        self._advancing = True
        try:
            while self._queue and self._busy is None and self._drained is None and not self.is_gone:
                waiting = self._queue.pop(0)
                if isinstance(waiting, SqewError):
                    self._write_refusal(waiting)
                    return
                self._busy = waiting
                self.deadline = math.inf if waiting is not self._current else self.server.now() + self._patience()
                self.server.application.handle(waiting)
        finally:
            self._advancing = False
        if not self._queue:
            self._waiting = 0
        if self._awaits_continue:
            self._invite_body()
        if self._held_up and len(self._queue) <= _PIPELINE_PAUSE // 4 and self._waiting <= _PIPELINE_PAUSE_BYTES:
            self.resume()

    def respond(self, request: Request, response: Response) -> None:
        """Write the response to the request whose turn it is."""
        if self.is_gone or self._busy is not request:
            return
        if (self._closing or self.server.is_draining or request is self._current) and self._ends_with(request):
            request.keep_alive = False
        body, head = response.body, self.server.head(response.status, response.content_type)
        further = b""
        headers = response.headers
        if not request.keep_alive or request.is_http10 or len(headers) > 1:
            further = self._further_headers(request, headers)
        elif headers:
            # AWS's clients get one with every answer.
            further = b"%b: %b\r\n" % headers[0]
        if response.status in _BODILESS:
            self._transport.write(b"%bx-request-id: %b\r\n%b\r\n" % (_without_length(head), request.id, further))
        else:
            shown = body if request.method != b"HEAD" else b""
            self._transport.write(
                b"%b%d\r\nx-request-id: %b\r\n%b\r\n%b" % (head, len(body), request.id, further, shown)
            )
        self._answered(request)

    def _ends_with(self, request: Request) -> bool:
        """Return True if the connection can't go on after this response."""
        if request is self._current:
            # What is left of its body would be read as a request.
            return True
        is_last = not self._queue and self._current is None and not self._head_bytes and not self._unread
        return is_last and (self._closing or self.server.is_draining)

    def _further_headers(self, request: Request, headers: Headers) -> bytes:
        further = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        if not request.keep_alive:
            further += b"connection: close\r\n"
        elif request.is_http10:
            further += b"connection: keep-alive\r\n"
        return further

    def _answered(self, request: Request) -> None:
        self._busy = None
        if request.weight and not self.is_gone:
            self._weight -= request.weight
            self.server.buffered_bytes -= request.weight
        if not request.keep_alive:
            self._say_goodbye(is_sending=self._discarding or request is self._current or bool(self._queue))
            return
        if self._queue or self._current is not None or self._head_bytes or self._held_up or self._discarding:
            self.deadline = self.server.now() + self._patience()
            self._advance()
        else:
            self.deadline = self.server.now() + self.server.limits.idle_s

    def _patience(self) -> float:
        """Return the seconds that the client may now take to send something."""
        bounds = self.server.limits
        if self._discarding:
            return _LINGER_S
        if self._current is not None:
            return bounds.body_s
        return bounds.header_s if self._head_bytes else bounds.idle_s

    async def stream(self, request: Request, stream: Stream) -> None:
        """Write a response piece by piece."""
        if self.is_gone or self._busy is not request:
            return
        if request.is_http10 or self._ends_with(request):
            request.keep_alive = False
        framing = b"" if request.is_http10 else b"transfer-encoding: chunked\r\n"
        head = _without_length(self.server.head(stream.status, stream.content_type))
        further = self._further_headers(request, stream.headers)
        self._transport.write(b"%b%bx-request-id: %b\r\n%b\r\n" % (head, framing, request.id, further))
        try:
            if request.method != b"HEAD":
                await self._write_chunks(stream, plain=request.is_http10)
        except BaseException:
            # The reader must not take what it has for the whole.
            self._busy = None
            self._transport.abort()
            raise
        finally:
            with contextlib.suppress(RuntimeError):
                await stream.chunks.aclose()  # type: ignore[attr-defined]  # they are all generators
        if not self.is_gone:
            request.keep_alive = request.keep_alive and not self._ends_with(request)
            self._answered(request)

    async def _write_chunks(self, stream: Stream, *, plain: bool) -> None:
        async for chunk in stream.chunks:
            for start in range(0, len(chunk), _WRITTEN_AT_ONCE):
                if self._drained is not None:
                    await self._drained
                if self.is_gone:
                    return
                piece = chunk[start : start + _WRITTEN_AT_ONCE]
                self._transport.write(piece if plain else b"%x\r\n%b\r\n" % (len(piece), piece))
            # What was written may be 8 MiB: it must not wait together with what is read next.
            del chunk
            if self._drained is not None:
                await self._drained
        if not plain:
            self._transport.write(b"0\r\n\r\n")

    def _refuse(self, error: SqewError) -> None:
        """Refuse the request that is being read: neither it nor anything after it can be understood."""
        self._unread = self._body = b""
        if self._current is not None and self._current.stream is not None:
            self._current.stream.end(error)
        else:
            self._queue.append(error)
        self._discarding = True
        self._advance()

    def _write_refusal(self, error: SqewError) -> None:
        request = self._current or Request(self, b"GET", b"/", b"", _NO_HEADERS)
        request.id = request.id or self.server.new_id()
        request.started = request.started or self.server.now()
        request.keep_alive = False
        self._busy = request
        self.server.application.refuse(request, error)

    def abandon(self, request: Request) -> None:
        """Close without a response: the client has left, or may no longer read it."""
        if self._busy is request:
            self._busy = None
            self._queue.clear()
            self._transport.abort()

    # The end, time, and flow

    def _say_goodbye(self, *, is_sending: bool) -> None:
        """Close, but not while a client is still sending: it would not see the response."""
        self._discarding = True
        self._queue.clear()
        self._expect_reader()
        if not is_sending:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            with contextlib.suppress(OSError, RuntimeError):
                self._transport.write_eof()
        self.resume()
        self.deadline = self.server.now() + _LINGER_S

    def has_left(self) -> bool:
        """Return True if the client has closed its side, even if the loop has not seen it yet.

        A server that stood still finds a request and the end of its connection in the socket at once, and reads the
        request first.
        """
        if self.is_gone or self._has_left or self._transport.is_closing():
            return True
        if self._leaving is None:
            self._leaving = select.poll()
            self._leaving.register(self._transport.get_extra_info("socket").fileno(), _HAS_LEFT)
        return bool(self._leaving.poll(0))

    def timed_out(self, now: float) -> None:
        """Handle a deadline that has passed."""
        if self.write_deadline < now:
            left = self._transport.get_write_buffer_size()
            if left > self._unwritten - _LEAST_PROGRESS:
                self._transport.abort()
                return
            self._expect_reader()
        if self.deadline >= now:
            return
        self.deadline = math.inf
        if self._drained is not None:
            return  # It reads, though slowly: the time to send begins when it has read.
        if self._discarding:
            self._transport.abort()
        elif self._current is not None:
            self._refuse(RequestTimeout("The body of the request did not come in time. Send it again."))
        elif self._head_bytes:
            self._refuse(RequestTimeout("The head of the request did not come in time. Send it again."))
        elif self._busy is None:
            self._say_goodbye(is_sending=False)

    def _expect_reader(self) -> None:
        self._unwritten = self._transport.get_write_buffer_size()
        self.write_deadline = self.server.now() + self.server.limits.write_s

    def drain(self) -> None:
        """Close now, or after the responses that are due: the server stops."""
        self._closing = True
        if self._busy is None and not self._queue and self._current is None and not self._head_bytes:
            self._say_goodbye(is_sending=False)

    def hold_up(self) -> None:
        """Pause reading."""
        if not self._held_up and not self.is_gone:
            self._held_up = True
            self.deadline = math.inf
            self._transport.pause_reading()

    def resume(self) -> None:
        """Resume reading."""
        if not self._held_up or self.is_gone:
            return
        self._held_up = False
        if self._current is not None:
            self.deadline = self.server.now() + self._patience()
        self._parse_on()
        if not self._held_up:
            self._transport.resume_reading()


_NO_TRANSPORT = asyncio.Transport()
"""The transport before the first one is made."""
_NO_PARSER = httptools.HttpRequestParser(object())
"""The parser after the end."""


class _BodyOf:
    """The callbacks for a body whose head was parsed already."""

    def __init__(self, connection: Connection) -> None:
        self.on_body = connection.on_body
        self.on_message_complete = connection.on_message_complete


def _reason(error: httptools.HttpParserError) -> SqewError:
    cause = error.__context__
    if isinstance(cause, SqewError):
        return cause
    if isinstance(error, httptools.HttpParserCallbackError) and cause is not None:
        raise cause from None
    return BadRequest(f"This is not HTTP/1.1: {str(error) or type(error).__name__}.")


def _without_length(head: bytes) -> bytes:
    return head.removesuffix(b"content-length: ")
