"""Inspection: a queue looked at without touching it."""

import pytest

from sqew.errors import MessageNotFound, QueueNotFound, UnknownLane
from sqew.model import Activity, LaneDepth, NewMessage
from sqew.operations import (
    Ages,
    DeleteQueue,
    Get,
    LastId,
    ListArchive,
    ListDead,
    Measure,
    NextDue,
    Peek,
    ReadActivity,
    RecordActivity,
    Remove,
    Send,
    Survey,
)
from tests.conformance.driver import ids, states


def test_peek_shows_messages_in_the_order_in_which_they_would_be_received(store):
    store.create()
    sent = {store.send(priority=priority, delay_ms=delay): (-priority, delay) for priority, delay in
            [(0, 0), (5, 20), (0, 10), (-1, 0), (5, 0)]}  # fmt: skip
    store.advance(100)

    shown = ids(store.peek())

    assert shown == sorted(sent, key=lambda id: (*sent[id], id))
    assert shown == store.receive_ids(10)


def test_peek_shows_ready_messages_before_those_that_wait(store):
    store.create(visibility_ms=300)
    leased = store.send(priority=3)
    store.take()
    delayed = store.send(delay_ms=200, priority=9)
    ready = store.send()

    assert ids(store.peek()) == [ready, delayed, leased]
    assert [message.state for message in store.peek()] == ["ready", "delayed", "leased"]


def test_peek_shows_no_more_than_asked_for(store):
    store.create()
    sent = store.send_many(30)

    assert ids(store.peek(7)) == sent[:7]
    assert len(store.peek(100)) == 30


def test_looking_changes_nothing(store):
    store.create()
    store.send()
    store.send(delay_ms=100)

    before = store.peek()
    for operation in (Peek("jobs"), Get("jobs", before[0].id), Measure("jobs"), NextDue("jobs"), LastId(), Ages("jobs"),
                      ListDead("jobs"), ListArchive("jobs"), ReadActivity("jobs"), Survey()):  # fmt: skip
        commit = store.commit(operation)
        assert (commit.facts, commit.woken) == ([], frozenset())

    assert store.peek() == before
    assert store.take().attempts == 1


def test_ages_are_those_of_the_oldest_and_the_newest_message_in_whatever_state(store):
    store.create(visibility_ms=300)
    store.send(priority=3)
    oldest = store.take().created_at
    store.advance(10)
    store.send()
    store.advance(10)
    newest = store.get(store.send(delay_ms=100)).created_at

    assert store.run(Ages("jobs")) == (oldest, newest) == (oldest, oldest + 20)


def test_ages_of_a_fifo_queue_count_those_behind_the_heads(store):
    store.create("jobs.fifo", fifo=True)
    oldest = store.get(store.send(queue="jobs.fifo", group="g"), "jobs.fifo").created_at
    store.advance(10)
    store.send(queue="jobs.fifo", group="g")

    assert store.run(Ages("jobs.fifo")) == (oldest, oldest + 10)


def test_an_empty_queue_has_no_ages(store):
    store.create()

    assert store.run(Ages("jobs")) is None


def test_the_token_of_a_lease_is_shown_to_its_holder_alone(store):
    store.create()
    store.send()
    message = store.take(by="anna")

    for shown in (store.get(message.id), store.peek()[0]):
        assert shown.lease.token != message.lease.token
        assert (shown.lease.by, shown.lease.expires_at) == ("anna", message.lease.expires_at)


def test_get_shows_a_message_in_each_of_its_states(store):
    store.create(visibility_ms=100)
    id = store.send(b'"x"', delay_ms=50, headers={"a": "b"})

    def state():
        message = store.get(id)
        return message.state, message.attempts, message.lease is not None

    assert state() == ("delayed", 0, False)
    store.advance(50)
    assert state() == ("ready", 0, False)
    message = store.take()
    assert state() == ("leased", 1, True)
    store.advance(100)
    assert state() == ("ready", 1, False)
    store.nack(message, delay_ms=10)
    assert state() == ("delayed", 1, False)
    assert (store.get(id).body, store.get(id).headers) == (b'"x"', {"a": "b"})


def test_get_without_a_queue_finds_a_message_wherever_it_is(store):
    store.create()
    store.create("other")
    id = store.send(queue="other")

    assert store.get(id, None).queue == "other"
    with pytest.raises(MessageNotFound):
        store.get(id, "jobs")


def test_get_of_a_message_that_is_gone_says_so(store):
    store.create()
    id = store.send()
    store.ack(store.take())

    with pytest.raises(MessageNotFound, match=str(id)):
        store.get(id)


def test_measure_counts_each_state(store):
    store.create(visibility_ms=100)
    store.send_many(2, delay_ms=1000)
    store.send_many(6)
    first, *_ = store.receive(4)
    store.nack(first, delay_ms=500)

    assert states(store) == {"ready": 2, "delayed": 3, "leased": 3}

    store.advance(100)
    assert states(store) == {"ready": 5, "delayed": 3}


def test_measure_counts_what_is_dead_and_what_is_archived(store):
    store.create(keep="archive")
    store.kill()
    store.send_many(2)
    store.receive(2, finish=True)

    depths = store.measure()

    assert (depths.total(), depths.dead, depths.archived) == (0, 1, 2)


def test_measure_of_an_empty_queue_is_nothing_in_every_lane(store):
    store.create(lanes={"a": 1, "b": 2})

    depths = store.measure()

    assert depths.lanes == {"a": LaneDepth(), "b": LaneDepth()}
    assert (depths.dead, depths.archived, depths.oldest_ready_at) == (0, 0, None)


def test_measure_tells_since_when_the_oldest_ready_message_is_ready(store):
    store.create(visibility_ms=50)
    store.send(delay_ms=20)
    ready_at = store.now + 20
    store.advance(30)
    store.send(priority=5)
    store.advance(30)
    assert store.measure().oldest_ready_at == ready_at

    store.receive(2)
    assert store.measure().oldest_ready_at is None

    store.advance(100)
    assert store.measure().oldest_ready_at == store.now - 50


def test_a_survey_tells_of_every_queue_what_measure_and_the_activity_of_each_tell(store):
    store.create(visibility_ms=100, lanes={"a": 1, "b": 2}, keep="archive")
    store.create("groups.fifo", fifo=True)
    store.create("empty")
    store.send_many(5, lane="a", priority=3)
    store.send_many(2, lane="b", delay_ms=1000)
    store.receive(2, lane="a")
    store.receive(1, lane="a", finish=True)
    store.kill(lane="b")
    for group in "xy":
        store.run(Send("groups.fifo", [NewMessage(b"1", group=group)] * 4))
    store.receive(2, "groups.fifo")
    figures = [Activity("jobs", lane, minute, "sent", 5) for lane in "ab" for minute in (0, store.now // 60_000)]
    store.run(RecordActivity([*figures, Activity("empty", "normal", 0, "wait:7", 2)]))
    store.advance(50)

    found = {totals.queue: totals for totals in store.run(Survey())}

    assert list(found) == ["empty", "groups.fifo", "jobs"]
    assert {name: totals.depths for name, totals in found.items()} == {name: store.measure(name) for name in found}
    assert {name: totals.totals for name, totals in found.items()} == {
        "empty": {"wait:7": 2}, "groups.fifo": {}, "jobs": {"sent": 20}
    }  # fmt: skip


def test_a_survey_leaves_deleted_queues_out(store):
    store.create()
    store.create("gone")
    store.send(queue="gone")
    store.run(DeleteQueue("gone"))

    assert [totals.queue for totals in store.run(Survey())] == ["jobs"]


def test_the_last_id_is_that_of_the_newest_message(store):
    store.create()
    store.create("other")
    store.send_many(3)
    id = store.send(queue="other")

    assert store.run(LastId()) == id


def test_the_last_id_is_that_of_the_newest_message_there_is(store):
    store.create(keep="archive")
    first, newest = store.send(), store.send()
    assert store.run(LastId()) == newest

    store.run(Remove("jobs", [newest]))

    assert store.run(LastId()) == first


def test_the_last_id_of_an_empty_store_is_below_every_id(store):
    store.create()

    last = store.run(LastId())

    assert store.send() > last


@pytest.mark.parametrize(
    "operation", [Peek("no"), Get("no", 1), Measure("no"), NextDue("no"), ListDead("no"), ListArchive("no")]
)
def test_looking_at_a_queue_that_does_not_exist_is_an_error(store, operation):
    with pytest.raises((QueueNotFound, MessageNotFound)):
        store.run(operation)


@pytest.mark.parametrize("operation", [Peek("jobs", lane="no"), NextDue("jobs", "no")])
def test_looking_at_a_lane_that_does_not_exist_is_an_error(store, operation):
    store.create()

    with pytest.raises(UnknownLane):
        store.run(operation)
