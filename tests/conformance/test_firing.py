"""Fires: a schedule's message and its way to its targets are one transaction."""

import pytest
from msgspec import structs

from sqew.errors import EnvelopeNeeded, QueueNotFound, QuotaExceeded, ScheduleChanged, SqewError
from sqew.model import DELIVERIES, Advance, Fact, Fired, NewMessage, Schedule
from sqew.operations import DeleteQueue, DeleteSchedule, FailSchedule, FindDueSchedules, FireSchedule
from tests.conformance.driver import START, Driver, event

HOUR = 3_600_000


def saved(store: Driver, **fields: object) -> Schedule:
    """Save a schedule that is due and sends to the queue ``jobs``, or publishes under ``orders.due``."""
    known = {"target_kind": "queue", "target": "jobs", **fields}
    schedule = Schedule(
        "report", kind="cron", expression="@hourly", canonical="0 * * * *", timezone="UTC",
        message=NewMessage(b"1"), next_fire_at=START, due_at=START, **known,
    )  # fmt: skip
    return store.save(schedule)


def fire(schedule: Schedule, *bodies: bytes, advance: Advance | None, **fields: object) -> FireSchedule:
    events = [event(schedule.target, body, **fields) for body in bodies]
    return FireSchedule(schedule.name, schedule.version, events, advance)


def on_to_the_next(schedule: Schedule, *bodies: bytes, **fields: object) -> FireSchedule:
    return fire(schedule, *bodies, advance=Advance(START + HOUR, START), **fields)


def is_due(store: Driver) -> bool:
    return bool(store.run(FindDueSchedules()).schedules)


# What is sent


def test_a_fire_sends_to_its_queue_and_moves_on(store):
    store.create()
    schedule = saved(store)

    fired = store.run(on_to_the_next(schedule, b"7", headers={"_schedule": {"name": "report"}}, priority=3))

    message = store.take()
    assert fired == Fired([message.id])
    assert (message.body, message.headers, message.priority) == (b"7", {"_schedule": {"name": "report"}}, 3)
    moved = store.schedule("report")
    assert (moved.next_fire_at, moved.due_at, moved.last_fired_at) == (START + HOUR, START + HOUR, START)
    assert (moved.fired, moved.skipped, moved.version) == (1, 0, schedule.version + 1)
    assert not is_due(store)


def test_a_fire_publishes_to_all_who_subscribe(store):
    store.create()
    store.subscribe("orders.*")
    store.subscribe_endpoint("orders.#")
    schedule = saved(store, target_kind="topic", target="orders.due")

    commit = store.commit(on_to_the_next(schedule, b"7"))

    [fired] = commit.results
    message = store.take()
    assert fired == Fired([message.id], deliveries=1)
    assert message.headers == {"_event": {"routing_key": "orders.due"}}
    assert [delivery.body for delivery in store.claim()] == [b"7"]
    assert commit.facts == [Fact("sent", "jobs", "normal", message.id, 0)]
    assert {"jobs", DELIVERIES} <= commit.woken


def test_a_topic_that_nobody_subscribes_to_is_no_failure(store):
    schedule = saved(store, target_kind="topic", target="orders.due")

    assert store.run(on_to_the_next(schedule, b"7")) == Fired([])

    assert store.schedule("report").fired == 1


def test_slots_that_are_made_up_for_are_sent_in_their_order(store):
    store.create("jobs.fifo", fifo=True)
    schedule = saved(store, target="jobs.fifo")

    fired = store.run(
        fire(schedule, b"1", b"2", b"3", advance=Advance(START + 5 * HOUR, START + 2 * HOUR, skipped=2), group="g")
    )

    assert [message.body for message in store.peek(queue="jobs.fifo")] == [b"1", b"2", b"3"]
    assert len(fired.ids) == 3
    moved = store.schedule("report")
    assert (moved.fired, moved.skipped, moved.last_fired_at) == (3, 2, START + 2 * HOUR)


def test_a_fifo_queue_that_came_after_its_schedule_was_not_found_by_its_bare_name(store):
    schedule = saved(store)
    with pytest.raises(QueueNotFound, match="Queue 'jobs' does not exist"):
        store.run(on_to_the_next(schedule, b"1"))
    store.create("jobs.fifo", fifo=True)

    commit = store.commit(on_to_the_next(schedule, b"7"))

    assert [message.body for message in store.peek(queue="jobs.fifo")] == [b"7"]
    assert "jobs.fifo" in commit.woken


def test_a_plain_queue_is_sent_to_before_the_fifo_queue_of_its_name(store):
    store.create("jobs.fifo", fifo=True)
    store.create()

    store.run(on_to_the_next(saved(store), b"7"))

    assert ([message.body for message in store.peek()], store.peek(queue="jobs.fifo")) == ([b"7"], [])


def test_fires_and_skips_add_up(store):
    store.create()
    saved(store)
    for n in range(1, 4):
        schedule = store.schedule("report")
        store.run(fire(schedule, b"1", advance=Advance(START + n * HOUR, START, skipped=n)))

    moved = store.schedule("report")
    assert (moved.fired, moved.skipped) == (3, 6)


def test_the_next_slot_may_be_due_after_its_time(store):
    store.create()
    schedule = saved(store)

    store.run(fire(schedule, b"7", advance=Advance(START + HOUR, START, due_at=START + HOUR + 5)))

    moved = store.schedule("report")
    assert (moved.next_fire_at, moved.due_at) == (START + HOUR, START + HOUR + 5)


def test_a_schedule_that_is_over_is_deleted(store):
    store.create()
    schedule = saved(store)

    store.run(fire(schedule, b"7", advance=Advance(None, START)))

    assert store.take().body == b"7"
    assert store.schedule_names() == []


def test_a_fire_out_of_turn_is_counted_and_changes_nothing_else_about_the_schedule(store):
    store.create()
    schedule = saved(store)

    fired = store.run(fire(schedule, b"7", advance=None))

    assert fired == Fired([store.take().id])
    counted = {"fired": 1, "last_fired_at": store.now, "version": schedule.version + 1}
    assert store.schedule("report") == structs.replace(schedule, **counted)
    assert is_due(store)


def test_a_paused_schedule_fires_out_of_turn(store):
    store.create()
    paused = store.save(saved(store, status="paused"))

    store.run(fire(paused, b"7", advance=None))

    assert store.take().body == b"7"
    seen = store.schedule("report")
    assert (seen.status, seen.next_fire_at, seen.fired) == ("paused", paused.next_fire_at, 1)


# Once for each slot


def test_of_two_processes_that_fire_one_slot_one_does(store, neighbour):
    store.create()
    schedule = saved(store)
    [seen] = neighbour.run(FindDueSchedules()).schedules
    store.run(on_to_the_next(schedule, b"1"))

    with pytest.raises(ScheduleChanged):
        neighbour.run(on_to_the_next(seen, b"1"))
    assert store.total() == 1
    assert store.schedule("report").fired == 1


@pytest.mark.parametrize("advance", [Advance(START + HOUR, START), None], ids=["in turn", "out of turn"])
def test_a_schedule_that_was_changed_does_not_fire_as_it_was(store, advance):
    store.create()
    schedule = saved(store)
    changed = store.save(schedule)

    commit = store.commit(fire(schedule, b"1", advance=advance))

    assert isinstance(commit.results[0], ScheduleChanged)
    assert (commit.facts, store.total()) == ([], 0)
    assert store.schedule("report") == changed


def test_a_schedule_that_was_deleted_does_not_fire(store):
    store.create()
    schedule = saved(store)
    store.run(DeleteSchedule("report"))

    with pytest.raises(ScheduleChanged):
        store.run(on_to_the_next(schedule, b"1"))
    assert store.total() == 0


def test_two_fires_of_one_slot_in_one_transaction_are_one(store):
    store.create()
    schedule = saved(store)

    first, second = store.commit(on_to_the_next(schedule, b"1"), on_to_the_next(schedule, b"1")).results

    assert isinstance(first, Fired)
    assert isinstance(second, ScheduleChanged)
    assert store.total() == 1


# What fails


def failing(store: Driver, schedule: Schedule) -> SqewError:
    """Fire, and record the failure as the scheduler does."""
    [error] = store.commit(on_to_the_next(schedule, b"1")).results
    assert isinstance(error, SqewError)
    store.run(FailSchedule(schedule.name, schedule.version, str(error), store.now + 1000))
    return error


def test_a_target_that_refuses_leaves_the_slot_and_no_trace(store):
    store.create(quota=0)
    schedule = saved(store)

    commit = store.commit(on_to_the_next(schedule, b"1"))

    assert isinstance(commit.results[0], QuotaExceeded)
    assert (commit.facts, commit.woken) == ([], set())
    assert store.schedule("report") == schedule


def test_a_failure_is_told_and_the_slot_tried_again_later(store):
    store.create()
    schedule = saved(store)
    store.run(DeleteQueue("jobs"))

    error = failing(store, schedule)

    assert isinstance(error, QueueNotFound)
    failed = store.schedule("report")
    assert (failed.consecutive_failures, failed.last_error, failed.status) == (1, str(error), "active")
    assert (failed.next_fire_at, failed.due_at) == (START, START + 1000)
    assert not is_due(store)
    store.advance(1000)
    assert is_due(store)


def test_a_slot_that_failed_fires_once_its_target_is_back(store):
    failing(store, saved(store))
    store.create()
    store.advance(1000)

    store.run(on_to_the_next(store.schedule("report"), b"1"))

    moved = store.schedule("report")
    assert (moved.consecutive_failures, moved.last_error, moved.fired) == (0, "", 1)


def test_after_too_many_failures_in_a_row_it_pauses_with_the_reason(store):
    saved(store, failure_threshold=3)
    for _ in range(3):
        failing(store, store.schedule("report"))

    paused = store.schedule("report")

    assert (paused.status, paused.due_at, paused.next_fire_at) == ("paused", None, START)
    assert paused.paused_reason == f"It failed 3 times in a row: {paused.last_error}"
    store.advance(10 * HOUR)
    assert not is_due(store)


def test_a_fire_between_two_failures_begins_the_count_anew(store):
    store.create()
    failing(store, saved(store, failure_threshold=2, target="other"))
    store.create("other")
    store.run(on_to_the_next(store.schedule("report"), b"1"))
    store.run(DeleteQueue("other"))

    failing(store, store.schedule("report"))

    assert store.schedule("report").status == "active"


def test_without_a_threshold_it_never_pauses(store):
    saved(store, failure_threshold=None)
    for _ in range(20):
        failing(store, store.schedule("report"))

    assert store.schedule("report").status == "active"


def test_a_failure_of_a_schedule_that_was_changed_meanwhile_counts_nothing(store):
    schedule = saved(store)
    changed = store.save(schedule)

    with pytest.raises(ScheduleChanged):
        store.run(FailSchedule("report", schedule.version, "it failed", START + 1))
    assert store.schedule("report") == changed


def test_a_fire_that_lacks_an_envelope_leaves_the_slot(store):
    store.subscribe_endpoint("orders.*", form=2)
    schedule = saved(store, target_kind="topic", target="orders.due")

    with pytest.raises(EnvelopeNeeded):
        store.run(on_to_the_next(schedule, b"1"))
    assert store.schedule("report") == schedule
    store.run(on_to_the_next(schedule, b"1", envelopes={2: b"{}"}))
    assert [delivery.body for delivery in store.claim()] == [b"{}"]
