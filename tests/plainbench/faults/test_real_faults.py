"""Faults in real time: processes that really die, locks that are really held, a full disk, a clock that jumps."""

import signal
import threading
import time

import apsw
import pytest

from plainbench.drivers.base import Item, Topic
from plainbench.faults.lock_holder import contention
from plainbench.run.randomness import Streams
from sqew.errors import StoreBusy
from tests.plainbench.runs import QUICK, run_real

CALM = {"type": "constant", "rate": 200}
FEW = [{"topic": "orders", "messages": 60, "arrivals": CALM}]
EVERYTHING = set(range(1, 61))


def crash(point, *calls):
    return {"queue": {"crash": {"point": point, "calls": list(calls), "at": [4]}}}


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "before_reply"])
def test_a_crash_kills_the_workers_process_and_nothing_is_lost(tmp_path, point):
    run = run_real(tmp_path, workload=FEW, faults=crash(point, "ack", "receive"))

    fired = run.of("fault", point)
    assert fired
    assert len(run.of("worker", "died")) == len(fired)
    assert f"exit code {-signal.SIGKILL}" in run.of("worker", "died")[0].reason
    assert {event.n for event in run.of("received")} == EVERYTHING
    assert run.why == "settled"


def test_a_crash_before_the_commit_of_an_ack_has_the_message_delivered_again(tmp_path):
    # With one slot: another's ack may be committed, and not heard of, when the process dies.
    workers = [{"name": "w", "concurrency": 1, "lease_ms": 500}]

    run = run_real(tmp_path, workload=FEW, workers=workers, faults=crash("before_commit", "ack"))

    again = {event.n for event in run.of("received") if event.attempt > 1}
    assert again
    assert run.numbers_acked == EVERYTHING


def test_a_crash_after_the_commit_of_an_ack_leaves_a_message_that_is_done_though_nobody_heard(tmp_path):
    workers = [{"name": "w", "concurrency": 1, "lease_ms": 500}]

    run = run_real(tmp_path, workload=FEW, workers=workers, faults=crash("after_commit", "ack"))

    unheard = EVERYTHING - run.numbers_acked
    assert unheard
    received = [event.n for event in run.of("received")]
    assert all(received.count(number) == 1 for number in unheard)


def test_a_generator_that_dies_goes_on_with_what_it_has_not_tried(tmp_path):
    run = run_real(tmp_path, workload=FEW, faults=crash("after_commit", "send"))

    assert run.of("fault", "after_commit")
    tried = [event.n for event in run.of("sending")]
    assert sorted(tried) == sorted(EVERYTHING)
    assert {event.n for event in run.of("received")} == EVERYTHING


def test_a_timeout_is_a_real_busy_of_sqlite_after_the_busy_timeout(tmp_path):
    faults = {"queue": {"error_rate": 0.1, "errors": {"timeout": 1}}}

    run = run_real(tmp_path, workload=FEW, faults=faults)

    busy = [event for event in [*run.of("refused"), *run.of("unsent")] if event.what == "StoreBusy"]
    assert busy
    waited = QUICK["pragmas"]["busy_timeout_ms"] * 1000
    assert all(event.took is None or event.took >= waited * 0.9 for event in busy)
    assert run.numbers_acked == EVERYTHING


def test_a_full_disk_holds_the_queue_up_and_loses_nothing(tmp_path):
    large = [{**FEW[0], "size": {"min": 8_000, "max": 8_000}}]

    run = run_real(tmp_path, workload=large, faults={"disk_full": [{"at_s": 0.05, "for_s": 0.4}]})

    assert run.of("fault", "disk_full")
    assert {event.what for event in run.of("unsent")} == {"StoreFull"}
    assert run.numbers_acked == EVERYTHING


def test_a_clock_that_jumps_ahead_ends_leases_and_loses_nothing(tmp_path):
    workers = [{"name": "w", "lease_ms": 60_000, "work": {"type": "fixed", "ms": 20}, "heartbeat": False}]

    run = run_real(tmp_path, workload=FEW, workers=workers, faults={"clock_jump": [{"at_s": 0.3, "by_s": 3600}]})

    assert run.of("fault", "clock_jump")
    assert {event.n for event in run.of("received")} == EVERYTHING
    assert run.why == "settled"


def test_two_runs_with_one_seed_decide_alike_however_the_timing_falls(tmp_path):
    faults = {"queue": {"error_rate": 0.2, "latency": {"type": "uniform", "min_ms": 0, "max_ms": 3}}}
    workers = [{"name": "w", "concurrency": 2, "lease_ms": 300}]

    one, other = (run_real(tmp_path, workload=FEW, workers=workers, faults=faults) for _ in range(2))

    def decisions(run):
        return {(event.stream, event.index): (event.what, event.ms) for event in run.of("fault")}

    both = decisions(one).keys() & decisions(other).keys()
    assert len(both) > 50
    assert all(decisions(one)[firing] == decisions(other)[firing] for firing in both)


def test_a_stream_depends_on_its_name_and_the_seed_alone():
    one = Streams(5)
    _ = [one.dice("somebody", "else").roll() for _ in range(10)]

    rolls = [one.dice("worker", 3).roll() for _ in range(2)]

    assert rolls == [Streams(5).dice("worker", 3).roll()] * 2
    assert Streams(6).dice("worker", 3).roll() not in rolls


def test_which_ack_of_a_slot_fails_does_not_depend_on_the_timing(tmp_path):
    workers = [{"name": "w", "concurrency": 2, "lease_ms": 500}]
    slower = [{**workers[0], "work": {"type": "uniform", "min_ms": 0, "max_ms": 20}}]
    faults = {"queue": {"error_rate": 0.3}}

    one, other = (run_real(tmp_path, workload=FEW, workers=some, faults=faults) for some in (workers, slower))

    for slot in ("w/0", "w/1"):
        acks, others_acks = ([event.what == "Injected" for event in _acks(run, slot)] for run in (one, other))
        both = min(len(acks), len(others_acks))
        assert both > 10
        assert True in acks[:both]
        assert acks[:both] == others_acks[:both]


def _acks(run, slot):
    return [event for event in run.events if event.event in ("acked", "refused") and event.worker == slot]


def test_a_receive_that_waits_is_one_call_and_can_die_before_its_reply(tmp_path):
    late = [{"topic": "orders", "messages": 5, "arrivals": {"type": "constant", "rate": 5}}]
    workers = [{"name": "w", "lease_ms": 300}]
    faults = {"queue": {"crash": {"point": "before_reply", "calls": ["receive"], "at": [2]}}}

    run = run_real(tmp_path, workload=late, workers=workers, faults=faults)

    (death,) = run.of("fault", "before_reply")
    assert (death.where, death.index) == ("receive", 2)
    assert run.numbers_acked == set(range(1, 6))


def test_a_worker_that_starts_after_the_clock_was_set_back_goes_on_where_it_was(tmp_path):
    few = [{"topic": "orders", "messages": 20, "arrivals": CALM}]
    faults = {
        "queue": {"crash": {"point": "before_commit", "at": [2]}},
        "clock_jump": [{"at_s": 0.001, "by_s": -3600}],
    }
    workers = [{"name": "w", "lease_ms": 300}]

    run = run_real(tmp_path, workload=few, workers=workers, faults=faults, until={"idle_s": 1, "most_s": 20})

    assert run.of("worker", "started")
    # It, and what the others send, were an hour in the future once.
    assert {event.n for event in run.of("received")} == set(range(1, 21))


def test_a_lock_that_somebody_else_holds_is_waited_for_until_it_is_ours(tmp_path):
    path = str(tmp_path / "some.db")
    somebody, caller = apsw.Connection(path), apsw.Connection(path)
    somebody.execute("PRAGMA journal_mode = WAL").fetchall()
    somebody.execute("BEGIN IMMEDIATE; CREATE TABLE t (a)")
    caller.set_busy_timeout(1_000)
    threading.Timer(0.3, lambda: somebody.execute("COMMIT")).start()

    with contention(path), pytest.raises(apsw.BusyError):
        caller.execute("BEGIN IMMEDIATE")

    somebody.close()
    caller.close()


@pytest.fixture
def slot(context):
    """Yield a function that opens an empty queue as a slot sees it with faults: ``slot(error_rate=1)``."""
    opened = []

    def open_(**faults):
        opened.append(context(faults={"queue": faults}, sqlite=QUICK).driver(f"w/{len(opened)}", 0))
        opened[-1].create(Topic("orders"))
        return opened[-1]

    yield open_
    for driver in opened:
        driver.close()


def test_a_receive_of_an_empty_queue_times_out_as_any_other_call(slot):
    with pytest.raises(StoreBusy):
        slot(error_rate=1, errors={"timeout": 1}).receive("orders", 1, 1_000, 0)


def test_a_slow_receive_gives_a_whole_lease(slot):
    slot().send("orders", [Item(1, b"{}")])
    slow = slot(latency={"type": "fixed", "ms": 400})
    began_ms = time.time() * 1000

    (delivery,) = slow.receive("orders", 1, 5_000, 0)

    # It begins after the 400 ms, however late that is looked at. (A clock counts whole milliseconds.)
    assert delivery.handle.lease.expires_at >= began_ms + 400 + 5_000 - 5


def test_where_no_call_can_fail_slots_share_a_plain_queue(slot):
    one, other = slot(), slot()
    one.send("orders", [Item(1, b"{}")])

    one.close()

    assert [delivery.number for delivery in other.receive("orders", 2, 1_000, 0)] == [1]
    assert other.is_plain
    assert not slot(error_rate=0.1).is_plain
