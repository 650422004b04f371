"""Requests that come in one tick and differ in their bodies alone are handled together.

A busy server gets the same request over and over: send this to that queue. To find the route of each, to let it in, to
make an operation of it and to hand its result back takes more time than to store the message. Together they are one
operation, and what is the same of them is looked at once. Where anything is out of the ordinary, each goes by itself.
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
"""Larger ones cost what they cost."""
_LARGEST_BATCH = 500
"""How many requests go together at most. Those after them are looked at one by one: there may be too many."""
_UNDONE = (StoreDamaged, StoreFull)
"""What may be wrong with the store after which it is for sure that nothing was stored."""


class RequestLanes:
    """All that are on their way, and who repeats itself."""

    def __init__(self, app: App) -> None:
        self._app = app
        # Known heads keep theirs; one that no head leads to any more is forgotten.
        self._known: WeakValueDictionary[Hashable, RequestLane] = WeakValueDictionary()

    def of(self, request: Request) -> RequestLane | RepeatedRequest | None:
        """Who takes a request, and any other that has the same head; None: it is looked at as if it were the first."""
        route = request.route
        if route is None or len(request.body) > _LARGEST_BODY or not self._app.may_coalesce:
            return None
        if request.key is not None or b"x-request-id" in request.headers:
            return None
        if route.is_all_head and not request.body:
            return self._repeated(request, route)
        return self._lane(request, route, request.params)

    def of_begun(self, request: Request) -> RequestLane | None:
        """Who takes a request that was let in, and others that differ from it in the last part of their paths."""
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
    """Requests of which each asks for the same as the one before, by somebody who was let in before."""

    def __init__(self, app: App, first: Request, call: Call) -> None:
        assert first.route is not None
        self._app = app
        self._call = call
        self._route, self._params, self._options = first.route, first.params, first.options
        self._key_id = first.key_id
        self._new_id = first.connection.server.new_id

    def take(self, request: Request) -> None:
        """A request whose head is known has come."""
        if not self._app.still_admits(self._route, self._key_id):
            request.connection.start(request)
            return
        request.id, request.route, request.params = self._new_id(), self._route, self._params
        request.options, request.key_id = self._options, self._key_id
        self._app.submit(request, self._call, is_checked=True)


class RequestLane:
    """Requests to the same end, by somebody who was let in before. Implements `sqew.core.broker.Coalesced`."""

    def __init__(self, app: App, batched: Batched, first: Request) -> None:
        assert first.route is not None
        self._app = app
        self._batched = batched
        self._route, self._params, self._key_id = first.route, first.params, first.key_id
        self._new_id = first.connection.server.new_id
        self._waiting: list[Request] = []
        self._most = min(_LARGEST_BATCH, app.service.broker.limits.max_batch)

    def take(self, request: Request) -> None:
        """A request whose head is known has come whole."""
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
        """A request has come that was let in by itself."""
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
        """A transaction is about to begin."""
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
        """The transaction is over."""
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
