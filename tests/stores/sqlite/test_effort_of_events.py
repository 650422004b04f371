"""The cost of events, deliveries and schedules for SQLite: the same, however many others there are."""

from __future__ import annotations

import pytest

from sqew.model import Advance, DeliveryOutcome, NewEvent, NewMessage, Schedule
from sqew.operations import (
    ClaimDeliveries,
    FindDueSchedules,
    FireSchedule,
    ListDeliveries,
    ListSubscriptions,
    Publish,
    RetryDeliveries,
    SaveSchedule,
    SettleDeliveries,
    Subscribe,
    Unsubscribe,
)
from tests.stores.sqlite.backlog import NOW, create, effort, open_store, run

MANY = 5_000
MARGIN = 1.5


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "queue.db")
    create(store, "jobs")
    yield store
    store.close()


def cost(store, operation, now=NOW):
    """Count the steps of SQLite's machine for an operation."""
    with effort(store.connection) as counted:
        run(store, operation, now)
    assert counted.scanned == 0
    return counted.steps


def together(store, operations):
    """Run operations in one transaction."""
    assert not any(isinstance(result, Exception) for result in store.run(operations, NOW).results)


def event(key="orders.created"):
    return NewEvent(key, NewMessage(b"{}"), "m")


def test_a_publish_costs_the_same_with_many_subscriptions_to_other_keys(store):
    run(store, Subscribe("orders.*", "queue", "jobs"))
    run(store, Publish([event()]))
    alone = cost(store, Publish([event()]))
    together(store, [Subscribe(f"payments.{n}", "queue", "jobs") for n in range(MANY)])
    run(store, Publish([event()]))

    assert cost(store, Publish([event()])) <= MARGIN * alone


def test_a_subscription_that_was_just_made_is_read_without_the_others(store):
    together(store, [Subscribe(f"payments.{n}", "queue", "jobs") for n in range(MANY)])
    other = open_store(store.path)
    run(other, Publish([event()]))
    run(store, Subscribe("orders.*", "queue", "jobs"))

    assert cost(other, Publish([event()])) < 500
    other.close()


def test_a_neighbours_unsubscription_was_learned_by_reading_all_subscriptions_again(store):
    together(store, [Subscribe(f"payments.{n}", "queue", "jobs") for n in range(MANY)])
    other = open_store(store.path)
    assert run(other, Publish([event("payments.7")]))[0].messages
    run(store, Subscribe("payments.*", "queue", "jobs"))
    run(store, Unsubscribe(8))
    run(store, Unsubscribe(MANY + 1))

    assert cost(other, Publish([event("orders.created")])) < 500
    assert run(other, Publish([event("payments.7")]))[0].messages == []
    assert run(other, Publish([event("payments.8")]))[0].messages
    other.close()


def test_who_has_missed_too_many_unsubscriptions_reads_all_subscriptions_again(store):
    together(store, [Subscribe(f"payments.{n}", "queue", "jobs") for n in range(MANY)])
    other = open_store(store.path)
    run(other, Publish([event("payments.7")]))
    together(store, [Unsubscribe(n) for n in range(1, 1_502)])

    assert run(other, Publish([event("payments.7")]))[0].messages == []
    assert run(other, Publish([event("payments.1501")]))[0].messages
    assert store.connection.execute("SELECT count(*) FROM sqew_unsubscription").get == 1_000
    other.close()


def test_a_page_of_one_patterns_subscriptions_costs_by_what_it_shows(store):
    together(store, [Subscribe("orders.*", "http", f"http://{n}.example/") for n in range(MANY)])

    assert cost(store, ListSubscriptions(pattern="orders.*", after=MANY // 2, limit=10)) < 1_000


def endpoints(store, count):
    together(store, [Subscribe(f"s{n}", "http", f"http://{n}.example/") for n in range(count)])


def posted(store, now=NOW):
    """Count the steps of one delivery from its claim to its end."""
    with effort(store.connection) as counted:
        [delivery] = run(store, ClaimDeliveries(1, 1, 1000), now).deliveries
        run(store, SettleDeliveries([DeliveryOutcome(delivery.id, delivery.claimed_until, delivered=True)]), now)
    assert counted.scanned == 0
    return counted.steps


def test_a_delivery_costs_the_same_with_many_waiting_behind_it(store):
    endpoints(store, 1)
    run(store, Publish([event("s0")] * 500))
    posted(store)
    with_some = posted(store)
    run(store, Publish([event("s0")] * MANY))

    assert posted(store) <= MARGIN * with_some


def test_a_delivery_costs_the_same_with_many_that_wait_for_their_next_attempt(store):
    endpoints(store, MANY)
    run(store, Publish([event("s0")] * 3))
    posted(store)
    alone = posted(store)
    run(store, Publish([NewEvent(f"s{n}", NewMessage(b"{}", delay_ms=1), "m") for n in range(1, MANY)]))

    assert posted(store) <= MARGIN * alone


def test_a_delivery_costs_the_same_with_many_that_wait_and_hundreds_due_at_one_endpoint(store):
    endpoints(store, MANY)
    run(store, Publish([event("s0")] * 300))
    posted(store)
    run(store, Publish([NewEvent(f"s{n}", NewMessage(b"{}", delay_ms=1), "m") for n in range(1, 1_000)]))
    with_some = posted(store)
    run(store, Publish([NewEvent(f"s{n}", NewMessage(b"{}", delay_ms=1), "m") for n in range(1_000, MANY)]))

    assert posted(store) <= MARGIN * with_some


def test_what_subscriptions_left_behind_is_dropped_at_a_cost_that_has_a_bound(store):
    endpoints(store, 100)
    for n in range(100):
        run(store, Publish([event(f"s{n}")] * 50))
    together(store, [Unsubscribe(n + 1) for n in range(100)])

    costs = [cost(store, ClaimDeliveries(50, 16, 1000)) for _ in range(3)]

    assert max(costs) < 50_000
    assert len(run(store, ListDeliveries(limit=10_000))) == 5_000 - 3 * 200


def test_a_step_of_a_retry_of_all_walked_past_all_whose_subscription_is_gone(store):
    endpoints(store, 2)
    run(store, Publish([event("s0")] * MANY))
    store.connection.execute("UPDATE sqew_delivery SET due_at = NULL")
    run(store, Unsubscribe(1))

    first = run(store, RetryDeliveries(limit=10))
    last = RetryDeliveries(limit=10, after=MANY - 10)

    assert (first.count, first.done, first.after) == (0, False, 10)
    assert cost(store, last) < 2_000


def test_the_exhausted_are_listed_at_the_cost_of_what_is_shown(store):
    endpoints(store, 1)
    run(store, Publish([event("s0")] * MANY))
    run(store, Publish([event("s0")] * 10), NOW - 1)
    taken = run(store, ClaimDeliveries(10, 10, 1000)).deliveries
    run(store, SettleDeliveries([DeliveryOutcome(one.id, one.claimed_until, delivered=False) for one in taken]))

    [subscription] = {delivery.subscription_id for delivery in taken}
    assert len(run(store, ListDeliveries(state="exhausted"))) == 10
    assert cost(store, ListDeliveries(state="exhausted")) < 1_000
    assert cost(store, ListDeliveries(state="exhausted", subscription_id=subscription)) < 1_000


def schedule(n, due_at):
    return Schedule(
        f"s{n}", "queue", "jobs", "cron", "@daily", "0 0 * * *", "UTC", NewMessage(b"1"), next_fire_at=due_at,
        due_at=due_at,
    )  # fmt: skip


def fired(store):
    """Count the steps of finding the one schedule that is due, and of firing it."""
    with effort(store.connection) as counted:
        [due] = run(store, FindDueSchedules()).schedules
        run(store, FireSchedule(due.name, due.version, [event()], Advance(NOW, NOW)))
    assert counted.scanned == 0
    return counted.steps


def test_a_fire_costs_the_same_with_many_schedules_for_later(store):
    run(store, SaveSchedule(schedule(0, NOW)))
    fired(store)
    alone = fired(store)
    together(store, [SaveSchedule(schedule(n, NOW + n)) for n in range(1, MANY)])

    assert fired(store) <= MARGIN * alone


def test_looking_for_due_schedules_in_vain_costs_little_however_many_there_are(store):
    together(store, [SaveSchedule(schedule(n, NOW + n)) for n in range(1, MANY)])

    assert cost(store, FindDueSchedules()) < 200
