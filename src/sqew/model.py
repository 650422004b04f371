"""Every type that crosses a layer, in one place.

All of them are frozen: what a store hands out can be kept, logged and compared without fear. Times are the store
clock's epoch milliseconds. ``gc=False`` spares the collector those that come by the thousand and can't hold a cycle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat, starmap
from typing import Any, ClassVar, Literal, get_args

import msgspec
from msgspec import Struct, structs

from sqew.errors import BodyDamaged, SqewError, shortened

Format = Literal["json", "text"]
Keep = Literal["delete", "archive"]
Outcome = Literal["done", "dead"]
State = Literal["ready", "delayed", "leased", "blocked"]
STATES: tuple[State, ...] = get_args(State)
KeyScope = Literal["send", "receive", "admin"]
"""What a key allows. ``admin`` allows everything with its queue."""
FactKind = Literal[
    "sent", "received", "acked", "nacked", "extended", "expired", "dead", "requeued", "purged", "removed"
]

DEFAULT_LANE = "normal"
"""The lane of a queue that names none, and of a message that names none where the queue has it."""

NO_REASON = ""


class Backoff(Struct, frozen=True, forbid_unknown_fields=True):
    """How long a nacked message waits: ``min(cap, base * 2**(attempts-1)) + jitter``, or ``base + jitter`` if fixed.

    The jitter is uniform between 0 and ``jitter_ms``, so that messages that failed together don't return together.
    """

    kind: Literal["exponential", "fixed"] = "exponential"
    base_ms: int = 1_000
    cap_ms: int = 900_000
    jitter_ms: int = 250

    def delay_ms(self, attempts: int, random: float) -> int:
        """The wait after the given number of deliveries; ``random`` is in [0, 1)."""
        if self.kind == "fixed":
            wait = self.base_ms
        else:
            # Past 2**40 the cap has long decided; the shift must not build a huge integer first.
            wait = min(self.cap_ms, self.base_ms << min(max(attempts - 1, 0), 40))
        return wait + int(random * (self.jitter_ms + 1))


class Policy(Struct, frozen=True, forbid_unknown_fields=True):
    """What a queue does with its messages."""

    visibility_ms: int = 30_000
    """How long a lease lasts when the receiver does not say."""
    max_attempts: int | None = None
    """After this many deliveries without ack a message is dead. None: never."""
    dead_letter: str | None = None
    """The queue that dead messages move to. None: the archive, as ``dead``."""
    backoff: Backoff = Backoff()
    delay_ms: int = 0
    """How long a message waits before its first delivery when its sender does not say."""
    ttl_ms: int | None = None
    """How long a message lives when its sender does not say. None: for ever."""
    fifo: bool = False
    """Deliver in order within a group, one group's messages to one receiver at a time. Fixed at creation."""
    deduplicate: Literal["key", "content"] = "key"
    """``content``: a message without a key gets the SHA-256 of its body as its key."""
    deduplicate_within: Literal["queue", "group"] = "queue"
    """Whether a key is unique in the whole queue, or in each of its groups."""
    key_retention_ms: int = 300_000
    """How long a key is remembered after its message is gone."""
    key_retention_from: Literal["gone", "sent"] = "gone"
    """``sent``: a key is remembered for so long after its message was sent, gone or not, as SQS does."""
    lanes: dict[str, int] = msgspec.field(default_factory=lambda: {DEFAULT_LANE: 1})
    """Lane names and their weights."""
    keep: Keep = "delete"
    """What ack does with the message."""
    archive_retention_ms: int | None = 604_800_000
    """How long archived messages are kept. None: for ever."""
    rate_limit: float | None = None
    """Messages a second that senders may add. None: no limit."""
    quota: int | None = None
    """How many messages the queue may hold. None: no limit."""
    max_body_bytes: int | None = None
    """The largest body that the queue takes. None: what the server takes."""
    receive_wait_ms: int = 0
    """How long a receive by SQS waits for a message when it does not say."""


UPDATED = "updated_at"
"""Under which name the extras of a queue hold when it was last changed."""


class QueueInfo(Struct, frozen=True):
    """A queue: its name and its policy."""

    name: str
    policy: Policy
    created_at: int
    extras: dict[str, Any] = {}  # msgspec copies it
    """What a dialect keeps with a queue and nobody else understands: SQS its tags and some attributes."""
    id: int = 0
    """Its number in the store, which no later queue gets. 0: an older server did not say."""

    @property
    def updated_at(self) -> int:
        """When its policy was last changed, or else when it was made."""
        return int(self.extras.get(UPDATED, self.created_at))


class KeyInfo(Struct, frozen=True):
    """A queue's API key, without anything that would open the queue."""

    id: str
    queue: str
    scopes: tuple[KeyScope, ...]
    label: str
    signing: bool
    """Every request with it must be signed."""
    created_at: int


class Discreet(Struct, frozen=True):
    """Holds secrets, and shows itself without them: what is logged or printed is read by others."""

    hidden: ClassVar[tuple[str, ...]] = ()
    """The fields that are not shown."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in self.hidden]


class GuardKey(Discreet, frozen=True):
    """A key as whoever checks requests needs it."""

    hidden: ClassVar[tuple[str, ...]] = ("digest", "secret")
    info: KeyInfo
    digest: bytes
    """SHA-256 of the key."""
    secret: str | None
    """What its requests are signed with."""


class KeyRing(Struct, frozen=True):
    """All keys there are. ``version`` changes with every change to one of them."""

    version: int
    keys: list[GuardKey]


class NewMessage(Struct, frozen=True, gc=False):
    """A message to send. ``body`` is kept byte for byte; None fields take the queue's default."""

    body: bytes
    format: Format = "json"
    headers: dict[str, Any] | None = None
    priority: int = 0
    lane: str | None = None
    group: str | None = None
    key: str | None = None
    delay_ms: int | None = None
    ttl_ms: int | None = None


class NewMessages(Struct, frozen=True, array_like=True):
    """Messages by the thousand: for each of their fields a list with one value each, or the value that all have."""

    bodies: list[bytes]
    formats: Format | list[Format] = "json"
    headers: list[dict[str, Any] | None] | None = None
    priorities: int | list[int] = 0
    lanes: str | list[str | None] | None = None
    groups: list[str | None] | None = None
    keys: list[str | None] | None = None
    delays_ms: int | list[int | None] | None = None
    ttls_ms: int | list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def are_alike(self) -> bool:
        """Whether the messages differ in their bodies alone, and have neither headers, nor groups, nor keys."""
        return not any(isinstance(getattr(self, name), list) for name in self.__struct_fields__[1:])

    def part(self, start: int, end: int) -> NewMessages:
        """Some of the messages."""
        return NewMessages(*(value[start:end] if isinstance(value, list) else value for value in structs.astuple(self)))

    def __iter__(self) -> Iterator[NewMessage]:
        """Each of the messages."""
        columns = (value if isinstance(value, list) else repeat(value, len(self)) for value in structs.astuple(self))
        # Strict: a column that is too short must not cut off the others.
        return starmap(NewMessage, zip(*columns, strict=True))


class Lease(Struct, frozen=True, gc=False):
    """What a receiver holds: whoever knows the token may settle the message."""

    token: str
    expires_at: int
    by: str | None = None

    def __repr__(self) -> str:
        # Without the token: whoever has it may settle the message, and what is printed is read by others.
        return f"Lease(expires_at={self.expires_at}, by={self.by!r})"


class Death(Struct, frozen=True, gc=False):
    """Why a dead letter died, when, and in which queue."""

    queue: str
    reason: str
    at: int


class Message(Struct, frozen=True, gc=False):
    """A message as it stands in the store, or as it was delivered."""

    id: int
    queue: str
    body: bytes
    format: Format
    headers: dict[str, Any]
    priority: int
    lane: str
    group: str | None
    key: str | None
    attempts: int
    created_at: int
    available_at: int
    expires_at: int | None
    state: State
    lease: Lease | None = None
    death: Death | None = None
    damaged: bool = False
    """The stored bytes no longer match their checksum: body and headers are withheld."""
    first_received_at: int | None = None
    """When it was first delivered; None where it was not, or where nobody asked."""

    def __repr__(self) -> str:
        body = shortened(repr(self.body))
        told = f"id={self.id}, queue={self.queue!r}, body={body}, attempts={self.attempts}, state={self.state!r}"
        others = (("lane", self.lane), ("group", self.group), ("key", self.key), ("headers", self.headers or None))
        more = "".join(f", {name}={shortened(repr(value))}" for name, value in others if value is not None)
        held = "" if self.lease is None else f", lease={self.lease!r}"
        died = "" if self.death is None else f", death={self.death!r}"
        return f"Message({told}{more}{held}{died})"

    @property
    def value(self) -> Any:
        """The body as Python data: decoded JSON, or the text as a string."""
        if self.damaged:
            raise BodyDamaged(self.id)
        return msgspec.json.decode(self.body) if self.format == "json" else self.body.decode()


class ArchivedMessage(Struct, frozen=True):
    """A finished message and how it ended."""

    message: Message
    outcome: Outcome
    finished_at: int
    reason: str


class Finished(Struct, frozen=True, gc=False):
    """Which archived message is meant. A dead one that is requeued has the same id when it finishes again."""

    id: int
    finished_at: int


class Ref(Struct, frozen=True, gc=False):
    """Which message is meant, and by what right: its token, its holder's name, or neither (whoever holds it)."""

    id: int
    token: str | None = None
    by: str | None = None


class Release(Struct, frozen=True, gc=False):
    """One nack: try again after ``delay_ms`` (None: the queue's backoff), or never if ``dead``.

    ``undelivered``: its receiver never got it, so that the receive counts as if it had not been. The rest is ignored.
    """

    ref: Ref
    delay_ms: int | None = None
    dead: bool = False
    reason: str = NO_REASON
    undelivered: bool = False


class Extension(Struct, frozen=True, gc=False):
    """One extend: the lease now ends ``lease_ms`` from now (0: at once)."""

    ref: Ref
    lease_ms: int


class Sent(Struct, frozen=True, gc=False):
    """One sent message: its id, or the id of the first message with its key.

    Of a new one the store also says from when on it can be received; of a duplicate, and through a client, that is 0.
    """

    id: int
    duplicate: bool = False
    available_at: int = 0


class Received(Struct, frozen=True, gc=False):
    """What a receive took. When it took nothing, ``next_due_at`` is when to look again: when the next message is due.

    It may be sooner, where the store has not looked at everything. None: when somebody is told of a message.
    """

    messages: list[Message]
    next_due_at: int | None = None
    wait_ms: int = 0
    """Where it took nothing: how long the queue's policy would have it wait."""
    lease_ms: int = 0
    """Where it took something: how long the leases last. Their ends alone don't tell that to who has another clock."""


class Settled(Struct, frozen=True, gc=False):
    """One ack, nack or extend that took effect. ``due_at``: when the message is due again, if it is."""

    id: int
    due_at: int | None = None
    dead: bool = False


class Recent(Struct, frozen=True):
    """A message as a list of the newest shows it."""

    id: int
    queue: str
    state: str
    """That of a message, or how a finished one ended."""
    attempts: int
    created_at: int
    until: int | None
    """When its lease or its delay ends, or when it was finished."""
    body: bytes | None
    """None: it is long."""
    body_bytes: int


class Page(Struct, frozen=True):
    """A part of a queue's messages in the order of their ids. ``after``: where the next part begins; None: nowhere."""

    messages: list[Message]
    after: int | None


class ArchivePage(Struct, frozen=True):
    """The same of its finished messages."""

    messages: list[ArchivedMessage]
    after: int | None


MESSAGE_COLUMNS = (
    "id",
    "queue",
    "lane",
    "priority",
    "body",
    "format",
    "key",
    "group",
    "headers",
    "attempts",
    "state",
    "created_at",
    "available_at",
    "expires_at",
)
"""What is known of a message, column by column."""

ARCHIVE_COLUMNS = (*MESSAGE_COLUMNS, "outcome", "finished_at", "reason")
"""The same of a finished one, and how it ended."""


class Same(Struct, frozen=True, gc=False):
    """A column in which every message has the same value."""

    value: Any


class Columns(Struct, frozen=True):
    """Some of a queue's messages in the order of their ids, column by column. Times are in microseconds.

    A body is bytes, or None where it is damaged. ``after``: where the next part begins; None: nowhere.
    """

    count: int
    values: dict[str, Sequence[Any] | Same]
    after: int | None


class Bounds(Struct, frozen=True):
    """The ids that the messages of a queue (or of its archive) lie between, and how many there are."""

    first: int | None
    last: int | None
    count: int


CLAIMED_AT_ONCE = 1_000
"""How many messages are claimed, or finished, in one transaction at most: everybody else waits for some 8 ms."""

CHUNKS_IN_PART = 5
"""How many chunks of a claim, each of what was claimed at once, whoever reads it gets as one part."""


class OpenedConsumer(Struct, frozen=True):
    """A consumer that somebody has opened. Whoever had it before is fenced off by the ``epoch``."""

    epoch: int
    claims: list[int]
    """The numbers of those that are open."""
    last: int
    """The highest number that a claim of it ever had; 0: there was none."""


class ClaimPart(Struct, frozen=True):
    """A part of a claim that one reader reads: its number, and how many messages it has."""

    part: int
    count: int


class Claim(Struct, frozen=True):
    """What a consumer has leased together."""

    number: int
    count: int
    parts: list[ClaimPart]


class OpenClaim(Struct, frozen=True):
    """A claim that is neither finished nor given back yet: how many messages it was made of, and its lease's end."""

    number: int
    count: int
    lease_until: int


class ConsumerInfo(Struct, frozen=True):
    """A consumer of a queue. ``held_until``: how long nobody but its owner may open it; None: anybody may."""

    name: str
    queue: str
    owner: str
    epoch: int
    held_until: int | None
    last: int
    claims: list[OpenClaim]


class Progress(Struct, frozen=True):
    """One step of work that is done in steps (purge, requeue): how many, and whether that was all."""

    count: int
    done: bool
    after: int = 0
    """The id after which the next step goes on, where steps leave something behind."""
    keys_below: int = 0
    """Of a purge: the keys of messages with lower ids are to be forgotten."""
    after_key: str = ""
    """The key after which the next step goes on with that."""


MoveStatus = Literal["running", "completed", "cancelled", "failed"]


class MoveTask(Struct, frozen=True):
    """A redrive that a server carries out in the background."""

    id: str
    source: str
    """The dead-letter queue."""
    destination: str | None
    """None: each message goes to where it came from."""
    per_second: int | None
    """None: as fast as may be."""
    status: MoveStatus
    moved: int
    to_move: int
    """How many messages there were when it started."""
    reason: str
    """Why it failed: ``queue_not_found`` or ``no_origin``."""
    started_at: int


class Staged(Struct, frozen=True, omit_defaults=True):
    """How many messages of a part were taken."""

    staged: int
    promoted: bool = False
    """The writer's epoch is in the queue already, or will be: nothing was stored."""


class Promotion(Struct, frozen=True):
    """What became of an epoch of a writer."""

    promoted: int | None
    """How many messages of it were moved into the queue; None: that is forgotten, as of any but the last epoch."""
    duplicates: int | None = 0
    """How many of them had keys that were known, and so were not added."""
    repeated: bool = False
    """It was done before: nothing was added."""
    done: bool = True
    """False: there are more to be moved."""


class Staging(Struct, frozen=True):
    """What a writer has staged of an epoch."""

    epoch: int
    parts: int
    messages: int
    promoting: bool
    """Whether it was decided that it is to be in the queue. Otherwise it waits for that."""


class WriterInfo(Struct, frozen=True):
    """Who sends to a queue in whole epochs."""

    name: str
    epoch: int | None
    """The last epoch that is in the queue, or will be; None: none yet."""
    promoted: int
    """How many messages of that epoch were moved into the queue."""
    duplicates: int
    staged: list[Staging]
    """What waits to be promoted."""


class Corrected(Struct, frozen=True):
    """Counts of what was dated in the future and is not any more."""

    ahead_ms: int
    """How far ahead the newest date was."""
    messages: int
    others: int
    """Leases of claims, deliveries, keys and the like."""


class Swept(Struct, frozen=True):
    """One step of upkeep, and when the next one is due (None: nothing is waiting)."""

    expired: int = 0
    dead: int = 0
    keys: int = 0
    archived: int = 0
    removed: int = 0
    deliveries: int = 0
    subscriptions: int = 0
    attempts: int = 0
    next_at: int | None = None
    staged: int = 0
    claimed: int = 0
    redated: int = 0

    @property
    def count(self) -> int:
        messages = self.expired + self.dead + self.archived + self.removed + self.staged + self.claimed
        return messages + self.keys + self.deliveries + self.subscriptions + self.attempts + self.redated


class LaneDepth(Struct, frozen=True):
    """How many messages of one lane are in which state."""

    ready: int = 0
    delayed: int = 0
    leased: int = 0
    blocked: int = 0

    @property
    def total(self) -> int:
        return self.ready + self.delayed + self.leased + self.blocked


class Depths(Struct, frozen=True):
    """A queue's contents at one moment."""

    lanes: dict[str, LaneDepth]
    dead: int
    archived: int
    oldest_ready_at: int | None
    """Since when the longest-waiting ready message has been ready."""

    def total(self, state: State | None = None) -> int:
        return sum(d.total if state is None else getattr(d, state) for d in self.lanes.values())


class Latency(Struct, frozen=True):
    """Quantiles in milliseconds, to within 12 % (counted in logarithmic steps)."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class QueueStats(Struct, frozen=True):
    """Everything ``stats`` tells about a queue."""

    queue: str
    depths: Depths
    totals: dict[str, int]
    """How often each thing happened to a message since the queue was made (see FactKind; and ``redelivered``)."""
    rates: dict[str, float]
    """The same, per second, over the last minute."""
    wait: dict[str, Latency]
    """Per lane, over the last hour: from ready to received."""
    work: dict[str, Latency]
    """Per lane, over the last hour: from received to acked."""


class QueueTotals(Struct, frozen=True):
    """What a survey tells about a queue."""

    queue: str
    depths: Depths
    totals: dict[str, int]
    """The sums of the stored figures by name, over all lanes and minutes: see `sqew.observe.meter`."""


class Activity(Struct, frozen=True):
    """A count of things that happened to the messages of one lane in one minute, or a step of a histogram."""

    queue: str
    lane: str
    minute: int
    name: str
    count: int


class Fact(Struct, frozen=True, gc=False):
    """One thing that happened to a message: what the event log and the meter are made of."""

    kind: FactKind
    queue: str
    lane: str
    id: int
    attempts: int
    by: str | None = None
    age_ms: int = 0
    """received: since it was due; acked: since it was received; otherwise 0."""
    reason: str = NO_REASON


class Commit(Struct, frozen=True):
    """What one transaction did: a result or an error per operation, and what others may want to know."""

    results: list[Any]
    facts: list[Fact]
    stirred: AbstractSet[str]
    """The queues in which a message became ready, or got a new time to become so; and `DELIVERIES`, `SCHEDULES`,
    `MOVES`."""
    ran_at: int | None = None
    """The time at which it was done, where that is later than it was asked for: what it sent was created then."""


Protocol = Literal["queue", "http", "https"]
"""What a subscription leads to."""
Form = Literal[0, 1, 2]
"""How an event reaches a subscriber: as it is (0), or in an envelope signed by that version of the signature."""
RAW: Form = 0

EVENT_HEADER = "_event"
"""Where a message says under which routing key it was published."""
SCHEDULE_HEADER = "_schedule"
"""Where a message says which schedule sent it, and for which slot."""
NOTIFICATION = "Notification"
CONFIRMATION = "SubscriptionConfirmation"
CANCELLATION = "UnsubscribeConfirmation"
"""What is posted to an endpoint, by the names that SNS has for it."""

DELIVERIES = "\0deliveries"
SCHEDULES = "\0schedules"
MOVES = "\0moves"
"""What a commit stirs beside queues: there is something to post, a schedule has a new time, or dead letters are to be
moved. No queue is so named."""


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


class Greeting(Struct, frozen=True):
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


class NewEvent(Struct, frozen=True):
    """A message to publish under a routing key."""

    routing_key: str
    message: NewMessage
    message_id: str
    """A UUID: the same for everybody whom the event reaches."""
    envelopes: dict[int, bytes] = {}  # msgspec copies it
    """The event in an envelope, by the version of the signature, where a subscription wants one."""
    farewell: str = ""
    """The URL that unsubscribes, up to the UUID of the subscription. It comes with the envelopes."""
    attributes: dict[str, Any] = {}  # msgspec copies it
    """Message attributes as SNS has them: ``{"size": {"DataType": "Number", "StringValue": "5"}}``. Filters look at
    them; they become headers of the message, or a part of its envelope."""
    subject: str | None = None
    key: str | None = None
    """The idempotency key of the message in every queue that the event reaches."""
    numbered: bool = False
    """Whether it gets a number, in its envelope and in the answer: higher than all that were given before."""
    only: tuple[Protocol, ...] = ()
    """Whom it is for; nothing said: everybody."""


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


class Published(Struct, frozen=True):
    """Where an event went."""

    messages: list[tuple[str, int]]
    """The queues that it was sent to, and its id there."""
    deliveries: int
    """How many endpoints it will be posted to."""
    missing: list[str]
    """Queues that subscriptions name and that do not exist."""
    refused: list[SqewError] = []  # msgspec copies it
    """Why queues did not take it, where it was published without them."""
    number: int | None = None
    """Its number, where it gets one."""


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


class SigningKey(Discreet, frozen=True):
    """What envelopes are signed with, and the certificate that proves it."""

    hidden: ClassVar[tuple[str, ...]] = ("private_key", "certificate")
    id: str
    """The first 32 hexadecimal digits of the SHA-256 of the certificate."""
    private_key: bytes
    """PEM, PKCS#8."""
    certificate: bytes
    """PEM."""
    created_at: int


class Notice(Struct, frozen=True):
    """What a signed envelope says of an event."""

    message_id: str
    topic_arn: str
    message: str
    at_ms: int
    """When it was published."""
    subject: str | None = None
    attributes: dict[str, Any] = {}  # msgspec copies it
    """As `NewEvent` has them."""


ExpressionKind = Literal["cron", "every", "when", "fire_at"]
ScheduleStatus = Literal["active", "paused"]
TargetKind = Literal["queue", "topic"]


class Schedule(Struct, frozen=True):
    """A rule that sends a message, or publishes an event, when it fires."""

    name: str
    target_kind: TargetKind
    target: str
    """The queue's name, or the routing key."""
    kind: ExpressionKind
    expression: str
    """When it fires, as it was given."""
    canonical: str
    """The same as it is understood: see `sqew.schedules`."""
    timezone: str
    message: NewMessage
    status: ScheduleStatus = "active"
    catchup: bool = False
    """Whether what was missed while no server ran is made up for; otherwise it fires once for all of it."""
    catchup_limit: int = 100
    """How many missed fires are made up for at most; the others are skipped."""
    failure_threshold: int | None = 10
    """After so many failures in a row it pauses. None: never."""
    jitter_secs: int = 0
    """Up to how many seconds after its time each slot fires, so that many schedules don't fire at once."""
    caught_up: int = 0
    """How many missed fires it has made up for so far, where that takes several steps."""
    next_fire_at: int | None = None
    """The slot that fires next. A paused schedule keeps it."""
    due_at: int | None = None
    """When that is tried: at its time, or later if it failed. None: not by itself."""
    consecutive_failures: int = 0
    last_error: str = NO_REASON
    paused_reason: str = NO_REASON
    last_fired_at: int | None = None
    """The slot that fired last; or when it was fired out of turn, if that was later."""
    fired: int = 0
    """How often it has fired: for its slots, and out of turn."""
    skipped: int = 0
    """How many slots passed by unfired while no server ran: of each such time, a hundred at most are counted."""
    created_at: int = 0
    updated_at: int = 0
    version: int = 0
    """Goes up with every change and every fire."""


class Saved(Struct, frozen=True):
    """A schedule as it is stored now, and whether it is new."""

    schedule: Schedule
    created: bool


class DueSchedules(Struct, frozen=True):
    """Schedules whose time has come, and when the next of the others is due."""

    schedules: list[Schedule]
    next_due_at: int | None


class Advance(Struct, frozen=True):
    """Where a schedule goes from here: its next slot (None: it is over), and how many it left out."""

    next_fire_at: int | None
    last_fired_at: int
    skipped: int = 0
    caught_up: int = 0
    """How many missed fires were made up for, where there are more to come."""
    due_at: int | None = None
    """When the next slot is fired. None: at its time."""


class Fired(Struct, frozen=True):
    """What a fire sent: the ids of the messages, and how many endpoints will be posted to."""

    ids: list[int]
    deliveries: int = 0


class Fire(Struct, frozen=True):
    """When a schedule fires."""

    at: int
    local: str
    """What the clock of its time zone shows then, in ISO 8601."""


class Preview(Struct, frozen=True):
    """What an expression says, and when it would fire next."""

    canonical: str
    timezone: str
    human_readable: str
    next_fires: list[Fire]


class ScheduleInfo(Struct, frozen=True):
    """A schedule as it is shown: what `Schedule` says of it, and what that means."""

    name: str
    target_kind: TargetKind
    target: str
    kind: ExpressionKind
    expression: str
    timezone: str
    message: NewMessage
    status: ScheduleStatus
    catchup: bool
    catchup_limit: int
    failure_threshold: int | None
    canonical: str
    human_readable: str
    next_fire_at: int | None
    """None while it is paused."""
    next_fires: list[Fire]
    """A paused one has none."""
    last_fired_at: int | None
    fired: int
    skipped: int
    consecutive_failures: int
    last_error: str
    paused_reason: str
    created_at: int
    updated_at: int
    jitter_secs: int = 0
    problem: str = NO_REASON
    """Why it can't fire as things are: its queue does not exist. Only where one schedule is asked for."""


class ScheduleRun(Struct, frozen=True):
    """A fire out of turn: the ids of the messages that it sent, and how many endpoints will be posted to."""

    schedule: str
    scheduled_for: int
    ids: list[int]
    deliveries: int


class CertificateInfo(Struct, frozen=True):
    """A certificate that proves the signature of envelopes, and where a server has it."""

    id: str
    url: str
    created_at: int


class DatabaseFigures(Struct, frozen=True, kw_only=True):
    """How a server gets on with its database, from its start on; connections and the snapshot are as of now."""

    is_there: bool
    connections: int
    in_use: int
    idle: int
    waiting: int
    acquire_timeouts: int
    exhausted: int
    refused: int
    reconnects: int
    retries: int
    timeouts: int
    contested: int
    unknown: int
    full: int
    notices_sent: int
    notices_heard: int
    oldest_snapshot_s: float
