"""Replays of a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plainbench.record import manifest
from plainbench.record.recorder import Recording
from plainbench.record.replay import InputsChanged, other_versions, replay, same_log
from plainbench.verdict.verdict import judge
from sqew import Queue
from tests.plainbench.runs import config

FAULTS = {"queue": {"error_rate": 0.05, "crash": {"rate": 0.02}}}
FROM_FILE = [{"topic": "orders", "input": "*.jsonl"}]


def record(folder: Path, **keys: Any) -> Recording:
    recording = Recording(config(**{"mode": "virtual", **keys}), folder, folder / "plainbench.yaml")
    recording.go()
    return recording


def lines(path: Path, count: int = 20) -> None:
    path.write_text("".join(f'{{"n": {n}}}\n' for n in range(count)))


def test_in_virtual_time_the_log_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    first = record(tmp_path, faults=FAULTS)

    again = replay(first.run)
    again.go()

    assert again.run != first.run
    assert same_log(first.run, again.run)
    assert again.manifest.replay_of == first.run.name


def test_another_seed_would_not_give_the_same_log(tmp_path: Path) -> None:
    one, other = record(tmp_path, faults=FAULTS, seed=1), record(tmp_path, faults=FAULTS, seed=2)

    assert not same_log(one.run, other.run)


def test_a_changed_input_is_refused_by_name(tmp_path: Path) -> None:
    lines(tmp_path / "orders.jsonl")
    first = record(tmp_path, workload=FROM_FILE)

    lines(tmp_path / "orders.jsonl", 21)

    with pytest.raises(InputsChanged, match=r"orders.jsonl \(messages\) has changed"):
        replay(first.run)
    assert [path.name for path in first.run.parent.iterdir()] == [first.run.name]


def test_a_file_that_has_come_since_is_refused(tmp_path: Path) -> None:
    lines(tmp_path / "orders.jsonl")
    first = record(tmp_path, workload=FROM_FILE)

    lines(tmp_path / "more.jsonl")

    with pytest.raises(InputsChanged, match=r"more.jsonl \(messages\) is new"):
        replay(first.run)


def test_an_input_that_was_put_back_is_taken(tmp_path: Path) -> None:
    lines(tmp_path / "orders.jsonl")
    first = record(tmp_path, workload=FROM_FILE)

    lines(tmp_path / "orders.jsonl", 21)
    lines(tmp_path / "orders.jsonl")

    assert replay(first.run).manifest.inputs == first.manifest.inputs


def test_the_queue_begins_with_what_it_held_then(tmp_path: Path) -> None:
    with Queue.open(tmp_path / "queue.db") as queue:
        queue.create("orders")
        for n in range(30):
            queue.enqueue("orders", n)
    first = record(tmp_path, mode="real", workload=[])
    with Queue.open(tmp_path / "queue.db") as queue:
        assert queue.claim("orders") is None

    again = replay(first.run)
    again.go()

    for run in (first.run, again.run):
        assert judge(run, first.manifest.config).topics["orders"].done == 30


def test_a_copy_of_the_queue_that_was_changed_is_refused(tmp_path: Path) -> None:
    with Queue.open(tmp_path / "queue.db") as queue:
        queue.create("orders")
        queue.enqueue("orders", 1)
    first = record(tmp_path)

    (first.run / "queue-before.db").write_bytes(b"")

    with pytest.raises(InputsChanged, match=r"queue-before.db \(the queue before the run\) has changed"):
        replay(first.run)


def test_a_replay_leaves_the_queue_of_the_configuration_alone(tmp_path: Path) -> None:
    first = record(tmp_path, mode="real")
    before = (tmp_path / "queue.db").read_bytes()

    replay(first.run).go()

    assert (tmp_path / "queue.db").read_bytes() == before


def test_a_replay_can_be_replayed(tmp_path: Path) -> None:
    first = record(tmp_path, faults=FAULTS)
    second = replay(first.run)
    second.go()

    third = replay(second.run)
    third.go()

    assert same_log(first.run, third.run)


def test_other_versions_are_told(tmp_path: Path) -> None:
    now = record(tmp_path).manifest
    then = manifest.read(replay(tmp_path / "runs" / now.id).run)

    then.versions["sqlite"] = "3.1"

    assert other_versions(then, now) == [f"sqlite was 3.1 and is {now.versions['sqlite']}"]
