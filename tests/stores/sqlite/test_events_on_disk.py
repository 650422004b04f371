"""Rows that SQLite's tables hold of events and schedules, and the parts of them that this process caches."""

from __future__ import annotations

import pytest

from sqew.errors import DeliveryDamaged, ScheduleDamaged
from sqew.model import DeliveryOutcome, NewEvent, NewMessage, Schedule
from sqew.operations import (
    ClaimDeliveries,
    DeleteSchedule,
    DropDeliveries,
    FindDueSchedules,
    GetDelivery,
    GetSchedule,
    ListDeliveries,
    Publish,
    RetryDeliveries,
    SaveSchedule,
    SettleDeliveries,
    Subscribe,
    Unsubscribe,
)
from tests.stores.sqlite.backlog import NOW, create, open_store, run

CLAIM = ClaimDeliveries(100, 100, 1000)


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "queue.db")
    create(store, "jobs")
    yield store
    store.close()


def publish(store, key="orders.created", body=b"1"):
    [published] = run(store, Publish([NewEvent(key, NewMessage(body), "m", {2: b"{}"})]))
    return published


def subscribe_endpoints(store, count, form=0):
    return [run(store, Subscribe("orders.*", "http", f"http://{n}/{form}", form)).subscription for n in range(count)]


def settle(store, delivery, *, delivered):
    run(store, SettleDeliveries([DeliveryOutcome(delivery.id, delivery.claimed_until, delivered)]))


def payloads(store):
    """Return each stored payload's own count of its deliveries."""
    return [row[0] for row in store.connection.execute("SELECT pending FROM sqew_payload ORDER BY id")]


# What is posted is stored once


def test_endpoints_share_what_is_posted_to_them_in_the_same_form(store):
    subscribe_endpoints(store, 3)
    subscribe_endpoints(store, 2, form=2)

    publish(store)

    assert sorted(payloads(store)) == [2, 3]


def test_what_was_posted_to_all_leaves_nothing_behind(store):
    subscribe_endpoints(store, 3)
    publish(store)

    for n, delivery in enumerate(run(store, CLAIM).deliveries):
        assert payloads(store) == [3 - n]
        settle(store, delivery, delivered=True)

    assert payloads(store) == []


def test_an_exhausted_delivery_keeps_what_it_would_post_until_it_is_dropped(store):
    subscribe_endpoints(store, 2)
    publish(store)
    first, second = run(store, CLAIM).deliveries
    settle(store, first, delivered=True)

    settle(store, second, delivered=False)

    assert payloads(store) == [1]
    run(store, DropDeliveries())
    assert payloads(store) == []


def test_what_is_dropped_with_its_subscription_leaves_nothing_behind(store):
    _, second, third = subscribe_endpoints(store, 3)
    publish(store)

    run(store, Unsubscribe(second.id))
    run(store, CLAIM)
    assert payloads(store) == [2]
    run(store, Unsubscribe(third.id))
    run(store, CLAIM, NOW + 1000)

    assert payloads(store) == [1]


def test_an_event_without_endpoints_stores_nothing_to_post(store):
    run(store, Subscribe("orders.*", "queue", "jobs"))

    publish(store)

    assert payloads(store) == []


# Damage


def damage(store, table):
    store.connection.execute(f"UPDATE {table} SET body = x'32'")


def test_a_damaged_payload_is_never_posted_and_is_exhausted_with_the_reason(store):
    subscribe_endpoints(store, 1)
    publish(store)
    damage(store, "sqew_payload")

    assert run(store, CLAIM).deliveries == []

    [delivery] = run(store, ListDeliveries(state="exhausted"))
    assert "checksum" in delivery.error
    with pytest.raises(DeliveryDamaged):
        run(store, GetDelivery(delivery.id))


def test_a_damaged_payload_is_not_posted_when_it_is_retried(store):
    subscribe_endpoints(store, 1)
    publish(store)
    damage(store, "sqew_payload")
    run(store, CLAIM)

    run(store, RetryDeliveries())

    assert run(store, CLAIM).deliveries == []
    assert [delivery.state for delivery in run(store, ListDeliveries())] == ["exhausted"]


def test_a_damaged_payload_is_in_no_other_deliverys_way(store):
    subscribe_endpoints(store, 1)
    publish(store, body=b"1")
    damage(store, "sqew_payload")
    publish(store, body=b"7")

    assert [delivery.body for delivery in run(store, CLAIM).deliveries] == [b"7"]


def schedule(name):
    return Schedule(
        name, "queue", "jobs", "cron", "@daily", "0 0 * * *", "UTC", NewMessage(b"1"), next_fire_at=NOW, due_at=NOW
    )


def test_a_damaged_schedule_says_so_and_does_not_keep_others_from_firing(store):
    run(store, SaveSchedule(schedule("bad")))
    damage(store, "sqew_schedule")
    run(store, SaveSchedule(schedule("good")))

    assert [due.name for due in run(store, FindDueSchedules()).schedules] == ["good"]

    with pytest.raises(ScheduleDamaged, match="Delete the schedule and create it again"):
        run(store, GetSchedule("bad"))
    assert run(store, DeleteSchedule("bad"))
    assert run(store, SaveSchedule(schedule("bad"), expected=0)).created


# What is remembered


def undo(store, *operations):
    """Run operations and roll them back."""
    store.begin(NOW)
    for operation in operations:
        result = store.attempt(operation)
        assert not isinstance(result, Exception)
    store.rollback()


def queues_reached(store, key="orders.created"):
    return [queue for queue, _ in publish(store, key).messages]


PUBLISH = Publish([NewEvent("orders.created", NewMessage(b"1"), "m")])


@pytest.mark.parametrize("known", [True, False], ids=["subscriptions in memory", "subscriptions not read yet"])
@pytest.mark.parametrize("also", [[], [PUBLISH]], ids=["subscribed", "subscribed and published"])
def test_a_subscription_that_was_rolled_back_gets_nothing(store, known, also):
    if known:
        publish(store)

    undo(store, Subscribe("orders.*", "queue", "jobs"), *also)

    assert queues_reached(store) == []


@pytest.mark.parametrize("known", [True, False], ids=["subscriptions in memory", "subscriptions not read yet"])
def test_a_subscription_made_after_one_that_was_rolled_back_is_the_one_that_counts(store, known):
    create(store, "other")
    if known:
        publish(store)
    undo(store, Subscribe("orders.*", "queue", "jobs"), PUBLISH)

    run(store, Subscribe("orders.*", "queue", "other"))

    assert queues_reached(store) == ["other"]


def test_an_unsubscription_that_was_rolled_back_did_not_happen(store):
    subscription = run(store, Subscribe("orders.*", "queue", "jobs")).subscription
    publish(store)

    undo(store, Unsubscribe(subscription.id), PUBLISH)

    assert queues_reached(store) == ["jobs"]


def test_what_is_remembered_of_routing_keys_was_bound_by_their_number_alone(store):
    together = [Subscribe("#", "http", f"http://{n}.example/") for n in range(20_000)]
    assert not any(isinstance(result, Exception) for result in store.run(together, NOW).results)

    for n in range(6):
        publish(store, f"key.{n}")

    assert len(store._bindings.fanouts) <= 3


def test_a_neighbours_subscription_is_seen_after_one_of_its_own_was_rolled_back(store):
    create(store, "other")
    neighbour = open_store(store.path)
    undo(store, Subscribe("orders.*", "queue", "jobs"), PUBLISH)

    run(neighbour, Subscribe("orders.*", "queue", "other"))

    assert queues_reached(store) == ["other"]
    neighbour.close()
