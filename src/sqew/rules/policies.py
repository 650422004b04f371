"""Rules for policies: made from plain data, and every field in its range."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from sqew.errors import BadName, BadValue, nearest
from sqew.model import Backoff, Policy
from sqew.rules.bodies import NOT_PLAIN_DATA
from sqew.rules.names import FIFO_SUFFIX, check_queue_name, dead_letter_name
from sqew.rules.values import check_int, check_ms, seconds_as_ms, shown

DEFAULT_MAX_ATTEMPTS = 5
HEAVIEST_LANE = 1_000_000
MOST_LANES = 1_000
"""The most lanes of a queue: each is a row to write, and takes a turn in a receive that names no lane."""
MOST_ATTEMPTS = 1_000_000
"""The highest limit on deliveries that a queue can have."""
SLOWEST_RATE = 0.000001
"""The lowest rate limit, in messages per second: one in eleven days."""

_LANE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,80}")


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
    except NOT_PLAIN_DATA as error:
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
    except NOT_PLAIN_DATA:
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
