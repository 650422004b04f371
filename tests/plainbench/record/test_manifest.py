"""The folder of a run and its manifest."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from plainbench.record import manifest
from plainbench.record.inputs import changes, inputs_of
from plainbench.record.manifest import MANIFEST, new_folder, run_folder
from plainbench.record.recorder import Recording
from sqew.errors import BadValue, NotFound
from tests.plainbench.runs import config

NOON = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def record(folder: Path, **keys: Any) -> Recording:
    return Recording(config(mode="virtual", **keys), folder, folder / "plainbench.yaml")


def test_a_run_has_a_folder_named_after_its_time(tmp_path: Path) -> None:
    assert new_folder(tmp_path / "runs", NOON).name == "2026-01-31-120000"


def test_nobody_else_may_read_a_manifest_as_options_may_be_secret(tmp_path: Path) -> None:
    run = record(tmp_path).run

    assert (run / MANIFEST).stat().st_mode & 0o777 == 0o600
    assert run.stat().st_mode & 0o777 == 0o700


def test_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    names = [new_folder(tmp_path, NOON).name for _ in range(3)]

    assert names == ["2026-01-31-120000", "2026-01-31-120000-2", "2026-01-31-120000-3"]


def test_the_manifest_is_there_before_anything_happens(tmp_path: Path) -> None:
    recording = record(tmp_path, seed=42)

    written = manifest.read(recording.run)

    assert written == recording.manifest
    assert (written.seed, written.config.seed, written.durability) == (42, 42, "")
    assert {"sqew", "python", "sqlite", "numpy"} <= written.versions.keys()
    assert {"host", "cpu", "cores", "memory", "system", "file system"} == written.machine.keys()


def test_the_manifest_says_what_durability_the_queue_had(tmp_path: Path) -> None:
    recording = record(tmp_path)

    recording.go()

    assert manifest.read(recording.run).durability == "fast: synchronous=NORMAL"


def test_every_file_that_a_run_uses_is_an_input(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "times.txt", "slow.json", "work.sh", "work.py", "driver.py", "app.sql"):
        (tmp_path / name).write_text(name)
    described = config(
        target={"driver": "driver.py:Mine"},
        sqlite={"app_fixtures": ["app.sql"]},
        faults={"queue": {"latency": {"type": "histogram", "file": "slow.json"}}},
        workload=[{"topic": "orders", "input": "*.jsonl", "arrivals": {"type": "recorded", "file": "times.txt"}}],
        workers=[{"name": "one", "cmd": ["./work.sh", "--fast"]}, {"name": "two", "call": "work.py:handle"}],
    )

    inputs = {one.path: one.what for one in inputs_of(described, tmp_path)}

    assert inputs == {
        "a.jsonl": "messages",
        "b.jsonl": "messages",
        "times.txt": "arrivals",
        "slow.json": "latencies",
        "work.sh": "worker one",
        "work.py": "worker two",
        "driver.py": "driver",
        "app.sql": "fixture",
    }


def test_a_command_that_is_found_by_its_name_is_an_input(tmp_path: Path) -> None:
    inputs = inputs_of(config(workers=[{"name": "one", "cmd": ["cat"]}]), tmp_path)

    assert [Path(one.path).name for one in inputs] == [Path("/bin/cat").resolve().name]


def test_a_changed_and_a_missing_input_are_named(tmp_path: Path) -> None:
    for name in ("same", "longer", "other", "gone"):
        (tmp_path / f"{name}.jsonl").write_text('{"n": 1}\n')
    inputs = inputs_of(config(workload=[{"topic": "orders", "input": "*.jsonl"}]), tmp_path)

    (tmp_path / "longer.jsonl").write_text('{"n": 1}\n\n')
    (tmp_path / "other.jsonl").write_text('{"n": 2}\n')
    (tmp_path / "gone.jsonl").unlink()

    assert changes(inputs, tmp_path) == [
        "gone.jsonl (messages) is gone",
        "longer.jsonl (messages) has changed",
        "other.jsonl (messages) has changed",
    ]


@pytest.mark.parametrize("form", ["{run}", "{run}/manifest.json", "{run}.manifest.json"])
def test_a_run_can_be_named_in_several_ways(tmp_path: Path, form: str) -> None:
    run = record(tmp_path).run

    assert run_folder(form.format(run=run)) == run


def test_a_folder_without_a_run_is_refused_with_the_last_one_beside_it(tmp_path: Path) -> None:
    run = record(tmp_path).run

    with pytest.raises(NotFound, match=f"There is no run in .*The last one there is {run}"):
        run_folder(run.with_name("yesterday"))


def test_a_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"id": 7}')

    with pytest.raises(BadValue, match=r"is not the manifest of a run: .*id"):
        manifest.read(tmp_path)


def test_a_manifest_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    recording = record(tmp_path)
    manifest.write(msgspec.structs.replace(recording.manifest, format=99), recording.run)

    with pytest.raises(BadValue, match="newer PlainBench"):
        manifest.read(recording.run)
