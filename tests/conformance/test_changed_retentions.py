"""Changed retentions and lifetimes: messages already there follow the change, in steps of upkeep."""

from itertools import pairwise

import pytest

from sqew.model import NewMessage, Ref
from sqew.operations import Ack, DeleteQueue, Send, SweepDue

HOUR = 3_600_000


def finish(store, count, body=b"1"):
    """Send messages, ack them and return their ids."""
    sent = [store.send(body) for _ in range(count)]
    store.run(Ack("jobs", [Ref(id) for id in sent]))
    return sent


@pytest.mark.parametrize("before", [HOUR, None])
def test_a_shorter_retention_covers_what_is_archived_already(store, before):
    store.create(keep="archive", archive_retention_ms=before)
    finish(store, 3)
    store.kill()
    store.advance(10_000)
    [late] = finish(store, 1)

    store.update(archive_retention_ms=5_000)

    assert store.run(SweepDue())
    store.sweep_all()
    assert store.archive() == {late: "done"}
    store.advance(5_000)
    store.sweep_all()
    assert store.archive() == {}


def test_after_a_shorter_retention_the_sweeper_knows_when_the_rest_is_due(store):
    store.create(keep="archive", archive_retention_ms=None)
    finish(store, 1)
    store.update(archive_retention_ms=5_000)

    store.sweep_all()

    assert not store.run(SweepDue())
    assert store.sweep().next_at == store.now + 5_000


@pytest.mark.parametrize("after", [HOUR, None])
def test_a_longer_retention_keeps_what_is_archived_already(store, after):
    store.create(keep="archive", archive_retention_ms=1_000)
    [id] = finish(store, 1)

    store.update(archive_retention_ms=after)
    store.advance(HOUR - 1)
    store.sweep_all()

    assert store.archive() == {id: "done"}
    assert not store.run(SweepDue())
    store.advance(1)
    store.sweep_all()
    assert store.archive() == ({} if after else {id: "done"})


def test_a_retention_is_changed_for_one_queue_alone(store):
    store.create(keep="archive", archive_retention_ms=HOUR)
    store.create("other", keep="archive", archive_retention_ms=HOUR)
    finish(store, 1)
    other = store.send(queue="other")
    store.run(Ack("other", [Ref(other)]))

    store.update(archive_retention_ms=0)
    store.sweep_all()

    assert (store.archive(), store.archive("other")) == ({}, {other: "done"})


def test_what_is_dated_anew_is_dated_in_steps(store):
    store.create(keep="archive", archive_retention_ms=None)
    finish(store, 5)
    store.advance(10_000)
    store.update(archive_retention_ms=1_000)

    left = []
    while store.run(SweepDue()):
        store.sweep(2)
        left.append(len(store.archive()))

    assert left[-1] == 0
    assert all(before - after <= 2 for before, after in pairwise([5, *left]))


def test_a_step_rewrites_few_bytes_however_large_the_bodies_are(store):
    store.create(keep="archive", archive_retention_ms=None)
    finish(store, 8, body=b'"' + b"x" * 1_500_000 + b'"')
    store.advance(10_000)
    store.update(archive_retention_ms=1_000)

    left = [8]
    while store.run(SweepDue()):
        store.sweep()
        left.append(len(store.archive()))

    assert left[-1] == 0
    assert all(before - after <= 3 for before, after in pairwise(left))


def test_a_retention_that_is_changed_again_begins_anew(store):
    store.create(keep="archive", archive_retention_ms=None)
    finish(store, 5)
    store.advance(10_000)
    store.update(archive_retention_ms=50_000)
    store.sweep(2)

    store.update(archive_retention_ms=1_000)
    store.sweep_all()

    assert store.archive() == {}


def test_a_shorter_key_retention_covers_the_keys_that_are_remembered_already(store):
    store.create(key_retention_ms=HOUR)
    for n in range(5):
        store.send(key=f"k{n}")
    store.run(Ack("jobs", [Ref(message.id) for message in store.receive(5)]))

    store.update(key_retention_ms=1_000)
    while store.run(SweepDue()):
        store.sweep(2)

    assert duplicates(store) == [True] * 5
    store.advance(1_000)
    assert duplicates(store) == [False] * 5


def test_a_shorter_key_retention_forgets_no_key_of_a_message_that_is_there(store):
    store.create(key_retention_ms=HOUR)
    store.send(key="k0")

    store.update(key_retention_ms=1_000)
    store.advance(HOUR)
    store.sweep_all()

    assert duplicates(store, 1) == [True]


def duplicates(store, count=5):
    sent = store.run(Send("jobs", [NewMessage(b"1", key=f"k{n}") for n in range(count)]))
    return [one.duplicate for one in sent]


@pytest.mark.parametrize("before", [HOUR, None])
def test_a_shorter_lifetime_covers_the_messages_that_are_there_already(store, before):
    store.create(ttl_ms=before)
    store.send()
    store.advance(10_000)
    late = store.send()

    store.update(ttl_ms=5_000)
    store.sweep_all()

    assert [message.id for message in store.peek()] == [late]
    assert store.get(late).expires_at == store.now + 5_000


@pytest.mark.parametrize("after", [HOUR, None])
def test_a_longer_lifetime_keeps_the_messages_that_are_there_already(store, after):
    store.create(ttl_ms=1_000)
    id = store.send()

    store.update(ttl_ms=after)
    store.sweep_all()
    store.advance(HOUR - 1)

    assert store.take().id == id


def test_a_lifetime_that_the_sender_gave_is_left_alone(store):
    store.create(ttl_ms=HOUR)
    short, long = store.send(ttl_ms=7_000), store.send(ttl_ms=2 * HOUR)

    store.update(ttl_ms=60_000)
    store.sweep_all()

    assert store.get(short).expires_at == store.now + 7_000
    assert store.get(long).expires_at == store.now + 2 * HOUR


def test_dead_letters_live_from_when_they_came_to_their_queue(store):
    store.create("dead", ttl_ms=HOUR)
    store.create(dead_letter="dead")
    store.send()
    store.advance(50_000)
    store.kill()
    died = store.now
    store.advance(5_000)

    store.update("dead", ttl_ms=20_000)
    store.sweep_all()

    [letter] = store.peek(queue="dead")
    assert letter.expires_at == died + 20_000


def test_a_lifetime_that_is_changed_twice_before_a_sweep_holds_for_all(store):
    store.create(ttl_ms=HOUR)
    first = store.send()
    store.update(ttl_ms=2 * HOUR)
    second = store.send()
    store.sweep(1)

    store.update(ttl_ms=3 * HOUR)
    third = store.send()
    while store.run(SweepDue()):
        store.sweep(1)

    assert [store.get(id).expires_at for id in (first, second, third)] == [store.now + 3 * HOUR] * 3


def test_a_queue_that_is_deleted_leaves_nothing_to_date(store):
    store.create(ttl_ms=HOUR)
    store.send()
    store.update(ttl_ms=1)
    store.run(DeleteQueue("jobs"))

    store.sweep_all()

    assert not store.run(SweepDue())
