"""The guard: it admits a request by its token or key, its origin, and the room there is."""

from __future__ import annotations

import functools
import hmac
from typing import TypeVar

from msgspec.structs import replace

from sqew.core.broker import Broker
from sqew.envelopes.request_signature import digest_of
from sqew.errors import BadSetting, CredentialsMissing, Forbidden, MethodNotAllowed, RouteNotFound, Unauthorized
from sqew.http.router import KEYLESS, Route, shown_path
from sqew.http.security.backpressure import Backpressure
from sqew.http.security.hosts import is_loopback
from sqew.http.security.keychain import Keychain
from sqew.http.security.origins import Origins
from sqew.http.security.signatures import Signatures
from sqew.http.wire.exchange import Request, Response, Stream
from sqew.model import GuardKey
from sqew.rules.names import FIFO_SUFFIX
from sqew.settings import Settings

A = TypeVar("A", Response, Stream)


class Guard:
    """The guard that admits requests, or not: by their sender, their origin, and whether there is room for more."""

    def __init__(self, settings: Settings, broker: Broker) -> None:
        # Digests are compared, so that the time it takes tells nothing, not even how long the token is.
        self._token = _token_digest(settings.auth_token) if settings.auth_token else None
        self.keys = Keychain(broker)
        self._origins = Origins(settings)
        self._signatures = Signatures(broker.now)
        self.backpressure = Backpressure(broker, settings)

    def admit(self, request: Request) -> None:
        """Raise unless the request, of which only the head is known, is admitted."""
        headers, route = request.headers, request.route
        if b"origin" in headers or b"sec-fetch-site" in headers or headers.get(b"host") not in self._origins.hosts:
            self._origins.check(request)
        assert route is not None
        scope = route.scope
        if self._token is not None and scope not in KEYLESS:
            self._authorize(request, route, self._token)
        if scope == "send":
            self.backpressure.check()

    def still_admits(self, route: Route, key_id: str) -> bool:
        """Return True if a request would be admitted that has the head and the key of one that was admitted before."""
        return (not key_id or key_id in self.keys.ids) and (route.scope != "send" or not self.backpressure.is_high)

    def _authorize(self, request: Request, route: Route, token: bytes) -> None:
        given = digest_of(_credentials(request))
        if hmac.compare_digest(given, token):
            return
        key = self.keys.find(given)
        if key is None:
            raise Unauthorized(
                "That is not this server's token, nor a key of one of its queues (any more). "
                "Check the header 'Authorization: Bearer …'."
            )
        _check_key(key, request, route)
        if key.secret is not None:
            if route.streams:
                raise Forbidden(
                    f"Key '{key.info.id}' wants requests signed, and a body that is streamed can't be. "
                    "Send the messages in batches, or use a key without signing."
                )
            request.key = key

    def verify_body(self, request: Request, key: GuardKey) -> None:
        """Raise unless the body is the one that was signed with that key."""
        self._signatures.check(key, request)

    def options(self, request: Request, methods: list[str]) -> Response:
        """Return the response to OPTIONS."""
        self._origins.check(request)
        if not methods and request.path != b"/":
            raise RouteNotFound(shown_path(request.path))
        allowed = self._origins.preflight(request, methods)
        if not allowed and methods and "OPTIONS" not in methods:
            raise MethodNotAllowed("OPTIONS", shown_path(request.path), methods)
        return Response(204, headers=((b"allow", ", ".join(methods).encode()), *allowed))

    @property
    def leaves_answers(self) -> bool:
        """True if responses need no headers added for origins."""
        return not self._origins.are_allowed

    def finish(self, request: Request, answer: A) -> A:
        """Return the response as it goes out, with headers for its origin."""
        if self.leaves_answers:
            return answer
        return replace(answer, headers=answer.headers + self._origins.headers(request))

    async def keep_up(self) -> None:
        """Check the load and read changed keys. To be called before the first request, and then once a second."""
        await self.backpressure.measure()
        if self._token is not None:
            await self.keys.refresh()
            self._signatures.forget_all_but(self.keys.ids)

    def still_opens(self, request: Request) -> bool:
        """Return True if a request that was admitted a while ago still would be, as far as its key is concerned."""
        return not request.key_id or request.key_id in self.keys.ids


def check_exposure(settings: Settings) -> None:
    """Raise `BadSetting` if anybody but this machine's users could do as they like."""
    if settings.auth_token or settings.insecure or settings.unix_socket or is_loopback(settings.host.strip("[]")):
        return
    although = " (aws_credentials guard SQS and SNS only)" if settings.aws_credentials else ""
    raise BadSetting(
        f"At {settings.host} anybody on the network could read and delete everything, because there is no token"
        f"{although}. Set one (SQEW_AUTH_TOKEN), listen at 127.0.0.1, or add --insecure if everybody there may."
    )


def _token_digest(token: str) -> bytes:
    if not token.strip() or not token.isprintable():
        raise BadSetting("auth_token is blank or holds control characters, so no client could send it. Choose another.")
    return digest_of(token.encode())


def _credentials(request: Request) -> bytes:
    """Return the token or key that a request came with."""
    headers = request.headers
    given = headers.get(b"authorization")
    if given is None and b"x-api-key" in headers:
        return headers[b"x-api-key"].strip()
    kind, _, token = (given or b"").partition(b" ")
    if kind.lower() == b"bearer" and token.strip():
        return token.strip()
    error = CredentialsMissing if given is None else Unauthorized
    raise error("This server wants a token, or a key of the queue. Add the header 'Authorization: Bearer TOKEN'.")


def _check_key(key: GuardKey, request: Request, route: Route) -> None:
    """Raise unless a key allows what the route does, with the queue that it is about."""
    info = key.info
    request.key_id = info.id
    position = _queue_at(route.pattern)
    if position is not None:
        queue = request.params[position]
        if route.finds_fifo and queue + FIFO_SUFFIX == info.queue:
            # It opens no other, so that one is meant.
            request.params = (info.queue, *request.params[1:])
        elif queue != info.queue:
            raise Forbidden(
                f"Key '{info.id}' is for queue '{info.queue}'. "
                f"Use a key of queue '{queue[:80]}', or the server's token."
            )
    elif route.keeps_to_queue:
        request.only_queue = info.queue
    else:
        raise Forbidden(
            f"Key '{info.id}' is for queue '{info.queue}', and this is not about one queue. Use the server's token."
        )
    if route.scope not in info.scopes and "admin" not in info.scopes:
        raise Forbidden(
            f"Key '{info.id}' allows {', '.join(info.scopes)}, and this needs {route.scope}. "
            "Use a key that allows it, or the server's token."
        )


def queue_of(request: Request) -> str | None:
    """Return the queue that a request names, if it names one."""
    position = None if request.route is None else _queue_at(request.route.pattern)
    return request.queue or request.only_queue if position is None else request.params[position]


@functools.cache
def _queue_at(pattern: str) -> int | None:
    """Return the position of the queue's name in the path's values: after ``queues``, whatever the dialect calls it."""
    before, follows, _ = pattern.partition("/queues/{")
    return before.count("{") if follows else None
