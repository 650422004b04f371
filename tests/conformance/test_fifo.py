"""FIFO queues: in order within a group, one group's messages to one receiver at a time."""

import pytest

from sqew.model import Extension, Ref, Release
from sqew.operations import Ack, Extend, Nack, NextDue, Peek, Purge, Receive, Remove
from tests.conformance.driver import ids, ref, states


@pytest.fixture
def fifo(store):
    store.create(fifo=True, visibility_ms=1000)
    return store


def send(store, *groups):
    """Send one message to each of the groups."""
    return [store.send(group=group) for group in groups]


def test_a_group_is_delivered_in_order(fifo):
    sent = send(fifo, "g", "g", "g")

    order = []
    for _ in sent:
        message = fifo.take()
        order.append(message.id)
        fifo.ack(message)

    assert order == sent


def test_a_group_with_a_message_in_flight_is_blocked(fifo):
    send(fifo, "g", "g")
    fifo.take()

    assert fifo.receive(10) == []


def test_another_group_is_not_blocked(fifo):
    _, _, other = send(fifo, "g", "g", "h")
    fifo.take()

    assert fifo.receive_ids(10) == [other]


def test_a_batch_takes_several_messages_of_one_group_in_order(fifo):
    sent = send(fifo, "g", "g", "g")

    assert fifo.receive_ids(2) == sent[:2]
    assert fifo.receive(2) == []


def test_a_batch_takes_several_groups(fifo):
    g1, h1, g2, h2 = send(fifo, "g", "h", "g", "h")

    received = fifo.receive_ids(10)

    assert sorted(received) == [g1, h1, g2, h2]
    assert received.index(g1) < received.index(g2)
    assert received.index(h1) < received.index(h2)


def test_a_batch_counts_each_delivery_once(fifo):
    send(fifo, "g", "g", "g")

    assert [message.attempts for message in fifo.receive(3)] == [1, 1, 1]


def test_acks_out_of_order_free_the_group_when_the_last_is_acked(fifo):
    *_, last = send(fifo, "g", "g", "g", "g")
    a, b, c = fifo.receive(3)

    for message in (c, a):
        fifo.ack(message)
        assert fifo.receive(10) == []

    fifo.ack(b)
    assert fifo.receive_ids(10) == [last]


def test_a_batch_of_acks_frees_the_group(fifo):
    *_, last = send(fifo, "g", "g", "g")
    a, b = fifo.receive(2)

    fifo.run(Ack("jobs", [ref(b), ref(a)]))

    assert fifo.receive_ids(10) == [last]


def test_an_ack_by_id_of_a_waiting_message_takes_it_out_of_the_order(fifo):
    first, second, third = send(fifo, "g", "g", "g")

    fifo.run(Ack("jobs", [Ref(second)]))

    assert fifo.receive_ids(10) == [first, third]


def test_an_ack_by_id_of_the_head_promotes_the_next(fifo):
    first, second, third = send(fifo, "g", "g", "g")

    fifo.run(Ack("jobs", [Ref(first)]))

    assert fifo.receive_ids(10) == [second, third]


def test_a_nacked_head_comes_back_before_those_behind_it(fifo):
    sent = send(fifo, "g", "g")

    fifo.nack(fifo.take(), delay_ms=0)

    assert fifo.receive_ids(10) == sent


def test_a_nacked_head_holds_its_group_back_for_its_delay(fifo):
    sent = send(fifo, "g", "g")
    fifo.nack(fifo.take(), delay_ms=500)

    fifo.advance(499)
    assert fifo.receive(10) == []

    fifo.advance(1)
    assert fifo.receive_ids(10) == sent


def test_a_nacked_middle_one_comes_back_before_those_behind_it(fifo):
    a, b, c, d = send(fifo, "g", "g", "g", "g")
    first, second, third = fifo.receive(3)

    fifo.nack(second, delay_ms=0)
    assert fifo.receive(10) == []

    fifo.ack(first)
    assert fifo.receive(10) == []

    fifo.ack(third)
    assert fifo.receive_ids(10) == [b, d]
    assert (first.id, third.id) == (a, c)


def test_a_nacked_middle_one_holds_the_group_back_for_its_delay(fifo):
    _, b, c = send(fifo, "g", "g", "g")
    first, second = fifo.receive(2)
    fifo.nack(second, delay_ms=500)

    fifo.ack(first)

    assert fifo.run(NextDue("jobs")) == fifo.now + 500
    assert fifo.receive(10) == []
    fifo.advance(500)
    assert fifo.receive_ids(10) == [b, c]


def test_a_group_stays_blocked_while_any_of_its_messages_is_in_flight(fifo):
    send(fifo, "g", "g", "g")
    first, second = fifo.receive(2)
    fifo.nack(first, delay_ms=0)

    assert fifo.receive(10) == []

    fifo.nack(second, delay_ms=0)
    assert fifo.receive_ids(1) == [first.id]


def test_a_lease_that_runs_out_frees_the_group(fifo):
    sent = send(fifo, "g", "g", "g")
    fifo.receive(2)

    fifo.advance(999)
    assert fifo.receive(10) == []

    fifo.advance(1)
    again = fifo.receive(10)
    assert ids(again) == sent
    assert [message.attempts for message in again] == [2, 2, 1]


def test_an_extended_head_keeps_its_group_blocked(fifo):
    sent = send(fifo, "g", "g")
    fifo.extend(fifo.take(), 5000)

    fifo.advance(4999)
    assert fifo.receive(10) == []

    fifo.advance(1)
    assert fifo.receive_ids(10) == sent


def test_an_extended_follower_keeps_its_group_blocked(fifo):
    sent = send(fifo, "g", "g", "g")
    _, second = fifo.receive(2)
    fifo.extend(second, 5000)

    fifo.advance(4999)
    assert fifo.receive(10) == []
    assert fifo.run(NextDue("jobs")) == fifo.now + 1

    fifo.advance(1)
    assert fifo.receive_ids(10) == sent


def test_shortening_every_lease_to_nothing_frees_the_group(fifo):
    sent = send(fifo, "g", "g")
    first, second = fifo.receive(2)

    fifo.extend(first, 0)
    assert fifo.receive(10) == []

    fifo.extend(second, 0)
    assert fifo.receive_ids(10) == sent


def test_an_extend_by_id_of_a_waiting_head_delays_its_group(fifo):
    first, second = send(fifo, "g", "g")

    fifo.run(Extend("jobs", [Extension(Ref(first), 300)]))

    assert fifo.receive(10) == []
    fifo.advance(300)
    assert fifo.receive_ids(10) == [first, second]


def test_a_follower_taken_again_by_another_loses_its_first_token(fifo):
    send(fifo, "g", "g")
    _, old = fifo.receive(2)
    fifo.advance(1000)
    _, new = fifo.receive(2)

    [stale] = fifo.run(Ack("jobs", [ref(old)]))

    assert stale.code == "stale_lease"
    assert fifo.ack(new).id == old.id


def test_a_delayed_message_holds_back_those_behind_it(fifo):
    first = fifo.send(group="g")
    delayed = fifo.send(group="g", delay_ms=500)
    last = fifo.send(group="g")

    assert fifo.receive_ids(10) == [first]
    fifo.run(Ack("jobs", [Ref(first)]))
    assert fifo.receive(10) == []

    fifo.advance(500)
    assert fifo.receive_ids(10) == [delayed, last]


def test_the_order_within_a_group_does_not_heed_priority(fifo):
    low = fifo.send(group="g")
    high = fifo.send(group="g", priority=9)

    assert fifo.receive_ids(10) == [low, high]


def test_between_groups_the_head_of_higher_priority_comes_first(fifo):
    low = fifo.send(group="g")
    high = fifo.send(group="h", priority=9)

    assert fifo.receive_ids(2) == [high, low]


def test_groups_of_one_priority_come_in_the_order_in_which_they_became_ready(fifo):
    g1, g2, h1 = send(fifo, "g", "g", "h")
    message = fifo.take()
    fifo.advance(10)

    fifo.nack(message, delay_ms=0)

    assert [fifo.take().id, fifo.take().id] == [h1, g1]
    assert fifo.receive(10) == []
    assert fifo.get(g2).state == "blocked"


def test_messages_without_a_group_are_in_order_together(fifo):
    first, second, other = send(fifo, None, None, "g")

    assert fifo.take().id == first
    assert fifo.receive_ids(10) == [other]
    fifo.run(Ack("jobs", [Ref(first)]))
    assert fifo.receive_ids(10) == [second]


def test_groups_of_two_queues_have_nothing_to_do_with_each_other(fifo):
    fifo.create("other.fifo", fifo=True)
    send(fifo, "g")
    there = fifo.send(queue="other.fifo", group="g")
    fifo.take()

    assert fifo.receive_ids(10, "other.fifo") == [there]


def test_a_standard_queue_does_not_heed_groups(store):
    store.create()
    sent = send(store, "g", "g")

    assert [store.take().id, store.take().id] == sent


def test_a_dead_head_promotes_the_next(fifo):
    first, second = send(fifo, "g", "g")

    fifo.nack(fifo.take(), dead=True)

    assert fifo.receive_ids(10) == [second]
    assert ids(fifo.dead()) == [first]


@pytest.mark.parametrize("sweep", [True, False])
def test_a_head_that_ran_out_of_attempts_promotes_the_next(fifo, sweep):
    fifo.update(max_attempts=1)
    first, second = send(fifo, "g", "g")
    fifo.take()
    fifo.advance(1000)

    if sweep:
        fifo.sweep()

    assert fifo.receive_ids(10) == [second]
    assert ids(fifo.dead()) == [first]


@pytest.mark.parametrize("sweep", [True, False])
def test_an_expired_head_promotes_the_next(fifo, sweep):
    fifo.send(group="g", ttl_ms=10)
    second = fifo.send(group="g")
    fifo.advance(10)

    if sweep:
        fifo.sweep()

    assert fifo.receive_ids(10) == [second]


def test_what_an_expired_head_held_back_is_received_at_once_though_its_priority_is_higher(fifo):
    fifo.send(group="g", ttl_ms=10)
    second = fifo.send(group="g", priority=9)
    fifo.advance(10)

    assert fifo.receive_ids(10) == [second]


def test_expired_followers_are_stepped_over(fifo):
    first = fifo.send(group="g")
    fifo.send(group="g", ttl_ms=10)
    third = fifo.send(group="g")
    fifo.advance(10)

    assert fifo.receive_ids(10) == [first, third]


def test_a_swept_follower_leaves_the_order_whole(fifo):
    first = fifo.send(group="g")
    fifo.send(group="g", ttl_ms=10)
    third = fifo.send(group="g")
    fifo.advance(10)
    fifo.sweep()

    assert fifo.receive_ids(1) == [first]
    fifo.run(Ack("jobs", [Ref(first)]))
    assert fifo.receive_ids(10) == [third]


def test_a_removed_head_promotes_the_next(fifo):
    first, second = send(fifo, "g", "g")

    fifo.run(Remove("jobs", [first]))

    assert fifo.receive_ids(10) == [second]


def test_a_removed_message_in_flight_frees_its_group(fifo):
    first, second = send(fifo, "g", "g")
    fifo.take()

    fifo.run(Remove("jobs", [first]))

    assert fifo.receive_ids(10) == [second]


def test_a_purge_takes_waiting_and_leased_ones(fifo):
    sent = send(fifo, "g", "g", "h")
    fifo.take()

    assert fifo.run(Purge("jobs", sent[-1], 100)).count == 3
    assert fifo.total() == 0
    assert fifo.receive_ids(10) == []


def test_what_is_sent_after_a_purge_up_to_an_id_stays_in_order(fifo):
    old = send(fifo, "g", "g")
    new = send(fifo, "g", "g")

    fifo.run(Purge("jobs", old[-1], 100))

    assert fifo.receive_ids(10) == new


def test_a_group_that_was_emptied_starts_anew(fifo):
    send(fifo, "g")
    fifo.ack(fifo.take())

    [id] = send(fifo, "g")

    assert fifo.receive_ids(10) == [id]


def test_a_requeued_message_comes_to_the_front_of_its_group(fifo):
    first, second, third = send(fifo, "g", "g", "g")
    fifo.nack(fifo.take(), dead=True)

    fifo.requeue()

    assert fifo.receive_ids(10) == [first, second, third]


def test_a_message_requeued_into_a_group_in_flight_waits_for_it(fifo):
    first, second, third = send(fifo, "g", "g", "g")
    fifo.nack(fifo.take(), dead=True)
    in_flight = fifo.take()
    fifo.requeue()

    assert fifo.receive(10) == []

    fifo.ack(in_flight)
    assert fifo.receive_ids(10) == [first, third]
    assert in_flight.id == second


def test_requeued_messages_return_to_their_groups_from_a_standard_dead_letter_queue(fifo):
    fifo.create("dead")
    fifo.update(dead_letter="dead")
    g, h = send(fifo, "g", "h")
    fifo.run(Nack("jobs", [Release(Ref(g), dead=True), Release(Ref(h), dead=True)]))

    fifo.requeue()
    behind_g = fifo.send(group="g")

    assert fifo.receive_ids(1) == [g]
    assert fifo.receive_ids(10) == [h]
    assert fifo.get(behind_g).state == "blocked"


def test_a_fifo_dead_letter_queue_keeps_groups_in_order(store):
    store.create("dead.fifo", fifo=True)
    store.create(fifo=True, dead_letter="dead.fifo")
    first, second = send(store, "g", "g")

    store.run(Nack("jobs", [Release(Ref(second), dead=True)]))
    store.run(Nack("jobs", [Release(Ref(first), dead=True)]))

    assert store.receive_ids(1, "dead.fifo") == [first]
    assert store.receive_ids(10, "dead.fifo") == []


def test_a_finishing_receive_does_not_block_the_group(fifo):
    sent = send(fifo, "g", "g", "g")

    assert fifo.receive_ids(2, finish=True) == sent[:2]
    assert fifo.receive_ids(2, finish=True) == sent[2:]


def test_the_states_of_a_group(fifo):
    send(fifo, "g", "g", "g")
    assert states(fifo) == {"ready": 1, "blocked": 2}

    fifo.receive(2)
    assert states(fifo) == {"leased": 2, "blocked": 1}

    fifo.advance(1000)
    assert states(fifo) == {"ready": 1, "blocked": 2}


def test_measure_and_peek_agree_on_a_head_that_waits_for_a_follower_in_flight(fifo):
    send(fifo, "g", "g", "g")
    head, follower = fifo.receive(2)
    fifo.extend(follower, 5000)
    fifo.advance(1000)

    shown = {message.id: message.state for message in fifo.peek()}

    assert shown[head.id] != "leased"
    assert shown[follower.id] == "leased"
    assert states(fifo) == {state: list(shown.values()).count(state) for state in shown.values()}


def test_peek_shows_blocked_messages_last(fifo):
    g1, g2, h1 = send(fifo, "g", "g", "h")

    assert ids(fifo.peek()) == [g1, h1, g2]
    assert ids(fifo.peek(2)) == [g1, h1]


def test_peek_of_a_lane_shows_its_blocked_messages_though_those_of_other_lanes_stand_before_them(store):
    store.create(fifo=True, lanes={"a": 1, "b": 1})
    store.send(group="g", lane="a")
    store.send_many(5, group="g", lane="a")
    head = store.send(group="h", lane="b")
    blocked = store.send_many(2, group="h", lane="b")

    assert ids(store.run(Peek("jobs", 3, "b"))) == [head, *blocked]


def test_an_empty_receive_says_when_the_first_group_is_free(fifo):
    send(fifo, "g", "g")
    fifo.take()

    assert fifo.run(Receive("jobs")).next_due_at == fifo.now + 1000


def test_many_waiting_groups_are_served_in_turn(fifo):
    sent = send(fifo, *[f"g{n % 50}" for n in range(200)])

    received = []
    while batch := fifo.receive(7):
        received += ids(batch)
        fifo.run(Ack("jobs", [ref(message) for message in batch]))

    assert sorted(received) == sent
    for group in range(50):
        assert [id for id in received if id in sent[group::50]] == sent[group::50]


def test_the_order_survives_reopening(fifo):
    sent = send(fifo, "g", "g", "g")
    fifo.receive(2)
    fifo.reopen()
    assert fifo.receive(10) == []

    fifo.advance(1000)

    assert fifo.receive_ids(10) == sent


def test_a_group_in_two_lanes_is_one_order(store):
    store.create(fifo=True, lanes={"a": 1, "b": 1})
    first = store.send(group="g", lane="a")
    second = store.send(group="g", lane="b")

    assert store.receive_ids(10, lane="b") == []
    assert store.receive_ids(10, lane="a") == [first]
    store.run(Ack("jobs", [Ref(first)]))
    assert store.receive_ids(10, lane="b") == [second]


def test_what_an_expired_head_held_back_in_another_lane_is_received_at_once(store):
    store.create(fifo=True, lanes={"a": 1, "b": 1})
    store.send(group="g", lane="b", ttl_ms=10)
    second = store.send(group="g", lane="a")
    store.advance(10)

    assert store.receive_ids(1) == [second]
