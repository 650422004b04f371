"""Runs in virtual time: the same seed gives the same run, and an hour of it takes no hour."""

from plainbench.faults.schedule import Firing, Schedule
from plainbench.verdict.verdict import judge
from tests.plainbench.runs import config, run_virtual

FAULTS = {
    "queue": {
        "latency": {"type": "p95_spike", "base_ms": 5, "p95_ms": 40, "spike_prob": 0.05},
        "error_rate": 0.05,
        "errors": {"timeout": 1, "transient": 3},
        "crash": {"rate": 0.02, "point": "before_commit", "calls": ["ack", "receive"]},
    },
    "db": {"error_rate": 0.1},
}
WORKERS = [{"name": "w", "concurrency": 4, "lease_ms": 1_000, "work": {"type": "normal", "mean_ms": 8, "std_ms": 4}}]


def test_the_same_seed_gives_the_same_log_byte_for_byte(tmp_path):
    one, other = (run_virtual(tmp_path, faults=FAULTS, workers=WORKERS) for _ in range(2))

    assert one.log == other.log
    assert one.counts["fault"] > 100


def test_another_seed_gives_another_run(tmp_path):
    one, other = (run_virtual(tmp_path, faults=FAULTS, workers=WORKERS, seed=seed) for seed in (1, 2))

    assert one.log != other.log


def test_everything_sent_is_settled_under_latency_errors_and_crashes(tmp_path):
    run = run_virtual(tmp_path, faults=FAULTS, workers=WORKERS)

    assert run.why == "settled"
    assert run.numbers_acked == set(range(1, 201))
    assert run.of("worker", "died")


def test_an_hour_of_messages_takes_seconds(tmp_path):
    hourly = [{"topic": "orders", "messages": 60, "arrivals": {"type": "constant", "rate": 1 / 60}}]

    run = run_virtual(tmp_path, workload=hourly, workers=[{"name": "w"}], until={"most_s": 10_000, "idle_s": 600})

    assert run.events[-1].at > 3_500 * 1_000_000
    assert len(run.numbers_acked) == 60


def test_faults_that_a_schedule_does_not_name_do_not_happen(tmp_path):
    all_of_them = run_virtual(tmp_path, faults=FAULTS, workers=WORKERS)
    kept = [Firing(event.stream, event.index or 0) for event in all_of_them.of("fault")][:3]

    run = run_virtual(tmp_path, Schedule(frozenset(kept)), faults=FAULTS, workers=WORKERS)

    happened = {Firing(event.stream, event.index or 0) for event in run.of("fault")}
    assert happened == set(kept)


def test_switching_one_fault_off_changes_no_other_decision(tmp_path):
    queue = FAULTS["queue"]
    without_latency = {name: value for name, value in queue.items() if name != "latency"}

    one, other = (
        run_virtual(tmp_path, faults={"queue": faults}, workers=WORKERS) for faults in (queue, without_latency)
    )

    def errors(run):
        """Return the errors by actor and number of its call."""
        return {(event.stream, event.index): event.what for event in run.of("fault") if "/error" in event.stream}

    both = errors(one).keys() & errors(other).keys()
    assert len(both) > 5
    assert all(errors(one)[firing] == errors(other)[firing] for firing in both)


def test_what_the_queue_held_before_comes_out_as_well(tmp_path):
    from sqew import Queue

    with Queue.open(tmp_path / "queue.db") as queue:
        queue.create("orders")
        queue.enqueue_many("orders", ["before"] * 3)

    run = run_virtual(tmp_path)

    assert {event.n for event in run.of("found")} == {-1, -2, -3}
    assert {-1, -2, -3} < run.numbers_acked
    with Queue.open(tmp_path / "queue.db") as queue:
        assert queue.stats("orders").depths.total("ready") == 3


def test_a_jump_of_the_clock_is_noted_once_by_each_process(tmp_path):
    jump = [{"at_s": 0.1, "by_s": 5}]

    run = run_virtual(tmp_path, faults={"clock_jump": jump}, workers=WORKERS)

    # The lab, the generator, and the worker with its four slots and its heart.
    assert len(run.of("fault", "clock_jump")) == 3


def test_leases_of_a_worker_that_lives_in_the_past_are_over_for_others_and_nobody_is_blamed(tmp_path):
    # Both die at their fourth ack: the quick one before the jump, the slow one after it.
    workers = [
        {"name": name, "lease_ms": 200, "work": {"type": "fixed", "ms": ms}, "heartbeat": False, "restart_ms": 0}
        for name, ms in (("quick", 30), ("slow", 100))
    ]
    faults = {
        "queue": {"crash": {"point": "before_commit", "at": [4]}},
        "clock_jump": [{"at_s": 0.3, "by_s": -0.3}],
    }
    at_once = [{"topic": "orders", "messages": 60, "arrivals": {"type": "constant", "rate": 1_000}}]

    run = run_virtual(tmp_path, workload=at_once, workers=workers, faults=faults)

    judged = judge(run.folder, config(mode="virtual", workload=at_once, workers=workers, faults=faults))
    assert judged.problems == []
    assert judged.topics["orders"].redelivered["clock or connection"]
