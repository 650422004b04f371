"""Random operations on a real store and on the reference, compared at every step.

The store is opened twice, as two processes would, and is closed and opened again on the way; the clock is in the
test's hand and sometimes goes back a little.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sqew.clock import SMALLEST_CORRECTION_MS, Clock
from sqew.errors import QuotaExceeded, SqewError
from sqew.model import Backoff, Commit, Extension, Fact, NewMessage, Policy, Ref, Release, Sent
from sqew.operations import (
    Ack,
    CreateQueue,
    DeleteQueue,
    Extend,
    ListArchive,
    ListDead,
    Measure,
    Nack,
    NextDue,
    Operation,
    Peek,
    Purge,
    PurgeDead,
    Receive,
    Redrive,
    Remove,
    RequeueDead,
    Send,
    Sweep,
)
from sqew.stores.contract import Store
from tests.reference.reference import Reference

QUICK = Backoff(base_ms=200, cap_ms=700, jitter_ms=0)
POLICIES = {
    "dead": Policy(visibility_ms=400, backoff=QUICK),
    "plain": Policy(visibility_ms=500, backoff=QUICK, key_retention_ms=900),
    "mortal": Policy(visibility_ms=500, max_attempts=2, dead_letter="dead", backoff=QUICK, key_retention_ms=900),
    "brief": Policy(
        visibility_ms=600, max_attempts=1, dead_letter="dead", ttl_ms=1500, delay_ms=100,
        backoff=Backoff("fixed", 150, 0, 0),
    ),
    "groups.fifo": Policy(visibility_ms=500, max_attempts=2, dead_letter="dead", backoff=QUICK, fifo=True),
    "graves.fifo": Policy(visibility_ms=500, fifo=True, backoff=QUICK, ttl_ms=5000),
    "orders.fifo": Policy(
        visibility_ms=700, max_attempts=1, dead_letter="graves.fifo", backoff=QUICK, fifo=True,
        lanes={"slow": 1, "fast": 2},
    ),
    "lanes": Policy(
        visibility_ms=500, max_attempts=3, backoff=QUICK, lanes={"low": 2, "normal": 3, "high": 2},
        archive_retention_ms=3000, quota=14,
    ),
    "kept": Policy(visibility_ms=500, max_attempts=2, backoff=QUICK, keep="archive", archive_retention_ms=1200),
}  # fmt: skip
LETTERS = ["dead", "graves.fifo"]
COLD = ["requeue", "requeue some", "redrive", "redrive to", "purge dead", "remove", "purge", "delete"]

# A few queues at a time, or hardly anything would ever happen twice to one message.
focuses = st.lists(st.sampled_from([*POLICIES, "lanes", "lanes"]), min_size=1, max_size=2, unique=True)
queues = st.integers(0, 11)
limits = st.sampled_from([1, 2, 3, 10])
delays = st.sampled_from([None, 0, 100, 500, 1500])
lives = st.sampled_from([None, 300, 1200])
leases = st.sampled_from([None, None, 0, 200, 1000])
holders = st.sampled_from([None, "anna", "berta"])
places = st.integers(0, 30)
recent = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 6, 9, 14])
seldom = st.sampled_from([False] * 9 + [True])
batch = st.lists(st.tuples(recent, st.sampled_from(["token", "holder", "id"])), min_size=1, max_size=3)


ARGUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "let_time_pass": st.fixed_dictionaries({"ms": st.sampled_from([1, 50, 200, 500, 500, 1000, 2000])}),
    "set_the_wall_clock": st.fixed_dictionaries({"ms": st.sampled_from([-1, -700, -5000, 300, 4000])}),
    "go_on_in_another_process": st.fixed_dictionaries({"reopen": st.booleans()}),
    "send": st.fixed_dictionaries(
        {
            "place": queues, "count": st.integers(1, 3), "priority": st.sampled_from([0, 0, 1, -1]), "lane": places,
            "group": st.sampled_from([None, "g", "h"]), "key": st.sampled_from([None, None, "a", "b"]),
            "delay_ms": delays, "ttl_ms": lives,
        }
    ),
    "receive": st.fixed_dictionaries(
        {"place": queues, "limit": limits, "lane": places, "lease_ms": leases, "by": holders, "finish": seldom}
    ),
    "ack": st.fixed_dictionaries({"chosen": batch, "anywhere": st.booleans()}),
    "nack": st.fixed_dictionaries({"chosen": batch, "anywhere": st.booleans(), "delay_ms": delays, "dead": seldom}),
    "extend": st.fixed_dictionaries(
        {"chosen": batch, "anywhere": st.booleans(), "lease_ms": st.sampled_from([0, 100, 800])}
    ),
    "sweep": st.just({}),
    "do_what_is_seldom_done": st.fixed_dictionaries(
        {"what": st.sampled_from(COLD), "place": queues, "chosen": batch, "limit": limits}
    ),
}  # fmt: skip
OFTEN = (
    ["let_time_pass"] * 5
    + ["send"] * 4
    + ["receive"] * 7
    + ["ack", "nack"] * 2
    + ["do_what_is_seldom_done", "sweep"] * 2
)


def _with_arguments(name: str) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(name), ARGUMENTS[name])


# One rule chooses among all actions: Hypothesis leaves whole rules out of most runs, and without a receive or without
# time passing, a run tests little.
actions = st.sampled_from([*OFTEN, *ARGUMENTS]).flatmap(_with_arguments)


class Hands:
    """A wall clock that the test sets, and a steady clock that follows nothing else."""

    def __init__(self) -> None:
        self.wall_ms, self.steady_ms = 1_700_000_000_000, 0
        self.clock = Clock(lambda: self.wall_ms * 1_000_000, lambda: self.steady_ms * 1_000_000)


class StoreMachine(RuleBasedStateMachine):
    """A run of random operations on a store, wherever it keeps its data."""

    def make_room(self) -> None:
        """Delete the data of another run."""

    looks_again_within_ms = 0
    """Milliseconds after which a receive that found nothing may be asked to look again, though nothing is due then."""

    def open_store(self) -> Store:
        """Open the store once more."""
        raise NotImplementedError

    def clean_up(self) -> None:
        """Delete this run's data."""

    @initialize(focus=focuses)
    def open(self, focus: list[str]) -> None:
        dead_letters = [POLICIES[queue].dead_letter for queue in focus]
        self.names = list(dict.fromkeys([*focus, *focus, *(name for name in dead_letters if name is not None)]))
        self.make_room()
        self.hands = Hands()
        self.stores = [self.open_store(), self.open_store()]
        self.reference = Reference({name: POLICIES[name] for name in self.names})
        self.refs: list[Ref] = []
        self.deleted = False
        for name in self.names:
            self.run(CreateQueue(name, POLICIES[name]))

    def name(self, place: int) -> str:
        return self.names[place % len(self.names)]

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            for store in self.stores:
                store.close()
            self.clean_up()

    @property
    def now(self) -> int:
        return self.hands.clock.now()

    def run(self, operation: Operation[Any]) -> tuple[Any, list[Fact]]:
        commit: Commit = self.stores[0].run([operation], self.now)
        return commit.results[0], commit.facts

    @rule(action=actions)
    def act(self, action: tuple[str, dict[str, Any]]) -> None:
        name, arguments = action
        getattr(self, name)(**arguments)

    # Time, and processes.

    def let_time_pass(self, ms: int) -> None:
        before = self.now
        self.hands.wall_ms += ms
        self.hands.steady_ms += ms
        assert self.now == before + ms

    def set_the_wall_clock(self, ms: int) -> None:
        before = self.now
        # What becomes of dates where it goes back far is no part of the reference: see test_corrected_dates.
        self.hands.wall_ms = max(self.hands.wall_ms + ms, before - SMALLEST_CORRECTION_MS)
        assert self.now == max(before, self.hands.wall_ms)

    def go_on_in_another_process(self, reopen: bool) -> None:
        self.stores.reverse()
        if reopen:
            self.stores[0].close()
            self.stores[0] = self.open_store()

    # Sending and receiving.

    def send(
        self, place: int, count: int, priority: int, lane: int, group: str | None, key: str | None,
        delay_ms: int | None, ttl_ms: int | None,
    ) -> None:  # fmt: skip
        queue = self.name(place)
        policy = POLICIES[queue]
        named = [None, *policy.lanes][lane % (len(policy.lanes) + 1)]
        message = NewMessage(
            b"1", priority=priority, lane=named, group=group, key=None if policy.quota else key, delay_ms=delay_ms,
            ttl_ms=ttl_ms,
        )  # fmt: skip
        result, facts = self.run(Send(queue, [message] * count))
        if policy.quota is not None and len(self.reference.in_queue(queue)) + count > policy.quota:
            assert isinstance(result, QuotaExceeded)
            return
        stored = []
        for sent in result:
            owner = self.reference.known(queue, message.key, self.now)
            if owner is not None:
                assert sent == Sent(owner, duplicate=True)
            else:
                assert not sent.duplicate
                assert sent.id > max((ref.id for ref in self.refs), default=0)
                self.reference.add(queue, message, sent.id, self.now)
                self.refs.append(Ref(sent.id))
                stored.append(sent.id)
        assert [(fact.kind, fact.id) for fact in facts] == [("sent", id) for id in stored]

    def receive(self, place: int, limit: int, lane: int, lease_ms: int | None, by: str | None, finish: bool) -> None:
        queue = self.name(place)
        lanes = list(POLICIES[queue].lanes)
        named = lanes[lane % len(lanes)] if lane > 20 else None
        result, facts = self.run(Receive(queue, limit, named, lease_ms, by, finish))
        self.follow([fact for fact in facts if fact.kind in ("expired", "dead")])
        expected = self.reference.next_ones(queue, limit, named, self.now)

        assert [message.id for message in result.messages] == [item.id for item in expected]
        until = self.now + (POLICIES[queue].visibility_ms if lease_ms is None else lease_ms)
        for message, item in zip(result.messages, expected, strict=True):
            self.reference.lease(item, until, message.lease.token, by)
            assert (message.attempts, message.lane, message.lease.expires_at) == (item.attempts, item.lane, until)
            self.refs.append(Ref(item.id, message.lease.token, by))
        if finish:
            for item in expected:
                self.reference.finish(item.id, self.now)
        if not expected:
            self.check_next_due(queue, named, result.next_due_at)

    def check_next_due(self, queue: str, lane: str | None, next_due_at: int | None) -> None:
        """Check the time to look again: when a message is due here or, in a dead-letter queue, one may die elsewhere.

        It may be sooner, as a store may not look at everything each time.
        """
        due = self.first_due(queue, lane)
        if next_due_at != due:
            assert next_due_at is not None
            soon = self.now < next_due_at <= self.now + self.looks_again_within_ms
            assert soon or POLICIES[queue].max_attempts is None
            assert due is None or next_due_at < due

    def first_due(self, queue: str, lane: str | None) -> int | None:
        dues = [self.reference.due_at(item) for item in self.reference.in_queue(queue) if lane in (None, item.lane)]
        return min((due for due in dues if due is not None), default=None)

    def follow(self, facts: list[Fact]) -> None:
        """Remove from the reference the messages that the store removed: it was free to, if they were over."""
        for fact in facts:
            item = self.reference.items[fact.id]
            assert (fact.queue, fact.lane, fact.attempts) == (item.queue, item.lane, item.attempts)
            if fact.kind == "expired":
                assert self.reference.is_expired(item, self.now)
                self.reference.leave(fact.id, self.now)
            else:
                assert self.reference.is_exhausted(item, self.now)
                self.reference.die(fact.id, "max_attempts", self.now)

    # Settling.

    def some_refs(self, chosen: list[tuple[int, str]]) -> list[Ref]:
        """Return references to messages, the latest first: by a token, by a holder's name, by id alone."""
        refs = []
        for place, right in chosen:
            ref = self.refs[-1 - place % len(self.refs)] if self.refs else Ref(77, "t", "anna")
            refs.append({"token": Ref(ref.id, ref.token), "holder": Ref(ref.id, by=ref.by), "id": Ref(ref.id)}[right])
        return refs

    def named_queue(self, refs: list[Ref], anywhere: bool) -> str | None:
        item = self.reference.items.get(refs[0].id)
        return None if anywhere else self.names[0] if item is None else item.queue

    def refused(self, queue: str | None, ref: Ref, result: Any) -> bool:
        code = self.reference.refusal(queue, ref)
        assert (result.code if isinstance(result, SqewError) else None) == code
        return code is not None

    def ack(self, chosen: list[tuple[int, str]], anywhere: bool) -> None:
        refs = self.some_refs(chosen)
        queue = self.named_queue(refs, anywhere)
        results, facts = self.run(Ack(queue, refs))
        acked = []
        for ref, result in zip(refs, results, strict=True):
            if not self.refused(queue, ref, result):
                self.reference.finish(ref.id, self.now)
                acked.append(ref.id)
        told = [(fact.kind, fact.id) for fact in facts]
        # Those that name no queue are finished queue by queue.
        assert (told if queue is not None else sorted(told)) == [
            ("acked", id) for id in (acked if queue is not None else sorted(acked))
        ]

    def nack(self, chosen: list[tuple[int, str]], anywhere: bool, delay_ms: int | None, dead: bool) -> None:
        refs = self.some_refs(chosen)
        queue = self.named_queue(refs, anywhere)
        results, _ = self.run(Nack(queue, [Release(ref, delay_ms, dead, "a reason") for ref in refs]))
        for ref, result in zip(refs, results, strict=True):
            if self.refused(queue, ref, result):
                continue
            item = self.reference.items[ref.id]
            limit = POLICIES[item.queue].max_attempts
            if dead or (limit is not None and item.attempts >= limit):
                assert result.dead
                self.reference.die(ref.id, "a reason", self.now)
            else:
                due_at = self.now + (self.reference.backoff(ref.id) if delay_ms is None else delay_ms)
                assert (result.dead, result.due_at) == (False, due_at)
                self.reference.release(ref.id, due_at)

    def extend(self, chosen: list[tuple[int, str]], anywhere: bool, lease_ms: int) -> None:
        refs = self.some_refs(chosen)
        queue = self.named_queue(refs, anywhere)
        results, _ = self.run(Extend(queue, [Extension(ref, lease_ms) for ref in refs]))
        for ref, result in zip(refs, results, strict=True):
            if not self.refused(queue, ref, result):
                assert result.due_at == self.now + lease_ms
                self.reference.extend(ref.id, self.now + lease_ms)

    def do_what_is_seldom_done(self, what: str, place: int, chosen: list[tuple[int, str]], limit: int) -> None:
        queue = self.name(place)
        dead_letters = [name for name in self.names if name in LETTERS]
        match what:
            case "remove":
                self.remove(chosen)
            case "purge":
                self.purge(queue, chosen[0][0], limit)
            case "delete":
                self.delete_and_create_again(queue)
            case "requeue":
                self.requeue(queue, limit)
            case "requeue some":
                self.requeue_some(queue, chosen)
            case "purge dead":
                self.purge_dead(queue, limit)
            case "redrive" if dead_letters:
                self.redrive(dead_letters[0], limit)
            case "redrive to" if dead_letters:
                self.redrive_to(dead_letters[0], queue, limit)

    # Removing.

    def remove(self, chosen: list[tuple[int, str]]) -> None:
        refs = self.some_refs(chosen)
        queue = self.named_queue(refs, anywhere=False)
        results, _ = self.run(Remove(queue, [ref.id for ref in refs]))
        for ref, result in zip(refs, results, strict=True):
            item = self.reference.items.get(ref.id)
            assert result == (item is not None and item.queue == queue)
            if result:
                self.reference.leave(ref.id, self.now)

    def purge(self, queue: str, place: int, limit: int) -> None:
        up_to = self.some_refs([(place, "id")])[0].id
        doomed = {item.id for item in self.reference.in_queue(queue) if item.id <= up_to}
        progress, facts = self.run(Purge(queue, up_to, limit))
        purged = {fact.id for fact in facts}
        assert purged <= doomed
        assert progress.count == len(purged) == len(facts) == min(limit, len(doomed))
        assert not progress.done or purged == doomed
        for id in purged:
            self.reference.leave(id, self.now)
        self.reference.forget_keys(queue, purged, progress.after_key)

    def delete_and_create_again(self, queue: str) -> None:
        assert self.run(DeleteQueue(queue)) == (None, [])
        self.run(CreateQueue(queue, POLICIES[queue]))
        self.reference.clear(queue)
        self.deleted = True

    # The dead.

    def requeue(self, queue: str, limit: int) -> None:
        dead_letters = self.reference.free(self.reference.dead_letters(queue), self.now)
        dead = set(dead_letters + self.reference.dead_in_archive(queue))
        progress, facts = self.run(RequeueDead(queue, None, limit))
        self.came_back(progress, facts, dead, limit)
        assert all(fact.queue == queue for fact in facts)

    def requeue_some(self, queue: str, chosen: list[tuple[int, str]]) -> None:
        dead = self.reference.free(self.reference.dead_letters(queue), self.now) + self.reference.dead_in_archive(queue)
        if dead:
            some = {dead[place % len(dead)] for place, _ in chosen}
            progress, facts = self.run(RequeueDead(queue, sorted(some)))
            self.came_back(progress, facts, some, 1000)

    def redrive(self, dead_letters: str, limit: int) -> None:
        items = self.reference.in_queue(dead_letters)
        dead = {item.id for item in items if item.origin is not None and not item.is_leased(self.now)}
        progress, facts = self.run(Redrive(dead_letters, None, limit))
        for fact in facts:
            assert fact.queue == self.reference.items[fact.id].origin
        self.came_back(progress, facts, dead, limit)

    def redrive_to(self, dead_letters: str, to: str, limit: int) -> None:
        if to == dead_letters:
            return
        items = self.reference.in_queue(dead_letters)
        progress, facts = self.run(Redrive(dead_letters, to, limit))
        assert all(fact.queue == to for fact in facts)
        assert progress.count == len(facts)
        # A group with a message in flight may be left, or what is free of it may be taken.
        free = {item.id for item in items if not item.is_leased(self.now)}
        assert {fact.id for fact in facts} <= free
        busy = {item.group for item in items if POLICIES[dead_letters].fifo and item.is_leased(self.now)}
        assert progress.count >= min(limit, sum(item.group not in busy for item in items if item.id in free))
        for fact in facts:
            self.reference.bring_back(fact.id, to, self.now)

    def came_back(self, progress: Any, facts: list[Fact], dead: set[int], limit: int) -> None:
        back = {fact.id for fact in facts}
        assert {fact.kind for fact in facts} <= {"requeued"}
        assert back <= dead
        assert progress.count == len(back) == len(facts) == min(limit, len(dead))
        assert not progress.done or back == dead
        for fact in facts:
            self.reference.bring_back(fact.id, fact.queue, self.now)

    def purge_dead(self, queue: str, limit: int) -> None:
        dead_letters = self.reference.free(self.reference.dead_letters(queue), self.now)
        dead = set(dead_letters + self.reference.dead_in_archive(queue))
        progress, facts = self.run(PurgeDead(queue, None, limit))
        purged = {fact.id for fact in facts}
        assert purged <= dead
        assert progress.count == len(purged) == min(limit, len(dead))
        for id in purged:
            if id in self.reference.archive:
                del self.reference.archive[id]
            else:
                self.reference.leave(id, self.now)

    # Upkeep.

    def sweep(self) -> None:
        swept, facts = self.run(Sweep(1000))
        self.follow(facts)
        assert Counter(fact.kind for fact in facts) == Counter(
            {kind: count for kind, count in [("expired", swept.expired), ("dead", swept.dead)] if count}
        )
        left = [item for item in self.reference.items.values() if self.reference.is_over(item, self.now)]
        assert not left
        keys, archived = self.reference.forget(self.now)
        # The reference forgets all of a deleted queue at once; the store may meet its keys and archive later.
        more = (swept.keys - keys, swept.archived - archived)
        assert min(more) >= 0 if self.deleted else more == (0, 0)
        if not swept.count:
            expected = self.reference.next_sweep(self.now)
            assert (swept.next_at is None) == (expected is None)
            assert expected is None or self.now < swept.next_at <= expected

    # Comparing.

    @invariant()
    def is_as_the_reference_says(self) -> None:
        if not hasattr(self, "reference"):
            return
        looks = [look(queue) for queue in self.names for look in (Measure, NextDue, self.peek, ListDead, ListArchive)]
        results = iter(self.stores[0].run(looks, self.now).results)
        for queue in self.names:
            self.compare_depths(queue, next(results))
            assert next(results) == self.first_due(queue, None)
            self.compare_messages(queue, next(results))
            self.compare_dead(queue, next(results).messages)
            archive = {
                id: (entry.outcome, entry.item.attempts)
                for id, entry in self.reference.archive.items()
                if entry.item.queue == queue
            }
            listed = next(results).messages
            assert {entry.message.id: (entry.outcome, entry.message.attempts) for entry in listed} == archive

    @staticmethod
    def peek(queue: str) -> Peek:
        return Peek(queue, 1000)

    def compare_depths(self, queue: str, depths: Any) -> None:
        items = self.reference.in_queue(queue)
        counts = Counter((item.lane, self.reference.state(item, self.now)) for item in items)
        for lane, depth in depths.lanes.items():
            for state in ("ready", "delayed", "leased", "blocked"):
                assert (queue, lane, state, getattr(depth, state)) == (queue, lane, state, counts.pop((lane, state), 0))
        assert not counts
        dead = self.reference.dead_in_archive(queue)
        assert depths.dead == len(self.reference.dead_letters(queue)) + len(dead)
        in_archive = [entry for entry in self.reference.archive.values() if entry.item.queue == queue]
        assert depths.archived == len(in_archive) - len(dead)
        ready = [self.reference.due_at(item) for item in items if self.reference.state(item, self.now) == "ready"]
        assert depths.oldest_ready_at == min(ready, default=None)

    def compare_messages(self, queue: str, messages: list[Any]) -> None:
        items = {item.id: item for item in self.reference.in_queue(queue)}
        assert sorted(message.id for message in messages) == sorted(items)
        for message in messages:
            item = items[message.id]
            assert message.state == self.reference.state(item, self.now)
            shown = (message.lane, message.priority, message.attempts, message.group, message.key, message.expires_at)
            assert shown == (item.lane, item.priority, item.attempts, item.group, item.key, item.expires_at)
            lease_end = item.lease_until if item.is_leased(self.now) else None
            assert (message.lease and message.lease.expires_at) == lease_end
            assert (message.death and message.death.reason) == item.reason
        ready = [message.id for message in messages if message.state == "ready"]
        assert ready == sorted(ready, key=lambda id: (-items[id].priority, self.reference.due_at(items[id]), id))

    def compare_dead(self, queue: str, messages: list[Any]) -> None:
        dead = sorted(self.reference.dead_letters(queue) + self.reference.dead_in_archive(queue))
        assert [message.id for message in messages] == dead
        for message in messages:
            entry = self.reference.archive.get(message.id)
            reason = self.reference.items[message.id].reason if entry is None else entry.reason
            assert (message.death.queue, message.death.reason) == (queue, reason)
