"""Events in the native dialect: publishing them, and subscribing queues and endpoints to them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal, cast

from msgspec import Meta, Raw, Struct

from sqew import operations as ops
from sqew.clock import timestamp
from sqew.envelopes.sns import new_event
from sqew.errors import BadValue, EnvelopeNeeded, SqewError
from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.dialects.native.fifo_names import BareNames, bare_names, is_fifo
from sqew.http.router import NoParameters, Routes
from sqew.http.service import Service, body_in
from sqew.http.wire.exchange import Call, Request, Response
from sqew.matching.routing import check_pattern, check_routing_key
from sqew.model import RAW, Form, Format, NewEvent, NewMessage, Protocol, Published, Subscription
from sqew.rules.names import QUEUE_SCHEME
from sqew.rules.values import LARGEST_ID, check_int, seconds_as_ms, shown

routes = Routes(DIALECT)

_TO_QUEUES = ("queue", "sqs")
_SIGNATURE_VERSIONS = (1, 2)


# Publishing


class Event(Struct):
    """An event to publish: any JSON or a string, and its options. Times are in seconds.

    Unknown fields are ignored, as beyond-queue ignores them.
    """

    message: Raw
    headers: dict[str, Any] | None = None
    delay: float | None = None
    group_id: str | None = None
    priority: int = 0
    ttl: float | None = None
    format: Format = "json"
    """`text`: the message is a JSON string, and its contents are published."""


class PublishedMessage(Struct):
    """A message that an event has become, with its names in Sqew and those in beyond-queue."""

    queue: str
    """The queue's whole name, as in every dialect."""
    id: int
    queue_name: str
    """The queue's name under `/v1`: without the `.fifo` of a FIFO queue."""
    msg_id: int


class PublishedEvent(Struct, omit_defaults=True):
    """The queues and endpoints that an event went to."""

    queues_matched: int
    """The number of queues that it was sent to."""
    messages: list[PublishedMessage]
    """The messages that it has become, one in each queue."""
    deliveries: int
    """The number of endpoints that it will be posted to."""
    missing: list[str] = []
    """Queues that subscriptions name and that do not exist (any more). Left out if there are none."""


Render = Callable[[list[Published], BareNames], Response]

_NO_FIFO: BareNames = {}


@routes.post(
    "/v1/events/{routing_key}",
    scope="send",
    query=NoParameters,
    body=Event | list[Event],
    answers={201: PublishedEvent | list[PublishedEvent]},
)
def publish(service: Service, request: Request) -> Call:
    """Send an event, or an array of them, all or none, to every queue and endpoint whose subscription matches."""
    given: Event | list[Event] = request.data
    key = request.params[0]
    if isinstance(given, list):
        if not given:
            # Of no event at all the key is wrong too.
            check_routing_key(key)
            raise BadValue("There is no event in the array. Publish one or more.")
        return _publish(service, request, [_event(key, one) for one in given], _several_published)
    return _publish(service, request, [_event(key, given)], _one_published)


def _publish(service: Service, request: Request, events: list[NewEvent], render: Render) -> Call:
    request.rows = len(events)
    return Call(
        ops.Publish(events),
        lambda published: render(published, _NO_FIFO),
        otherwise=partial(_with_envelopes, service, events, render),
        looked_up=partial(_in_fifo_queues, service, render),
    )


def _event(routing_key: str, given: Event) -> NewEvent:
    message = NewMessage(
        body_in(given.message, given.format),
        given.format,
        given.headers,
        given.priority,
        None,
        given.group_id,
        None,
        None if given.delay is None else seconds_as_ms("delay", given.delay),
        None if given.ttl is None else seconds_as_ms("ttl", given.ttl, at_least=1),
    )
    return new_event(routing_key, message)


def _with_envelopes(
    service: Service, events: Sequence[NewEvent], render: Render, error: SqewError
) -> Awaitable[Response] | None:
    """Publish again, with signed envelopes, if the error says that some are needed.

    Most events go out as they are, in the transaction of this tick: signing one takes longer than publishing it.
    """
    return _publish_with_envelopes(service, events, render, error) if isinstance(error, EnvelopeNeeded) else None


async def _publish_with_envelopes(
    service: Service, events: Sequence[NewEvent], render: Render, needed: EnvelopeNeeded
) -> Response:
    return await _with_bare_names(service, render, await service.publisher.publish(events, needed=needed))


def _in_fifo_queues(service: Service, render: Render, published: list[Published]) -> Awaitable[Response] | None:
    """Look up bare names if FIFO queues got messages: plain queues may have those names."""
    if any(is_fifo(queue) for one in published for queue, _ in one.messages):
        return _with_bare_names(service, render, published)
    return None


async def _with_bare_names(service: Service, render: Render, published: list[Published]) -> Response:
    bare = _NO_FIFO
    # It is published, and must be told so, also where the store has gone away since.
    with suppress(SqewError):
        bare = await bare_names(service, [queue for one in published for queue, _ in one.messages])
    return render(published, bare)


def _one_published(published: list[Published], bare: BareNames) -> Response:
    return Response(201, encode(_published(published[0], bare)))


def _several_published(published: list[Published], bare: BareNames) -> Response:
    return Response(201, encode([_published(one, bare) for one in published]))


def _published(published: Published, bare: BareNames) -> PublishedEvent:
    messages = [PublishedMessage(queue, id, bare.get(queue, queue), id) for queue, id in published.messages]
    return PublishedEvent(len(messages), messages, published.deliveries, published.missing)


# Subscriptions


class NewSubscription(Struct):
    """A queue or an HTTP endpoint for events to go to. Unknown fields are ignored, as in an event."""

    queue_name: str | None = None
    endpoint: str | None = None
    """A URL, or `sqs://` and the name of a queue."""
    protocol: Annotated[str, Meta(extra_json_schema={"enum": ["queue", "sqs", "http", "https"]})] | None = None
    """Optional: it follows from the queue or the URL. For a URL, the URL decides between http and https."""
    envelope: bool = False
    signature_version: Annotated[int, Meta(extra_json_schema={"enum": list(_SIGNATURE_VERSIONS)})] | None = None
    """Only with `envelope`. Left out: 2."""


class SubscriptionView(Struct, omit_defaults=True, kw_only=True):
    """A pattern of routing keys, and the queue or endpoint that matching events go to."""

    id: int
    pattern: str
    protocol: Literal["sqs", "http", "https"]
    """`sqs` for a queue of this server."""
    queue_name: str | None = None
    """The queue's name under `/v1`: without the `.fifo` of a FIFO queue."""
    queue: str | None = None
    """The whole name, as in every dialect."""
    endpoint: str
    """The URL, or `sqs://` and `queue_name`."""
    envelope: bool
    raw_delivery: bool
    """True if events come as they were published: the opposite of `envelope`."""
    signature_version: int | None = None
    created_at: str
    bound_at: str
    """The same as `created_at`."""
    problem: str | None = None
    """The reason why nothing reaches it, if that is known: its queue is gone."""


class PageParameters(Struct, frozen=True):
    """A page of a list. Unknown parameters are ignored, as beyond-queue ignores them."""

    after: int = 0
    limit: int | None = None


@routes.post(
    "/v1/events/{pattern}/subscriptions",
    scope="admin",
    query=NoParameters,
    body=NewSubscription,
    answers={201: SubscriptionView, 200: SubscriptionView},
)
async def subscribe(service: Service, request: Request) -> Response:
    """Subscribe a queue or an endpoint to events whose routing key matches. 200: it is subscribed already.

    In a pattern `*` stands for one word and `#`, in a path written `%23`, for any number of them.
    """
    given: NewSubscription = request.data
    protocol, target = _target(service, given)
    form = _form(given)
    if form != RAW:
        service.publisher.check_envelopes()
    if protocol == "queue":
        target = await service.meant(target)
    subscribed = await service.broker.run(ops.Subscribe(request.params[0], protocol, target, form))
    (view,) = await _views(service, [subscribed.subscription])
    return Response(201 if subscribed.created else 200, encode(view))


def _form(given: NewSubscription) -> Form:
    """Return the form in which events come: raw, or in an envelope of a signature version."""
    version = given.signature_version
    if version not in (None, *_SIGNATURE_VERSIONS):
        raise BadValue(f"signature_version can't be {version}: it must be 1 (SHA-1) or 2 (SHA-256).")
    if version is not None and not given.envelope:
        raise BadValue("signature_version is for events in an envelope. Leave it out, or set envelope.")
    return cast("Form", version or 2) if given.envelope else RAW


def _target(service: Service, given: NewSubscription) -> tuple[Protocol, str]:
    """Return the protocol and the target of a subscription; raise unless it names exactly one target."""
    queue, endpoint = given.queue_name, given.endpoint
    if endpoint is not None and endpoint.startswith(QUEUE_SCHEME) and queue in (None, _queue_in(endpoint)):
        queue, endpoint = _queue_in(endpoint), None
    if (queue is None) == (endpoint is None):
        both = "both queue_name and endpoint" if endpoint is not None else "neither queue_name nor endpoint"
        raise BadValue(f"The subscription has {both}. Give one: where the events are to go.")
    if queue is not None:
        if given.protocol is not None and given.protocol not in _TO_QUEUES:
            raise BadValue(f"protocol can't be {shown(given.protocol)} for a queue. Leave it out, or give an endpoint.")
        return "queue", queue
    assert endpoint is not None
    scheme = service.webhook_addresses.check_url(endpoint).scheme
    # beyond-queue's clients say http whatever the URL says: the URL is what is posted to.
    if given.protocol not in (None, "http", "https"):
        raise BadValue(
            f"protocol can't be {shown(given.protocol)}: the endpoint's URL says {scheme}. Leave it out, or say so."
        )
    return cast("Protocol", scheme), endpoint


def _queue_in(endpoint: str) -> str:
    return endpoint.removeprefix(QUEUE_SCHEME)


async def _views(service: Service, subscriptions: Sequence[Subscription]) -> list[SubscriptionView]:
    bare = await bare_names(service, [one.target for one in subscriptions if one.protocol == "queue"])
    return [_view(one, bare) for one in subscriptions]


def _view(subscription: Subscription, bare: BareNames) -> SubscriptionView:
    target, is_queue = subscription.target, subscription.protocol == "queue"
    name = bare.get(target, target)
    created_at = timestamp(subscription.created_at)
    return SubscriptionView(
        id=subscription.id,
        pattern=subscription.pattern,
        protocol="sqs" if subscription.protocol == "queue" else subscription.protocol,
        queue_name=name if is_queue else None,
        queue=target if is_queue else None,
        endpoint=QUEUE_SCHEME + name if is_queue else target,
        envelope=subscription.form != RAW,
        raw_delivery=subscription.form == RAW,
        signature_version=subscription.form or None,
        created_at=created_at,
        bound_at=created_at,
        problem=subscription.problem or None,
    )


@routes.get(
    "/v1/events/{pattern}/subscriptions", scope="admin", query=PageParameters, answers={200: list[SubscriptionView]}
)
async def list_subscriptions_to(service: Service, request: Request) -> Response:
    """List the subscriptions to exactly this pattern, by id."""
    pattern = request.params[0]
    check_pattern(pattern)
    return await _listed(service, request, pattern)


@routes.get("/v1/subscriptions", scope="admin", query=PageParameters, answers={200: list[SubscriptionView]})
async def list_subscriptions(service: Service, request: Request) -> Response:
    """List all subscriptions, by id."""
    return await _listed(service, request)


@routes.get(
    "/v1/queues/{name}/subscriptions", scope="receive", query=PageParameters, answers={200: list[SubscriptionView]}
)
async def list_subscriptions_of(service: Service, request: Request) -> Response:
    """List the subscriptions that lead to a queue, by id."""
    queue = request.params[0]
    found = await service.broker.run(ops.ListSubscriptions(None, queue, *_page(service, request)))
    if not found:
        # It may be gone and still have some; but a name that nobody knows is a mistake.
        await service.broker.run(ops.GetQueue(queue))
    return Response(200, encode(await _views(service, found)))


async def _listed(service: Service, request: Request, pattern: str | None = None) -> Response:
    found = await service.broker.run(ops.ListSubscriptions(pattern, None, *_page(service, request)))
    return Response(200, encode(await _views(service, found)))


def _page(service: Service, request: Request) -> tuple[int, int]:
    given: PageParameters = request.options
    return given.after, service.batch(given.limit, "limit", default=service.settings.max_batch)


@routes.delete("/v1/events/{pattern}/subscriptions/{id}", scope="admin", path={"id": int}, answers={204: None})
def unsubscribe_from(_service: Service, request: Request) -> Call:
    """Delete a subscription by its id. The pattern in the path is ignored: clients of beyond-queue send `_`.

    Events still on their way to its endpoint are not posted any more.
    """
    return _unsubscribing(request.params[1])


@routes.delete("/v1/subscriptions/{id}", scope="admin", path={"id": int}, answers={204: None})
def unsubscribe(_service: Service, request: Request) -> Call:
    """Delete a subscription. Events still on their way to its endpoint are not posted any more."""
    return _unsubscribing(request.params[0])


def _unsubscribing(id: str) -> Call:
    return Call(ops.Unsubscribe(number_in_path(id, "A subscription's id")), lambda _: Response(204))


def number_in_path(text: str, what: str) -> int:
    """Parse an id in a path; raise unless it is a whole number."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise BadValue(f"{what} can't be {shown(text)}: it must be a whole number.")
    check_int(what, int(text), 1, LARGEST_ID)
    return int(text)
