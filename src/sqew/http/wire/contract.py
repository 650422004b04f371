"""The contract of a connection: the application above it, and what connections of a server share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from sqew.errors import SqewError
from sqew.http.wire.exchange import Request
from sqew.http.wire.heads import HeadHandler, KnownHead

if TYPE_CHECKING:
    from sqew.http.wire.connection import Connection


class ConnectionLimits(Struct, frozen=True):
    """Limits on how slow and how large a client may be."""

    header_s: float = 10.0
    body_s: float = 30.0
    idle_s: float = 75.0
    write_s: float = 30.0
    max_header_bytes: int = 65_536
    max_body_bytes: int = 16 * 1024 * 1024
    max_buffered_bytes: int = 128 * 1024 * 1024
    max_connections: int = 20_000


class Application(Protocol):
    """The application above a connection."""

    def begin(self, request: Request) -> None:
        """Find the route of a request whose head has come; raise `SqewError` to refuse it before its body comes."""

    def expect_large(self, request: Request) -> None:
        """Raise `SqewError` if the route takes no body: a large one would only take room from others."""

    def handle(self, request: Request) -> None:
        """Answer a request that is complete, or whose body is streamed: now or later, by `Connection.respond`."""

    def handler_of_head(self, request: Request) -> HeadHandler | None:
        """Return the lane for this request and all with the same head; None: each is begun and handled by itself."""

    def refuse(self, request: Request, error: SqewError) -> None:
        """Answer a request that can't be understood, or that did not arrive in full."""

    def keep_up(self) -> None:
        """Do what is due once a second."""


class ConnectionOwner(Protocol):
    """The state that the connections of a server share."""

    limits: ConnectionLimits
    application: Application
    connections: set[Connection]
    is_draining: bool
    buffered_bytes: int
    """Bytes held of large bodies whose requests are not answered yet, for all connections together."""
    known_heads: dict[bytes, KnownHead]
    """Parsed heads by their bytes, for all connections."""
    known_tails: dict[tuple[bytes, bytes], KnownHead]
    """Parsed heads whose paths hardly repeat: by the method, and by what follows the first line."""

    def head(self, status: int, content_type: bytes) -> bytes:
        """Return the first lines of a response, up to the content-length's value."""

    def forget(self, connection: Connection) -> None:
        """Forget a connection that was closed."""

    def now(self) -> float: ...

    def new_id(self) -> bytes:
        """Return an id for a request that brought none."""
