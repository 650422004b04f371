"""Receiving: in order, up to a limit, each message to one receiver."""

import pytest

from sqew.errors import QueueNotFound
from sqew.model import NewMessage, Received
from sqew.operations import NextDue, Receive, Send


def test_messages_come_in_the_order_in_which_they_were_sent(store):
    store.create()
    first, second, third = store.send(), store.send(), store.send()

    assert [store.take().id for _ in range(3)] == [first, second, third]


def test_messages_sent_at_one_moment_come_in_order_of_id(store):
    store.create()
    sent = store.send_many(20)

    assert sent == sorted(sent)
    assert store.receive_ids(20) == sent


def test_a_higher_priority_comes_first_whenever_it_was_sent(store):
    store.create()
    low = store.send(priority=-5)
    middle = store.send()
    store.advance(1000)
    high = store.send(priority=9)

    assert store.receive_ids(3) == [high, middle, low]


def test_single_receives_keep_the_same_order_as_a_batch(store):
    store.create()
    sent = {store.send(priority=priority): priority for priority in (0, 3, -3, 3, 0, 100, -3)}

    order = [store.take().id for _ in sent]

    assert order == sorted(sent, key=lambda id: (-sent[id], id))


def test_within_a_priority_the_one_available_first_comes_first(store):
    store.create()
    late = store.send(delay_ms=200)
    soon = store.send(delay_ms=100)
    at_once = store.send()

    store.advance(500)

    assert store.receive_ids(3) == [at_once, soon, late]


def test_a_batch_takes_no_more_than_its_limit(store):
    store.create()
    sent = store.send_many(5)

    assert store.receive_ids(3) == sent[:3]
    assert store.receive_ids(3) == sent[3:]


def test_a_batch_runs_on_from_one_priority_into_the_next(store):
    store.create()
    low = store.send_many(3)
    high = store.send_many(3, priority=1)

    assert store.receive_ids(5) == high + low[:2]


def test_a_batch_larger_than_the_backlog_takes_everything(store):
    store.create()
    sent = store.send_many(4)

    assert store.receive_ids(1000) == sent


def test_no_message_goes_to_two_receivers(store):
    store.create()
    store.send_many(6)

    batches = [store.receive_ids(2) for _ in range(4)]

    assert len({id for batch in batches for id in batch}) == 6
    assert batches[3] == []


def test_an_empty_queue_gives_nothing_and_says_that_nothing_is_due(store):
    store.create()

    assert store.run(Receive("jobs")) == Received([], None)


def test_a_queue_that_does_not_exist_is_an_error_that_suggests_the_nearest(store):
    store.create()

    with pytest.raises(QueueNotFound, match="did you mean 'jobs'"):
        store.receive(queue="jobz")


def test_a_delivered_message_tells_everything_about_itself(store):
    store.create(visibility_ms=5000)
    id = store.send(b'{"a":1}', priority=3, headers={"x": "y"}, key="k", ttl_ms=60_000, delay_ms=100)
    sent_at = store.now
    store.advance(250)

    message = store.take(by="worker-1")

    assert message.id == id
    assert message.queue == "jobs"
    assert (message.body, message.format, message.value) == (b'{"a":1}', "json", {"a": 1})
    assert message.headers == {"x": "y"}
    assert (message.priority, message.lane, message.group, message.key) == (3, "normal", None, "k")
    assert message.attempts == 1
    assert (message.created_at, message.available_at) == (sent_at, sent_at + 100)
    assert message.expires_at == sent_at + 60_000
    assert message.state == "leased"
    assert (message.lease.expires_at, message.lease.by) == (store.now + 5000, "worker-1")
    assert message.death is None
    assert not message.damaged


def test_the_receiver_may_say_how_long_the_lease_lasts(store):
    store.create(visibility_ms=30_000)
    store.send()

    assert store.take(lease_ms=70).lease.expires_at == store.now + 70


def test_every_receive_has_its_own_secret(store):
    store.create()
    store.send_many(2)

    tokens = {store.take().lease.token, store.take().lease.token}

    assert len(tokens) == 2
    assert all(len(token) >= 32 for token in tokens)


def test_a_delayed_message_is_not_delivered_before_its_time(store):
    store.create()
    id = store.send(delay_ms=1000)

    store.advance(999)
    assert store.receive_ids() == []

    store.advance(1)
    assert store.receive_ids() == [id]


def test_a_queue_may_delay_every_message_that_does_not_say(store):
    store.create(delay_ms=1000)
    delayed = store.send()
    at_once = store.send(delay_ms=0)

    assert store.receive_ids(2) == [at_once]

    store.advance(1000)
    assert store.receive_ids(2) == [delayed]


def test_an_empty_receive_says_when_the_next_message_is_due(store):
    store.create()
    store.send(delay_ms=900)
    store.send(delay_ms=300, priority=-1)
    store.send(delay_ms=600, priority=1)

    assert store.run(Receive("jobs")).next_due_at == store.now + 300


def test_the_end_of_a_lease_is_a_due_time_too(store):
    store.create(visibility_ms=500)
    store.send()
    store.send(delay_ms=900)
    store.take()

    assert store.run(Receive("jobs")).next_due_at == store.now + 500
    assert store.run(NextDue("jobs")) == store.now + 500


def test_next_due_of_a_ready_message_is_since_when_it_is_ready(store):
    store.create()
    store.send()
    sent_at = store.now
    store.advance(100)

    assert store.run(NextDue("jobs")) == sent_at


def test_next_due_of_a_lane_looks_at_that_lane_alone(store):
    store.create(lanes={"fast": 1, "slow": 1})
    store.send(lane="slow", delay_ms=50)
    store.send(lane="fast", delay_ms=100)

    assert store.run(NextDue("jobs", "fast")) == store.now + 100
    assert store.run(NextDue("jobs")) == store.now + 50


def test_what_stands_behind_many_delayed_messages_of_top_priority_is_received(store):
    store.create()
    store.send_many(300, priority=9, delay_ms=60_000)
    id = store.send()

    assert store.receive_ids(10) == [id]


def test_a_finishing_receive_takes_the_message_for_good(store):
    store.create(visibility_ms=100)
    id = store.send()

    [message] = store.receive(finish=True)

    assert message.id == id
    store.advance(1_000_000)
    assert store.receive() == []
    assert store.total() == 0


def test_a_finishing_receive_archives_where_the_policy_keeps(store):
    store.create(keep="archive")
    sent = store.send_many(3)

    assert store.receive_ids(2, finish=True) == sent[:2]

    assert store.archive() == dict.fromkeys(sent[:2], "done")
    assert store.receive_ids(2) == sent[2:]


def test_a_finishing_receive_remembers_keys(store):
    store.create(key_retention_ms=1000)
    id = store.send(key="k")
    store.receive(finish=True)

    assert store.send(key="k") == id

    store.advance(1000)
    assert store.send(key="k") != id


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 10])
def test_a_lease_of_no_time_delivers_each_message_once_in_one_receive(store, fifo, limit):
    store.create(fifo=fifo, max_attempts=3)
    sent = [store.send(group=group) for group in ("g", "g", "h")]

    received = store.receive(limit, lease_ms=0)

    assert len({message.id for message in received}) == len(received) == min(limit, len(sent))
    assert {message.attempts for message in received} == {1}
    assert store.receive_ids(1) == sent[:1]


def test_an_empty_batch_sends_nothing(store):
    store.create()

    assert store.run(Send("jobs", [])) == []
    assert store.total() == 0


def test_a_batch_of_sends_answers_per_entry_in_order(store):
    store.create()

    sent = store.run(Send("jobs", [NewMessage(b"1", key="a"), NewMessage(b"2"), NewMessage(b"3", key="a")]))

    assert [entry.duplicate for entry in sent] == [False, False, True]
    assert sent[2].id == sent[0].id
    assert [message.body for message in store.receive(10)] == [b"1", b"2"]


def test_ids_increase_over_all_queues_and_are_never_used_again(store):
    store.create()
    store.create("other")

    ids = []
    for round in range(10):
        ids.append(store.send(queue="jobs" if round % 2 else "other"))
        ids += store.send_many(3)
        store.receive(10, finish=True)

    assert ids == sorted(set(ids))


def test_ids_go_on_after_reopening(store):
    store.create()
    before = store.send_many(7)
    store.receive(10, finish=True)

    store.reopen()

    assert store.send() > before[-1]
