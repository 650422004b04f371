"""Dead letters."""

from __future__ import annotations

from msgspec import Struct

from sqew import operations as ops
from sqew.errors import TooLarge
from sqew.http.dialects.sqew.dialect import encode, routes
from sqew.http.dialects.sqew.inspect import Count, MessagePage, stored_view
from sqew.http.service import Service
from sqew.http.wire.exchange import Request, Response


class DeadParameters(Struct, frozen=True, forbid_unknown_fields=True):
    limit: int = 100
    after: int = 0


@routes.get("/queues/{queue}/dlq", scope="receive", query=DeadParameters, answers={200: MessagePage})
async def list_dead(service: Service, request: Request) -> Response:
    """List the dead letters of a queue by id, those after `after`."""
    given: DeadParameters = request.options
    limit = service.batch(given.limit, "limit")
    page = await service.broker.inspect(ops.ListDead(request.params[0], limit, given.after))
    return Response(200, encode(MessagePage([stored_view(one) for one in page.messages], page.after)))


_MOST_IDS = 100_000
"""The most ids in a request. A million took 10 s, though in steps: each step goes through the whole list."""


class SqewIds(Struct, forbid_unknown_fields=True):
    """The ids of dead letters; without ids, all of them."""

    ids: list[int] | None = None


@routes.delete("/queues/{queue}/dlq", scope="admin", body=SqewIds, body_optional=True, answers={200: Count}, long=True)
async def purge_dead(service: Service, request: Request) -> Response:
    """Delete the dead letters of a queue: all, or those given."""
    return Response(200, encode(Count(await service.broker.in_steps(ops.PurgeDead(request.params[0], _ids(request))))))


@routes.post(
    "/queues/{queue}/dlq/requeue", scope="admin", body=SqewIds, body_optional=True, answers={200: Count}, long=True
)
async def requeue_dead(service: Service, request: Request) -> Response:
    """Bring dead letters back to the queue with attempts 0: all, or those given."""
    operation = ops.RequeueDead(request.params[0], _ids(request))
    return Response(200, encode(Count(await service.broker.in_steps(operation))))


def _ids(request: Request) -> list[int] | None:
    """Return the ids in the body; None: all of them."""
    ids: list[int] | None = request.data.ids if request.data is not None else None
    if ids is not None and len(ids) > _MOST_IDS:
        raise TooLarge(f"There are {len(ids)} ids; {_MOST_IDS} are allowed. Send some of them, or none for all.")
    return ids
