"""Fanout of events: the subscriptions that match, and want them, as rows to be written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from sqew.matching.filters import Attribute, Content, Effort
from sqew.model import EVENT_HEADER, RAW, NewEvent
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.rows import encode_headers
from sqew.stores.sql.subscription_cache import Binding, FanoutName
from sqew.stores.sql.transaction import Work

MOST_ATTRIBUTES = 10
"""Most attributes of a message that SNS sends to a queue as it is. In an envelope there may be more."""


class FanoutTarget(Struct, frozen=True, gc=False):
    """A queue that takes an event as it is, if it is small, without looking at what else it holds."""

    state: QueueState
    queue_id: int
    queue: str
    lane: int
    lane_name: str
    delay_ms: int
    ttl_ms: int | None

    @property
    def terms(self) -> tuple[int, int, int | None]:
        """Lane, delay and lifetime that its rows get from the queue."""
        return self.lane, self.delay_ms, self.ttl_ms


class Fanout(Struct, frozen=True, eq=False):
    """The targets of events with one routing key, found once for many of them."""

    epoch: int
    bindings: list[Binding]
    """All subscriptions that match."""
    chooses: bool
    """True if some of them want only some of the events."""
    headers: bytes
    """Headers of a message that brings none."""
    targets: list[FanoutTarget]
    names: list[str]
    """Names of the targets' queues."""
    takes_copies: bool
    """True if an event becomes the same row in several of them, and in no other."""
    is_plain: bool
    """True if there are only targets, and they want all events."""
    checked_targets: list[tuple[QueueState, Binding]]
    """The other queues."""
    endpoints: list[Binding]
    missing: list[str]
    wanted: frozenset[int]
    """Forms of the envelopes that are needed."""
    wanted_in_queues: frozenset[int]
    """Forms of the envelopes that queues need."""
    order: dict[str, int]
    """The place of each queue among all that get an event."""
    priorities: set[int]
    """Priorities that all targets are known to have a bucket for."""

    @property
    def rows(self) -> int:
        return len(self.order) + len(self.endpoints)


Route = tuple[Fanout, Sequence[Binding]]
"""The targets of an event, and the subscriptions that would get it if it had fewer attributes."""

_NOBODY: tuple[Binding, ...] = ()


def routes_of(work: Work, events: Sequence[NewEvent]) -> list[Route]:
    """Return the targets of each event."""
    ways: list[Route] = []
    effort: Effort | None = None
    for event in events:
        key = event.routing_key
        fanout = work.bindings.fanouts.get(key)
        if fanout is None or fanout.epoch != work.catalog.epoch:
            fanout = _remembered(work, key, _new_fanout(work, key, work.bindings.match(key)))
        if fanout.chooses or event.only or len(event.attributes) > MOST_ATTRIBUTES:
            effort = effort or Effort()
            ways.append(_narrow(work, fanout, event, effort))
        else:
            ways.append((fanout, _NOBODY))
    return ways


def _narrow(work: Work, fanout: Fanout, event: NewEvent, effort: Effort) -> Route:
    """Return the targets of an event that some of the matching subscriptions may not get."""
    chosen = _chosen(fanout.bindings, event, effort)
    refused: Sequence[Binding] = _NOBODY
    if len(event.attributes) > MOST_ATTRIBUTES:
        refused = [binding for binding in chosen if binding.takes_few]
        chosen = [binding for binding in chosen if not binding.takes_few]
    if len(chosen) == len(fanout.bindings):
        return fanout, refused
    # Filters choose among the same few ways again and again.
    name = event.routing_key, tuple([binding.id for binding in chosen])
    narrow = work.bindings.fanouts.get(name)
    if narrow is None or narrow.epoch != work.catalog.epoch:
        narrow = _remembered(work, name, _new_fanout(work, event.routing_key, chosen))
    return narrow, refused


def _remembered(work: Work, name: FanoutName, fanout: Fanout) -> Fanout:
    work.bindings.remember(name, fanout, fanout.rows + len(fanout.missing))
    return fanout


def _chosen(bindings: list[Binding], event: NewEvent, effort: Effort) -> list[Binding]:
    """Return the subscriptions that want the event, and that it is for."""
    content = Content(_attributes(event), event.message.body, effort)
    return [
        binding
        for binding in bindings
        if (not event.only or binding.protocol in event.only)
        and (binding.filter is None or binding.filter.matches(content))
    ]


def _attributes(event: NewEvent) -> dict[str, Attribute]:
    """Return what filters look at: the attributes, and headers that say as much as one."""
    found: dict[str, Attribute] = {}
    for name, value in {**(event.message.headers or {}), **event.attributes}.items():
        match value:
            case {"DataType": str(kind), "StringValue": str(text)}:
                found[name] = (kind, text)
            case str():
                found[name] = ("String", value)
            case int() | float() if not isinstance(value, bool):
                found[name] = ("Number", str(value))
    return found


def _new_fanout(work: Work, routing_key: str, bindings: list[Binding]) -> Fanout:
    forms = {binding.form for binding in bindings}
    in_queues = {binding.form for binding in bindings if binding.protocol == "queue"}
    wanted, wanted_in_queues = frozenset(forms - {RAW}), frozenset(in_queues - {RAW})
    chooses = any(binding.filter is not None for binding in bindings)
    headers = encode_headers(event_headers(routing_key, None))
    targets: list[FanoutTarget] = []
    checked_targets: list[tuple[QueueState, Binding]] = []
    endpoints: list[Binding] = []
    missing: list[str] = []
    order: dict[str, int] = {}
    seen: set[str] = set()
    for binding in bindings:
        if binding.protocol != "queue":
            endpoints.append(binding)
        elif binding.target not in seen:
            # A queue that two patterns lead to gets the event once.
            seen.add(binding.target)
            state = work.catalog.find(binding.target) or work.catalog.find(binding.dead_letter or None)
            if state is None:
                missing.append(binding.target)
                continue
            order.setdefault(state.name, len(order))
            if state.takes_plain and binding.form == RAW and state.name == binding.target:
                targets.append(_target(state))
            else:
                checked_targets.append((state, binding))
    return Fanout(
        work.catalog.epoch,
        bindings,
        chooses,
        headers,
        targets,
        [target.queue for target in targets],
        len(targets) > 1 and len({target.terms for target in targets}) == 1,
        bool(targets) and not (chooses or checked_targets or endpoints),
        checked_targets,
        endpoints,
        missing,
        wanted,
        wanted_in_queues,
        order,
        set(),
    )


def _target(state: QueueState) -> FanoutTarget:
    lane, policy = state.default_lane, state.policy
    return FanoutTarget(state, state.id, state.name, lane, state.lane_names[lane], policy.delay_ms, policy.ttl_ms)


def event_headers(routing_key: str, given: dict[str, Any] | None) -> dict[str, Any]:
    """Return the headers of a message that was an event."""
    return {**(given or {}), EVENT_HEADER: {"routing_key": routing_key}}
