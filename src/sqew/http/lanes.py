"""Lanes for requests that come in one tick and differ only in their bodies: they are handled as one.

A busy server gets the same request over and over: send this to that queue. To find the route of each, admit it, make an
operation of it and hand its result back takes more time than to store the message. Coalesced, they are one operation,
and what they have in common is looked at once. Where anything is out of the ordinary, each is handled by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from msgspec import MsgspecError

from sqew.errors import SqewError, StoreDamaged, StoreError, StoreFull
from sqew.http.wire.exchange import Request

if TYPE_CHECKING:
    from sqew.http.app import App
    from sqew.http.router import Batched, Route
    from sqew.http.wire.exchange import Call, SharedCall

_log = logging.getLogger("sqew.http")

_LARGEST_BODY = 4_096
"""Largest body of a request that is coalesced: with larger ones there is little to save."""
_LARGEST_BATCH = 500
"""Most requests in a batch. Those after them are handled one by one: there may be too many."""
_UNDONE = (StoreDamaged, StoreFull)
"""Errors of the store after which it is certain that nothing was stored."""


class RequestLanes:
    """The lanes of a server, by what their requests have in common."""

    def __init__(self, app: App) -> None:
        self._app = app
        # Known heads keep theirs; one that no head leads to any more is forgotten.
        self._known: WeakValueDictionary[Hashable, RequestLane] = WeakValueDictionary()

    def of(self, request: Request) -> RequestLane | RepeatedRequest | None:
        """Return the lane for a request and all others with the same head; None: each takes the long way."""
        route = request.route
        if route is None or len(request.body) > _LARGEST_BODY or not self._app.may_coalesce:
            return None
        if request.key is not None or b"x-request-id" in request.headers:
            return None
        if route.is_all_head and not request.body:
            return self._repeated(request, route)
        return self._lane(request, route, request.params)

    def of_begun(self, request: Request) -> RequestLane | None:
        """Return the lane for an admitted request, and for others that differ only in the last part of their paths."""
        route = request.route
        if route is None or request.key is not None or not self._app.may_coalesce:
            return None
        return self._lane(request, route, request.params[:-1])

    def _lane(self, request: Request, route: Route, params: tuple[str, ...]) -> RequestLane | None:
        if route.batched is None or (kind := route.batched.kind(self._app.service, request)) is None:
            return None
        key = (id(route), params, request.key_id, kind)
        lane = self._known.get(key)
        if lane is None:
            lane = self._known[key] = RequestLane(self._app, route.batched, request)
        return lane

    def _repeated(self, request: Request, route: Route) -> RepeatedRequest | None:
        try:
            call = self._app.call_of(request, route)
        except SqewError:
            return None
        return RepeatedRequest(self._app, request, call)


class RepeatedRequest:
    """A lane for requests that repeat one answered before, from a client that was admitted before."""

    def __init__(self, app: App, first: Request, call: Call) -> None:
        assert first.route is not None
        self._app = app
        self._call = call
        self._route, self._params, self._options = first.route, first.params, first.options
        self._key_id = first.key_id
        self._new_id = first.connection.server.new_id

    def take(self, request: Request) -> None:
        """Submit the known call again, for a request whose head is known."""
        if not self._app.still_admits(self._route, self._key_id):
            request.connection.start(request)
            return
        request.id, request.route, request.params = self._new_id(), self._route, self._params
        request.options, request.key_id = self._options, self._key_id
        self._app.submit(request, self._call, is_checked=True)


class RequestLane:
    """A lane to one route, for a client that was admitted before. Implements `sqew.core.broker.Coalesced`."""

    def __init__(self, app: App, batched: Batched, first: Request) -> None:
        assert first.route is not None
        self._app = app
        self._batched = batched
        self._route, self._params, self._key_id = first.route, first.params, first.key_id
        self._new_id = first.connection.server.new_id
        self._waiting: list[Request] = []
        self._most = min(_LARGEST_BATCH, app.service.broker.limits.max_batch)

    def take(self, request: Request) -> None:
        """Add a complete request whose head is known."""
        waiting = self._waiting
        if not waiting:
            if not self._app.still_admits(self._route, self._key_id):
                request.connection.start(request)
                return
            self._app.service.broker.at_flush(self)
        elif len(waiting) >= self._most:
            request.connection.start(request)
            return
        request.id, request.route, request.params = self._new_id(), self._route, self._params
        waiting.append(request)

    def join(self, request: Request) -> None:
        """Add a request that was admitted by itself."""
        waiting = self._waiting
        if not waiting:
            self._app.service.broker.at_flush(self)
        elif len(waiting) >= self._most:
            self._app.handle_alone(request)
            return
        waiting.append(request)

    def __len__(self) -> int:
        return len(self._waiting)

    def flush(self) -> None:
        """Submit all that have gathered as one operation: a transaction is about to begin."""
        requests, self._waiting = self._waiting, []
        if len(requests) > 1:
            try:
                if self._route.scope == "send":
                    self._app.service.backpressure.check(len(requests))
                call = self._batched.call(self._app.service, requests)
                if call is not None:
                    self._app.service.broker.submit(call.operation, partial(self._done, requests, call))
                    return
            except (SqewError, MsgspecError, UnicodeDecodeError, RecursionError):
                pass  # One of them is not as it should be.
            except Exception:  # noqa: BLE001 (it is logged, and by itself each gets an answer)
                _log.exception("requests could not be handled together")
        self._handle_each(requests)

    def _handle_each(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if self._batched.differ_in_path:
                self._app.handle_alone(request)
            else:
                request.connection.start(request)

    def _done(self, requests: Sequence[Request], call: SharedCall, result: Any) -> None:
        """Answer the requests: the transaction is over."""
        if isinstance(result, StoreError) and not isinstance(result, _UNDONE):
            # Whether anything was stored is not for sure, so none of it may be done a second time.
            for request in requests:
                self._app.refuse(request, result)
        elif isinstance(result, Exception):
            # Nothing was done, for a reason that need not be everybody's: a queue that has room for some of them, a row
            # that is damaged.
            self._handle_each(requests)
        else:
            for request in requests:
                request.rows = 1
            try:
                responses = call.render(result, requests)
            except Exception:  # noqa: BLE001 (it is logged, and the clients must get an answer)
                responses = [self._app.mistake(request) for request in requests]
            self._app.answer_all(requests, responses)
