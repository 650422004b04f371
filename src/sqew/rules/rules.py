"""Rules for names, bodies, policies and limits, checked before a store is asked to do anything."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from sqew.errors import BadBody, BadName, BadValue, TooLarge, nearest, shortened
from sqew.model import NO_REASON, Backoff, Format, NewMessage, Policy
from sqew.rules.regions import REGION

DEFAULT_MAX_ATTEMPTS = 5
DEAD_LETTER_SUFFIX = "-dlq"
LONGEST_JITTER_S = 86_400
QUEUE_SCHEME = "sqs://"
"""The prefix of a queue's name in place of an endpoint."""
FIFO_SUFFIX = ".fifo"

HIGHEST_PRIORITY = 1_000
"""The highest priority: they run from -1000 to 1000, few because a claim looks into each one in use."""
LONGEST_MS = 10 * 366 * 86_400_000
"""The longest delay, lease, TTL or retention, ten years: a longer one is a mistake in the unit."""
LONGEST_NAME = 256
"""The longest key, group, consumer's name or reason of a death, in characters; longer ones are refused, or cut."""
MOST_BYTES = 8 * 1024 * 1024
"""The bytes of messages at which an answer ends: all other operations wait while they are read."""
_LONGEST_SHOWN = 100
HEAVIEST_LANE = 1_000_000
MOST_LANES = 1_000
"""The most lanes of a queue: each is a row to write, and takes a turn in a receive that names no lane."""
MOST_ATTEMPTS = 1_000_000
"""The highest limit on deliveries that a queue can have."""
JOB_BODY_BYTES = 2 * 1_048_576
JOB_DEPTH = 128
"""The depth of a job in hq. It applies to hq's dialect unless the operator has set limits of their own."""
SLOWEST_RATE = 0.000001
"""The lowest rate limit, in messages per second: one in eleven days."""

_MARKS_KEYS = re.compile(r"[.*#]")
_QUEUE_NAME = re.compile(rf"(?:{REGION}:)?[A-Za-z0-9_-]{{1,80}}(?:\.fifo)?")
"""Names that every dialect can write. Before a colon: the region in which an SQS client made the queue, if it is not
the default one."""
_UNPRINTABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that no name may have: they break lines of logs and terminals, or can't be stored."""
RESERVED_NAMES = frozenset({"(by id)", "(other)"})
"""Names under which metrics show values of no single queue."""
_SCHEDULE_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.:-]{1,100}")
_LANE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_BYTES = (bytes, bytearray, memoryview)
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PLAIN = (str, int, bool, type(None))
_ATTRIBUTE_FIELDS = 2
_BYTES_PER_LOOK = 32
"""Bytes that take as long to search as the type of one value takes to look at (40 ns)."""
_NOT_PLAIN_DATA = (TypeError, ValueError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError)
"""Errors raised by msgspec, or by the object it reads, for values that JSON can't represent."""

_NOT_OPENING = bytes(set(range(256)) - set(b"[{\0"))
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ROUND = bytes.maketrans(b"[]{}", b"()()")
_SMALLEST_HEADER = 5
"""Bytes that a header takes, at least: ``"":1,``. Attributes of SQS are longer, and ten at most."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Limits(Struct, frozen=True):
    """The limits on the sizes of messages and batches."""

    max_body_bytes: int = 1_048_576
    max_headers_bytes: int = 65_536
    max_batch: int = 1_000
    max_depth: int = 64
    jobs: Limits | None = None
    """The limits on bodies sent as hq's jobs, if they differ."""


class Throttle:
    """A token bucket: one second's worth of burst, refilled steadily."""

    __slots__ = ("_at", "_tokens")

    def __init__(self) -> None:
        self._tokens = math.inf
        self._at = 0

    def take(self, count: int, rate: float, now: int, *, apart: bool = False) -> int:
        """Take ``count`` tokens, or return the milliseconds until they are there. ``apart``: they are no batch."""
        burst = max(rate, 1.0)
        # (Time may have been set back.)
        tokens = min(burst, self._tokens + max(now - self._at, 0) * rate / 1000)
        # A batch larger than the burst goes through when the bucket is full, and is paid for afterwards.
        needed = count if apart else min(count, burst)
        wait_ms = math.ceil((needed - tokens) * 1000 / rate) if tokens < needed else 0
        self._tokens = tokens if wait_ms else tokens - count
        self._at = now
        return wait_ms

    def give_back(self, count: int) -> None:
        """Put back tokens whose operation did not take place."""
        self._tokens += count


def check_new_queue_name(name: object) -> None:
    """Raise `BadName` unless a new queue may have the name: every dialect must be able to write it."""
    if not isinstance(name, str) or not _QUEUE_NAME.fullmatch(name):
        raise BadName(
            f"{shown(name)} can't be a queue's name. Use 1 to 80 letters, digits, '-' or '_', "
            "and '.fifo' at the end for a FIFO queue."
        )


def is_keyed(topic: str) -> bool:
    """Return True if a topic's name is a routing key or pattern, which no topic of AWS can have as its name.

    beyond-queue's topics are such. They need not be created before a client subscribes or publishes to them.

    >>> [is_keyed(name) for name in ("orders", "orders.created", "orders.*", "eu-west-1:orders", "orders.fifo")]
    [False, True, True, False, False]
    """
    return _MARKS_KEYS.search(topic.removesuffix(FIFO_SUFFIX)) is not None


def names_meant(name: str) -> tuple[str, ...]:
    """Return the full names that a queue's name may stand for, in order of preference: ``.fifo`` may be left out."""
    return (name,) if name.endswith(FIFO_SUFFIX) else (name, name + FIFO_SUFFIX)


def check_queue_name(name: object) -> None:
    """Raise `BadName` unless an existing queue may have the name. One made by hq's clients may have almost any name."""
    if isinstance(name, str) and _QUEUE_NAME.fullmatch(name):
        return
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise BadName(
            f"{shown(name)} can't be a queue's name: it must be a string of {LONGEST_NAME} characters or less."
        )
    if name in RESERVED_NAMES or any(unicodedata.category(character) in _UNPRINTABLE for character in name):
        raise BadName(
            f"{shown(name)} can't be a queue's name: "
            f"{'metrics use it' if name in RESERVED_NAMES else 'it holds control characters'}. Choose another."
        )


def check_jitter(seconds: object) -> None:
    """Raise unless a schedule may fire up to so many seconds late."""
    check_int("jitter_secs", seconds, 0, LONGEST_JITTER_S)


def check_schedule_name(name: object) -> None:
    """Raise `BadName` unless a schedule may have the name."""
    if not isinstance(name, str) or not _SCHEDULE_NAME.fullmatch(name):
        raise BadName(
            f"{shown(name)} can't be a schedule's name. Use 1 to 100 letters, digits, '-', '_', '.' or ':', "
            "and not just dots."
        )


def default_policy(name: str, changes: Mapping[str, Any]) -> Policy:
    """Return the policy of a queue that gets a dead-letter queue by default; see `dead_letter_name`."""
    fields = dict(changes)
    fields.setdefault("fifo", name.endswith(FIFO_SUFFIX))
    fields.setdefault("max_attempts", DEFAULT_MAX_ATTEMPTS)
    if "dead_letter" not in fields and fields["max_attempts"] is not None:
        fields["dead_letter"] = dead_letter_name(name)
    return make_policy(name, fields)


def dead_letter_policy(name: str) -> Policy:
    """Return the policy of a dead-letter queue that is made because another's policy names it: nothing dies in it."""
    return default_policy(name, {"max_attempts": None})


def dead_letter_name(name: str) -> str:
    """Return a dead-letter queue's name: ``orders`` → ``orders-dlq``; ``orders.fifo`` → ``orders-dlq.fifo``."""
    stem = name.removesuffix(FIFO_SUFFIX)
    made = stem + DEAD_LETTER_SUFFIX + name[len(stem) :]
    if _QUEUE_NAME.fullmatch(name) and not _QUEUE_NAME.fullmatch(made):
        raise BadName(f"'{name}' is too long to add '{DEAD_LETTER_SUFFIX}' to. Name its dead-letter queue, or none.")
    return made


def make_policy(name: str, fields: Mapping[str, Any]) -> Policy:
    """Return a checked policy for the queue of that name, made from plain data."""
    check_queue_name(name)
    policy = _convert(fields)
    check_queue_policy(name, policy)
    return policy


def check_queue_policy(name: str, policy: Policy) -> None:
    """Raise unless a queue of that name may have that policy."""
    check_queue_name(name)
    check_policy(policy)
    if policy.fifo != name.endswith(FIFO_SUFFIX):
        raise BadValue(
            f"A FIFO queue's name ends in '.fifo' and no other's does: '{name}' can't be "
            f"{'FIFO' if policy.fifo else 'a standard queue'}."
        )
    if policy.dead_letter == name:
        raise BadValue(f"Queue '{name}' can't be its own dead-letter queue. Name another, or none.")


def checked_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes to a policy as typed values, checked on their own."""
    policy = _convert(changes)
    check_policy(policy)
    return {name: getattr(policy, name) for name in changes}


def _convert(fields: Mapping[str, Any]) -> Policy:
    _check_fields(Policy, fields)
    plain = dict(fields)
    lanes = plain.get("lanes")
    if isinstance(lanes, Mapping | Sequence) and len(lanes) > MOST_LANES and not isinstance(lanes, str | bytes):
        raise _too_many_lanes(len(lanes))
    try:
        if isinstance(lanes, Sequence) and not isinstance(lanes, str | bytes):
            plain["lanes"] = dict.fromkeys(lanes, 1)
            if len(plain["lanes"]) < len(lanes):
                raise BadValue(f"lanes can't be {shown(lanes)}: a lane is named twice. Name each once.")
        return msgspec.convert(msgspec.to_builtins(plain), Policy)
    except _NOT_PLAIN_DATA as error:
        raise BadValue(_misfit(Policy, plain, fields)) from error


def _check_fields(of: type[Struct], fields: Mapping[str, Any]) -> None:
    known = of.__struct_fields__
    for name in fields:
        if name not in known:
            what = of.__name__.lower()
            raise BadValue(f"A {what} has no '{name}'{nearest(name, known)}. It has: {', '.join(known)}.")


_KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    type(None): "none",
    Backoff: f"a mapping with any of {', '.join(Backoff.__struct_fields__)}",
    dict[str, int]: "a list of names, or a mapping from names to weights that are whole numbers",
}


def _misfit(of: type[Struct], fields: Mapping[str, Any], given: Mapping[str, Any], prefix: str = "") -> str:
    """Return a sentence on the field that does not fit its type: its value as given, and what it must be."""
    types = {field.name: field.type for field in msgspec.structs.fields(of)}
    name, value = next((name, value) for name, value in fields.items() if not _fits(value, types[name]))
    if types[name] is Backoff and isinstance(value, dict) and all(isinstance(key, str) for key in value):
        _check_fields(Backoff, value)
        return _misfit(Backoff, value, value, "backoff.")
    return f"{prefix}{name} can't be {shown(given[name])}: it must be {_kind(types[name])}."


def _fits(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(msgspec.to_builtins(value), kind)
    except _NOT_PLAIN_DATA:
        return False
    return True


def _kind(of: Any) -> str:
    if of in _KINDS:
        return _KINDS[of]
    if get_origin(of) is Literal:
        return " or ".join(map(repr, get_args(of)))
    return ", or ".join(map(_kind, get_args(of)))


def check_policy(policy: Policy) -> None:
    """Raise `BadValue` unless every field is in its range."""
    check_ms("visibility_ms", policy.visibility_ms)
    check_ms("delay_ms", policy.delay_ms)
    check_ms("key_retention_ms", policy.key_retention_ms)
    if policy.ttl_ms is not None:
        check_ms("ttl_ms", policy.ttl_ms, at_least=1)
    if policy.archive_retention_ms is not None:
        check_ms("archive_retention_ms", policy.archive_retention_ms)
    if policy.max_attempts is not None:
        check_int("max_attempts", policy.max_attempts, 1, MOST_ATTEMPTS)
    if policy.quota is not None:
        check_int("quota", policy.quota, 0, 1 << 53)
    if policy.rate_limit is not None and not SLOWEST_RATE <= policy.rate_limit <= 1e9:
        raise BadValue(
            f"rate_limit can't be {policy.rate_limit}: it must be messages a second from {SLOWEST_RATE:f} on, or none."
        )
    if policy.max_body_bytes is not None:
        check_int("max_body_bytes", policy.max_body_bytes, 1, 1 << 40)
    check_ms("receive_wait_ms", policy.receive_wait_ms)
    if policy.dead_letter is not None:
        check_queue_name(policy.dead_letter)
    _check_backoff(policy.backoff)
    if len(policy.lanes) > MOST_LANES:
        raise _too_many_lanes(len(policy.lanes))
    if not policy.lanes:
        raise BadValue("A queue needs a lane at least. Leave lanes out for the one called 'normal'.")
    for lane, weight in policy.lanes.items():
        if not _LANE_NAME.fullmatch(lane):
            raise BadName(f"{shown(lane)} can't be a lane's name. Use 1 to 80 letters, digits, '-', '_' or '.'.")
        check_int(f"The weight of lane '{lane}'", weight, 1, HEAVIEST_LANE)


def _too_many_lanes(count: int) -> BadValue:
    return BadValue(f"A queue may have {MOST_LANES} lanes, not {count}. Use groups, or more queues.")


def _check_backoff(backoff: Backoff) -> None:
    check_ms("backoff.base_ms", backoff.base_ms)
    check_ms("backoff.cap_ms", backoff.cap_ms)
    check_ms("backoff.jitter_ms", backoff.jitter_ms)


def check_ms(name: str, value: object, at_least: int = 0) -> None:
    """Raise `BadValue` unless the value is a sensible number of milliseconds."""
    check_int(name, value, at_least, LONGEST_MS)


def check_int(name: str, value: object, at_least: int, at_most: int) -> None:
    """Raise `BadValue` unless the value is a whole number in the range."""
    if type(value) is not int or not at_least <= value <= at_most:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a whole number from {at_least} to {at_most}.")


def seconds_as_ms(name: str, seconds: object, at_least: int = 0) -> int:
    """Convert seconds to milliseconds; raise `BadValue` unless they are sensible, and at least ``at_least``."""
    if (type(seconds) is not int and type(seconds) is not float) or not at_least <= seconds * 1000 <= LONGEST_MS:
        raise BadValue(
            f"{name} can't be {shown(seconds)}: "
            f"it must be a number of seconds from {at_least / 1000:g} to {LONGEST_MS // 1000}."
        )
    return round(seconds * 1000)


def seconds_of(prefix: str, seconds: float | None, ms: object, at_least: int = 0) -> float | None:
    """Return a time given as ``lease_seconds`` or as ``lease_ms``, in seconds, or None if neither is given."""
    if ms is None:
        return seconds
    if seconds is not None:
        raise BadValue(f"{prefix}seconds and {prefix}ms say the same. Give one of the two.")
    check_ms(f"{prefix}ms", ms, at_least)
    assert isinstance(ms, int)
    return ms / 1000


def in_milliseconds(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a policy, with each ``NAME_seconds`` converted to ``NAME_ms``."""
    found = _in_milliseconds(fields, (*Policy.__struct_fields__, "base_backoff_ms"))
    if isinstance(found.get("backoff"), Mapping):
        found["backoff"] = _in_milliseconds(found["backoff"], Backoff.__struct_fields__)
    return found


def _in_milliseconds(fields: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    found = dict(fields)
    for name in fields:
        # (What is in a mapping of somebody's own need not be a string.)
        field = str(name).removesuffix("_seconds") + "_ms"
        if not str(name).endswith("_seconds") or field not in known:
            continue
        if field in fields:
            raise BadValue(f"{name} and {field} say the same. Give one of the two.")
        seconds = found.pop(name)
        found[field] = None if seconds is None else seconds_as_ms(name, seconds)
    return found


def check_batch(count: int, limits: Limits) -> None:
    """Raise unless the size of a batch is allowed."""
    if count > limits.max_batch:
        raise TooLarge(f"A batch may hold {limits.max_batch} entries; this one holds {count}. Split it.")


def check_message(message: NewMessage, limits: Limits) -> None:
    """Raise unless the message may be sent. Its JSON must be well-formed already: see `parse_json`."""
    if type(message.body) is not bytes:
        raise BadBody(f"The body of a NewMessage can't be {shown(message.body)}: encode it to bytes.")
    if message.format != "json" and message.format != "text":
        raise BadValue(f"format can't be {shown(message.format)}: it must be 'json' or 'text'.")
    _check_size(message.body, limits)
    if type(message.priority) is not int or not -HIGHEST_PRIORITY <= message.priority <= HIGHEST_PRIORITY:
        check_int("priority", message.priority, -HIGHEST_PRIORITY, HIGHEST_PRIORITY)
    if message.delay_ms is not None:
        check_ms("delay_ms", message.delay_ms)
    if message.ttl_ms is not None:
        check_ms("ttl_ms", message.ttl_ms, at_least=1)
    if message.lane is not None:
        check_text("lane", message.lane)
    if message.key is not None:
        check_text("key", message.key)
    if message.group is not None:
        check_text("group", message.group)
    if message.headers is not None:
        _check_headers(message.headers, len(message.body), limits)


def _check_size(body: bytes, limits: Limits) -> None:
    if len(body) > limits.max_body_bytes:
        raise TooLarge(
            f"The body has {len(body)} bytes; {limits.max_body_bytes} are allowed (max_body_bytes). "
            "Store the data elsewhere and send a reference to it."
        )


def is_short(text: str) -> bool:
    """Return True if `check_text` would accept the string."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def check_text(name: str, value: object) -> None:
    """Raise `BadValue` unless the value is a short string."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a text of 1 to {LONGEST_NAME} characters.")
    if not value.isprintable():
        if "\0" in value:
            raise BadValue(f"{name} can't be {shown(value)}: not every store can hold the character NUL. Leave it out.")
        if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
            raise BadValue(f"{name} can't be {shown(value)}: it is not valid Unicode.")


def _check_headers(headers: object, body_bytes: int, limits: Limits) -> None:
    if not isinstance(headers, dict) or not all(isinstance(name, str) for name in headers):
        raise BadValue(f"headers can't be {shown(headers)}: they must be a mapping from names to JSON values.")
    if len(headers) > limits.max_headers_bytes // _SMALLEST_HEADER:
        # Each of them would be looked at, a million as well.
        raise TooLarge(f"There are {len(headers)} headers; {limits.max_headers_bytes} bytes are allowed. Send fewer.")
    size = len(encode_json(headers, "headers", limits.max_depth))
    if size <= limits.max_headers_bytes:
        return
    others = {name: value for name, value in headers.items() if not attribute_bytes({name: value})}
    size = len(encode_json(others, "headers", limits.max_depth))
    if size > limits.max_headers_bytes:
        raise TooLarge(f"The headers have {size} bytes; {limits.max_headers_bytes} are allowed.")
    size = body_bytes + attribute_bytes(headers)
    if size > limits.max_body_bytes:
        raise TooLarge(
            f"The body has {size} bytes with its attributes; {limits.max_body_bytes} are allowed (max_body_bytes). "
            "Store the data elsewhere and send a reference to it."
        )


def attribute_bytes(headers: Mapping[str, Any]) -> int:
    """Return the bytes of headers that are attributes of SQS or SNS: they count with the body, as they do there.

    >>> attribute_bytes({"a": {"DataType": "Binary", "BinaryValue": "AA=="}, "b": "no attribute"})
    8
    """
    return sum(map(_attribute_bytes, headers, headers.values()))


def _attribute_bytes(name: str, value: Any) -> int:
    match value:
        case {"DataType": str(kind), "StringValue": str(text)} if len(value) == _ATTRIBUTE_FIELDS:
            return len(name.encode()) + len(kind.encode()) + len(text.encode())
        case {"DataType": str(kind), "BinaryValue": str(text)} if len(value) == _ATTRIBUTE_FIELDS:
            # The bytes that Base64 stands for.
            return len(name.encode()) + len(kind.encode()) + len(text) * 3 // 4 - text[-2:].count("=")
        case _:
            return 0


def encode_body(value: Any, limits: Limits) -> tuple[bytes, Format]:
    """Encode a Python value as a body: strings as they are, everything else as JSON.

    Values for which JSON has no type are written as strings or lists: dates in ISO 8601, UUIDs and decimals in their
    usual form, sets and tuples as lists, dataclasses as objects, bytes in base64. Bytes that are the whole body are
    refused all the same: their sender expects them to arrive as they are.
    """
    if type(value) is not dict:
        if isinstance(value, str):
            return _encode_text(value), "text"
        if isinstance(value, _BYTES):
            raise BadBody("A body is JSON or text. Decode the bytes to a string, or encode them with base64.")
    return encode_json(value, "body", limits.max_depth), "json"


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadBody(f"The text is not valid Unicode ({error}).") from error


def encode_json(value: Any, what: str, max_depth: int) -> bytes:
    """Encode a Python value as JSON; raise `BadBody` if JSON can't represent it, or it is nested too deep."""
    try:
        encoded = _encode(value)
    except _NOT_PLAIN_DATA as error:
        raise BadBody(f"The {what} can't be written as JSON: {error}.") from error
    # Most bodies are a few plain values in a dict. To see that is quicker than to search the bytes for what can't be
    # in them: 0.3 instead of 0.8 µs of a body of 250 bytes.
    if type(value) is dict and len(value) * _BYTES_PER_LOOK < len(encoded):
        for inner in value.values():
            if type(inner) not in _PLAIN:
                break
        else:
            return encoded
    _check_depth((encoded,), max_depth, what)
    # msgspec writes NaN and infinity as null, which would alter the body in silence. (`in` takes twice as long as find:
    # it asks first whether the bytes are a number.)
    if encoded.find(b"null") >= 0 and _has_non_finite(value):
        raise BadBody(f"The {what} holds NaN or infinity, which JSON can't say. Send null or a string instead.")
    return encoded


def _has_non_finite(value: Any) -> bool:
    # As the encoder sees it, so that dataclasses and the like are looked into; and without recursion, since two
    # frames for each of 500 levels, as max_depth may be, are more than Python's stack allows.
    # JSON that is written already (Raw) stands for itself, and can't hold any.
    unseen = [msgspec.to_builtins(value, enc_hook=lambda _raw: None)]
    while unseen:
        seen = unseen.pop()
        if isinstance(seen, float) and not math.isfinite(seen):
            return True
        if isinstance(seen, dict):
            unseen.extend(seen.values())
        elif isinstance(seen, list | tuple):
            unseen.extend(seen)
    return False


def parse_json(body: bytes, limits: Limits) -> None:
    """Raise unless the bytes are strict JSON of an allowed size and depth."""
    # First: to decode 12 MiB of small objects takes 0.5 s, in which everybody else may have to wait.
    _check_size(body, limits)
    parse_all((body,), limits)


def parse_all(bodies: Sequence[bytes], limits: Limits) -> None:
    """Raise unless each of many bodies is strict JSON of an allowed depth."""
    try:
        for body in bodies:
            _decode(body)
    except RecursionError as error:
        raise BadBody(f"The body is nested too deep; {limits.max_depth} levels are allowed (max_depth).") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBody(f"The body is not valid JSON: {error}.") from error
    # Only now: strings are cut out in one pass where every one of them ends, and none holds what stands between them.
    _check_depth(bodies, limits.max_depth, "body")


def _check_depth(encoded: Sequence[bytes], max_depth: int, what: str) -> None:
    together = b"\0".join(encoded)
    if len(together) <= 2 * max_depth:
        return
    # Most bodies have fewer brackets than the limit allows levels. (translate counts twice as fast as count.)
    opening = together.translate(None, _NOT_OPENING)
    if len(opening) - len(encoded) < max_depth:
        return
    for one, brackets in zip(encoded, opening.split(b"\0"), strict=True):
        deepest = _depth(one) if len(brackets) > max_depth else 0
        if deepest > max_depth:
            raise BadBody(
                f"The {what} is nested {deepest} levels deep; {max_depth} are allowed (max_depth). Flatten it."
            )


def _depth(encoded: bytes) -> int:
    """Count how deep valid JSON is nested: remove the innermost pairs of brackets until none is left."""
    brackets = _STRING.sub(b"", encoded).translate(_ROUND, _NO_BRACKETS)
    depth = 0
    while brackets:
        brackets = brackets.replace(b"()", b"")
        depth += 1
    return depth


def reason_of(cause: object) -> str:
    """Return the reason of a failure as a short string that can be stored, whatever a program gave as the cause."""
    if cause is None:
        return NO_REASON
    try:
        text = str(cause)
    except Exception:  # noqa: BLE001 (the object's own code, and it is about to be reported as it is)
        text = ""
    if isinstance(cause, BaseException):
        text = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    # Neither surrogates nor NUL can be stored.
    return text[:LONGEST_NAME].encode(errors="backslashreplace").decode().replace("\0", "\\x00")[:LONGEST_NAME]


def _beginning(value: object) -> object:
    """Return the part of a string that can ever be shown: checking whether 16 MiB can be printed takes 0.1 s."""
    return value[:_LONGEST_SHOWN] if type(value) in (str, bytes) else value  # type: ignore[index]  # both have parts


def shown(value: object) -> str:
    """Format a value for the sentence that refuses it: short, and without ever raising an error."""
    try:
        text = repr(str(value) if isinstance(value, PurePath) else _beginning(value))
    except Exception:  # noqa: BLE001 (the object's own code; or an integer of more than 4,300 digits)
        text = f"this {type(value).__name__}"
    return shortened(text)
