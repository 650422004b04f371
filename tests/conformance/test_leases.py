"""Leases: they end by the clock alone, and only their holder may act on them."""

import pytest

from sqew.errors import MessageNotFound, QueueNotFound, StaleLease
from sqew.model import Extension, Ref, Release, Settled
from sqew.operations import Ack, Extend, Nack, Receive
from tests.conformance.driver import QUEUE, ids, ref


def test_a_leased_message_is_invisible_until_its_lease_ends(store):
    store.create(visibility_ms=1000)
    id = store.send()
    store.take()

    store.advance(999)
    assert store.receive() == []

    store.advance(1)
    assert store.receive_ids() == [id]


def test_attempts_counts_deliveries(store):
    store.create(visibility_ms=10)
    store.send()

    attempts = []
    for _ in range(4):
        attempts.append(store.take().attempts)
        store.advance(10)

    assert attempts == [1, 2, 3, 4]


def test_a_batch_counts_each_delivery_once(store):
    store.create(visibility_ms=10)
    store.send_many(3)
    store.receive(3)
    store.advance(10)

    assert [message.attempts for message in store.receive(3)] == [2, 2, 2]


def test_a_message_whose_lease_ended_stands_where_its_lease_ended(store):
    store.create(visibility_ms=100)
    first = store.send()
    store.take()
    second = store.send()
    store.advance(200)
    third = store.send()

    redelivered = store.receive(3)

    assert ids(redelivered) == [second, first, third]


def test_a_redelivery_says_since_when_the_message_was_available_again(store):
    store.create(visibility_ms=100)
    store.send()
    lease_end = store.take().lease.expires_at
    store.advance(500)

    assert store.take().available_at == lease_end


def test_an_acked_message_is_gone(store):
    store.create(visibility_ms=10)
    store.send()

    message = store.take()
    assert store.ack(message) == Settled(message.id)

    store.advance(1000)
    assert store.receive() == []
    assert store.total() == 0


def test_a_second_ack_finds_no_message(store):
    store.create()
    store.send()
    message = store.take()
    store.ack(message)

    with pytest.raises(MessageNotFound):
        store.ack(message)


def test_the_token_of_an_earlier_delivery_is_stale(store):
    store.create(visibility_ms=10)
    store.send()
    old = store.take()
    store.advance(10)
    new = store.take()

    with pytest.raises(StaleLease):
        store.ack(old)

    assert store.ack(new).id == new.id


def test_a_stale_token_changes_nothing(store):
    store.create(visibility_ms=10)
    store.send()
    old = store.take()
    store.advance(10)
    store.take(lease_ms=5000)
    before = store.peek()

    for settle in (store.ack, lambda m: store.nack(m, delay_ms=0), lambda m: store.extend(m, 60_000)):
        with pytest.raises(StaleLease):
            settle(old)

    assert store.peek() == before


def test_a_token_still_holds_after_its_lease_ended_while_nobody_received_the_message(store):
    store.create(visibility_ms=10)
    store.send()
    message = store.take()
    store.advance(1000)

    assert store.ack(message) == Settled(message.id)
    assert store.total() == 0


def test_the_token_of_another_message_is_stale(store):
    store.create()
    store.send_many(2)
    first, second = store.take(), store.take()

    [result] = store.run(Ack("jobs", [Ref(first.id, second.lease.token)]))

    assert isinstance(result, StaleLease)
    assert store.total() == 2


def test_a_token_ends_with_a_nack(store):
    store.create()
    store.send()
    message = store.take()
    store.nack(message, delay_ms=0)

    with pytest.raises(StaleLease):
        store.ack(message)


def test_a_token_does_not_hold_for_a_message_that_nobody_has_received(store):
    store.create()
    id = store.send()

    [result] = store.run(Ack("jobs", [Ref(id, "0" * 32)]))

    assert isinstance(result, StaleLease)
    assert store.receive_ids() == [id]


def test_the_holder_may_act_by_its_name(store):
    store.create()
    id = store.send()
    store.take(by="anna")

    [wrong, right] = store.run(Ack("jobs", [Ref(id, by="berta"), Ref(id, by="anna")]))

    assert isinstance(wrong, StaleLease)
    assert right == Settled(id)


def test_a_holders_name_does_not_hold_for_a_message_that_nobody_holds(store):
    store.create()
    id = store.send()

    [result] = store.run(Ack("jobs", [Ref(id, by="anna")]))

    assert isinstance(result, StaleLease)


def test_a_message_named_by_two_in_one_batch_gives_each_its_own_answer(store):
    store.create()
    store.send()
    message = store.take()

    wrong, right, again = store.run(Ack("jobs", [Ref(message.id, "wrong"), ref(message), ref(message)]))

    assert isinstance(wrong, StaleLease)
    assert right == Settled(message.id)
    assert isinstance(again, MessageNotFound)


def test_token_and_holder_must_both_be_right(store):
    store.create()
    store.send()
    message = store.take(by="anna")

    [result] = store.run(Ack("jobs", [Ref(message.id, message.lease.token, "berta")]))

    assert isinstance(result, StaleLease)


def test_by_id_alone_a_message_is_acked_whoever_holds_it(store):
    store.create()
    id = store.send()
    store.take(by="anna")

    assert store.run(Ack("jobs", [Ref(id)])) == [Settled(id)]
    assert store.total() == 0


def test_by_id_alone_a_message_is_acked_that_nobody_holds(store):
    store.create()
    id = store.send()

    assert store.run(Ack("jobs", [Ref(id)])) == [Settled(id)]
    assert store.receive() == []


def test_by_id_alone_a_held_message_is_nacked_and_its_holder_loses_it(store):
    store.create()
    store.send()
    message = store.take()

    store.run(Nack("jobs", [Release(Ref(message.id), delay_ms=0)]))

    with pytest.raises(StaleLease):
        store.ack(message)
    assert store.receive_ids() == [message.id]


@pytest.mark.parametrize("queue", ["jobs", None])
def test_an_id_that_was_never_given_out_is_not_found(store, queue):
    store.create()

    [acked] = store.run(Ack(queue, [Ref(10**15, "t")]))
    [nacked] = store.run(Nack(queue, [Release(Ref(10**15))]))
    [extended] = store.run(Extend(queue, [Extension(Ref(10**15), 1)]))

    assert [type(result) for result in (acked, nacked, extended)] == [MessageNotFound] * 3


def test_without_a_queue_a_message_is_found_wherever_it_is(store):
    store.create()
    store.create("other")
    one, two, three = store.send(), store.send(queue="other"), store.send(queue="other")

    results = store.run(Ack(None, [Ref(one), Ref(two)]))

    assert results == [Settled(one), Settled(two)]
    assert store.run(Nack(None, [Release(Ref(three), delay_ms=5)])) == [Settled(three, store.now + 5)]


@pytest.mark.parametrize("keep", ["delete", "archive"])
def test_without_a_queue_only_those_are_finished_in_time_whose_lease_lasts(store, keep):
    store.create(keep=keep, visibility_ms=100)
    store.create("slow", visibility_ms=500)
    store.create("jobs.fifo", visibility_ms=500)
    sent = [store.send(), store.send(queue="slow"), store.send(queue="jobs.fifo"), store.send(queue="jobs.fifo")]
    waiting = sent.pop()
    for queue in ("jobs", "slow", "jobs.fifo"):
        store.take(queue)
    store.advance(200)

    late, *timely = store.run(Ack(None, [Ref(id) for id in sent], in_time=True))
    [never, unknown] = store.run(Ack(None, [Ref(waiting), Ref(10**15)], in_time=True))

    assert timely == [Settled(id) for id in sent[1:]]
    assert [type(result) for result in (late, never, unknown)] == [StaleLease, StaleLease, MessageNotFound]
    assert store.receive_ids() == sent[:1]
    assert store.receive_ids(queue="jobs.fifo") == [waiting]


def test_in_the_wrong_queue_a_message_is_not_found(store):
    store.create()
    store.create("other")
    store.send()
    message = store.take()

    [result] = store.run(Ack("other", [ref(message)]))

    assert isinstance(result, MessageNotFound)
    assert store.total() == 1


@pytest.mark.parametrize("operation", [Ack("no", []), Nack("no", []), Extend("no", [])])
def test_settling_in_a_queue_that_does_not_exist_is_an_error(store, operation):
    with pytest.raises(QueueNotFound):
        store.run(operation)


def test_a_batch_of_acks_answers_per_entry(store):
    store.create()
    store.send_many(3)
    a, b, c = store.receive(3)

    results = store.run(Ack("jobs", [ref(a), Ref(b.id, "wrong"), Ref(10**15), ref(c), ref(a)]))

    assert [type(result) for result in results] == [Settled, StaleLease, MessageNotFound, Settled, MessageNotFound]
    assert [result.id for result in results] == [a.id, b.id, 10**15, c.id, a.id]
    assert ids(store.peek()) == [b.id]


def test_a_batch_of_nacks_answers_per_entry(store):
    store.create()
    store.send_many(3)
    a, b, c = store.receive(3)

    results = store.run(
        Nack("jobs", [Release(ref(a), delay_ms=0), Release(Ref(b.id, "wrong")), Release(ref(c), dead=True)])
    )

    assert results[0] == Settled(a.id, store.now)
    assert isinstance(results[1], StaleLease)
    assert results[2] == Settled(c.id, dead=True)


def test_a_batch_of_extends_answers_per_entry(store):
    store.create(visibility_ms=100)
    store.send_many(2)
    a, b = store.receive(2)

    results = store.run(Extend("jobs", [Extension(ref(a), 500), Extension(Ref(b.id, "wrong"), 500)]))

    assert results[0] == Settled(a.id, store.now + 500)
    assert isinstance(results[1], StaleLease)
    store.advance(100)
    assert store.receive_ids(2) == [b.id]


def test_an_extended_lease_ends_that_long_from_now(store):
    store.create(visibility_ms=1000)
    id = store.send()
    message = store.take()
    store.advance(900)

    assert store.extend(message, 500) == Settled(id, store.now + 500)

    store.advance(499)
    assert store.receive() == []
    store.advance(1)
    assert store.receive_ids() == [id]


def test_an_extend_may_shorten_the_lease_to_nothing(store):
    store.create(visibility_ms=60_000)
    id = store.send()
    message = store.take()

    store.extend(message, 0)

    assert store.receive_ids() == [id]


def test_an_extend_is_no_delivery(store):
    store.create(visibility_ms=10)
    store.send()
    store.extend(store.take(), 100)
    store.advance(100)

    assert store.take().attempts == 2


def test_a_token_is_good_for_many_extends(store):
    store.create(visibility_ms=100)
    store.send()
    message = store.take()

    for _ in range(5):
        store.advance(90)
        store.extend(message, 100)

    assert store.receive() == []
    assert store.ack(message).id == message.id


def test_an_extend_after_the_lease_ended_takes_it_up_again(store):
    store.create(visibility_ms=10)
    store.send()
    message = store.take()
    store.advance(50)

    store.extend(message, 100)

    assert store.receive() == []


def test_an_extend_of_a_message_that_nobody_holds_delays_it(store):
    store.create()
    id = store.send()

    store.run(Extend("jobs", [Extension(Ref(id), 200)]))

    assert store.get(id).state == "delayed"
    store.advance(200)
    assert store.take().attempts == 1


def test_leases_end_while_the_store_is_closed(store):
    store.create(visibility_ms=1000)
    id = store.send()
    store.take()

    store.reopen()
    assert store.receive() == []

    store.advance(1000)
    store.reopen()
    assert store.receive_ids() == [id]


def test_a_token_holds_after_reopening(store):
    store.create()
    store.send()
    message = store.take()

    store.reopen()

    assert store.ack(message) == Settled(message.id)


@pytest.mark.parametrize("fifo", [False, True], ids=["plain", "fifo"])
@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize(("asked", "length"), [(None, 700), (250, 250)])
def test_a_receive_says_how_long_its_leases_last(store, fifo, limit, asked, length):
    store.create(visibility_ms=700, fifo=fifo)
    store.send_many(4, **({"group": "g"} if fifo else {}))

    received = store.run(Receive(QUEUE, limit, lease_ms=asked))

    assert received.lease_ms == length
    assert {message.lease.expires_at for message in received.messages} == {store.now + length}
