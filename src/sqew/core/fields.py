"""Checks for the fields of operations. Each raises unless the value is allowed in the field of that name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from msgspec import structs

from sqew.errors import BadValue, UnknownColumn
from sqew.formats.columns import check as check_staged
from sqew.matching.filters import compile_filter
from sqew.matching.routing import check_pattern, check_routing_key
from sqew.model import (
    ARCHIVE_COLUMNS,
    EVENT_HEADER,
    SCHEDULE_HEADER,
    Advance,
    DeliveryOutcome,
    ExpressionKind,
    Extension,
    Finished,
    KeyScope,
    NewEvent,
    NewMessage,
    NewMessages,
    Policy,
    Ref,
    Release,
    Schedule,
    ScheduleStatus,
    SigningKey,
    SubscriptionDetails,
    SubscriptionNotice,
    TargetKind,
)
from sqew.rules.bodies import encode_json
from sqew.rules.limits import Limits, check_batch
from sqew.rules.messages import check_message, check_new_message
from sqew.rules.names import check_lane, check_queue_name, check_schedule_name
from sqew.rules.policies import check_policy, checked_changes
from sqew.rules.values import (
    LARGEST_ID,
    LONGEST_TARGET,
    check_collection,
    check_id,
    check_int,
    check_jitter,
    check_ms,
    check_text,
    check_unicode,
    is_short,
    shown,
)

_SCOPES = get_args(KeyScope)
_DIGEST_BYTES = 32

Check = Callable[[str, Any, Limits], None]
"""A check that raises unless the value is allowed in the field of that name."""


def queue(_name: str, value: Any, _limits: Limits) -> None:
    # The name of a queue that does not exist does no harm, unless a store can't be asked for it. No legal name is
    # other than ASCII, or holds NUL.
    if type(value) is not str or not value.isascii() or "\0" in value:
        check_queue_name(value)


def lane(_name: str, value: Any, _limits: Limits) -> None:
    check_lane(value)


def text(name: str, value: Any, _limits: Limits) -> None:
    check_text(name, value)


def any_text(name: str, value: Any, _limits: Limits) -> None:
    check_unicode(name, value)


def ms(name: str, value: Any, _limits: Limits) -> None:
    check_ms(name, value)


def id_(_name: str, value: Any, _limits: Limits) -> None:
    check_id(value)


def limit(name: str, value: Any, _limits: Limits) -> None:
    check_int(name, value, 1, LARGEST_ID)


def batch_limit(name: str, value: Any, limits: Limits) -> None:
    check_int(name, value, 1, LARGEST_ID)
    check_batch(value, limits)


def position(name: str, value: Any, _limits: Limits) -> None:
    check_int(name, value, 0, LARGEST_ID)


def ids(name: str, value: Any, _limits: Limits) -> None:
    check_collection(name, value)
    for id in value:
        check_id(id)


def names(name: str, value: Any, _limits: Limits) -> None:
    check_collection(name, value)
    for each in value:
        check_unicode(name, each)


def columns(name: str, value: Any, _limits: Limits) -> None:
    check_collection(name, value)
    for column in value:
        if column not in ARCHIVE_COLUMNS:
            raise UnknownColumn(column if isinstance(column, str) else shown(column), ARCHIVE_COLUMNS)


def flag(name: str, value: Any, _limits: Limits | None = None) -> None:
    if type(value) is not bool:
        raise BadValue(f"{name} can't be {shown(value)}: it must be True or False.")


def digest(name: str, value: Any, _limits: Limits) -> None:
    if type(value) is not bytes or len(value) != _DIGEST_BYTES:
        raise BadValue(
            f"{name} must be a key's SHA-256, {_DIGEST_BYTES} bytes. Make a key with sqew.envelopes.request_signature."
        )


def scopes(name: str, value: Any, _limits: Limits) -> None:
    check_collection(name, value)
    for scope in value:
        if scope not in _SCOPES:
            raise BadValue(f"{name} can't hold {shown(scope)}: give some of {', '.join(_SCOPES)}.")
    if not value or len(set(value)) != len(value):
        raise BadValue(f"{name} can't be {shown(value)}: give some of {', '.join(_SCOPES)}, each once.")


def label(name: str, value: Any, _limits: Limits) -> None:
    if value != "":
        check_text(name, value)


def one_of(choices: Any) -> Check:
    allowed = get_args(choices)

    def check(name: str, value: Any, _limits: Limits) -> None:
        if value not in allowed:
            raise BadValue(f"{name} can't be {shown(value)}: it must be one of {', '.join(map(str, allowed))}.")

    return check


def policy(name: str, value: Any, _limits: Limits) -> None:
    if type(value) is not Policy:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a Policy.")
    check_policy(value)


def changes(name: str, value: Any, _limits: Limits) -> None:
    if not isinstance(value, Mapping):
        raise BadValue(f"{name} can't be {shown(value)}: it must be a mapping from fields of a policy to values.")
    checked_changes(value)


def extras(name: str, value: Any, limits: Limits) -> None:
    if not isinstance(value, Mapping):
        raise BadValue(f"{name} can't be {shown(value)}: it must be a mapping.")
    encode_json(dict(value), name, limits.max_depth)


def messages(name: str, value: Any, limits: Limits) -> None:
    if type(value) is NewMessages:
        check_staged(value, limits)
        check_batch(len(value), limits)
        return
    check_collection(name, value)
    check_batch(len(value), limits)
    for message in value:
        check_new_message(message, limits)


def staged(_name: str, value: Any, limits: Limits) -> None:
    check_staged(value, limits)


def parts(name: str, value: Any, _limits: Limits) -> None:
    if not isinstance(value, Mapping):
        raise BadValue(f"{name} can't be {shown(value)}: it must be a mapping from parts to numbers of messages.")
    for part, count in value.items():
        if type(count) is int and 0 <= count <= LARGEST_ID and type(part) is str and is_short(part):
            continue  # There may be 200,000 of them.
        check_text("The name of a part", part)
        check_int(f"The number of messages of part '{part}'", count, 0, LARGEST_ID)


def ref(ref: Any) -> None:
    if type(ref) is not Ref:
        raise BadValue(f"{shown(ref)} does not say which message is meant: it must be a Ref.")
    check_id(ref.id)
    if ref.token is not None:
        check_unicode("token", ref.token)
    if ref.by is not None:
        check_text("by", ref.by)


def finished(finished: Any) -> None:
    if type(finished) is not Finished:
        raise BadValue(f"{shown(finished)} does not say which archived message is meant: it must be a Finished.")
    check_id(finished.id)
    check_int("finished_at", finished.finished_at, 0, LARGEST_ID)


def release(release: Any) -> None:
    if type(release) is not Release:
        raise BadValue(f"{shown(release)} can't be nacked: it must be a Release.")
    ref(release.ref)
    if release.delay_ms is not None:
        check_ms("delay_ms", release.delay_ms)
    flag("dead", release.dead)
    flag("undelivered", release.undelivered)
    check_unicode("reason", release.reason)


def extension(extension: Any) -> None:
    if type(extension) is not Extension:
        raise BadValue(f"{shown(extension)} can't be extended: it must be an Extension.")
    ref(extension.ref)
    check_ms("lease_ms", extension.lease_ms)


def batch_of(check_entry: Callable[[Any], None]) -> Check:
    def check(name: str, value: Any, limits: Limits) -> None:
        check_collection(name, value)
        check_batch(len(value), limits)
        for entry in value:
            check_entry(entry)

    return check


def pattern(_name: str, value: Any, _limits: Limits) -> None:
    check_pattern(value)


def routing_key(_name: str, value: Any, _limits: Limits) -> None:
    check_routing_key(value)


def texts(name: str, value: Any, _limits: Limits) -> None:
    if not isinstance(value, Mapping):
        raise BadValue(f"{name} can't be {shown(value)}: it must be a mapping from texts to texts.")
    for key, text in value.items():
        check_unicode(f"A name in {name}", key)
        check_unicode(f"{name}[{shown(key)}]", text)


def details(name: str, value: Any, limits: Limits) -> None:
    if type(value) is not SubscriptionDetails:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a SubscriptionDetails.")
    if value.filter_policy:
        compile_filter(value.filter_policy, value.filter_scope)
    check_unicode("dead_letter", value.dead_letter)
    check_unicode("token", value.token)
    texts("kept", value.kept, limits)


def notice(name: str, value: Any, _limits: Limits) -> None:
    if type(value) is not SubscriptionNotice or type(value.body) is not bytes:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a SubscriptionNotice.")
    check_text("message_id", value.message_id)
    check_text("kind", value.kind)


def target(name: str, value: Any, _limits: Limits) -> None:
    check_unicode(name, value)
    if not value or len(value) > LONGEST_TARGET:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a text of 1 to {LONGEST_TARGET} characters.")


def published(name: str, value: Any, limits: Limits) -> None:
    _events(name, value, limits)
    for event in value:
        if event.message.headers:
            _check_marked(event.message, {EVENT_HEADER: {"routing_key": event.routing_key}}, limits)


def fired(name: str, value: Any, limits: Limits) -> None:
    # With the headers that say who sent them; there was room for those when the schedule was saved.
    _events(name, value, limits)


def _events(name: str, value: Any, limits: Limits) -> None:
    check_collection(name, value)
    check_batch(len(value), limits)
    for event in value:
        if type(event) is not NewEvent:
            raise BadValue(f"{shown(event)} can't be published as it is: it must be a NewEvent.")
        check_routing_key(event.routing_key)
        check_text("message_id", event.message_id)
        _unkeyed(event.message, limits)
        if event.attributes:
            encode_json(event.attributes, "attributes", limits.max_depth)
        for field in ("subject", "key"):
            if (text := getattr(event, field)) is not None:
                check_unicode(field, text)


def _unkeyed(message: Any, limits: Limits) -> None:
    check_new_message(message, limits)
    if message.key is not None:
        raise BadValue("An event can't have a key: whoever it reaches would remember it separately. Leave the key out.")


def _check_marked(message: NewMessage, marks: dict[str, Any], limits: Limits) -> None:
    """Raise unless the headers leave the names and the room for the marks, which name the sender of the message."""
    headers = message.headers or {}
    for mark in (EVENT_HEADER, SCHEDULE_HEADER):
        if mark in headers:
            raise BadValue(f"headers can't have '{mark}': there Sqew says who sent the message. Leave it out.")
    check_message(structs.replace(message, headers={**headers, **marks}), limits)


def busy(name: str, value: Any, _limits: Limits) -> None:
    if not isinstance(value, Mapping):
        raise BadValue(f"{name} can't be {shown(value)}: it must be a mapping from subscriptions to numbers.")


def claims(name: str, value: Any, limits: Limits) -> None:
    if not isinstance(value, Mapping):
        raise BadValue(f"{name} can't be {shown(value)}: it must be a mapping from deliveries to times.")
    check_batch(len(value), limits)


def delivery_outcome(outcome: Any) -> None:
    if type(outcome) is not DeliveryOutcome:
        raise BadValue(f"{shown(outcome)} does not say how a delivery ended: it must be a DeliveryOutcome.")
    check_id(outcome.id)
    check_unicode("error", outcome.error)


def signing_key(name: str, value: Any, _limits: Limits) -> None:
    if type(value) is not SigningKey:
        raise BadValue(
            f"{name} can't be {shown(value)}: it must be a SigningKey. Make one with sqew.envelopes.signing."
        )


def _schedule_name(_name: str, value: Any, _limits: Limits) -> None:
    check_schedule_name(value)


def schedule(name: str, value: Any, limits: Limits) -> None:
    if type(value) is not Schedule:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a Schedule.")
    check_schedule_name(value.name)
    for field, choices in (("target_kind", TargetKind), ("kind", ExpressionKind), ("status", ScheduleStatus)):
        one_of(choices)(field, getattr(value, field), limits)
    if value.target_kind == "queue":
        check_queue_name(value.target)
    else:
        check_routing_key(value.target)
    _unkeyed(value.message, limits)
    mark = {"name": value.name, "scheduled_for": "2026-12-24T18:00:00.000Z", "out_of_band": False}
    _check_marked(value.message, {SCHEDULE_HEADER: mark, EVENT_HEADER: {"routing_key": value.target}}, limits)
    flag("catchup", value.catchup)
    check_int("catchup_limit", value.catchup_limit, 1, limits.max_batch)
    if value.failure_threshold is not None:
        check_int("failure_threshold", value.failure_threshold, 1, 1_000_000)
    check_jitter(value.jitter_secs)


def advance(name: str, value: Any, _limits: Limits) -> None:
    if type(value) is not Advance:
        raise BadValue(f"{name} can't be {shown(value)}: it must be an Advance.")


def or_none(check: Check) -> Check:
    def check_unless_none(name: str, value: Any, limits: Limits) -> None:
        if value is not None:
            check(name, value, limits)

    return check_unless_none
