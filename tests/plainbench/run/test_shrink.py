"""Shrinking: the fewest faults with which a run still fails."""

import json

import pytest

from plainbench.config.load import load
from plainbench.faults import schedule as schedules
from plainbench.faults.schedule import Firing, Schedule
from plainbench.record import manifest
from plainbench.record.recorder import Recording
from plainbench.run.shrink import Shrinking, smallest
from sqew.errors import BadValue, Conflict
from tests.plainbench.made_up import BROKEN
from tests.plainbench.runs import run_virtual

YAML = """
mode: {mode}
seed: 3
target: {{driver: "{driver}"}}
sqlite: {{pragmas: {{synchronous: NORMAL}}}}
topics: [{{name: orders}}]
workload: [{{topic: orders, messages: 120, arrivals: {{type: constant, rate: 200}}}}]
workers: [{{name: w, concurrency: 2, lease_ms: 1000}}]
faults:
  queue: {{error_rate: 0.03, latency: {{type: uniform, min_ms: 0, max_ms: 2}}}}
  clock_jump: [{{at_s: 0.5, by_s: 3}}]
"""


@pytest.fixture
def recorded(tmp_path):
    """Return a function that records a run of a driver, unless in real time: ``recorded("broken.py:LosesSome")``."""

    def record(driver, mode="virtual"):
        (tmp_path / "broken.py").write_text(BROKEN)
        path = tmp_path / "plainbench.yaml"
        path.write_text(YAML.format(driver=driver, mode=mode))
        recording = Recording(load(path), tmp_path, path)
        if mode == "virtual":
            recording.go()
        return recording.run

    return record


@pytest.mark.parametrize(
    "culprits", [[], [0], [99], [3, 4], [0, 50, 99], list(range(20, 30))], ids=lambda culprits: str(len(culprits))
)
def test_the_culprits_are_found_among_many(culprits):
    assert smallest(range(100), lambda some: set(culprits) <= set(some)) == culprits


def test_few_culprits_take_few_tries():
    tries = []

    smallest(range(10_000), lambda some: tries.append(1) or {1234, 8765} <= set(some))

    assert len(tries) < 150


def test_a_failing_run_is_shrunk_to_the_two_faults_that_it_takes(recorded, plainbench, tmp_path):
    run = recorded("broken.py:LosesAtTheSecondError")

    done = plainbench(f"shrink {run} --json")

    found = done.json
    assert done.code == 0, done.err
    assert found["is_smallest"]
    assert found["faults"] > 300
    assert [(fault["what"], fault["where"]) for fault in found["left"]] == [("transient", "send")] * 2
    assert [problem["kind"] for problem in found["problems"]] == ["lost"]
    assert manifest.read(found["recorded"]).schedule == schedules.read(run / "smallest.schedule.json")
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"broken.py", "plainbench.yaml", "runs"}

    again = plainbench(f"run --schedule {found['schedule']} --json")

    assert again.code == 1
    assert sum(again.json["faults"].values()) == 2
    assert [problem["kind"] for problem in again.json["verdict"]["problems"]] == ["lost"]
    assert not any("never happened" in warning for warning in again.json["verdict"]["warnings"])


def test_what_is_left_is_shown_and_how_to_run_it_again(recorded, plainbench):
    run = recorded("broken.py:LosesAtTheSecondError")

    done = plainbench(f"shrink {run} --out smallest.json")

    assert "2 of " in done.out
    assert "faults are enough" in done.out
    assert "queue/generator-0/0/0/send/error" in done.out
    assert "1 messages of orders were stored, and neither came out" in done.out
    assert "--schedule smallest.json" in done.err


def test_a_run_that_fails_without_faults_says_so(recorded, plainbench):
    done = plainbench(f"shrink {recorded('broken.py:LosesSome')}")

    assert done.code == 0, done.err
    assert "The run fails without any of its" in done.out


def test_a_run_that_did_not_fail_is_refused(recorded):
    run = recorded("sqew")

    with pytest.raises(Conflict, match="broke no promise, so there is nothing to shrink"):
        Shrinking(run)


def test_a_run_in_real_time_is_refused_with_what_to_do_instead(recorded):
    run = recorded("broken.py:LosesSome", mode="real")

    with pytest.raises(BadValue, match=r"was in real time.*--mode virtual --seed 3"):
        Shrinking(run)


def test_a_run_whose_driver_has_changed_is_refused(recorded, tmp_path):
    run = recorded("broken.py:LosesSome")
    (tmp_path / "broken.py").write_text(BROKEN + "\n")

    with pytest.raises(Conflict, match=r"broken.py \(driver\) has changed"):
        Shrinking(run)


UNSTEADY = """
from plainbench.drivers.embedded import EmbeddedDriver

class Unsteady(EmbeddedDriver):
    '''Loses a message in the first run of a process alone.'''
    has_lost = False
    def send(self, topic, items):
        if items[0].number == 9 and not Unsteady.has_lost:
            Unsteady.has_lost = True
            return
        super().send(topic, items)
"""


def test_a_run_that_does_not_fail_again_says_that_the_seed_does_not_decide(recorded, tmp_path):
    (tmp_path / "unsteady.py").write_text(UNSTEADY)
    run = recorded("unsteady.py:Unsteady")

    with pytest.raises(Conflict, match="does not fail again under the same faults"):
        Shrinking(run).shrink()


@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "can't be read: No such file"), ("[]", "is no schedule of faults"), ("{", "is no schedule of faults")],
)
def test_a_schedule_that_is_none_is_refused(tmp_path, text, why):
    path = tmp_path / "schedule.json"
    if text is not None:
        path.write_text(text)

    with pytest.raises(BadValue, match=why):
        schedules.read(path)


def test_a_schedule_is_one_of_a_seed(recorded, plainbench, tmp_path):
    recorded("sqew")
    (tmp_path / "s.json").write_text(json.dumps({"firings": [], "seed": 9}))

    assert "those of seed 9: leave --seed out" in plainbench("run --schedule s.json --seed 3").err
    assert plainbench("run --schedule s.json").code == 0
    assert [manifest.read(run).seed for run in sorted((tmp_path / "runs").iterdir())] == [3, 9]


def test_windows_and_jumps_are_left_out_of_a_schedule_too(tmp_path):
    windows = [{"at_s": at_s, "for_s": 0.1} for at_s in (0.1, 0.4)]
    jumps = [{"at_s": 0.2, "by_s": 5}, {"at_s": 0.3, "by_s": -5}]
    changes = {
        "faults": {"disk_full": windows, "clock_jump": jumps},
        "workload": [
            {
                "topic": "orders",
                "messages": 200,
                "arrivals": {"type": "constant", "rate": 400},
                "size": {"min": 9_000, "max": 9_000},
            }
        ],
        # So that the log grows and grows.
        "sqlite": {"pragmas": {"wal_autocheckpoint_pages": 100_000}},
    }
    some = {Firing("disk_full", 1), Firing("clock_jump", 0)}

    runs = [run_virtual(tmp_path, **changes), run_virtual(tmp_path, Schedule(frozenset(some)), **changes)]

    fired = [{Firing(event.stream, event.index) for event in run.of("fault")} for run in runs]
    assert fired == [{Firing(stream, index) for stream in ("disk_full", "clock_jump") for index in (0, 1)}, some]
