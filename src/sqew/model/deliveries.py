"""Deliveries of events to HTTP endpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from msgspec import Struct

from sqew.model.messages import Format
from sqew.model.operation import Operation
from sqew.model.progress import NO_REASON, Progress
from sqew.model.subscriptions import NOTIFICATION, Form

DELIVERIES = "\0deliveries"
DeliveryState = Literal["pending", "delivering", "exhausted"]
Delivered = Literal["delivered", "waiting", "exhausted", "stale"]
"""The outcome of an attempt. ``stale``: another server had claimed the delivery meanwhile."""


class Delivery(Struct, frozen=True):
    """An event on its way to an endpoint."""

    id: int
    subscription_id: int
    endpoint: str
    routing_key: str
    message_id: str
    form: Form
    state: DeliveryState
    attempts: int
    created_at: int
    due_at: int | None
    """The time of the next attempt; None: one is being made now, or there will be none unless it is retried."""
    tried_at: int | None
    status: int | None
    """The status of the endpoint's last answer, if any."""
    error: str
    """The last error."""
    format: Format = "json"
    body: bytes = b""
    """The body to be posted, only if a single delivery is read."""


class DueDelivery(Struct, frozen=True):
    """A claimed delivery, to be posted before ``claimed_until``."""

    id: int
    subscription_id: int
    endpoint: str
    origin: str
    """The endpoint's scheme, host and port: deliveries with the same origin go to the same server."""
    routing_key: str
    message_id: str
    form: Form
    format: Format
    body: bytes
    attempts: int
    """The number of failed attempts before this one."""
    claimed_until: int
    kind: str = NOTIFICATION
    """The type of the message, by SNS's name: a notification, or the confirmation of a subscription."""
    subscription_uuid: str = ""
    retries_ms: tuple[int, ...] | None = None
    """The wait before each further attempt, if its subscription or its topic sets it."""


class Claimed(Struct, frozen=True):
    """The deliveries that a claim took."""

    deliveries: list[DueDelivery]
    cursor: int
    """The position at which the next claim should go on, so that every endpoint gets its turn."""
    next_due_at: int | None
    """The time at which the next delivery that is not due yet will be."""
    is_cut: bool = False
    """True if it ended early (enough bytes, or enough looked at): the next claim may find more due deliveries."""


class DeliveryOutcome(Struct, frozen=True):
    """The outcome of an attempt: success, or an error and the time of the next attempt (None: never)."""

    id: int
    claimed_until: int
    delivered: bool
    status: int | None = None
    error: str = NO_REASON
    retry_at: int | None = None
    undone: bool = False
    """True if no attempt was made: none is counted, and the delivery is due again at ``retry_at``, or else at once."""
    posted: bytes | None = None
    """The body that was posted, which a dead letter repeats. None: the event as it is stored."""


class DeliveryCounts(Struct, frozen=True):
    """The number of deliveries."""

    waiting: int
    """The number of deliveries that wait for an attempt or are being posted."""
    exhausted: int
    unsubscribed: int
    """The number of exhausted deliveries whose subscription is gone: they can't be retried."""


class Retried(Struct, frozen=True):
    """The result of retrying exhausted deliveries."""

    retried: int
    left: int
    """The number of deliveries left as they are, because their subscription is gone."""


class ClaimDeliveries(Operation[Claimed], frozen=True):
    """Claim up to ``limit`` due deliveries, to be posted within ``lease_ms``.

    ``busy`` has the number of deliveries that the caller is posting for each subscription: none gets more than
    ``per_subscription``. Subscriptions take turns, those after ``cursor`` first. Once ``shared`` deliveries (None:
    ``limit``) are taken, only servers that have none under way, and are not in ``origins``, get one more each.
    """

    polls: ClassVar[bool] = True
    limit: int
    per_subscription: int
    lease_ms: int
    busy: Mapping[int, int] = {}  # msgspec copies it
    cursor: int = 0
    origins: frozenset[str] = frozenset()
    shared: int | None = None


class NextDelivery(Operation[int | None], frozen=True):
    """Return the time at which the first delivery is or will be due."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class RenewDeliveries(Operation[None], frozen=True):
    """Keep slow deliveries claimed for another ``lease_ms``: by their ids, each with its ``claimed_until``.

    Claims that another server has taken over, and settled ones, stay as they are.
    """

    polls: ClassVar[bool] = True
    claims: Mapping[int, int]
    lease_ms: int


class SettleDeliveries(Operation[list[Delivered]], frozen=True):
    """Record the outcomes of attempts."""

    outcomes: Sequence[DeliveryOutcome]


class CountDeliveries(Operation[DeliveryCounts], frozen=True):
    """Count the deliveries. It looks at an index entry of each."""

    writes: ClassVar[bool] = False


class ListDeliveries(Operation[list[Delivery]], frozen=True):
    """List deliveries by id, after ``after``, without their bodies."""

    writes: ClassVar[bool] = False
    state: DeliveryState | None = None
    subscription_id: int | None = None
    after: int = 0
    limit: int = 100


class GetDelivery(Operation[Delivery], frozen=True):
    """Return one delivery, with its body."""

    writes: ClassVar[bool] = False
    id: int


class RetryDeliveries(Operation[Progress], frozen=True):
    """Have exhausted deliveries retried from the start: all, those with the ids, or those of a subscription.

    A step looks at ``limit`` of them, after ``after``: those whose subscription is gone are left as they are.
    """

    ids: Sequence[int] | None = None
    subscription_id: int | None = None
    limit: int = 1000
    after: int = 0


class DropDeliveries(Operation[Progress], frozen=True):
    """Delete deliveries: those with the ids, or all exhausted ones (of a subscription)."""

    ids: Sequence[int] | None = None
    subscription_id: int | None = None
    limit: int = 1000
