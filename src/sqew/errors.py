"""The errors that a user can meet.

One base, a shallow tree: the class says what kind of trouble it is, ``code`` names it for machines, and the message is
a sentence that says what to do next. Errors are raised where the fact is known and rendered once per dialect (the
command line, each HTTP dialect).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from sqew.spelling import closest

if TYPE_CHECKING:
    from sqew.model import QueueInfo

_LONGEST_NAME = 100


class SqewError(Exception):
    """The base of every error Sqew raises on purpose."""

    code = "error"
    is_counted = False
    """True if the counters of its queue have it already."""

    @property
    def public_text(self) -> str:
        """The sentence that a server sends to a client."""
        return str(self)


class Invalid(SqewError):
    """The request itself is wrong: sending it again unchanged can't help."""

    code = "invalid"


class BadName(Invalid):
    """A queue or lane name that is not allowed."""

    code = "bad_name"


class BadBody(Invalid):
    """A message body that is not what it was said to be."""

    code = "bad_body"


class BadValue(Invalid):
    """A parameter of the wrong type or out of its range."""

    code = "bad_value"


class TooLarge(Invalid):
    """A body, a set of headers or a batch over its limit."""

    code = "too_large"


class TooWide(TooLarge):
    """A batch of events with so many subscribers that all other operations would have to wait for it.

    ``fits`` is how many of its events could be published together.
    """

    code = "too_wide"
    fits: int = 1

    def __init__(self, rows: int, most: int, fits: int) -> None:
        self.rows, self.fits = rows, fits
        super().__init__(
            f"So many subscribe to these events that the batch would become {rows} messages and deliveries, "
            f"and {most} are the most. Nothing was published: split it into batches of {fits}."
        )


class TooMuchToCompare(TooLarge):
    """An event that filters would have to look at for so long that all other operations would wait."""

    code = "too_much_to_compare"

    def __init__(self, most: int) -> None:
        super().__init__(
            f"To find out who wants this takes more than {most} comparisons: its arrays are long, or hold many others, "
            "and its subscribers have filter policies. Nothing was published: publish less at once, in shorter arrays."
        )


class TooManyAttributes(TooLarge):
    """A message with more attributes than a queue takes that gets it without an envelope."""

    def __init__(self, queue: str, count: int, most: int) -> None:
        self.queue = queue
        super().__init__(
            f"The message has {count} attributes, and queue '{queue}', which gets it as it is, takes {most}. Publish "
            "fewer, or subscribe without RawMessageDelivery."
        )


class FilterLimitExceeded(Invalid):
    """The limit on the number of filter policies is reached."""

    code = "filter_limit_exceeded"

    def __init__(self, most: int, topic: str | None = None) -> None:
        where = "All topics together have" if topic is None else f"Topic '{topic}' has"
        super().__init__(
            f"{where} {most} filter policies, and there can't be more. Remove one of them, or filter at the receiver."
        )


class BodyTooLarge(TooLarge):
    """A message that is larger, with its attributes, than its queue takes."""

    def __init__(self, queue: str, size: int, most: int) -> None:
        self.queue, self.size, self.most = queue, size, most
        super().__init__(
            f"The message has {size} bytes with its attributes, if any, and queue '{queue}' takes {most}. Send less."
        )


class BadSetting(Invalid):
    """A setting that is unknown, of the wrong type or out of range."""

    code = "bad_setting"


class UnknownLane(Invalid):
    """A lane that the queue's policy does not name."""

    code = "unknown_lane"

    def __init__(self, queue: str, lane: str, lanes: Iterable[str]) -> None:
        self.queue, self.lane, self.lanes = queue, lane, tuple(lanes)
        super().__init__(
            f"Queue '{queue}' has no lane {quoted(lane)}{nearest(lane, self.lanes)}. "
            f"Its lanes are: {', '.join(self.lanes)}."
        )


class BodyMisfit(BadValue):
    """A body that is JSON, but not of the shape that the request needs: a field is missing, or of another type."""

    code = "body_misfit"


class BadSchedule(BadValue):
    """A schedule that lacks its times, its message or its target, or has one of them twice."""

    code = "schedule_invalid"


class UnknownColumn(BadValue):
    """A column that messages don't have."""

    code = "unknown_column"

    def __init__(self, column: str, columns: Iterable[str]) -> None:
        self.column, self.columns = column, tuple(columns)
        super().__init__(
            f"Messages have no column {quoted(column)}{nearest(column, self.columns)}. "
            f"There are: {', '.join(self.columns)}."
        )


class BadExpression(Invalid):
    """A schedule's expression that can't be understood, or that would never fire.

    ``position`` is where it goes wrong, in characters counted from 1, or None for the whole of it.
    """

    code = "bad_expression"
    position: int | None = None

    def __init__(self, message: str, position: int | None = None) -> None:
        self.position = position
        super().__init__(message)


class BadZone(Invalid):
    """A time zone that is not in the IANA database."""

    code = "bad_zone"


class BadRoutingKey(Invalid):
    """A routing key that is not allowed."""

    code = "bad_routing_key"


class BadPattern(Invalid):
    """A pattern that no routing key could match."""

    code = "bad_pattern"


class BadFilterPolicy(Invalid):
    """A filter policy that SNS would refuse, with the sentence it refuses it with.

    ``reason`` is that sentence as it stands behind "Invalid parameter: " in an answer.
    """

    code = "bad_filter_policy"
    reason: str = ""

    def __init__(self, message: str, *, subject: str = "FilterPolicy: ") -> None:
        self.reason = subject + message
        super().__init__(message)


class BadEndpoint(Invalid):
    """An endpoint that can't be posted to: not an http(s) URL, or one whose address is not allowed."""

    code = "bad_endpoint"


class LeaseTooLong(Invalid):
    """A lease that would last longer than it may since the message was received."""

    code = "lease_too_long"

    def __init__(self, id: int, most_ms: int) -> None:
        self.id, self.most_ms = id, most_ms
        super().__init__(
            f"The lease on message {id} would end more than {most_ms} ms after it was received. Extend it by less."
        )


class KeyMissing(Invalid):
    """A message to a FIFO queue without a key; the queue does not use the body as one."""

    code = "key_missing"

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(f"Queue '{queue}' needs a key with each message. Give one, or have it deduplicate by content.")


class BadRequest(Invalid):
    """An HTTP request that can't be understood."""

    code = "bad_request"


class HeadersTooLarge(Invalid):
    """An HTTP request whose URL and headers are over their limit."""

    code = "headers_too_large"


class WrongContentType(Invalid):
    """A body of a type that the route does not take."""

    code = "wrong_content_type"


class MethodNotAllowed(Invalid):
    """A route that does not take this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, path: str, allowed: Iterable[str]) -> None:
        self.allowed = tuple(allowed)
        super().__init__(f"{path} does not take {method}. It takes: {', '.join(self.allowed)}.")


class RequestTimeout(SqewError):
    """A client that took too long to send a request, or a server that took too long to answer it."""

    code = "request_timeout"


class Unauthorized(SqewError):
    """Missing or wrong credentials."""

    code = "unauthorized"


class CredentialsMissing(Unauthorized):
    """A request without credentials."""


class Forbidden(SqewError):
    """Credentials that are right, but do not allow this."""

    code = "forbidden"


class AwsAuthError(SqewError):
    """An SQS or SNS call that is not signed as it should be. ``aws_code`` is AWS's code for it."""

    code = "aws_auth"
    aws_code = "AccessDenied"
    status = 403


class MissingAuthenticationToken(AwsAuthError):
    """A call that is not signed at all."""

    code = "missing_authentication_token"
    aws_code = "MissingAuthenticationToken"


class IncompleteSignature(AwsAuthError):
    """A signature of which a part is missing, or can't be read."""

    code = "incomplete_signature"
    aws_code = "IncompleteSignature"
    status = 400


class InvalidClientTokenId(AwsAuthError):
    """An access key that this server does not have."""

    code = "invalid_client_token_id"
    aws_code = "InvalidClientTokenId"


class SignatureDoesNotMatch(AwsAuthError):
    """A call that differs from what was signed, or was not signed just now."""

    code = "signature_does_not_match"
    aws_code = "SignatureDoesNotMatch"


class RequestExpired(AwsAuthError):
    """A presigned URL whose time is over."""

    code = "request_expired"
    aws_code = "RequestExpired"
    status = 400


class NotFound(SqewError):
    """The named object does not exist."""

    code = "not_found"


class RouteNotFound(NotFound):
    """No route of that path."""

    code = "route_not_found"

    def __init__(self, path: str) -> None:
        super().__init__(f"There is nothing at {path}. See /docs for what there is.")


class KeyNotFound(NotFound):
    """No API key of that id."""

    code = "key_not_found"

    def __init__(self, id: str, queue: str) -> None:
        self.id, self.queue = id, queue
        super().__init__(f"Queue '{queue}' has no key '{id}'. List its keys.")


class NameNotFound(NotFound):
    """No object of that name. ``known`` are existing names like it."""

    known: tuple[str, ...]

    def __str__(self) -> str:
        # Worded where somebody reads it: comparing names takes time, which a transaction that found nothing has none
        # for. What a server told of has its words already.
        return self._sentence() if hasattr(self, "known") else super().__str__()

    def _sentence(self) -> str:
        raise NotImplementedError


class QueueNotFound(NameNotFound):
    """No queue of that name."""

    code = "queue_not_found"

    def __init__(self, queue: str, known: Iterable[str] = ()) -> None:
        self.queue, self.known = queue, tuple(known)
        super().__init__(queue)

    def _sentence(self) -> str:
        # The native dialect calls it by its bare name, and whoever made it there may use that elsewhere.
        is_fifo = f"{self.queue}.fifo" in self.known
        guess = f" (did you mean '{self.queue}.fifo'?)" if is_fifo else nearest(self.queue, self.known)
        return f"Queue {quoted(self.queue)} does not exist{guess}. Create it first, or list the queues."


class ConsumerNotFound(NameNotFound):
    """No consumer of that name reads the queue."""

    code = "consumer_not_found"

    def __init__(self, queue: str, consumer: str, known: Iterable[str] = ()) -> None:
        self.queue, self.consumer, self.known = queue, consumer, tuple(known)
        super().__init__(queue, consumer)

    def _sentence(self) -> str:
        guess = nearest(self.consumer, self.known)
        return f"Queue '{self.queue}' has no consumer {quoted(self.consumer)}{guess}. Open it first, or list them."


class ClaimNotFound(NotFound):
    """The claim is finished, or was given back when its lease ended; or it has no such part."""

    code = "claim_not_found"

    def __init__(self, queue: str, consumer: str, number: int, part: int | None = None) -> None:
        self.queue, self.consumer, self.number = queue, consumer, number
        which = f"open claim {number}" if part is None else f"part {part} of claim {number}"
        super().__init__(
            f"Consumer '{consumer}' of queue '{queue}' has no {which}: it was finished, or its lease ran out. Ask for "
            "the next claim."
        )


class MessageNotFound(NotFound):
    """No message of that id (any more)."""

    code = "message_not_found"

    def __init__(self, id: int | UUID, queue: str | None = None) -> None:
        self.id, self.queue = id, queue
        where = f"in queue '{queue}'" if queue else "here"
        super().__init__(f"Message {id} is not {where}: it was acknowledged, removed, expired or never sent.")


class SubscriptionNotFound(NotFound):
    """No subscription of that id."""

    code = "subscription_not_found"

    def __init__(self, id: int | str, pattern: str | None = None) -> None:
        self.id, self.pattern = id, pattern
        where = f"to '{pattern}'" if pattern is not None else "here"
        super().__init__(f"There is no subscription {id} {where}. List the subscriptions.")


class TopicNotFound(NotFound):
    """No topic of that name."""

    code = "topic_not_found"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is no topic '{name}'. Create it, or list the topics.")


class DeliveryNotFound(NotFound):
    """No delivery of that id (any more)."""

    code = "delivery_not_found"

    def __init__(self, id: int) -> None:
        self.id = id
        super().__init__(f"There is no delivery {id}: it was delivered, dropped or never made. List the deliveries.")


class ScheduleNotFound(NameNotFound):
    """No schedule of that name."""

    code = "schedule_not_found"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(name)

    def _sentence(self) -> str:
        return (
            f"There is no schedule {quoted(self.name)}{nearest(self.name, self.known)}. "
            "Create it first, or list the schedules; one that fires once is gone when it has."
        )


class MoveNotFound(NotFound):
    """No task of that id moves messages."""

    code = "move_not_found"

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"There is no task '{id}' that moves messages, or it is over. List those of the queue.")


class WriterNotFound(NameNotFound):
    """No writer of that name sends to the queue in epochs."""

    code = "writer_not_found"

    def __init__(self, queue: str, writer: str, known: Iterable[str] = ()) -> None:
        self.queue, self.writer, self.known = queue, writer, tuple(known)
        super().__init__(queue, writer)

    def _sentence(self) -> str:
        guess = nearest(self.writer, self.known)
        return f"Queue '{self.queue}' has no writer {quoted(self.writer)}{guess}. List its writers."


class Conflict(SqewError):
    """A request that contradicts the present state."""

    code = "conflict"


class ConsumerInUse(Conflict):
    """The consumer is held by another owner, or it is just being released."""

    code = "consumer_in_use"

    def __init__(self, queue: str, consumer: str, owner: str, retry_after_ms: int) -> None:
        self.queue, self.consumer, self.owner, self.retry_after_ms = queue, consumer, owner, retry_after_ms
        whose = (
            f"is in the hands of '{owner}', for another {retry_after_ms / 1000:.3g} s"
            if retry_after_ms
            else ("is just being released")
        )
        super().__init__(
            f"Consumer '{consumer}' of queue '{queue}' {whose}. Use another name, wait, or take it away: "
            f"sqew consumer release --queue {queue} --name {consumer} --force."
        )


class Fenced(Conflict):
    """The consumer was opened by another owner since, or released."""

    code = "fenced"

    def __init__(self, queue: str, consumer: str, epoch: int, now: int) -> None:
        self.queue, self.consumer, self.epoch = queue, consumer, epoch
        super().__init__(
            f"Consumer '{consumer}' of queue '{queue}' was opened or released by somebody else since (its epoch is "
            f"{now}, and not {epoch}), and nothing was changed. Stop this reader, or open the consumer again."
        )


class ClaimSpent(Conflict):
    """A claim of that number was returned or finished before, under the same epoch, and is not made again."""

    code = "claim_spent"

    def __init__(self, queue: str, consumer: str, number: int) -> None:
        self.queue, self.consumer, self.number = queue, consumer, number
        super().__init__(
            f"Claim {number} of consumer '{consumer}' of queue '{queue}' is over: it was finished, or its lease ran "
            f"out and its messages are in the queue again. Nothing was claimed. Ask for the claim after {number}, or "
            "open the consumer again."
        )


class SubscriptionExists(Conflict):
    """The same pattern goes to the same target already, in another form."""

    code = "subscription_exists"

    def __init__(self, id: int, pattern: str, queue: str | None) -> None:
        self.id, self.pattern, self.queue = id, pattern, queue
        # An endpoint is not shown: whoever made it may have put a secret into its URL.
        where = "that endpoint" if queue is None else f"queue '{queue}'"
        super().__init__(
            f"Subscription {id} already takes '{pattern}' to {where}, in another form. "
            "Delete it first if the form is to change."
        )


class ScheduleExists(Conflict):
    """A schedule with this name exists already."""

    code = "schedule_exists"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Schedule '{name}' exists. Choose another name, or change the one that is there.")


class ChangedMeanwhile(Conflict):
    """The object was changed by another client after it was read, so nothing was changed."""

    code = "changed_meanwhile"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was changed by somebody else meanwhile. Read it and try again.")


class ScheduleChanged(Conflict):
    """The schedule was changed or fired by another client or server meanwhile, so nothing was done."""

    code = "schedule_changed"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"Schedule '{name}' was changed by somebody else meanwhile. Read it and try again.")


class TargetMissing(Conflict):
    """The queue that a schedule sends to does not exist (any more, or yet), so it can't be fired by hand."""

    code = "target_missing"

    def __init__(self, name: str, missing: QueueNotFound) -> None:
        self.name = name
        super().__init__(f"Schedule '{name}' can't fire. {missing}")


class EnvelopeNeeded(Conflict):
    """A subscription wants the event in an envelope, and it has none: sign one and publish again."""

    code = "envelope_needed"

    def __init__(self, versions: Iterable[int], for_queues: Iterable[int] = ()) -> None:
        self.versions = frozenset(versions)
        self.for_queues = frozenset(for_queues)
        """The versions that queues want: there the envelope is a message's body."""
        super().__init__("A subscription wants this event in a signed envelope. Publish it with one.")


class MoveRunning(Conflict):
    """Messages are being moved out of the dead-letter queue already."""

    code = "move_running"

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(f"A task moves messages out of queue '{queue}' already. Wait until it is over, or cancel it.")


class NotADeadLetterQueue(Conflict):
    """No queue has this one as its dead-letter queue."""

    code = "not_a_dead_letter_queue"

    def __init__(self, queue: str) -> None:
        self.queue = queue
        super().__init__(f"No queue has '{queue}' as its dead-letter queue. Name one that is.")


class PartIncomplete(Conflict):
    """A part of an epoch does not hold as many messages as it should. Nothing was changed."""

    code = "part_incomplete"

    def __init__(self, part: str, staged: int, expected: int) -> None:
        self.part, self.staged, self.expected = part, staged, expected
        super().__init__(
            f"Part '{part}' has {staged} messages staged, and not {expected}, so nothing was changed. "
            "Abort the epoch, and stage it again."
        )


class AlreadyPromoted(Conflict):
    """An epoch is in the queue already, or will be: it can't be aborted."""

    code = "already_promoted"

    def __init__(self, writer: str, epoch: int) -> None:
        self.writer, self.epoch = writer, epoch
        super().__init__(
            f"Epoch {epoch} of writer '{writer}' is promoted, or is about to be, and can't be aborted. "
            "Promote it again to see it finished."
        )


class QueueExists(Conflict):
    """A queue with this name exists already, with another policy, or although it was to be a new one.

    ``existing`` is the queue as the store had it when it refused; None in a client.
    """

    code = "queue_exists"
    existing: QueueInfo | None = None

    def __init__(self, queue: str, differs: str = "", existing: QueueInfo | None = None) -> None:
        self.queue, self.differs, self.existing = queue, differs, existing
        but = f", and its {differs} differs" if differs else " already"
        super().__init__(f"Queue '{queue}' exists{but}. Update it, or choose another name.")


class StaleLease(Conflict):
    """The lease was lost: it ran out and the message went on, or another receiver holds it."""

    code = "stale_lease"

    def __init__(self, id: int | UUID) -> None:
        self.id = id
        super().__init__(
            f"The lease on message {id} is no longer yours, so nothing was changed. "
            "Drop your result, or receive again; extend leases that take longer than the visibility timeout."
        )


class Limited(SqewError):
    """A limit that the queue's policy sets has been reached: try again later."""

    code = "limited"


class RateLimited(Limited):
    """A rate of messages above the queue's rate_limit."""

    code = "rate_limited"

    def __init__(self, queue: str, limit: float, retry_after_ms: int) -> None:
        self.queue, self.limit, self.retry_after_ms = queue, limit, retry_after_ms
        super().__init__(
            f"Queue '{queue}' takes {limit:g} messages a second. Send again in {max(retry_after_ms, 1)} ms."
        )


class QuotaExceeded(Limited):
    """The queue holds as many messages as its quota allows."""

    code = "quota_exceeded"

    def __init__(self, queue: str, quota: int) -> None:
        self.queue, self.quota = queue, quota
        super().__init__(
            f"Queue '{queue}' already holds its quota of {quota} messages. Consume some, or raise the quota."
        )


class TooMuchStaged(Limited):
    """The queue's quota of staged messages is reached."""

    code = "too_much_staged"

    def __init__(self, queue: str, staged: int, quota: int) -> None:
        self.queue, self.staged, self.quota = queue, staged, quota
        super().__init__(
            f"{staged} messages are staged for queue '{queue}', whose quota is {quota}, and no more may be. "
            "Promote or abort them, or raise the quota."
        )


class Overloaded(Limited):
    """The server has more to write than it can write at the moment."""

    code = "overloaded"

    def __init__(self, why: str, retry_after_ms: int) -> None:
        self.retry_after_ms = retry_after_ms
        super().__init__(f"The server is overloaded: {why}. Send again in {retry_after_ms} ms.")


class StoreError(SqewError):
    """The file or database was not able to do its work."""

    code = "store_error"
    discreet = "The server's store could not do that; the server's log says why."
    """The sentence that a server sends to a client: the place and the words of its file or database are for its log."""

    @property
    def public_text(self) -> str:
        return self.discreet or str(self)


class StoreBusy(StoreError):
    """The write lock was held by another process for longer than busy_timeout_ms."""

    code = "store_busy"
    discreet = "The server's store is busy just now. Try again in a moment."


class StoreUnavailable(StoreBusy):
    """The database does not answer just now, and nothing was done."""

    code = "store_unavailable"
    discreet = "The server's database does not answer just now. Try again in a moment."
    was_there = False
    """True if it has ended the connection itself, or is about to accept it: soon it may be back."""


class OutcomeUnknown(StoreError):
    """The answer of the database got lost: the operation may have been done, or not."""

    code = "outcome_unknown"
    discreet = (
        "The server's database has not said whether it did that: it may have been done, or not. Look, then ask again; "
        "with an idempotency key a message can be sent again without looking."
    )


class StoreFull(StoreError):
    """The disk has no room. Nothing was stored; acknowledgements still work."""

    code = "store_full"
    discreet = "The server's store has no room left, and nothing was changed. Free some on its disk, and try again."


class StoreDamaged(StoreError):
    """The file has been damaged, or is not a database at all."""

    code = "store_damaged"


class StoreTooNew(StoreError):
    """The file was written by a newer Sqew."""

    code = "store_too_new"
    discreet = (
        "This server is older than its store, did nothing, and is about to end. Try again in a moment, or ask another."
    )


class StoreUnusable(StoreError):
    """The place can't hold a queue: read-only, missing, or without the locking that WAL needs."""

    code = "store_unusable"


class NotOfDatabase(Conflict):
    """The queues are in PostgreSQL, which does this by itself or has tools of its own for it."""

    code = "not_of_database"


class StoreClosed(StoreError):
    """The queue was closed, or failed in a way after which it must be opened again."""

    code = "store_closed"
    discreet = ""


class BodyDamaged(StoreError):
    """A stored body no longer matches its checksum. It is never delivered."""

    code = "body_damaged"
    discreet = ""

    def __init__(self, id: int) -> None:
        self.id = id
        super().__init__(
            f"The stored body of message {id} does not match its checksum: the file was damaged. "
            "Run `sqew check`, and restore the message from its producer or from a backup."
        )


class DeliveryFailed(SqewError):
    """An endpoint could not be posted to, or did not answer as it should."""

    code = "delivery_failed"


class NotTried(DeliveryFailed):
    """An endpoint that was not even looked up, through no fault of its own: it counts as no attempt."""

    code = "not_tried"


class Unresolvable(DeliveryFailed):
    """An endpoint whose name has no address."""

    code = "unresolvable"


class ForbiddenAddress(DeliveryFailed):
    """An endpoint whose name has an address that may not be posted to."""

    code = "forbidden_address"


class BadSignature(SqewError):
    """An envelope that its receiver can't trust: answer 403, and do nothing that it says."""

    code = "bad_signature"


class DeliveryDamaged(StoreError):
    """A stored delivery no longer matches its checksum. It is never posted."""

    code = "delivery_damaged"
    discreet = ""

    def __init__(self, id: int) -> None:
        self.id = id
        super().__init__(
            f"What delivery {id} was to post does not match its checksum: the file was damaged. "
            "Drop it, and publish the event again."
        )


class ScheduleDamaged(StoreError):
    """A stored schedule no longer matches its checksum. It never fires."""

    code = "schedule_damaged"
    discreet = ""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"What is stored of schedule '{name}' does not match its checksum: the file was damaged. "
            "Delete the schedule and create it again."
        )


class SparkError(SqewError):
    """A job on Spark could not do its work."""

    code = "spark_error"


class SparkUnusable(SparkError):
    """Spark can't be started here: something that it needs is missing or unsuitable."""

    code = "spark_unusable"


class LakeUnusable(SparkError):
    """A folder that is no lake, or a lake that is damaged or has no room."""

    code = "lake_unusable"


class LakeConflict(SparkError):
    """The lake was added to by another run meanwhile; what this one wrote is gone."""

    code = "lake_conflict"

    def __init__(self, queue: str, lake: str) -> None:
        super().__init__(f"Another run has archived queue '{queue}' to {lake} meanwhile. Run it again.")


class ServerError(SqewError):
    """The server gave a client no answer."""

    code = "server_error"


class Unreachable(ServerError):
    """The server can't be connected to: nothing was sent, so nothing was done."""

    code = "unreachable"


class NoAnswer(ServerError):
    """The connection broke after the request was sent: the server may have done it, or not."""

    code = "no_answer"


class NotSqew(ServerError):
    """The answer is not that of a Sqew server."""

    code = "not_sqew"

    def __init__(self, where: str, status: int) -> None:
        self.status = status
        super().__init__(f"{where} does not answer as a Sqew server does (status {status}). Check the URL.")


def is_about_all(error: BaseException) -> bool:
    """Return True if an error concerns all the operations of a transaction, not just one of them."""
    return isinstance(error, SqewError) and not isinstance(error, BadValue | StoreDamaged)


def shortened(written: str, most: int = 60) -> str:
    """Shorten a value's repr if it is too long for a sentence. Its closing quote or bracket is kept.

    >>> shortened("'a text without end'", 12)
    "'a text ...'"
    """
    if len(written) <= most:
        return written
    end = "" if written[-1].isalnum() else written[-1]
    return f"{written[: most - 3 - len(end)]}...{end}"


def quoted(name: str) -> str:
    """Quote a name, cut if it is longer than any real one: a client that sent 16 MiB need not get them back.

    >>> quoted("orders")
    "'orders'"
    """
    return shortened(f"'{name[:_LONGEST_NAME]}'", _LONGEST_NAME)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'orders'?)"`` if a known name is close to the given one, else an empty string."""
    close = closest(name, known)
    return f" (did you mean '{close[0]}'?)" if close else ""
