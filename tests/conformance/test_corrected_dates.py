"""Dates in the future: rows stored while the clock was ahead, or that seem so to a slow clock."""

from __future__ import annotations

from sqew.errors import LeaseTooLong
from sqew.model import Corrected
from sqew.operations import ClockIsSlow, CorrectDates, LookAhead, OpenConsumer, Sweep
from tests.conformance.driver import QUEUE, START, Driver, ids

DAY, HOUR, MINUTE, SECOND = 86_400_000, 3_600_000, 60_000, 1_000


def ahead(store: Driver) -> int:
    store.advance(DAY)
    return store.now


def set_back(store: Driver, since: int | None = None) -> Corrected:
    store.advance(-DAY)
    return store.run(CorrectDates(DAY, since is not None, since))


def test_what_was_sent_while_the_clock_was_ahead_is_received_at_once(store: Driver) -> None:
    store.create()
    ahead(store)
    sent = store.send_many(3)

    assert store.run(LookAhead()) == 0
    store.advance(-DAY)
    assert store.run(LookAhead()) == DAY
    assert store.run(CorrectDates()) == Corrected(DAY, 3, 0)

    assert store.run(LookAhead()) == 0
    messages = store.receive(5)
    assert ids(messages) == sent
    assert {message.created_at for message in messages} == {store.now}


def test_to_correct_again_changes_nothing(store: Driver) -> None:
    store.create()
    ahead(store)
    store.send(delay_ms=MINUTE)
    set_back(store)
    store.advance(10 * SECOND)

    assert store.run(CorrectDates(DAY, True)) == Corrected(DAY, 0, 0)

    store.advance(50 * SECOND)
    assert len(store.receive(5)) == 1


def test_what_was_delayed_keeps_its_delay(store: Driver) -> None:
    store.create()
    early = store.send(delay_ms=2 * DAY)
    ahead(store)
    late = store.send(delay_ms=MINUTE)
    set_back(store, START + DAY)

    store.advance(MINUTE - 1)
    assert store.receive_ids(5) == []
    store.advance(1)
    assert store.receive_ids(5) == [late]
    store.advance(2 * DAY - MINUTE - 1)
    assert early not in store.receive_ids(5)
    store.advance(1)
    assert early in store.receive_ids(5)


def test_a_lease_ends_after_its_own_length(store: Driver) -> None:
    store.create()
    sent = store.send()
    ahead(store)
    store.take(lease_ms=30 * SECOND)
    set_back(store)

    store.advance(30 * SECOND - 1)
    assert store.receive_ids(5) == []
    store.advance(1)
    assert store.receive_ids(5) == [sent]


def test_a_holder_keeps_its_token(store: Driver) -> None:
    store.create()
    store.send()
    ahead(store)
    held = store.take(lease_ms=30 * SECOND)
    set_back(store)

    assert not isinstance(store.extend(held, MINUTE), LeaseTooLong)
    store.ack(held)
    assert store.receive_ids(5) == []


def test_what_was_given_back_while_the_clock_was_ahead_is_tried_again(store: Driver) -> None:
    store.create()
    sent = store.send()
    ahead(store)
    store.nack(store.take(), delay_ms=MINUTE)
    set_back(store)

    store.advance(MINUTE)
    assert store.receive_ids(5) == [sent]


def test_what_was_given_back_before_the_clock_was_ahead_was_tried_again_too_early(store: Driver) -> None:
    store.create()
    sent = store.send()
    store.nack(store.take(), delay_ms=HOUR)
    since = ahead(store)
    set_back(store, since)

    assert store.receive_ids(5) == []
    store.advance(HOUR)
    assert store.receive_ids(5) == [sent]


def test_a_group_is_not_blocked_by_what_came_before_the_correction(store: Driver) -> None:
    store.create("jobs.fifo", fifo=True)
    first = store.send(queue="jobs.fifo", group="g")
    ahead(store)
    store.take("jobs.fifo", lease_ms=MINUTE)
    second = store.send(queue="jobs.fifo", group="g")
    other = store.send(queue="jobs.fifo", group="h")
    set_back(store)

    assert store.receive_ids(5, "jobs.fifo", lease_ms=HOUR) == [other]
    store.advance(MINUTE)
    assert store.receive_ids(5, "jobs.fifo") == [first, second]


def test_a_dead_letter_of_that_time_can_be_received(store: Driver) -> None:
    store.create("dead")
    store.create(dead_letter="dead")
    sent = store.send()
    ahead(store)
    store.nack(store.take(), dead=True)
    set_back(store)

    assert store.receive_ids(5, "dead") == [sent]


def test_what_was_brought_back_to_its_queue_meanwhile_can_be_received(store: Driver) -> None:
    store.create("dead")
    store.create(dead_letter="dead")
    sent = store.send()
    store.nack(store.take(), dead=True)
    since = ahead(store)
    store.requeue()
    set_back(store, since)

    assert store.receive_ids(5) == [sent]


def test_a_key_of_that_time_is_not_remembered_for_a_day_longer(store: Driver) -> None:
    store.create(key_retention_ms=MINUTE)
    ahead(store)
    store.send(key="k")
    store.ack(store.take())
    set_back(store)

    store.advance(MINUTE + 10 * SECOND)
    store.send(key="k")
    assert len(store.receive(5)) == 1


def test_a_lifetime_is_counted_from_now_where_the_clock_was_seen_to_come_back(store: Driver) -> None:
    store.create()
    since = ahead(store)
    store.send(ttl_ms=MINUTE)
    set_back(store, since)

    store.advance(MINUTE)
    assert store.receive(5) == []


def test_a_slow_clock_at_the_start_lets_nothing_expire_early(store: Driver) -> None:
    store.create()
    sent = store.send(ttl_ms=DAY + HOUR)
    store.advance(-DAY)

    store.run(CorrectDates())
    store.advance(DAY + HOUR - 1)
    store.run(Sweep())

    assert store.receive_ids(5) == [sent]


def test_a_clock_that_shows_a_time_before_the_store_was_made_leaves_delays_and_keys_alone(store: Driver) -> None:
    store.create(key_retention_ms=HOUR)
    store.send(key="k")
    store.ack(store.take())
    now = store.send()
    store.send(delay_ms=HOUR)
    store.now = 1_000

    assert store.run(LookAhead()) == START - 1_000
    store.run(CorrectDates())

    assert store.receive_ids(5) == [now]
    store.now = START + HOUR - 1
    assert store.receive_ids(5) == [now]
    store.send(key="k")
    assert len(store.receive(5, lease_ms=1)) == 0


def test_a_clock_is_known_to_be_slow_only_before_the_store_was_made(store: Driver) -> None:
    store.create()

    assert store.run(ClockIsSlow()) is False
    store.now = 1_000
    assert store.run(ClockIsSlow()) is True


def test_a_delivery_of_that_time_is_posted(store: Driver) -> None:
    store.subscribe_endpoint("k")
    ahead(store)
    store.publish("k")
    assert set_back(store).others == 1

    assert len(store.claim()) == 1


def test_a_consumer_is_not_held_for_a_day(store: Driver) -> None:
    store.create()
    ahead(store)
    store.run(OpenConsumer(QUEUE, "reader", "one", hold_ms=MINUTE))
    set_back(store)

    store.advance(MINUTE)
    assert store.run(OpenConsumer(QUEUE, "reader", "two", hold_ms=MINUTE)).epoch == 2
