"""Damaged rows of deliveries and schedules: they are given up, and no others."""

from __future__ import annotations

import pytest
from msgspec import structs

from sqew.errors import DeliveryDamaged, ScheduleDamaged, ScheduleNotFound
from sqew.model import DeliveryOutcome, NewEvent, NewMessage, Schedule, SubscriptionDetails
from sqew.operations import (
    ClaimDeliveries,
    DeleteSchedule,
    DropDeliveries,
    FailSchedule,
    FindDueSchedules,
    GetDelivery,
    GetSchedule,
    ListDeliveries,
    ListSchedules,
    Peek,
    Publish,
    SaveSchedule,
    SettleDeliveries,
    Subscribe,
)
from sqew.schedules.preview import info_of
from tests.stores.sqlite.backlog import NOW, create, open_store, run

CLAIM = ClaimDeliveries(100, 100, 1000)
NOT_UTF8 = "CAST(x'ff6162' AS TEXT)"


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "queue.db")
    create(store, "jobs")
    yield store
    store.close()


def publish(store, key):
    run(store, Publish([NewEvent(key, NewMessage(b'"%b"' % key.encode()), "m")]))


def two_deliveries(store):
    """Make a delivery to damage and one that has nothing to do with it, and return their ids."""
    for key in ("bad", "good"):
        run(store, Subscribe(key, "http", f"http://{key}.example/"))
        publish(store, key)
    bad, good = run(store, ListDeliveries())
    return bad.id, good.id


DAMAGED_DELIVERIES = {
    "an endpoint that is not UTF-8": f"UPDATE sqew_delivery SET endpoint = {NOT_UTF8} WHERE id = 1",
    "another endpoint": "UPDATE sqew_delivery SET endpoint = 'http://evil.example/' WHERE id = 1",
    "another event": "UPDATE sqew_delivery SET payload_id = 2 WHERE id = 1",
    "a routing key that is not UTF-8": f"UPDATE sqew_payload SET routing_key = {NOT_UTF8} WHERE id = 1",
    "another routing key": "UPDATE sqew_payload SET routing_key = 'good' WHERE id = 1",
    "another message id": "UPDATE sqew_payload SET message_id = 'n' WHERE id = 1",
    "another form": "UPDATE sqew_payload SET form = 2 WHERE id = 1",
    "a number that is none": "UPDATE sqew_payload SET is_text = 'x' WHERE id = 1",
    "a checksum that is none": "UPDATE sqew_payload SET checksum = 'x' WHERE id = 1",
    "another body": "UPDATE sqew_payload SET body = x'32' WHERE id = 1",
    "a body that is a number": "UPDATE sqew_payload SET body = 7 WHERE id = 1",
    "a payload that is lost": "DELETE FROM sqew_payload WHERE id = 1",
}


@pytest.mark.parametrize("damage", [None, *DAMAGED_DELIVERIES.values()], ids=["none", *DAMAGED_DELIVERIES])
def test_what_was_damaged_was_sent_on_as_a_dead_letter(store, damage):
    create(store, "letters")
    for key in ("bad", "good"):
        run(store, Subscribe(key, "http", f"http://{key}.example/", 0, key, SubscriptionDetails(dead_letter="letters")))
        publish(store, key)
    claimed = run(store, CLAIM).deliveries
    if damage is not None:
        store.connection.execute(damage)

    run(store, SettleDeliveries([DeliveryOutcome(one.id, one.claimed_until, False, 500, "no") for one in claimed]))

    dead_letters = [message.body for message in run(store, Peek("letters", 10))]
    assert dead_letters == ([b'"bad"', b'"good"'] if damage is None else [b'"good"'])
    assert len(run(store, ListDeliveries(state="exhausted"))) == (damage is not None)


@pytest.mark.parametrize("damage", DAMAGED_DELIVERIES.values(), ids=DAMAGED_DELIVERIES)
def test_one_damaged_delivery_stopped_all_of_them(store, damage):
    bad, good = two_deliveries(store)
    store.connection.execute(damage)

    claimed = run(store, CLAIM)

    assert [delivery.id for delivery in claimed.deliveries] == [good]
    assert run(store, CLAIM).deliveries == []
    [given_up] = run(store, ListDeliveries(state="exhausted"))
    assert (given_up.id, given_up.error) == (bad, str(DeliveryDamaged(bad)))


@pytest.mark.parametrize("damage", DAMAGED_DELIVERIES.values(), ids=DAMAGED_DELIVERIES)
def test_a_damaged_delivery_says_so_when_it_is_asked_for_and_can_be_dropped(store, damage):
    bad, good = two_deliveries(store)
    store.connection.execute(damage)

    with pytest.raises(DeliveryDamaged, match=f"delivery {bad} "):
        run(store, GetDelivery(bad))

    assert run(store, DropDeliveries([bad])).count == 1
    assert [delivery.id for delivery in run(store, ListDeliveries())] == [good]


@pytest.mark.parametrize("damage", DAMAGED_DELIVERIES.values(), ids=DAMAGED_DELIVERIES)
def test_a_check_did_not_find_a_damaged_delivery(store, damage):
    bad, _ = two_deliveries(store)
    assert store.check().ok
    store.connection.execute(damage)

    report = store.check()

    assert not report.ok
    assert report.damaged_deliveries == [bad]


def test_a_body_that_was_stored_as_text_is_posted_as_it_is(store):
    two_deliveries(store)
    store.connection.execute("UPDATE sqew_payload SET body = CAST(body AS TEXT)")

    assert [delivery.body for delivery in run(store, CLAIM).deliveries] == [b'"bad"', b'"good"']


def test_an_error_that_is_not_utf8_hid_all_deliveries(store):
    two_deliveries(store)
    store.connection.execute(f"UPDATE sqew_delivery SET error = {NOT_UTF8} WHERE id = 1")

    assert [delivery.error for delivery in run(store, ListDeliveries())] == ["\N{REPLACEMENT CHARACTER}ab", ""]


def test_what_is_due_behind_damaged_deliveries_waited_for_the_next_poll(store):
    run(store, Subscribe("a", "http", "http://a.example/"))
    for _ in range(3):
        publish(store, "a")
    store.connection.execute("UPDATE sqew_payload SET body = x'32' WHERE id <= 2")

    first = run(store, ClaimDeliveries(2, 2, 1000))
    second = run(store, ClaimDeliveries(2, 2, 1000))

    assert (first.deliveries, first.is_cut) == ([], True)
    assert ([delivery.id for delivery in second.deliveries], second.is_cut) == ([3], False)


# Schedules


def schedule(name):
    return Schedule(
        name, "queue", "jobs", "cron", "@daily", "0 0 * * *", "UTC", NewMessage(b"1", headers={"a": 1}),
        next_fire_at=NOW, due_at=NOW,
    )  # fmt: skip


def two_schedules(store):
    for name in ("bad", "good"):
        run(store, SaveSchedule(schedule(name)))


def damaged(change):
    return f"UPDATE sqew_schedule SET {change} WHERE name = 'bad'"


DAMAGED_SCHEDULES = {
    "another body": "body = x'32'",
    "a body that is a number": "body = 7",
    "other headers": "headers = x'7b7d'",
    "a number that is none": "is_text = 'x'",
    "a checksum that is none": "checksum = 'x'",
    "half of its details": "details = x'7b'",
    "details that are not UTF-8": "details = x'ff'",
    "another target": "details = CAST(replace(CAST(details AS TEXT), 'jobs', 'jabs') AS BLOB)",
    "a zone that is none": "details = CAST(replace(CAST(details AS TEXT), '\"UTC\"', '\"Mars\"') AS BLOB)",
    "a kind of target": "target_kind = 'topic'",
}


@pytest.mark.parametrize("damage", DAMAGED_SCHEDULES.values(), ids=DAMAGED_SCHEDULES)
def test_one_damaged_schedule_stopped_all_of_them(store, damage):
    two_schedules(store)
    store.connection.execute(damaged(damage))

    assert [due.name for due in run(store, FindDueSchedules()).schedules] == ["good"]

    with pytest.raises(ScheduleDamaged, match=r"schedule 'bad' .* Delete the schedule and create it again"):
        run(store, GetSchedule("bad"))
    assert run(store, DeleteSchedule("bad"))
    assert run(store, SaveSchedule(schedule("bad"), expected=0)).created


@pytest.mark.parametrize("damage", DAMAGED_SCHEDULES.values(), ids=DAMAGED_SCHEDULES)
def test_one_damaged_schedule_hid_all_others_in_the_list(store, damage):
    two_schedules(store)
    store.connection.execute(damaged(damage))

    bad, good = (info_of(found, NOW, 5) for found in run(store, ListSchedules()))

    assert (bad.name, bad.last_error, bad.message.body) == ("bad", str(ScheduleDamaged("bad")), b"null")
    assert (good.name, good.last_error, good.message.body) == ("good", "", b"1")


@pytest.mark.parametrize("damage", DAMAGED_SCHEDULES.values(), ids=DAMAGED_SCHEDULES)
def test_a_check_did_not_find_a_damaged_schedule(store, damage):
    two_schedules(store)
    assert store.check().ok
    store.connection.execute(damaged(damage))

    report = store.check()

    assert not report.ok
    assert report.damaged_schedules == ["bad"]


def test_a_schedule_whose_name_is_not_utf8_stopped_all_of_them(store):
    two_schedules(store)
    store.connection.execute(damaged(f"name = {NOT_UTF8}"))

    assert [due.name for due in run(store, FindDueSchedules()).schedules] == ["good"]
    assert [found.name for found in run(store, ListSchedules(limit=1))] == ["good"]
    assert run(store, ListSchedules(after="good")) == []
    assert store.check().damaged_schedules == ["\N{REPLACEMENT CHARACTER}ab"]
    with pytest.raises(ScheduleNotFound, match="good"):
        run(store, GetSchedule("goods"))


def test_a_schedule_that_moved_on_is_still_whole(store):
    two_schedules(store)
    first = run(store, GetSchedule("good"))

    moved = run(store, FailSchedule("good", first.version, "It failed.", NOW + 1))

    assert run(store, GetSchedule("good")) == moved
    assert store.check().ok


def test_a_zone_that_is_not_known_any_more_kept_schedules_from_being_listed(store):
    run(store, SaveSchedule(structs.replace(schedule("lost"), timezone="Mars/Olympus")))

    info = info_of(run(store, GetSchedule("lost")), NOW, 5)

    assert (info.timezone, info.human_readable, info.next_fires) == ("Mars/Olympus", "", [])
    assert "Mars/Olympus" in info.last_error
