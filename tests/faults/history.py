"""Histories: requests of clients to a queue with their answers, and a check that the two can both be true.

The yardstick is Jepsen's total-queue: nothing acknowledged is lost, nothing unsent appears, duplicates are counted. To
it is added what leases and FIFO groups promise. A value stands for one send: it is unique, so that a message is known
again whatever its id became.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

Step = Literal["call", "ok", "failed", "unknown"]
"""``failed``: it certainly had no effect; ``unknown``: it may have had one, as has a call that was never answered."""
Action = Literal["send", "receive", "ack", "nack", "drain"]


class Entry(Struct, frozen=True):
    """A message within a call or an answer. ``attempt`` is the number of the delivery."""

    value: str
    id: int = 0
    attempt: int = 0
    expires_at: int = 0
    group: str | None = None


class Event(Struct, frozen=True):
    """A line of a history."""

    at: int
    process: str
    call: int
    step: Step
    action: Action
    now: int = 0
    entries: list[Entry] = []
    error: str = ""


Record = Callable[[Event], None]
_LetGo = dict[tuple[str, int, str], int]


def to_file(path: Path) -> Record:
    """Return a record that a SIGKILL can't take back: each event is in the kernel before the call goes on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    encode = msgspec.json.Encoder().encode
    return lambda event: (os.write(descriptor, encode(event) + b"\n"), None)[1]


def from_files(paths: Iterable[Path]) -> list[Event]:
    """Read the events of many processes as one history; CLOCK_MONOTONIC is the same for all of them.

    A SIGKILL in the midst of a long write leaves half a line. Its process did nothing after it, so it is passed over.
    """
    decode = msgspec.json.Decoder(Event).decode
    events = [decode(line) for path in paths for line in path.read_bytes().split(b"\n")[:-1]]
    return sorted(events, key=lambda event: event.at)


def clock() -> int:
    return time.monotonic_ns()


class Delivery(Struct, frozen=True):
    """A message that a receive handed out."""

    value: str
    id: int
    attempt: int
    group: str | None
    process: str
    called_at: int
    answered_at: int
    now: int
    expires_at: int


class Verdict(Struct, frozen=True):
    """The findings of a history, as values (sends) by kind."""

    sent: set[str]
    unknown: set[str]
    received: set[str]
    acked: set[str]
    recovered: set[str]
    """Sends of unknown outcome that turned out to have been stored: allowed."""
    duplicated: set[str]
    """Delivered more than once: allowed, and counted."""
    lost: set[str]
    """Acknowledged, never finished by anyone, and not there at the end."""
    unexpected: set[str]
    """Delivered though never sent, or though the send was reported as failed."""
    zombies: set[str]
    """Delivered by a receive that was called after an ack had been answered."""
    double_claims: set[str]
    """Delivered while another delivery's lease was alive and its holder had not let go."""
    stale_acks: set[str]
    """Acknowledged by a holder who had lost the lease, or twice."""
    out_of_order: set[str]
    """First delivered after a later message of its FIFO group."""
    crowded: set[str]
    """Delivered while another message of its FIFO group was in flight from an earlier receive."""

    @property
    def violations(self) -> dict[str, set[str]]:
        kinds = ("lost", "unexpected", "zombies", "double_claims", "stale_acks", "out_of_order", "crowded")
        return {kind: values for kind in kinds if (values := getattr(self, kind))}

    def __str__(self) -> str:
        kinds = ("sent", "unknown", "received", "acked", "recovered", "duplicated")
        counts = ", ".join(f"{len(getattr(self, kind))} {kind}" for kind in kinds)
        bad = ", ".join(f"{kind}: {sorted(values)[:5]}" for kind, values in self.violations.items())
        return f"{counts}; {bad or 'sound'}"


def check(events: Iterable[Event]) -> Verdict:
    """Judge a history that ends with a drain: everything that was left, received with every lease run out."""
    history = _Pairs(sorted(events, key=lambda event: event.at))
    sent = {entry.value for _, answer in history.of("send", "ok") for entry in answer.entries}
    maybe_sent = {entry.value for call in history.open("send") for entry in call.entries}
    deliveries = list(_deliveries(history))
    received = {delivery.value for delivery in deliveries}
    drained = {entry.value for _, answer in history.of("drain", "ok") for entry in answer.entries}
    acks = [(entry, call, answer) for call, answer in history.of("ack", "ok") for entry in answer.entries]
    acked = {entry.value for entry, _, _ in acks}
    maybe_acked = {entry.value for call in history.open("ack") for entry in call.entries}

    # When each delivery was let go of: (value, attempt, process).
    let_go = {
        (e.value, e.attempt, call.process): call.at for call in history.calls("ack", "nack") for e in call.entries
    }
    by_value: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in deliveries:
        by_value[delivery.value].append(delivery)
    return Verdict(
        sent=sent,
        unknown=maybe_sent,
        received=received,
        acked=acked,
        recovered=maybe_sent & received,
        duplicated={value for value, times in by_value.items() if len(times) > 1},
        lost=sent - drained - acked - maybe_acked,
        unexpected=received - sent - maybe_sent,
        zombies=_zombies(acks, by_value),
        double_claims=_double_claims(let_go, by_value),
        stale_acks=_stale_acks(acks, by_value),
        out_of_order=_out_of_order(deliveries),
        crowded=_crowded(let_go, deliveries),
    )


class _Pairs:
    """Calls with their answers."""

    def __init__(self, events: list[Event]) -> None:
        self._calls = {(event.process, event.call): event for event in events if event.step == "call"}
        self._answers = {(event.process, event.call): event for event in events if event.step != "call"}

    def of(self, action: Action, step: Step) -> Iterator[tuple[Event, Event]]:
        for key, answer in self._answers.items():
            if answer.action == action and answer.step == step:
                yield self._calls[key], answer

    def open(self, action: Action) -> Iterator[Event]:
        """Yield the calls that may or may not have taken effect."""
        for key, call in self._calls.items():
            answer = self._answers.get(key)
            if call.action == action and (answer is None or answer.step == "unknown"):
                yield call

    def calls(self, *actions: Action) -> Iterator[Event]:
        return (call for call in self._calls.values() if call.action in actions)


def _deliveries(history: _Pairs) -> Iterator[Delivery]:
    receives: tuple[Action, ...] = ("receive", "drain")
    for action in receives:
        for call, answer in history.of(action, "ok"):
            for e in answer.entries:
                yield Delivery(
                    e.value, e.id, e.attempt, e.group, call.process, call.at, answer.at, call.now, e.expires_at
                )


def _zombies(acks: list[tuple[Entry, Event, Event]], by_value: dict[str, list[Delivery]]) -> set[str]:
    return {
        entry.value
        for entry, _, answer in acks
        if any(delivery.called_at > answer.at for delivery in by_value[entry.value])
    }


def _stale_acks(acks: list[tuple[Entry, Event, Event]], by_value: dict[str, list[Delivery]]) -> set[str]:
    times = Counter(entry.value for entry, _, _ in acks)
    twice = {value for value, count in times.items() if count > 1}
    # A delivery after the one that was acknowledged: the token must have fenced the ack off.
    overtaken = {
        entry.value
        for entry, _, answer in acks
        for delivery in by_value[entry.value]
        if delivery.attempt > entry.attempt and delivery.called_at < answer.at
    }
    return twice | overtaken


def _double_claims(let_go: _LetGo, by_value: dict[str, list[Delivery]]) -> set[str]:
    return {
        value
        for value, deliveries in by_value.items()
        for first, second in pairwise(sorted(deliveries, key=lambda d: (d.attempt, d.answered_at)))
        if _in_hand(let_go, first, second)
    }


def _in_hand(let_go: _LetGo, first: Delivery, second: Delivery) -> bool:
    """Return True if the first delivery was still its holder's when the second was made."""
    released_at = let_go.get((first.value, first.attempt, first.process))
    return second.now < first.expires_at and (released_at is None or released_at > second.answered_at)


def _crowded(let_go: _LetGo, deliveries: list[Delivery]) -> set[str]:
    found = set()
    in_flight: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in sorted(deliveries, key=lambda d: d.answered_at):
        if delivery.group is None:
            continue
        # Of two receives that overlapped nobody can say which came first.
        others = [
            d for d in in_flight[delivery.group] if d.value != delivery.value and d.answered_at < delivery.called_at
        ]
        if any(_in_hand(let_go, other, delivery) for other in others):
            found.add(delivery.value)
        in_flight[delivery.group] = [d for d in in_flight[delivery.group] if d.expires_at > delivery.now] + [delivery]
    return found


def _out_of_order(deliveries: list[Delivery]) -> set[str]:
    found = set()
    furthest: dict[str, int] = {}
    seen: set[str] = set()
    # Stable: the messages of one answer stay in the order in which they were handed out.
    for delivery in sorted(deliveries, key=lambda d: d.answered_at):
        if delivery.group is None or delivery.value in seen:
            continue
        seen.add(delivery.value)
        if delivery.id < furthest.get(delivery.group, 0):
            found.add(delivery.value)
        furthest[delivery.group] = max(delivery.id, furthest.get(delivery.group, 0))
    return found
