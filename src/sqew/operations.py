"""What a store can be asked to do, as values.

An operation is data, so it can be collected with its neighbours into one transaction, wrapped with faults, logged and
replayed. ``Operation[R]`` answers an ``R``. Everything is batch-first: one message is a batch of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from sqew.errors import SqewError
from sqew.model import (
    MESSAGE_COLUMNS,
    Activity,
    Advance,
    ArchivePage,
    Audience,
    Bounds,
    Claim,
    Claimed,
    Columns,
    ConsumerInfo,
    Corrected,
    Delivered,
    Delivery,
    DeliveryCounts,
    DeliveryOutcome,
    DeliveryState,
    Depths,
    Discreet,
    DueSchedules,
    Extension,
    Finished,
    Fired,
    Form,
    Greeting,
    KeyInfo,
    KeyRing,
    KeyScope,
    Message,
    MoveTask,
    NewEvent,
    NewMessage,
    NewMessages,
    OpenedConsumer,
    Outcome,
    Page,
    Policy,
    Progress,
    Promotion,
    Protocol,
    Published,
    QueueInfo,
    QueueTotals,
    Received,
    Recent,
    Ref,
    Release,
    Saved,
    Schedule,
    ScheduleStatus,
    Sent,
    Settled,
    SigningKey,
    Staged,
    State,
    Subscribed,
    Subscription,
    SubscriptionDetails,
    SubscriptionState,
    Swept,
    TargetKind,
    TopicInfo,
    WriterInfo,
)

R = TypeVar("R")


class Operation(Struct, Generic[R], frozen=True):
    """Something to do to the store, answered with an ``R``."""

    writes: ClassVar[bool] = True
    sync_commit: ClassVar[bool | None] = None
    """Whether its answer waits for the disk; None: as the store is set. Only sends may choose."""
    polls: ClassVar[bool] = False
    """Asked by the clock, mostly in vain: it is nobody's wish, and no sign that there is anything to do."""


class CreateQueue(Operation[QueueInfo], frozen=True):
    """Make a queue. Where it exists with the same policy, or ``exist_ok``, answer what is there.

    ``new``: it must not exist, whatever its policy. ``apart_from``: it is not made where there is a queue of that
    name; a FIFO queue that exists is refused then as well. ``assumed``: fields of the policy that nobody asked for.
    They may differ from what is there: the settings that they come from may have changed since. ``any_name``: it need
    not be one that every dialect can write.

    ``letters`` is the policy of its dead-letter queue, to be made with it where there is none of that name.
    """

    name: str
    policy: Policy
    exist_ok: bool = False
    letters: Policy | None = None
    extras: Mapping[str, Any] = {}  # msgspec copies it
    new: bool = False
    apart_from: str | None = None
    assumed: tuple[str, ...] = ()
    any_name: bool = False


class UpdateQueue(Operation[QueueInfo], frozen=True):
    """Change some fields of a queue's policy, and some of its extras: those that are None are taken away.

    ``known``: only if the queue is still as that says. Otherwise somebody else has changed it: `ChangedMeanwhile`.
    ``letters``: as for `CreateQueue`.
    """

    name: str
    changes: Mapping[str, Any]
    extras: Mapping[str, Any] = {}  # msgspec copies it
    known: QueueInfo | None = None
    letters: Policy | None = None


class DeleteQueue(Operation[None], frozen=True):
    """Delete a queue. Its messages are gone at once; their rows are swept away in steps."""

    name: str


class GetQueue(Operation[QueueInfo], frozen=True):
    writes: ClassVar[bool] = False
    name: str


class ListQueues(Operation[list[QueueInfo]], frozen=True):
    """Queues by name, those after ``after``."""

    writes: ClassVar[bool] = False
    prefix: str = ""
    after: str = ""
    limit: int | None = None


class ListDeadLetterSources(Operation[list[str]], frozen=True):
    """The names of the queues whose dead letters go to one, those after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 1000


class CreateKey(Discreet, Operation[KeyInfo], frozen=True):
    """Give a queue an API key. What opens the queue is not in it, but its SHA-256: `sqew.envelopes.request_signature` makes both.

    ``secret``: every request with the key must be signed with it.
    """

    hidden: ClassVar[tuple[str, ...]] = ("digest", "secret")
    queue: str
    id: str
    digest: bytes
    scopes: Sequence[KeyScope]
    label: str = ""
    secret: str | None = None


class ListKeys(Operation[list[KeyInfo]], frozen=True):
    """The keys of a queue, or of all queues."""

    writes: ClassVar[bool] = False
    queue: str | None = None


class DeleteKey(Operation[None], frozen=True):
    queue: str
    id: str


class ReadKeys(Operation[KeyRing | None], frozen=True):
    """All keys, for whoever checks requests by them. None: they are still those of ``known_version``."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True
    known_version: int = 0


class Send(Operation[list[Sent]], frozen=True, gc=False):
    """Send messages. ``keyed``: to a FIFO queue only with a key each, unless the queue makes them of their bodies.

    ``sync_commit``: whether the answer waits for the disk; None: as the store is set. ``apart``: they come from several
    who each send one, so they are no batch that a rate limit would let through as a whole. ``is_job``: `Limits.jobs`
    hold for it.
    """

    queue: str
    messages: Sequence[NewMessage] | NewMessages
    keyed: bool = False
    sync_commit: bool | None = None  # type: ignore[misc]  # an operation's own, where others have their kind's
    apart: bool = False
    is_job: bool = False


class Stage(Operation[Staged], frozen=True):
    """Keep messages until the epoch of their writer is promoted. ``part`` is one attempt of one task to send some.

    ``offset``: how many messages of the part were staged before. Where these have been as well, nothing is stored.
    """

    queue: str
    writer: str
    epoch: int
    part: str
    messages: NewMessages
    offset: int | None = None


class Promote(Operation[Promotion], frozen=True):
    """Decide that the messages of some parts of an epoch, so many each, are to be in the queue, and no others.

    They are moved there by `StepPromotion`, again and again, until that is done.
    """

    queue: str
    writer: str
    epoch: int
    parts: Mapping[str, int]


class StepPromotion(Operation[Promotion], frozen=True):
    """Move some of a writer's messages into the queue, if it was decided that they are to be there."""

    queue: str
    writer: str
    epoch: int


class FinishPromotion(Operation[bool], frozen=True):
    """The same for the writer that has left it undone for longest; whether there was one that nobody else is at."""

    polls: ClassVar[bool] = True


class NextPromotion(Operation[int | None], frozen=True):
    """When the next promotion is or will be left undone for too long."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class AbortStaging(Operation[None], frozen=True):
    """Forget what was staged of an epoch, if anything was."""

    queue: str
    writer: str
    epoch: int


class GetWriter(Operation[WriterInfo], frozen=True):
    writes: ClassVar[bool] = False
    queue: str
    name: str


class ListWriters(Operation[list[WriterInfo]], frozen=True):
    """The writers of a queue by name, those after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 100


class Receive(Operation[Received], frozen=True, gc=False):
    """Lease up to ``limit`` ready messages.

    ``finish`` takes them for good instead: archived (or deleted, as the policy says) in the same transaction.
    ``attempt_id`` names a receive from a FIFO queue: who repeats it within five minutes, not having got the answer,
    gets the same messages under the same lease, which begins anew; unless one of them was settled or extended since.
    """

    queue: str
    limit: int = 1
    lane: str | None = None
    lease_ms: int | None = None
    by: str | None = None
    finish: bool = False
    attempt_id: str | None = None


class Ack(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Finish messages. ``queue`` None: by id alone, wherever they are.

    ``in_time``: only while the lease lasts. Otherwise it may have run out, as long as nobody else has the message.
    """

    queue: str | None
    refs: Sequence[Ref]
    in_time: bool = False


class Nack(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Give messages back, to be tried again or to be dead. ``in_time``: only those whose lease lasts, as for `Ack`."""

    queue: str | None
    releases: Sequence[Release]
    in_time: bool = False


class Extend(Operation[list[Settled | SqewError]], frozen=True, gc=False):
    """Set the end of leases. ``in_time``: only of those that last, as for `Ack`.

    ``most_ms``: to no later than so long after the message was received.
    """

    queue: str | None
    extensions: Sequence[Extension]
    in_time: bool = False
    most_ms: int | None = None


class Remove(Operation[list[bool]], frozen=True):
    """Delete messages whoever holds them, archiving nothing."""

    queue: str
    ids: Sequence[int]


class Purge(Operation[Progress], frozen=True):
    """Delete up to ``limit`` of the messages with ids up to ``up_to``, leased ones included, and forget all keys.

    Keys of messages sent since the first step stay: that step answers the id ``keys_below`` for the others, and each
    step the last key that it looked at.
    """

    queue: str
    up_to: int
    limit: int
    keys_below: int = 0
    after_key: str = ""


class Peek(Operation[list[Message]], frozen=True):
    """The first messages in the order in which they would be received, in every state: 8 MiB or a little more."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 10
    lane: str | None = None


class ListRecent(Operation[list[Recent]], frozen=True):
    """The newest messages of all queues, those in the archives included, the newest first. Long bodies are left out."""

    writes: ClassVar[bool] = False
    limit: int = 100


class Get(Operation[Message], frozen=True):
    """One message by id. ``queue`` None: wherever it is."""

    writes: ClassVar[bool] = False
    queue: str | None
    id: int


class Scan(Operation[Page], frozen=True):
    """The messages of a queue by id, in every state, those after ``after`` and up to ``up_to``, in steps.

    A step looks at ``limit`` messages of whatever queues, so it takes as long whatever else the store holds; it may
    find none of this queue.
    """

    writes: ClassVar[bool] = False
    queue: str
    after: int
    up_to: int
    limit: int


class ReadBounds(Operation[Bounds], frozen=True):
    """Between which ids the messages of a queue, or of its archive, lie, and how many. Grows as `Measure`."""

    writes: ClassVar[bool] = False
    queue: str
    archive: bool = False


class ReadColumns(Operation[Columns], frozen=True):
    """The messages of a queue, or of its archive, by id: as `Scan` has them, but column by column.

    ``columns``: at least these are in it. ``lane`` and ``state``: only the messages that are there, or so.
    """

    writes: ClassVar[bool] = False
    queue: str
    after: int
    up_to: int
    limit: int
    columns: Sequence[str] = MESSAGE_COLUMNS
    archive: bool = False
    lane: str | None = None
    state: State | None = None


class LastId(Operation[int], frozen=True):
    """The id of the newest message there is (0: none): where a purge of "everything until now" ends."""

    writes: ClassVar[bool] = False


class Measure(Operation[Depths], frozen=True):
    """Count a queue's messages by lane and state. Grows with the backlog: keep it off the hot path."""

    writes: ClassVar[bool] = False
    queue: str


class Ages(Operation[tuple[int, int] | None], frozen=True):
    """When the oldest and the newest message of a queue were created; None where it is empty. Grows as `Measure`."""

    writes: ClassVar[bool] = False
    queue: str


class NextDue(Operation[int | None], frozen=True):
    """When the next message of a queue (or lane) is or will be due."""

    writes: ClassVar[bool] = False
    queue: str
    lane: str | None = None


class ListDead(Operation[Page], frozen=True):
    """The dead letters of a queue: in its dead-letter queue, and in its archive. Ids above ``after`` in order of id.

    A page has at most ``limit`` of them, and 8 MiB or a little more.
    """

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 100
    after: int = 0


class RequeueDead(Operation[Progress], frozen=True):
    """Bring dead letters of a queue back to it with attempts 0: all, or those with the given ids.

    ``unspent``: only those in its archive that ran out of attempts and have some again, because the queue now allows
    more. They keep their count; a step looks at those after the id ``after``.
    """

    queue: str
    ids: Sequence[int] | None = None
    limit: int = 1000
    unspent: bool = False
    after: int = 0


class PurgeDead(Operation[Progress], frozen=True):
    """Delete dead letters of a queue: all, or those with the given ids."""

    queue: str
    ids: Sequence[int] | None = None
    limit: int = 1000


class Redrive(Operation[Progress], frozen=True):
    """Send what lies in a dead-letter queue back to where each message came from (or all to ``to``).

    Messages that were sent there directly, or whose queue is gone, stay, unless ``to`` is given. ``until``: only what
    had come there by that time. Without ``to`` a step goes on after the id ``after``.
    """

    dead_letter: str
    to: str | None = None
    limit: int = 1000
    until: int | None = None
    after: int = 0


class StartMove(Operation[MoveTask], frozen=True):
    """Have a server redrive a dead-letter queue in the background, at so many messages a second if a rate is given.

    ``to_move`` is how many messages lie there, for those who watch: to count them takes too long for a transaction.
    """

    id: str
    source: str
    destination: str | None = None
    per_second: int | None = None
    to_move: int = 0


class ListMoves(Operation[list[MoveTask]], frozen=True):
    """The newest of the tasks that move messages out of a dead-letter queue."""

    writes: ClassVar[bool] = False
    source: str
    limit: int = 10


class CancelMove(Operation[MoveTask], frozen=True):
    """Move nothing more. What was moved stays where it is."""

    id: str


class NextMove(Operation[int | None], frozen=True):
    """When the next step of any such task is due."""

    writes: ClassVar[bool] = False


class StepMove(Operation[None], frozen=True):
    """Take the step that is longest due: up to ``limit`` messages, or as many as its rate allows."""

    limit: int = 100


class ListArchive(Operation[ArchivePage], frozen=True):
    """Finished messages of a queue, in order of id: a page of at most ``limit``, and 8 MiB or a little more."""

    writes: ClassVar[bool] = False
    queue: str
    limit: int = 100
    after: int = 0
    outcome: Outcome | None = None


class DeleteArchived(Operation[int], frozen=True):
    """Delete these finished messages from a queue's archive; how many were still there."""

    queue: str
    finished: Sequence[Finished]


class OpenConsumer(Operation[OpenedConsumer], frozen=True):
    """Read a queue as the consumer of that name, which is made if there is none.

    Nobody but ``owner`` can open it for ``hold_ms``. What whoever had it before still does is refused.
    """

    queue: str
    consumer: str
    owner: str
    hold_ms: int = 30_000


class RenewConsumer(Operation[None], frozen=True):
    """Hold a consumer for longer (None: as long as it was opened for), and its open claims for ``lease_ms``."""

    queue: str
    consumer: str
    epoch: int
    hold_ms: int | None = None
    lease_ms: int = 3_600_000


class FinishClaims(Operation[Progress], frozen=True):
    """Ack what a consumer has claimed, up to a claim's number: ``limit`` messages at a time."""

    queue: str
    consumer: str
    epoch: int
    up_to: int
    limit: int = 1000


class GrowClaim(Operation[Progress], frozen=True):
    """Receive up to ``limit`` messages into a claim. ``chunk``: how many such steps there were before.

    It is done when nothing is ready, and where the claim is there already. `SealClaim` answers it.
    """

    queue: str
    consumer: str
    epoch: int
    number: int
    chunk: int = 0
    limit: int = 1000
    lease_ms: int = 3_600_000


class SealClaim(Operation[Claim], frozen=True):
    """A claim as it is, to which nothing is added from now on. There may be none: then it has no messages."""

    queue: str
    consumer: str
    epoch: int
    number: int
    lease_ms: int = 3_600_000


class ReadClaim(Operation[list[Message] | None], frozen=True):
    """The messages of a claim that one step has received, as far as it still has them; None: there is no such step."""

    writes: ClassVar[bool] = False
    queue: str
    consumer: str
    number: int
    chunk: int


class ReadClaimColumns(Operation[Columns], frozen=True):
    """The same column by column. ``after``: the next step; None: there is no such step."""

    writes: ClassVar[bool] = False
    queue: str
    consumer: str
    number: int
    chunk: int


class ListConsumers(Operation[list[ConsumerInfo]], frozen=True):
    """The consumers of a queue by name, those after ``after``."""

    writes: ClassVar[bool] = False
    queue: str
    after: str = ""
    limit: int = 1000


class CloseConsumer(Operation[None], frozen=True):
    """Forget a consumer, and have what it has claimed given back: `GiveBackClaims` does it at once, a sweep later.

    While somebody holds it that is a conflict, unless ``force``.
    """

    queue: str
    consumer: str
    force: bool = False


class GiveBackClaims(Operation[Progress], frozen=True):
    """Give back ``limit`` messages of a consumer that was closed."""

    queue: str
    consumer: str
    limit: int = 200


class Sweep(Operation[Swept], frozen=True):
    """One small step of upkeep: at most ``limit`` rows of each kind."""

    polls: ClassVar[bool] = True
    limit: int = 200


class SweepDue(Operation[bool], frozen=True):
    """Whether there is anything to sweep."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class LookAhead(Operation[int], frozen=True):
    """How many milliseconds the newest date of the store lies in the future; 0: it does not, but for a little."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class ClockIsSlow(Operation[bool], frozen=True):
    """Whether the clock shows a time before the store, or the oldest of its queues, was made."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True


class CorrectDates(Operation[Corrected], frozen=True):
    """Set dates right that lie in the future: when they were stored, the clock was ahead by up to ``ahead_ms``.

    ``is_certain``: the clock was seen to come back from there; otherwise it may as well be slow now. ``since``: what it
    showed when it got ahead, if that was seen.
    """

    polls: ClassVar[bool] = True
    ahead_ms: int = 0
    is_certain: bool = False
    since: int | None = None


class RecordActivity(Operation[None], frozen=True):
    """Add counts to the stored figures."""

    counts: Sequence[Activity]


class ReadActivity(Operation[list[Activity]], frozen=True):
    """The stored figures of a queue. Minute 0 holds what is older than the kept minutes."""

    writes: ClassVar[bool] = False
    queue: str


class Survey(Operation[list[QueueTotals]], frozen=True):
    """Depths and totals of all queues by name, counted in one pass over the store. Grows with the backlog."""

    writes: ClassVar[bool] = False


class Subscribe(Operation[Subscribed], frozen=True):
    """Have events that match a pattern go to a queue or an endpoint. Where they do already, answer what is there.

    A ``uuid`` makes it one of SNS's, with ``details`` of its own: that its queue exists is not asked for then. Where
    it is there with other details, that is a conflict, unless ``exist_ok``. A ``greeting`` is posted to its endpoint,
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
    greeting: Greeting | None = None
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
    """Change what SNS says of a subscription. None: it stays as it is. A ``greeting`` is posted to its endpoint.

    ``known`` and ``topic``: only if it, and its topic, are still as these say. Otherwise: `ChangedMeanwhile`.
    """

    uuid: str
    form: Form | None = None
    details: SubscriptionDetails | None = None
    state: SubscriptionState | None = None
    greeting: Greeting | None = None
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


class Publish(Operation[list[Published]], frozen=True):
    """Send events to every queue whose subscription matches, and have them posted to every endpoint. All, or none.

    ``to_topics``: as SNS does. There must be topics of the names of their routing keys, unless those are names that
    only keys can have (`sqew.rules.rules.is_keyed`); and a queue that refuses an
    event refuses it for itself alone. What it would have got goes to the dead-letter queue of its subscription.
    """

    events: Sequence[NewEvent]
    to_topics: bool = False


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


class ReadSalt(Operation[int], frozen=True):
    """The number that the store was made with: no other has the same. See `sqew.ids.MessageUuids`."""

    writes: ClassVar[bool] = False


class ReadSigningKeys(Operation[list[SigningKey]], frozen=True):
    """The keys that envelopes are and were signed with, the one in use first."""

    writes: ClassVar[bool] = False


class AddSigningKey(Operation[list[SigningKey]], frozen=True):
    """Sign with this key from now on, if the one in use is still ``instead_of`` (None: there is none)."""

    key: SigningKey
    instead_of: str | None = None


class SaveSchedule(Operation[Saved], frozen=True):
    """Store a schedule, if the one there has the version ``expected`` (0: there is none; None: whatever is there)."""

    schedule: Schedule
    expected: int | None = None


class GetSchedule(Operation[Schedule], frozen=True):
    writes: ClassVar[bool] = False
    name: str


class ListSchedules(Operation[list[Schedule]], frozen=True):
    """Schedules by name, those after ``after``."""

    writes: ClassVar[bool] = False
    status: ScheduleStatus | None = None
    target_kind: TargetKind | None = None
    prefix: str = ""
    after: str = ""
    limit: int = 1000


class DeleteSchedule(Operation[bool], frozen=True):
    """Delete a schedule; whether there was one."""

    name: str


class FindDueSchedules(Operation[DueSchedules], frozen=True):
    """The schedules that are due, the longest due first."""

    writes: ClassVar[bool] = False
    polls: ClassVar[bool] = True
    limit: int = 100


class FireSchedule(Operation[Fired], frozen=True):
    """Send what a schedule sends, one event for each slot, and move it on, in one transaction.

    Only if it still has that version: so no slot fires twice, whoever else is at it. ``advance`` None: a fire out of
    turn, which changes nothing about the schedule.
    """

    name: str
    version: int
    events: Sequence[NewEvent]
    advance: Advance | None


class FailSchedule(Operation[Schedule], frozen=True):
    """A schedule could not fire: try the slot again later, or pause it if that was once too often."""

    name: str
    version: int
    error: str
    retry_at: int


def sync_together(wishes: Iterable[bool | None]) -> bool | None:
    """Whether what is committed together waits for the disk: if one insists; not if all can do without.

    None: as the store is set.
    """
    said = set(wishes)
    return True if True in said else False if said == {False} else None


def sync_wish(operations: Sequence[Operation[Any]]) -> bool | None:
    """The same of operations."""
    return sync_together(op.sync_commit for op in operations if op.writes)
