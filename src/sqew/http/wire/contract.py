"""What a connection needs from around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from sqew.errors import SqewError
from sqew.http.wire.exchange import Request
from sqew.http.wire.heads import HeadHandler, KnownHead

if TYPE_CHECKING:
    from sqew.http.wire.connection import Connection


class Bounds(Struct, frozen=True):
    """How slow and how large a client may be."""

    header_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 75.0
    write_s: float = 30.0
    max_header_bytes: int = 65_536
    max_body_bytes: int = 16 * 1024 * 1024
    max_buffered_bytes: int = 128 * 1024 * 1024
    max_connections: int = 20_000


class Application(Protocol):
    """What a connection needs from above it."""

    def begin(self, request: Request) -> None:
        """The head of a request is there. Finds its route; raises `SqewError` to refuse it before its body comes."""

    def expect_large(self, request: Request) -> None:
        """A body is or becomes large. Raises `SqewError` where none is wanted: it would only take room from others."""

    def handle(self, request: Request) -> None:
        """Answer a request that is complete, or whose body is streamed: now or later, by `Connection.respond`."""

    def handler_of_head(self, request: Request) -> HeadHandler | None:
        """Who takes this request, and whatever has the same head; None: each is to be begun and handled by itself."""

    def refuse(self, request: Request, error: SqewError) -> None:
        """Answer a request that can't be made sense of, or that did not come whole."""

    def keep_up(self) -> None:
        """Called once a second."""


class ConnectionOwner(Protocol):
    """What the connections of a server share."""

    bounds: Bounds
    application: Application
    connections: set[Connection]
    is_draining: bool
    buffered_bytes: int
    """How much of the large bodies of requests that are not answered yet is held, of all connections together."""
    known_heads: dict[bytes, KnownHead]
    """Heads that one of them has parsed, by their bytes."""
    known_tails: dict[tuple[bytes, bytes], KnownHead]
    """The same where paths hardly repeat: by the method, and by what follows the first line."""

    def head(self, status: int, content_type: bytes) -> bytes:
        """The first lines of an answer, up to the content-length's value."""

    def forget(self, connection: Connection) -> None:
        """A connection was closed."""

    def now(self) -> float: ...

    def new_id(self) -> bytes:
        """A name for a request that brought none."""
