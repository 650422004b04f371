"""Deliveries in the native dialect: events on their way to endpoints, and those that could not be posted."""

from __future__ import annotations

from typing import Annotated, cast

from msgspec import Meta, Raw, Struct, structs

from sqew import operations as ops
from sqew.clock import timestamp
from sqew.core.flows import deliveries
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.dialects.native.events import number_in_path
from sqew.http.router import Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Request, Response
from sqew.model import RAW, Delivery, DeliveryState, Format

routes = Routes(DIALECT)

_DEFAULT_LIMIT = 100
_STATES = ["pending", "delivering", "exhausted"]


class DeliveryView(Struct, omit_defaults=True, kw_only=True):
    """An event on its way to an endpoint, or one that could not be posted, which is kept for `delivery_keep_ms`."""

    id: int
    subscription_id: int
    endpoint: str
    routing_key: str
    message_id: str
    """A UUID: the same for every queue and endpoint that the event reaches."""
    envelope: bool
    signature_version: int | None = None
    state: DeliveryState
    attempts: int
    """The number of failed attempts."""
    created_at: str
    due_at: str | None
    """The time of the next attempt; null: one is going on just now, or none follows by itself."""
    tried_at: str | None
    status: int | None
    """The HTTP status that the endpoint answered last, if it did."""
    error: str | None
    """The error of the last attempt."""


class DeliveryDetails(DeliveryView, kw_only=True):
    """A delivery with the message that is posted."""

    message: Raw
    format: Format
    """The format of what is posted: JSON, or text."""


class DeliveryParameters(Struct, frozen=True, forbid_unknown_fields=True):
    state: Annotated[str, Meta(extra_json_schema={"enum": _STATES})] | None = None
    """Only deliveries in this state: waiting for their time, being posted, or given up after too many attempts."""
    subscription_id: int | None = None
    after: int = 0
    limit: int | None = None


class Chosen(Struct, frozen=True, forbid_unknown_fields=True):
    subscription_id: int | None = None


@routes.get("/v1/deliveries", scope="admin", query=DeliveryParameters, answers={200: list[DeliveryView]})
async def list_deliveries(service: Service, request: Request) -> Response:
    """List deliveries by id, without what is posted. A successful delivery is gone."""
    given: DeliveryParameters = request.options
    limit = service.batch(given.limit, "limit", _DEFAULT_LIMIT)
    state = cast("DeliveryState | None", given.state)
    # Beside the loop: of a million that wait, those in one state may be few.
    (found,) = await service.broker.read(ops.ListDeliveries(state, given.subscription_id, given.after, limit))
    return Response(200, encode([_view(delivery) for delivery in found]))


@routes.get("/v1/deliveries/{id}", scope="admin", path={"id": int}, answers={200: DeliveryDetails})
async def show_delivery(service: Service, request: Request) -> Response:
    """Show a delivery, with what is posted."""
    delivery = await service.broker.run(ops.GetDelivery(_id(request)))
    message = Raw(delivery.body if delivery.format == "json" else encode(delivery.body.decode()))
    details = DeliveryDetails(**structs.asdict(_view(delivery)), message=message, format=delivery.format)
    return Response(200, encode(details))


@routes.post("/v1/deliveries/{id}/retry", scope="admin", path={"id": int}, answers={202: DeliveryView})
async def retry_delivery(service: Service, request: Request) -> Response:
    """Retry an exhausted delivery, as often as a new one."""
    broker = service.broker
    revived = await broker.run_flow(deliveries.retry(_id(request), broker.now, broker.limits))
    return Response(202, encode(_view(revived)))


@routes.delete("/v1/deliveries/{id}", scope="admin", path={"id": int}, answers={204: None})
async def drop_delivery(service: Service, request: Request) -> Response:
    """Drop a delivery: it is not posted any more, unless it is being posted right now."""
    broker = service.broker
    await broker.run_flow(deliveries.drop(_id(request), broker.limits))
    return Response(204)


class RetriedDeliveries(Struct):
    retried: int
    """The number of deliveries that will be tried again."""
    left: int
    """The number of deliveries left as they are, because their subscription is gone."""


@routes.post("/v1/deliveries/retry", scope="admin", query=Chosen, answers={200: RetriedDeliveries}, long=True)
async def retry_deliveries(service: Service, request: Request) -> Response:
    """Retry all exhausted deliveries (of a subscription), but those whose subscription is gone."""
    broker = service.broker
    done = await broker.run_flow(deliveries.retry_all(request.options.subscription_id, broker.limits))
    return Response(200, encode(RetriedDeliveries(done.retried, done.left)))


class Dropped(Struct):
    dropped: int
    """The number of deliveries dropped."""


@routes.delete("/v1/deliveries", scope="admin", query=Chosen, answers={200: Dropped}, long=True)
async def drop_deliveries(service: Service, request: Request) -> Response:
    """Drop all exhausted deliveries (of a subscription)."""
    broker = service.broker
    return Response(
        200, encode(Dropped(await broker.run_flow(deliveries.drop_all(request.options.subscription_id, broker.limits))))
    )


def _id(request: Request) -> int:
    return number_in_path(request.params[0], "A delivery's id")


def _view(delivery: Delivery) -> DeliveryView:
    return DeliveryView(
        id=delivery.id,
        subscription_id=delivery.subscription_id,
        endpoint=delivery.endpoint,
        routing_key=delivery.routing_key,
        message_id=delivery.message_id,
        envelope=delivery.form != RAW,
        signature_version=delivery.form or None,
        state=delivery.state,
        attempts=delivery.attempts,
        created_at=timestamp(delivery.created_at),
        due_at=None if delivery.due_at is None else timestamp(delivery.due_at),
        tried_at=None if delivery.tried_at is None else timestamp(delivery.tried_at),
        status=delivery.status,
        error=delivery.error or None,
    )
