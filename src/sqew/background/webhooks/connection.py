"""Connection to an endpoint: a request goes out, the status of its answer comes back, one after the other.

Only the status is of interest. The rest of an answer is read to its end, within bounds, so that the connection can be
used again, and none of it is kept.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

import httptools

MOST_HEAD = 65_536
"""Most bytes of headers in an answer."""
MOST_BODY = 65_536
"""Bytes of its body after which an answer is cut off. Its status counts nevertheless."""

Origin = tuple[str, str, int]
"""Scheme, host and port: requests to the same ones may share a connection."""


class EndpointGone(Exception):
    """The lack of a proper answer. The message ends the sentence "the endpoint …".

    ``is_untouched``: not a byte of an answer had come.
    """

    def __init__(self, what: str, *, is_untouched: bool = False) -> None:
        self.is_untouched = is_untouched
        super().__init__(what)


class EndpointConnection(asyncio.Protocol):
    """A connection that carries one request at a time."""

    __slots__ = (
        "_allowance", "_answer", "_is_complete", "_is_framed", "_is_untouched", "_on_lost", "_parser", "_status",
        "_transport", "is_reusable", "lost", "made_at", "origin", "rests_since",
    )  # fmt: skip

    def __init__(self, origin: Origin, on_lost: Callable[[EndpointConnection], None]) -> None:
        self.origin = origin
        self._on_lost = on_lost
        loop = asyncio.get_running_loop()
        self.made_at = self.rests_since = loop.time()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.is_reusable = False
        self._transport: asyncio.Transport = _NO_TRANSPORT
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[int] | None = None
        self._begin()

    def _begin(self) -> None:
        self._status = 0
        self._allowance = MOST_HEAD
        self._is_untouched = True
        self._is_complete = self._is_framed = False

    def exchange(self, request: bytes) -> asyncio.Future[int]:
        """Send a request. The future gets the status of the answer when all of that is there, or Broken."""
        assert self._answer is None
        self._begin()
        self.is_reusable = False
        answer = self._answer = asyncio.get_running_loop().create_future()
        if self.lost.done():
            self._fail("closed the connection without an answer")
        else:
            self._transport.write(request)
        return answer

    @property
    def status(self) -> int:
        """Status of the answer to the last request, as soon as its head is there; 0: nothing yet."""
        return self._status

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self.is_reusable = False
        self._transport.abort()

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_reusable = False
        if self._status and not self._is_framed:
            self._settle()  # the end of the connection is the end of such an answer
        self._fail(self._ending(exc))
        # It refers back: otherwise both would stay until the next garbage collection.
        self._parser = _NO_PARSER
        self._on_lost(self)
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # nobody asked
            return
        self._is_untouched = False
        had_head = self._status != 0
        try:
            self._parse(data)
        except httptools.HttpParserUpgrade:
            self._fail("wants to go on in another protocol than HTTP/1.1")
            return
        except httptools.HttpParserError as error:
            if not self._is_complete:
                self._fail(f"gave an answer that is not HTTP/1.1 ({error})")
                return
            self.is_reusable = False
        if self._is_complete:
            self._settle()
        else:
            self._continue(had_head, len(data))

    def _parse(self, data: bytes) -> None:
        if self._status or len(data) <= self._allowance:
            self._parser.feed_data(data)
            return
        # So much of it that its head may be too large: that is seen exactly where it is.
        self._parser.feed_data(data[: self._allowance])
        if self._status:
            self._parser.feed_data(data[self._allowance :])

    def _continue(self, had_head: bool, size: int) -> None:
        """Wait for the rest of an answer, unless there has been too much already."""
        if self._status and not had_head:
            self._allowance = MOST_BODY
            return
        self._allowance -= size
        if self._allowance > 0:
            return
        if self._status:
            self._settle()
        else:
            self._fail(f"gave an answer with more than {MOST_HEAD} bytes of headers")

    # The parser's side

    def on_message_begin(self) -> None:
        if self._is_complete:
            self.is_reusable = False  # a second answer, to nothing

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-length" or (name == b"transfer-encoding" and b"chunked" in value.lower()):
            self._is_framed = True

    def on_headers_complete(self) -> None:
        if self._is_complete:
            return  # the first answer counts, whatever is said after it
        status = self._parser.get_status_code()
        if status >= 200:
            self._status = status
        else:
            self._is_framed = False

    def on_message_complete(self) -> None:
        if self._status and not self._is_complete:
            self._is_complete = True
            self.is_reusable = self._parser.should_keep_alive()

    # The end of an exchange

    def _settle(self) -> None:
        """Hand over the status. A connection on which there is still something to send or to read is not used again."""
        answer, self._answer = self._answer, None
        transport = self._transport
        if not self.is_reusable or transport.is_closing() or transport.get_write_buffer_size():
            self.abort()
        if answer is not None and not answer.done():
            answer.set_result(self._status)

    def _fail(self, what: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(EndpointGone(what, is_untouched=self._is_untouched))
        self.abort()

    def _ending(self, exc: Exception | None) -> str:
        how = "closed the connection"
        if isinstance(exc, ssl.SSLError):
            how = f"broke the encryption ({exc.reason})"
        elif exc is not None:
            how = "reset the connection"
        return f"{how} without an answer" if self._is_untouched else f"{how} in the middle of its answer"


_NO_PARSER = httptools.HttpResponseParser(object())
"""Parser of a connection after its end."""
_NO_TRANSPORT = asyncio.Transport()
"""Transport of a connection before there is one."""
