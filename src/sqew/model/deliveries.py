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
"""What became of an attempt. ``stale``: somebody else had taken the delivery over meanwhile."""


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
    """When it is tried next; None: it is being tried just now, or never again by itself."""
    tried_at: int | None
    status: int | None
    """What the endpoint answered last, if it did."""
    error: str
    """What went wrong the last time."""
    format: Format = "json"
    body: bytes = b""
    """Only where one delivery is asked for."""


class DueDelivery(Struct, frozen=True):
    """A delivery that was claimed, to be posted before ``claimed_until``."""

    id: int
    subscription_id: int
    endpoint: str
    origin: str
    """The endpoint's scheme, host and port: deliveries to the same ones go to the same server."""
    routing_key: str
    message_id: str
    form: Form
    format: Format
    body: bytes
    attempts: int
    """How often it has failed before."""
    claimed_until: int
    kind: str = NOTIFICATION
    """What it is by the name of SNS: a notification, or the confirmation of a subscription."""
    subscription_uuid: str = ""
    retries_ms: tuple[int, ...] | None = None
    """How long to wait before each further attempt, where its subscription or its topic says so."""


class Claimed(Struct, frozen=True):
    """What a claim of deliveries took."""

    deliveries: list[DueDelivery]
    cursor: int
    """Where the next claim should go on, so that every endpoint gets its turn."""
    next_due_at: int | None
    """When the next delivery that is not due yet will be."""
    is_cut: bool = False
    """It ended early (enough bytes, or enough looked at): others that are due may be left for the next claim."""


class DeliveryOutcome(Struct, frozen=True):
    """How an attempt ended: well, or with an error and a time to try again (None: never)."""

    id: int
    claimed_until: int
    delivered: bool
    status: int | None = None
    error: str = NO_REASON
    retry_at: int | None = None
    undone: bool = False
    """It was not tried at all: no attempt is counted, and it is due again at ``retry_at``, or else at once."""
    posted: bytes | None = None
    """What was posted: a dead letter is the same. None: the event as it is stored."""


class DeliveryCounts(Struct, frozen=True):
    """How many deliveries there are."""

    waiting: int
    """Those that are being posted included."""
    exhausted: int
    unsubscribed: int
    """How many of the exhausted ones have lost their subscription: they can't be retried."""


class Retried(Struct, frozen=True):
    """What became of exhausted deliveries that were to be retried."""

    retried: int
    left: int
    """How many were left as they are, because their subscription is gone."""


class ClaimDeliveries(Operation[Claimed], frozen=True):
    """Take up to ``limit`` deliveries that are due, to be posted within ``lease_ms``.

    ``busy`` says how many each subscription has under way with whoever asks: none gets more than ``per_subscription``.
    Subscriptions take turns, those after ``cursor`` first. When ``shared`` were taken, or if that is None ``limit``,
    only servers that have none under way, being none of ``origins``, get one more each.
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
    """When the first delivery is or will be due."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class RenewDeliveries(Operation[None], frozen=True):
    """Keep deliveries that take long claimed for another ``lease_ms``: by their ids, each with its ``claimed_until``.

    Claims that somebody else has taken over, and those that are settled, stay as they are.
    """

    polls: ClassVar[bool] = True
    claims: Mapping[int, int]
    lease_ms: int


class SettleDeliveries(Operation[list[Delivered]], frozen=True):
    """How attempts ended."""

    outcomes: Sequence[DeliveryOutcome]


class CountDeliveries(Operation[DeliveryCounts], frozen=True):
    """How many deliveries there are. It looks at an index entry of each."""

    writes: ClassVar[bool] = False


class ListDeliveries(Operation[list[Delivery]], frozen=True):
    """Deliveries by id, those after ``after``, without their bodies."""

    writes: ClassVar[bool] = False
    state: DeliveryState | None = None
    subscription_id: int | None = None
    after: int = 0
    limit: int = 100


class GetDelivery(Operation[Delivery], frozen=True):
    """One delivery, with its body."""

    writes: ClassVar[bool] = False
    id: int


class RetryDeliveries(Operation[Progress], frozen=True):
    """Have exhausted deliveries tried again from the start: all, those with the ids, or those of a subscription.

    A step looks at ``limit`` of them, those after ``after``: those whose subscription is gone are left as they are.
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
