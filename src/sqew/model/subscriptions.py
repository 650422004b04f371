"""Topics and subscriptions: who wants which events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import Struct

from sqew.model.operation import Operation
from sqew.model.progress import NO_REASON

Protocol = Literal["queue", "http", "https"]
"""What a subscription leads to."""
Form = Literal[0, 1, 2]
"""How an event reaches a subscriber: as it is (0), or in an envelope signed by that version of the signature."""
RAW: Form = 0
NOTIFICATION = "Notification"
CONFIRMATION = "SubscriptionConfirmation"
CANCELLATION = "UnsubscribeConfirmation"
"""What is posted to an endpoint, by the names that SNS has for it."""
FilterScope = Literal["MessageAttributes", "MessageBody"]
"""What a filter policy looks at."""
SubscriptionState = Literal["confirmed", "pending", "deleted"]
"""Only one that is confirmed gets what is published. ``pending``: its endpoint has not confirmed it yet. ``deleted``:
somebody who need not be its owner has ended it, and for a while its endpoint can restore it."""


class SubscriptionDetails(Struct, frozen=True):
    """What SNS says of a subscription besides where it leads."""

    filter_policy: str = ""
    """Which events it wants; none: all. See `sqew.matching.filters`."""
    filter_scope: FilterScope = "MessageAttributes"
    dead_letter: str = ""
    """The queue for what can't be delivered; none: it is kept as an exhausted delivery."""
    token: str = ""
    """What its endpoint was sent to confirm it with, or to restore it."""
    kept: dict[str, str] = {}  # msgspec copies it
    """Attributes as they were given. ``DeliveryPolicy`` says when a failed post is tried again; the others are only
    shown."""


class SubscriptionNotice(Struct, frozen=True):
    """What an endpoint is sent first, before it has confirmed that it wants more; or last, in case it still does."""

    message_id: str
    body: bytes
    kind: str = CONFIRMATION


class Subscription(Struct, frozen=True):
    """A pattern of routing keys, and where the events that match it go."""

    id: int
    pattern: str
    protocol: Protocol
    target: str
    """The queue's name, or the endpoint's URL."""
    form: Form
    created_at: int
    problem: str = NO_REASON
    """Why nothing reaches its target, where that is known: the queue is gone, or the endpoint has not confirmed, or
    has left."""
    uuid: str = ""
    """What it is called in its ARN, where SNS knows it; whoever knows it may unsubscribe."""
    details: SubscriptionDetails = SubscriptionDetails()
    state: SubscriptionState = "confirmed"
    ends_at: int | None = None
    """When it goes, unless it is confirmed before."""

    @property
    def confirmed(self) -> bool:
        return self.state == "confirmed"


class Subscribed(Struct, frozen=True):
    """A subscription, and whether it is new."""

    subscription: Subscription
    created: bool


class TopicInfo(Struct, frozen=True):
    """A topic of SNS: a routing key that is known by name, and what SNS says of it."""

    name: str
    attributes: dict[str, str]
    tags: dict[str, str]
    created_at: int


class Audience(Struct, frozen=True):
    """How many subscriptions a topic has, by their state."""

    confirmed: int = 0
    pending: int = 0
    deleted: int = 0


class Subscribe(Operation[Subscribed], frozen=True):
    """Have events that match a pattern go to a queue or an endpoint. Where they do already, answer what is there.

    A ``uuid`` makes it one of SNS's, with ``details`` of its own: that its queue exists is not asked for then. Where
    it is there with other details, that is a conflict, unless ``exist_ok``. A ``notice`` is posted to its endpoint,
    which gets nothing else until the subscription is ``confirmed``; as long as the token of an earlier one holds, a
    later one must bring the same. ``topic``: only if that is still as it says. Otherwise: `ChangedMeanwhile`.
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
    """The subscription of that UUID."""

    writes: ClassVar[bool] = False
    uuid: str


class FindSubscription(Operation[Subscription], frozen=True):
    """The subscription to exactly a pattern that leads to a queue or an endpoint."""

    writes: ClassVar[bool] = False
    pattern: str
    target: str


class UpdateSubscription(Operation[Subscription], frozen=True):
    """Change what SNS says of a subscription. None: it stays as it is. A ``notice`` is posted to its endpoint.

    ``known`` and ``topic``: only if it, and its topic, are still as these say. Otherwise: `ChangedMeanwhile`.
    """

    uuid: str
    form: Form | None = None
    details: SubscriptionDetails | None = None
    state: SubscriptionState | None = None
    notice: SubscriptionNotice | None = None
    known: Subscription | None = None
    topic: TopicInfo | None = None


class Unsubscribe(Operation[None], frozen=True):
    """Delete a subscription. What was still on its way to its endpoint is dropped when its turn comes."""

    id: int


class ListSubscriptions(Operation[list[Subscription]], frozen=True):
    """Subscriptions by id, those after ``after``: all, those to exactly a pattern, or those of a queue."""

    writes: ClassVar[bool] = False
    pattern: str | None = None
    queue: str | None = None
    after: int = 0
    limit: int = 1000


class CreateTopic(Operation[TopicInfo], frozen=True):
    """Make a topic. Where there is one of that name, answer it as it is."""

    name: str
    attributes: Mapping[str, str] = {}  # msgspec copies it
    tags: Mapping[str, str] = {}  # msgspec copies it


class GetTopic(Operation[TopicInfo], frozen=True):
    writes: ClassVar[bool] = False
    name: str


class ListTopics(Operation[list[TopicInfo]], frozen=True):
    """Topics by name, those after ``after``."""

    writes: ClassVar[bool] = False
    prefix: str = ""
    after: str = ""
    limit: int = 100


class UpdateTopic(Operation[TopicInfo], frozen=True):
    """Change some attributes of a topic, and all of its tags if some are given.

    ``form``: its subscriptions that want envelopes get them signed by that version from now on. ``known``: only if the
    topic is still as that says. Otherwise somebody else has changed it: `ChangedMeanwhile`.
    """

    name: str
    attributes: Mapping[str, str] = {}  # msgspec copies it
    tags: Mapping[str, str] | None = None
    form: Form | None = None
    known: TopicInfo | None = None


class DeleteTopic(Operation[bool], frozen=True):
    """Delete a topic and SNS's subscriptions to it; whether there was one."""

    name: str


class CountSubscriptions(Operation[Audience], frozen=True):
    """How many subscriptions of SNS a topic has. Grows with their number."""

    writes: ClassVar[bool] = False
    topic: str
