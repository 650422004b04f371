"""Topics, and subscriptions to events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import Struct

from sqew.model.operation import Operation
from sqew.model.progress import NO_REASON

Protocol = Literal["queue", "http", "https"]
"""The kinds of a subscription's target."""
Form = Literal[0, 1, 2]
"""The form in which an event is sent: as it is (0), or in an envelope with a signature of that version."""
RAW: Form = 0
NOTIFICATION = "Notification"
CONFIRMATION = "SubscriptionConfirmation"
CANCELLATION = "UnsubscribeConfirmation"
"""The kinds of messages posted to an endpoint, by SNS's names for them."""
FilterScope = Literal["MessageAttributes", "MessageBody"]
"""The part of an event that a filter policy matches."""
SubscriptionState = Literal["confirmed", "pending", "deleted"]
"""The states of a subscription; only a confirmed one gets events. ``pending``: its endpoint has not confirmed it
yet. ``deleted``: it was ended, perhaps not by its owner, and for a while its endpoint can restore it."""


class SubscriptionDetails(Struct, frozen=True):
    """SNS's attributes of a subscription, besides its target."""

    filter_policy: str = ""
    """The filter for its events; empty: all. See `sqew.matching.filters`."""
    filter_scope: FilterScope = "MessageAttributes"
    dead_letter: str = ""
    """The queue for events that can't be delivered; empty: they are kept as exhausted deliveries."""
    token: str = ""
    """The token that its endpoint was sent, to confirm or restore it with."""
    kept: dict[str, str] = {}  # msgspec copies it
    """Attributes as they were given. ``DeliveryPolicy`` sets when a failed post is retried; the others are only
    shown."""


class SubscriptionNotice(Struct, frozen=True):
    """A message that an endpoint is sent first, to ask for its confirmation, or last, when its subscription ends."""

    message_id: str
    body: bytes
    kind: str = CONFIRMATION


class Subscription(Struct, frozen=True):
    """A pattern of routing keys, and the target of the events that match it."""

    id: int
    pattern: str
    protocol: Protocol
    target: str
    """The queue's name, or the endpoint's URL."""
    form: Form
    created_at: int
    problem: str = NO_REASON
    """The reason why nothing reaches its target, if known: the queue is gone, or the endpoint has not confirmed, or
    has left."""
    uuid: str = ""
    """The UUID in its ARN, if it is one of SNS's; knowing it is enough to unsubscribe."""
    details: SubscriptionDetails = SubscriptionDetails()
    state: SubscriptionState = "confirmed"
    ends_at: int | None = None
    """The time at which it is deleted, unless it is confirmed before."""

    @property
    def confirmed(self) -> bool:
        return self.state == "confirmed"


class Subscribed(Struct, frozen=True):
    """A subscription, and ``created``, which is True if it is new."""

    subscription: Subscription
    created: bool


class TopicInfo(Struct, frozen=True):
    """A topic of SNS: a routing key with a name, attributes and tags."""

    name: str
    attributes: dict[str, str]
    tags: dict[str, str]
    created_at: int


class Audience(Struct, frozen=True):
    """A topic's subscriptions, counted by state."""

    confirmed: int = 0
    pending: int = 0
    deleted: int = 0


class Subscribe(Operation[Subscribed], frozen=True):
    """Have events that match a pattern sent to a queue or an endpoint. If they are already, return that subscription.

    A ``uuid`` makes it one of SNS's, with ``details`` of its own: its queue need not exist then. If it exists with
    other details, that is a conflict, unless ``exist_ok``. A ``notice`` is posted to its endpoint, which gets nothing
    else until the subscription is ``confirmed``; as long as the token of an earlier one holds, a later one must bring
    the same. ``topic``: only if the topic is still equal to it. Otherwise: `ChangedMeanwhile`.
    """

    pattern: str
    protocol: Protocol
    target: str
    form: Form = 0
    uuid: str = ""
    details: SubscriptionDetails = SubscriptionDetails()
    confirmed: bool = True
    notice: SubscriptionNotice | None = None
    exist_ok: bool = False
    topic: TopicInfo | None = None


class GetSubscription(Operation[Subscription], frozen=True):
    """Return the subscription with that UUID."""

    writes: ClassVar[bool] = False
    uuid: str


class FindSubscription(Operation[Subscription], frozen=True):
    """Return the subscription to exactly a pattern that has a queue or an endpoint as its target."""

    writes: ClassVar[bool] = False
    pattern: str
    target: str


class UpdateSubscription(Operation[Subscription], frozen=True):
    """Change a subscription's attributes. None: it stays as it is. A ``notice`` is posted to its endpoint.

    ``known`` and ``topic``: only if it, and its topic, are still equal to these. Otherwise: `ChangedMeanwhile`.
    """

    uuid: str
    form: Form | None = None
    details: SubscriptionDetails | None = None
    state: SubscriptionState | None = None
    notice: SubscriptionNotice | None = None
    known: Subscription | None = None
    topic: TopicInfo | None = None


class Unsubscribe(Operation[None], frozen=True):
    """Delete a subscription. Deliveries still on their way to its endpoint are dropped when their turn comes."""

    id: int


class ListSubscriptions(Operation[list[Subscription]], frozen=True):
    """List subscriptions by id, after ``after``: all, those to exactly a pattern, or those of a queue."""

    writes: ClassVar[bool] = False
    pattern: str | None = None
    queue: str | None = None
    after: int = 0
    limit: int = 1000


class CreateTopic(Operation[TopicInfo], frozen=True):
    """Create a topic. If there is one of that name, return it as it is."""

    name: str
    attributes: Mapping[str, str] = {}  # msgspec copies it
    tags: Mapping[str, str] = {}  # msgspec copies it


class GetTopic(Operation[TopicInfo], frozen=True):
    writes: ClassVar[bool] = False
    name: str


class ListTopics(Operation[list[TopicInfo]], frozen=True):
    """List topics by name, after ``after``."""

    writes: ClassVar[bool] = False
    prefix: str = ""
    after: str = ""
    limit: int = 100


class UpdateTopic(Operation[TopicInfo], frozen=True):
    """Change some attributes of a topic, and replace all of its tags if any are given.

    ``form``: its subscriptions that want envelopes get them signed by that version from now on. ``known``: only if the
    topic is still equal to it. Otherwise it was changed by another caller: `ChangedMeanwhile`.
    """

    name: str
    attributes: Mapping[str, str] = {}  # msgspec copies it
    tags: Mapping[str, str] | None = None
    form: Form | None = None
    known: TopicInfo | None = None


class DeleteTopic(Operation[bool], frozen=True):
    """Delete a topic and SNS's subscriptions to it; return whether there was one."""

    name: str


class CountSubscriptions(Operation[Audience], frozen=True):
    """Count SNS's subscriptions to a topic. Grows with their number."""

    writes: ClassVar[bool] = False
    topic: str
