"""Named receives from FIFO queues: a receive repeated under its name gets the same messages again."""

import pytest

from sqew.operations import Ack, DeleteQueue, SweepDue
from tests.conformance.driver import ids, ref

QUEUE = "jobs.fifo"


@pytest.fixture
def fifo(store):
    store.create(QUEUE, fifo=True, visibility_ms=1_000)
    for group in "aab":
        store.send(queue=QUEUE, group=group)
    return store


def attempt(store, id="once", limit=10, **fields):
    return store.receive(limit, QUEUE, attempt_id=id, **fields)


def test_the_same_messages_come_under_the_same_lease(fifo):
    first = attempt(fifo)
    fifo.advance(400)

    second = attempt(fifo)

    assert [(m.id, m.attempts, m.lease.token, m.body) for m in second] == [
        (m.id, m.attempts, m.lease.token, m.body) for m in first
    ]


def test_the_lease_begins_anew(fifo):
    attempt(fifo)
    fifo.advance(900)

    again = attempt(fifo)

    assert {message.lease.expires_at for message in again} == {fifo.now + 1_000}
    fifo.advance(999)
    assert fifo.receive(10, QUEUE) == []
    fifo.advance(1)
    assert len(fifo.receive(10, QUEUE)) == 3


def test_it_may_be_repeated_again_and_again_for_five_minutes_each_time(fifo):
    first = attempt(fifo, lease_ms=400_000)
    fifo.advance(299_999)
    second = attempt(fifo, lease_ms=400_000)
    fifo.advance(299_999)
    third = attempt(fifo, lease_ms=400_000)

    assert ids(first) == ids(second) == ids(third)
    fifo.advance(300_000)
    assert attempt(fifo) == []


def test_it_is_not_repeated_once_its_lease_has_run_out(fifo):
    first = attempt(fifo)
    fifo.advance(1_000)

    second = attempt(fifo)

    assert ids(second) == ids(first)
    assert {message.attempts for message in second} == {2}
    assert second[0].lease.token != first[0].lease.token


@pytest.mark.parametrize(("change", "left"), [("ack", [1, 2]), ("nack", [0, 1, 2]), ("extend", [2])])
def test_it_is_not_repeated_once_a_message_of_it_was_settled_or_extended(fifo, change, left):
    taken = attempt(fifo)
    first = taken[0]
    match change:
        case "ack":
            fifo.ack(first)
        case "nack":
            fifo.nack(first, delay_ms=0)
        case "extend":
            fifo.extend(first, 5_000)

    assert attempt(fifo) == []
    fifo.advance(1_000)
    again = attempt(fifo)
    assert ids(again) == [taken[place].id for place in left]
    assert first.lease.token not in {message.lease.token for message in again}


def test_another_name_is_another_receive(fifo):
    [first] = attempt(fifo, "one", 1)
    second = attempt(fifo, "two")

    assert [message.group for message in second] == ["b"]
    assert first.id not in ids(second)


def test_a_receive_that_found_nothing_is_not_remembered(store):
    store.create(QUEUE, fifo=True)
    assert attempt(store) == []
    id = store.send(queue=QUEUE)

    assert ids(attempt(store)) == [id]


def test_it_is_remembered_by_other_processes_and_after_a_restart(fifo, neighbour):
    first = attempt(fifo)

    assert ids(attempt(neighbour)) == ids(first)
    fifo.reopen()
    assert ids(attempt(fifo)) == ids(first)


def test_a_deleted_queue_takes_its_attempts_with_it(fifo):
    attempt(fifo, lease_ms=100_000)
    fifo.run(DeleteQueue(QUEUE))
    fifo.create(QUEUE, fifo=True)
    id = fifo.send(queue=QUEUE)

    assert ids(attempt(fifo)) == [id]


def test_those_that_can_not_be_repeated_any_more_are_swept_away_in_steps(fifo):
    for n in range(3):
        attempt(fifo, f"a{n}", 1, lease_ms=0)
    assert fifo.sweep().next_at == fifo.now + 300_000
    assert not fifo.run(SweepDue())
    fifo.advance(300_000)
    assert fifo.run(SweepDue())

    steps = [fifo.sweep(2) for _ in range(2)]

    assert [step.attempts for step in steps] == [2, 1]
    assert steps[0].next_at == fifo.now
    assert not fifo.run(SweepDue())


def test_what_was_received_twice_is_acked_once(fifo):
    attempt(fifo)
    messages = attempt(fifo)

    fifo.run(Ack(QUEUE, [ref(message) for message in messages]))

    assert fifo.total(QUEUE) == 0


def test_a_standard_queue_pays_no_heed_to_the_name(store):
    store.create()
    store.send_many(2)

    first, second = (store.receive(1, attempt_id="once") for _ in range(2))

    assert ids(first) != ids(second)
