"""Coalescing of plain sends: requests that carry a message and nothing else, and come together, are one operation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Raw, defstruct, json

from sqew import operations as ops
from sqew.http.router import Batched, plain_kind
from sqew.http.service import Service
from sqew.http.wire.duplicate_fields import required_name, stands_once
from sqew.http.wire.exchange import Request, Response, SharedCall
from sqew.model import NewMessages, Sent

Kind = Callable[[Service, Request], Hashable]


def plain_sends(
    field: str, view: Callable[[Sent], bytes], kind: Kind = plain_kind, also: Sequence[tuple[str, Any, Any]] = ()
) -> Batched:
    """Return the coalescing rule of a send route that has the queue in its path and JSON in a field of its body.

    ``view``: renders the body of the answer to a sent message; its status is 201. ``also``: further fields, which may
    say no more than their types allow; one called ``delay`` may only be 0, and either all requests say so or none does.
    """
    plain = defstruct("Plain", [(field, Raw), *also], forbid_unknown_fields=True, gc=False)
    decode, payload, name = json.Decoder(plain).decode, attrgetter(field), required_name(plain)
    delay = attrgetter("delay") if "delay" in plain.__struct_fields__ else None

    def call(_service: Service, requests: Sequence[Request]) -> SharedCall | None:
        bodies = [request.body for request in requests]
        if not stands_once(name, bodies):
            return None
        items = [decode(body) for body in bodies]
        delays = set(map(delay, items)) if delay else {None}
        if len(delays) > 1:
            return None
        messages = NewMessages([bytes(payload(item)) for item in items], delays_ms=delays.pop())
        return SharedCall(ops.Send(requests[0].params[0], messages, apart=True), render)

    def render(sent: list[Sent], _requests: Sequence[Request]) -> list[Response]:
        return [Response(201, view(one)) for one in sent]

    return Batched(kind, call)
