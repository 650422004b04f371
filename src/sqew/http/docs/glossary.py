"""The meanings of the fields of requests and responses: one word for one thing, in whichever dialect it stands.

A field whose own type says nothing about it is documented by its name, from here.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct

from sqew.matching.routing import LONGEST_KEY
from sqew.rules.messages import HIGHEST_PRIORITY
from sqew.rules.policies import HEAVIEST_LANE, MOST_LANES
from sqew.rules.values import LARGEST_ID, LONGEST_MS, LONGEST_NAME, LONGEST_TARGET
from sqew.schedules.rules import LONGEST_EXPRESSION

QUEUE_NAME = {"pattern": r"^[A-Za-z0-9_-]{1,80}(\.fifo)?$"}
_KNOWN_NAME = {"pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]{1,256}$"}
"""A name of an existing queue: hq makes queues of any name."""
_LANE_NAME = {"pattern": r"^[A-Za-z0-9_.-]{1,80}$"}
_LONGEST_S = LONGEST_MS // 1000

_AFTER = {"integer": {"minimum": 0, "maximum": LARGEST_ID}}
_DEDUPLICATE = {"string": {"enum": ["key", "content"]}}
_DEDUPLICATE_WITHIN = {"string": {"enum": ["queue", "group"]}}
_KEY_RETENTION_FROM = {"string": {"enum": ["gone", "sent"]}}
_ENDPOINT = {"string": {"pattern": "^[Hh][Tt][Tt][Pp][Ss]?://", "maxLength": LONGEST_TARGET}}
_IDS = {"array": {"items": {"type": "integer", "minimum": 1, "maximum": LARGEST_ID}}}
_LANES = {
    "array": {"minItems": 1, "maxItems": MOST_LANES, "items": {"type": "string", **_LANE_NAME}},
    "object": {
        "minProperties": 1,
        "maxProperties": MOST_LANES,
        "propertyNames": _LANE_NAME,
        "additionalProperties": {"type": "integer", "minimum": 1, "maximum": HEAVIEST_LANE},
    },
}
_PATTERN = {"pattern": r"^(\*|#|[A-Za-z0-9_-]+)(\.(\*|#|[A-Za-z0-9_-]+)){0,63}$", "maxLength": LONGEST_KEY}
_ROUTING_KEY = {"pattern": r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,63}$", "maxLength": LONGEST_KEY}
_RATE = {"number": {"exclusiveMinimum": 0, "maximum": 1_000_000_000}}
_SCOPES = {"array": {"minItems": 1, "uniqueItems": True}}
_TARGET = {"string": {"minLength": 1, "maxLength": LONGEST_KEY}}
_TTL = {"number": {"minimum": 0.001, "maximum": _LONGEST_S}}


class Word(Struct, frozen=True):
    """The documentation of a field by its name: its meaning, an example, and the rules for it in a request."""

    doc: str
    example: Any = UNSET
    rules: dict[str, dict[str, Any]] = {}  # msgspec copies it
    """The rules as JSON schema, by the type that the field has."""


def _number(doc: str, at_least: int, at_most: int, example: int) -> Word:
    bounds = {"minimum": at_least, "maximum": at_most}
    return Word(doc, example, {"integer": bounds, "number": bounds})


def _ms(doc: str, example: int, at_least: int = 0) -> Word:
    return _number(doc, at_least, LONGEST_MS, example)


def _text(doc: str, example: str) -> Word:
    return Word(doc, example, {"string": {"minLength": 1, "maxLength": LONGEST_NAME}})


def _queue(doc: str, example: str = "orders") -> Word:
    return Word(doc, example, {"string": QUEUE_NAME})


def _expression(doc: str, example: str) -> Word:
    only = "Exactly one of `cron`, `every`, `when` and `fire_at` says when a schedule fires."
    return Word(f"{doc} {only}", example, {"string": {"minLength": 1, "maxLength": LONGEST_EXPRESSION}})


def words(max_batch: int) -> dict[str, Word]:
    """Return the glossary of a server whose batches hold so many messages."""
    return {
        **_WORDS,
        "batch": _number("How many messages to take at most.", 1, max_batch, 10),
        "catchup_limit": _number("How many missed fires are made up for at most.", 1, max_batch, 100),
        "limit": _number("How many to answer at most.", 1, max_batch, 10),
        "max": _number("How many messages to take at most.", 1, max_batch, 10),
    }


_WORDS = {
    "account": Word("The account in the queue's URL: digits, whichever.", "000000000000"),
    "after": Word(
        "Go on after this one: the last of the page before. In an answer, null: this was the last page.", UNSET, _AFTER
    ),
    "archive": Word("The finished messages that the queue kept, instead of those that wait."),
    "archive_retention_ms": _ms("How long finished messages are kept; null: for ever.", 604_800_000),
    "archived": Word("How many finished messages are kept."),
    "archived_at": Word("When it was finished."),
    "args": Word("What the message says: any JSON."),
    "attempts": Word("How often it was delivered, this time included.", 1),
    "available_at": Word("From when on it can be received."),
    "backoff": Word("How long a message waits after a nack.", {"kind": "fixed", "base_ms": 500}),
    "base_ms": _ms("The wait after the first nack.", 1_000),
    "blocked": Word("How many wait behind a message of their group that is in flight."),
    "body": Word("What the message says: any JSON.", {"sku": 7}),
    "bytes_after": Word("How large the file is now."),
    "bytes_before": Word("How large the file was."),
    "canonical": Word("The expression as it is stored: a cron string, an interval or an instant.", "0 9 * * 1-5"),
    "cap_ms": _ms("The longest wait after a nack.", 900_000),
    "catchup": Word(
        "Whether every fire missed while no server ran is made up for. Otherwise it fires once for all of them."
    ),
    "claimed": Word("How many were received and are not acked yet."),
    "code": Word("What went wrong, as a word for machines.", "queue_not_found"),
    "columns": Word("What is wanted of each message, with commas between; left out: everything.", "id,body"),
    "consecutive_failures": Word("How often in a row it could not fire."),
    "consumer": _text("Who receives: a name of your own, shown where leases are.", "worker-1"),
    "count": Word("How many messages it was."),
    "created_at": Word("When it was made."),
    "cron": _expression(
        "When it fires, as cron has it: five fields, six with seconds, or `@daily` and the like.", "0 9 * * 1-5"
    ),
    "damaged": Word("Whether the stored body no longer matches its checksum. It is withheld then."),
    "dead": Word("Whether the message is dead: it is not delivered again."),
    "dead_letter": _queue("The queue that dead messages move to; null: none.", "orders-dlq"),
    "dedupe_key": _text("Sent again with the same key, a message is not stored again.", "order-7"),
    "deduplicate": Word(
        "`content`: a message without a key gets the hash of its body as its key.", "key", _DEDUPLICATE
    ),
    "deduplicate_within": Word(
        "Where no two messages may have the same key: in the queue, or in each of its groups.",
        "queue",
        _DEDUPLICATE_WITHIN,
    ),
    "delay": _number("How many seconds it waits before it can be received.", 0, _LONGEST_S, 5),
    "delay_ms": _ms("How long it waits before it can be received.", 5_000),
    "delayed": Word("How many wait for their time."),
    "deleted": Word("Which messages, or how many, are gone."),
    "deliveries": Word("How many endpoints it will be posted to."),
    "depths": Word("What the queue holds now, by lane and state."),
    "died_at": Word("When it died."),
    "died_in": Word("The queue in which it died."),
    "dlq": _queue("The dead-letter queue: where messages go that were delivered in vain.", "orders-dlq"),
    "due_at": Word("When the message can be received again, or its lease ends."),
    "duplicate": Word("Whether its key was known: then this is the first message's id, and nothing was stored."),
    "endpoint": Word("The http or https URL that events are posted to.", "https://example.com/hook", _ENDPOINT),
    "enqueued_at": Word("When it was sent."),
    "envelope": Word("Whether it gets events in a signed envelope. Otherwise as they were published."),
    "epoch": _number("Which of the writer's epochs: 0, 1, 2 and so on.", 0, LARGEST_ID, 0),
    "error": Word("What went wrong, and what to do about it."),
    "every": _expression("When it fires, as an interval.", "5 minutes"),
    "expires_at": Word("When it is too late to deliver it; null: never."),
    "failure_threshold": _number("After so many failures in a row it pauses; null: never.", 1, 1_000_000, 10),
    "fifo": Word("Whether messages are delivered in order within their group. Queues named `….fifo` do."),
    "file": Word("A part of the page.", "docs.css"),
    "finished_at": Word("When it was acked, or died."),
    "fire_at": _expression(
        "When it fires, once: a time in ISO 8601, in the time zone unless it has an offset.", "2099-12-24T18:00:00Z"
    ),
    "first": Word("The id of the first one; null: there are none.", 1),
    "force": Word("Even while its owner holds it."),
    "format": Word("Whether the body is JSON or text.", "json"),
    "group": _text("What it must stay in order with, in a FIFO queue.", "customer-17"),
    "group_id": _text("What it must stay in order with, in a FIFO queue.", "customer-17"),
    "headers": Word("Whatever you want to say about the message besides its body.", {"trace": "a1"}),
    "hold_ms": _ms("How long nobody but its owner can open the consumer.", 30_000),
    "human_readable": Word("The same as a sentence.", "At 09:00 on weekdays, UTC"),
    "id": _number("Its id, as the server gave it.", 1, LARGEST_ID, 1),
    "idempotency_key": _text("Sent again with the same key, a message is not stored again.", "order-7"),
    "ids": Word("The messages that are meant; left out: all.", [1], _IDS),
    "imported": Word("How many messages were stored."),
    "in_flight": Word("How many are leased."),
    "is_partitioned": Word("False: there is one kind of storage."),
    "is_unlogged": Word("False: there is one kind of storage."),
    "jitter_ms": _ms("Up to so much is added at random, so that what failed together doesn't return together.", 250),
    "keep": Word("What ack does with a message: forget it, or keep it in the archive.", "delete"),
    "key": _text("Sent again with the same key, a message is not stored again.", "order-7"),
    "key_retention_from": Word(
        "Whether a key is remembered from when its message is gone, or from when it was sent.",
        "gone",
        _KEY_RETENTION_FROM,
    ),
    "key_retention_ms": _ms("How long a key is remembered after its message is gone.", 300_000),
    "keys": Word("The queue's keys."),
    "kind": Word("`fixed`: always the same wait. `exponential`: twice the wait each time.", "fixed"),
    "label": Word("What the key is for, in your own words.", "the shop"),
    "lane": _text("One of the queue's lanes; left out: all of them in turn, or the default one.", "normal"),
    "lanes": Word("The queue's lanes and their weights.", {"priority": 3, "normal": 1}, _LANES),
    "inserted_at": Word("When it was made, in UTC.", "2026-11-18 21:42:27.948"),
    "last": Word("The id of the last one; null: there are none.", 1000),
    "lease_expires_at": Word("When the lease ends and others may receive it."),
    "lease_ms": _ms("How long nobody else is given what was claimed.", 3_600_000),
    "leased": Word("How many are being worked on."),
    "leased_by": Word("Who works on it."),
    "local": Word("The same as the clocks of the time zone show it, with their offset."),
    "max_attempts": _number("After so many deliveries in vain a message is dead; null: never.", 1, 1_000_000, 5),
    "max_body_bytes": _number("The largest body the queue takes; null: what the server takes.", 1, 1 << 40, 262_144),
    "message": Word("What the message says: any JSON.", {"sku": 7}),
    "message_id": Word("The message's id."),
    "messages": Word("The messages, in order."),
    "ms": _ms("For how long from now the lease is to last.", 30_000),
    "msg_ids": Word("The messages that were sent."),
    "name": _queue("The queue's name: 1 to 80 letters, digits, `-` or `_`, and `.fifo` for one in order."),
    "name_prefix": Word("Only those whose names begin so.", "nightly"),
    "new": Word("How many wait to be received."),
    "newest_msg_age_sec": Word("How many seconds ago the newest message was sent."),
    "next_fires": Word("When it fires next."),
    "number": Word("Which claim of the consumer: 1, 2, 3 and so on.", 1),
    "ok": Word("Whether it was done."),
    "oldest_age_ms": Word("How long the longest-waiting message has been ready."),
    "oldest_msg_age_sec": Word("How many seconds ago the oldest message was sent."),
    "out_of_band": Word("Whether it was fired by hand, and not by its schedule."),
    "outcome": Word("What became of it: `done` or `dead`.", "dead"),
    "owner": _text("Who reads as the consumer: a name that a reader has again when it comes back.", "query-7"),
    "part": _text("Which part: of what is staged, a name of your own for one attempt of one task.", "0-a1"),
    "p50_ms": Word("Half of them took no longer."),
    "p95_ms": Word("95 of 100 took no longer."),
    "p99_ms": Word("99 of 100 took no longer."),
    "pattern": Word(
        "Which routing keys: words with dots between, `*` for any one of them, `#` for any number.",
        "orders.*",
        {"string": _PATTERN},
    ),
    "payload": Word("What the message says: any JSON.", {"sku": 7}),
    "policy": Word("What the queue does with its messages."),
    "prefix": Word("Only those whose names begin so.", "ord"),
    "priority": _number("Higher goes first.", -HIGHEST_PRIORITY, HIGHEST_PRIORITY, 1),
    "protocol": Word("What it leads to. It need not be said: that follows from the queue or the URL.", "sqs"),
    "queue": Word("The queue's name.", "orders", {"string": _KNOWN_NAME}),
    "queue_id": Word("The number of its queue, which has a name as well."),
    "queue_length": Word("How many messages the queue holds."),
    "queue_name": _queue("The queue that events are sent to."),
    "queue_visible_length": Word("How many can be received now."),
    "quota": _number("How many messages the queue may hold; null: any number.", 0, 1 << 53, 100_000),
    "rate_limit": Word("How many messages a second may be sent; null: any number.", 100, _RATE),
    "read_ct": Word("How often it was delivered.", 1),
    "ready": Word("How many can be received now."),
    "reason": Word("Why, in your own words.", "the address is unknown"),
    "receive_wait_ms": _ms("How long a receive by SQS waits for a message when it does not say.", 20_000),
    "results": Word("What became of each entry, in order."),
    "routing_key": Word(
        "What the event is about: words with dots between.", "orders.eu.created", {"string": _ROUTING_KEY}
    ),
    "schedule": Word("The schedule's name."),
    "scheduled_for": Word("The time that the fire was for."),
    "scopes": Word("What the key allows: `send`, `receive`, `admin` (everything).", ["send"], _SCOPES),
    "scrape_time": Word("When these figures were true."),
    "seconds": _number("For how many seconds finished messages are kept; null: for ever.", 0, _LONGEST_S, 86_400),
    "signature_version": Word(
        "How envelopes are signed: 2 with SHA-256, 1 with SHA-1 for receivers that know no other.", 2
    ),
    "signing": Word("Whether requests with the key must be signed."),
    "signing_secret": Word("What requests are signed with. It is shown this once."),
    "state": Word("Whether it can be received, and if not, why."),
    "status": Word("`ok`, or what is wrong."),
    "subscription_id": _number("Only those of this subscription.", 1, LARGEST_ID, 1),
    "target": Word("The queue to send to, or the routing key to publish under.", "orders", _TARGET),
    "target_kind": Word("Whether it sends to a `queue`, or publishes an event under a routing key (`topic`).", "queue"),
    "timestamp": Word("When it was sent."),
    "sync_commit": Word(
        "Whether the answer waits for the disk; null: as the server is set. Of an array, all wait if one does.", False
    ),
    "timezone": Word("The IANA name of the time zone whose clocks count. Left out: UTC.", "Europe/Berlin"),
    "token": Word("The secret of the lease, from when the message was received.", "0" * 32),
    "topic": _queue("Which mailbox: a queue's name. Left out: `mailbox`.", "news"),
    "ttl": Word("For how many seconds it can be delivered; null: for ever.", 86_400, _TTL),
    "ttl_ms": _ms("How long it can be delivered; null: for ever.", 86_400_000, at_least=1),
    "up_to": Word("Only those with ids up to this one; left out: all that are there now.", 1000, _AFTER),
    "utc": Word("When that is, in UTC."),
    "version": Word("The version of the server."),
    "visibility_ms": _ms("How long a lease lasts.", 30_000),
    "visibility_timeout_seconds": _number("How long a lease lasts, in seconds.", 0, _LONGEST_S, 30),
    "visible_at": Word("From when on others see it."),
    "vt": _number("In how many seconds others see it.", 0, _LONGEST_S, 30),
    "wait_ms": _ms("How long to wait for a message if there is none. The server's max_wait_ms is the most.", 1_000),
    "weight": Word("How large the lane's share is."),
    "when": _expression("When it fires, in plain English.", "every weekday at 9am"),
    "writer": _text("Who sends in whole epochs: a job's or a query's id.", "nightly-load"),
}
