"""Who may do what."""

from __future__ import annotations

import hmac

from sqew.errors import Unauthorized
from sqew.http.exchange import Headers, Request, Response
from sqew.settings import Settings


class Guard:
    """Lets requests in, or not."""

    def __init__(self, settings: Settings) -> None:
        self._token = settings.auth_token.encode()

    def admit(self, request: Request) -> None:
        """Raise unless the request, of which only the head is known, may come in."""
        if not self._token:
            return
        assert request.route is not None
        if request.route.scope == "open":
            return
        kind, _, given = request.headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._token):
            raise Unauthorized("This server wants a token. Add the header 'Authorization: Bearer TOKEN'.")

    def verify_body(self, request: Request) -> None:
        """Raise unless the body is what its sender signed, where it must be signed."""

    def options(self, request: Request, methods: list[str]) -> Response:
        """The answer to OPTIONS."""
        headers: Headers = ((b"allow", ", ".join(methods).encode()),)
        return Response(204, headers=headers)

    def finish(self, request: Request, response: Response) -> Response:
        """The response as it goes out."""
        return response
