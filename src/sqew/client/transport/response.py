"""Parsing of answers from their bytes, however these come."""

from __future__ import annotations

import httptools

from sqew.client.transport.failures import ConnectionBroken, NoConnection

MOST_HEAD = 102_400
"""Most bytes that the head of an answer may have. One that comes whole in one piece may have more."""


class ResponseReader:
    """The parser of the answers on a connection, one after the other."""

    __slots__ = (
        "_head_size", "_is_framed", "_parser", "_pieces", "_reason", "headers", "held", "is_complete",
        "is_reusable", "status",
    )  # fmt: skip

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Expect the answer to the next request."""
        self.status = 0
        """The status; 0: the head of the answer has not come yet."""
        self.headers: dict[str, str] = {}
        """The headers by their names in lower case."""
        self.held = 0
        """Bytes of the body that can be taken."""
        self.is_complete = self.is_reusable = self._is_framed = False
        self._head_size = 0
        self._reason = b""
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Parse more of the answer; raise `ConnectionBroken` if it is none."""
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            raise ConnectionBroken("the server wants to go on in another protocol than HTTP/1.1") from error
        except httptools.HttpParserError as error:
            if not self.is_complete:
                raise ConnectionBroken(f"the answer is not HTTP/1.1: {error}") from error
        if not self.status and self._head_size > MOST_HEAD:
            raise ConnectionBroken(f"the head of the answer has more than {MOST_HEAD} bytes")

    def end(self) -> None:
        """Note that the connection has ended; raise `ConnectionBroken` unless that is the end of the answer too."""
        if self.status and not self._is_framed:
            self.is_complete = True
        if not self.is_complete:
            raise ConnectionBroken(
                "it was closed " + ("in the middle of the answer" if self.status else "without an answer")
            )

    def take(self) -> bytes:
        """Take what has come of the body."""
        pieces, self._pieces, self.held = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def check_tunnel(self) -> None:
        """Raise unless a proxy answered that it leads on to the server."""
        if not 200 <= self.status < 300:
            raise NoConnection(f"the proxy answers {self.status} {self._reason.decode('latin-1')}".rstrip())

    # The parser's side

    def on_message_begin(self) -> None:
        if self.is_complete:
            self.is_reusable = False  # a second answer, to nothing

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return  # after the body
        known = name.decode("latin-1").lower()
        said = value.decode("latin-1")
        if known == "content-length" or (known == "transfer-encoding" and "chunked" in said.lower()):
            self._is_framed = True
        self.headers[known] = f"{self.headers[known]}, {said}" if known in self.headers else said

    def on_headers_complete(self) -> None:
        if self.status:
            return
        status = self._parser.get_status_code()
        if status >= 200:
            self.status = status
        else:
            # Something was said before the answer.
            self.headers, self._is_framed, self._reason, self._head_size = {}, False, b"", 0

    def on_body(self, body: bytes) -> None:
        if not self.is_complete:
            self._pieces.append(body)
            self.held += len(body)

    def on_message_complete(self) -> None:
        if self.status and not self.is_complete:
            self.is_complete = True
            self.is_reusable = self._parser.should_keep_alive()
