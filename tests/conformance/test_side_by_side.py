"""Receiving several times in one transaction: each gets what it would get if they came one after the other."""

from collections import Counter

import pytest

from sqew.errors import QueueNotFound, StaleLease
from sqew.model import NewMessage, Ref
from sqew.operations import Ack, NextDue, Receive, Send
from tests.conformance.driver import ids

LARGE = b'"' + b"x" * 5_000 + b'"'
POLICIES = [
    {},
    {"max_attempts": 1, "dead_letter": None},
    {"max_attempts": 2, "dead_letter": None},
    {"lanes": {"normal": 3, "bulk": 1}},
    {"keep": "archive"},
    {"quota": 1_000},
    {"receive_wait_ms": 700},
    {"fifo": True},
]
ASKED = [{}, {"lease_ms": 5_000, "by": "me"}, {"lease_ms": 0}, {"finish": True}, {"lane": "normal"}]


def fill(store, queue):
    """Send messages of every kind: ready, delayed, expired, leased, and delivered before."""
    store.run(Send(queue, [NewMessage(b"1"), NewMessage(b"2"), NewMessage(b"3", ttl_ms=50)]))
    store.receive(3, queue, lease_ms=100)
    store.advance(200)
    said = [{"priority": 3}, {}, {"delay_ms": 60_000}, {"ttl_ms": 10}, {"headers": {"a": 1}}, {"priority": -2}, {}]
    store.run(Send(queue, [NewMessage(b'"%d"' % place, **fields) for place, fields in enumerate(said)]))
    store.receive(1, queue, lease_ms=90_000)
    store.run(Send(queue, [NewMessage(LARGE), NewMessage(b"9")]))
    store.advance(20)


def told(received):
    """Return what a receiver learns, but for the ids and tokens."""
    messages = [
        (m.body, m.headers, m.priority, m.lane, m.group, m.attempts, m.available_at, m.expires_at, m.state,
         m.lease.expires_at, m.lease.by, m.first_received_at)
        for m in received.messages
    ]  # fmt: skip
    return messages, received.next_due_at, received.wait_ms


def facts(*commits):
    return Counter((f.kind, f.lane, f.attempts, f.by, f.age_ms) for commit in commits for f in commit.facts)


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_receivers_side_by_side_get_what_they_would_get_one_by_one(store, policy, asked):
    suffix = ".fifo" if "fifo" in policy else ""
    beside, after = f"beside{suffix}", f"after{suffix}"
    start = store.now
    for queue in (beside, after):
        store.create(queue, **policy)
        store.now = start
        fill(store, queue)

    together = store.commit(*[Receive(beside, 1, **asked)] * 14)
    apart = [store.commit(Receive(after, 1, **asked)) for _ in range(14)]

    assert [told(received) for received in together.results] == [told(commit.results[0]) for commit in apart]
    assert facts(together) == facts(*apart)
    assert store.run(NextDue(beside)) == store.run(NextDue(after))


def test_each_receiver_has_a_lease_of_its_own(store):
    store.create()
    sent = store.send_many(5)

    results = store.commit(*[Receive("jobs")] * 7).results

    taken = [received.messages[0] for received in results[:5]]
    assert ids(taken) == sent
    assert len({message.lease.token for message in taken}) == 5
    assert [received.messages for received in results[5:]] == [[], []]
    first, second = taken[:2]
    store.ack(first)
    [refused] = store.run(Ack("jobs", [Ref(second.id, first.lease.token)]))
    assert isinstance(refused, StaleLease)
    store.ack(second)


def test_receivers_of_an_unknown_queue_are_refused_one_by_one(store):
    results = store.commit(*[Receive("nowhere")] * 3).results

    assert all(isinstance(result, QueueNotFound) for result in results)


def test_what_is_sent_between_receivers_is_there_for_the_later_one(store):
    store.create()
    receive, send = Receive("jobs"), Send("jobs", [NewMessage(b"1")])

    first, second, _, third, fourth = store.commit(receive, receive, send, receive, receive).results

    assert [len(received.messages) for received in (first, second, third, fourth)] == [0, 0, 1, 0]
