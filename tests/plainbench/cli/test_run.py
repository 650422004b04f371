"""The commands `plainbench run`, `replay` and `compare`, as they are typed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plainbench.record import manifest
from plainbench.verdict import summary as summaries
from plainbench.verdict.verdict import judge
from tests.plainbench.conftest import environment_of_children
from tests.plainbench.made_up import BROKEN

YAML = """
mode: {mode}
seed: 5
target: {{driver: "{driver}"}}
sqlite: {{pragmas: {{synchronous: NORMAL}}}}
topics: [{{name: orders, lanes: [{{name: priority, weight: 3}}, {{name: normal, weight: 1}}]}}]
workload: [{{topic: orders, messages: {messages}, arrivals: {{type: constant, rate: 200}}}}]
workers: [{{name: w, concurrency: 2}}]
"""

REFUSES = """

from plainbench.drivers.base import NotOffered


class Refuses(EmbeddedDriver):
    def create(self, topic):
        raise NotOffered("Refuses has no topics at all.")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "broken.py").write_text(BROKEN)
    return tmp_path


def describe(folder: Path, *, mode: str = "virtual", driver: str = "sqew", messages: int = 100) -> None:
    (folder / "plainbench.yaml").write_text(YAML.format(mode=mode, driver=driver, messages=messages))


def runs_of(folder: Path) -> list[Path]:
    return sorted((folder / "runs").iterdir())


def test_a_run_that_passes_ends_with_0_and_shows_its_figures(folder: Path, plainbench: Any) -> None:
    describe(folder)

    done = plainbench("run")

    (run,) = runs_of(folder)
    assert done.code == 0, done.err
    assert "PASSED" in done.out
    assert re.search(r"orders +100 +0 +100 +0 +0 +0", done.out)
    assert re.search(r"orders +\d+ +\d+ +fast: synchronous=NORMAL", done.out)
    assert f"Recorded in {run}" in done.err
    assert summaries.read(run).verdict.passed


def test_a_run_that_fails_ends_with_1_and_says_what_was_broken(folder: Path, plainbench: Any) -> None:
    describe(folder, driver="broken.py:LosesSome")

    done = plainbench("run")

    assert done.code == 1
    assert "FAILED" in done.out
    assert "2 messages of orders were stored, and neither came out nor are they still there. (n: 50, 100)" in done.out


def test_the_answer_for_machines_is_one_document(folder: Path, plainbench: Any) -> None:
    describe(folder)

    document = plainbench("run --json").json

    assert document["run"] == str(runs_of(folder)[0])
    assert document["verdict"]["outcome"] == "passed"
    assert document["topics"][0]["to_ack"]["count"] == 100


def test_seed_and_mode_can_be_given(folder: Path, plainbench: Any) -> None:
    describe(folder, mode="real")

    plainbench("run --seed 9 --mode virtual --runs elsewhere")

    (run,) = (folder / "elsewhere").iterdir()
    recorded = manifest.read(run)
    assert (recorded.seed, recorded.config.mode) == (9, "virtual")


def test_a_real_run_is_recorded_and_judged(folder: Path, plainbench: Any) -> None:
    describe(folder, mode="real")

    done = plainbench("run")

    assert done.code == 0, done.err + done.out
    assert "ended                settled" in done.out


def test_a_worker_that_cannot_start_ends_the_run_with_its_words(folder: Path, plainbench: Any) -> None:
    describe(folder, mode="real", driver="broken.py:Missing")

    done = plainbench("run")

    assert done.code not in (0, 1)
    assert "Missing" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("target", "command", "sentence"),
    [
        ("{driver: sqew-http}", "run --mode virtual", "can't run in virtual time. Use mode: real."),
        ("{driver: sqew-http, options: {url: $NO_SUCH_URL}}", "run --mode real", "the environment has no NO_SUCH_URL"),
        ("{driver: 'broken.py:Refuses'}", "run", "Refuses has no topics at all"),
        ("{driver: 'broken.py:Refuses'}", "run --mode real", "Refuses has no topics at all"),
    ],
)
def test_what_can_not_begin_is_told_in_a_sentence_and_leaves_no_run(
    folder: Path, plainbench: Any, target: str, command: str, sentence: str
) -> None:
    (folder / "broken.py").write_text(BROKEN + REFUSES)
    describe(folder, mode="virtual" if command == "run" else "real")
    described = folder / "plainbench.yaml"
    described.write_text(described.read_text().replace('{driver: "sqew"}', target))

    done = plainbench(command)

    assert done.code == 2, done.err
    assert sentence in done.err
    assert len(done.err.splitlines()) == 1
    assert done.out == ""
    assert not (folder / "runs").exists() or runs_of(folder) == []


def test_ctrl_c_keeps_everything_and_says_how_to_look_at_it(folder: Path) -> None:
    describe(folder, mode="real", messages=100_000)
    command = [sys.executable, "-m", "plainbench.cli.main", "run"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment_of_children()
    )
    _await_first_ack(folder, process)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    (run,) = runs_of(folder)
    assert process.returncode == 130
    assert "The run was interrupted." in out
    assert f"Interrupted. Everything up to then is recorded in {run}" in err
    assert f"plainbench report {run}" in err
    assert "Traceback" not in err
    verdict = judge(run, manifest.read(run).config)
    assert (verdict.ended, verdict.problems) == ("interrupted", [])
    assert verdict.topics["orders"].done > 0


def _await_first_ack(folder: Path, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        logs = (folder / "runs").glob("*/worker-0-0.events.jsonl")
        if any(b'"acked"' in log.read_bytes() for log in logs):
            return


def test_a_replay_in_virtual_time_says_that_the_log_is_the_same(folder: Path, plainbench: Any) -> None:
    describe(folder)
    plainbench("run")
    (run,) = runs_of(folder)

    done = plainbench(f"replay --from runs/{run.name}.manifest.json")

    assert done.code == 0
    assert f"The event log is the same as that of {run.name}." in done.err


def test_a_replay_with_a_changed_input_is_refused(folder: Path, plainbench: Any) -> None:
    describe(folder, driver="broken.py:LosesSome")
    plainbench("run")
    (run,) = runs_of(folder)
    (folder / "broken.py").write_text(BROKEN + "\n")

    done = plainbench(f"replay --from {run}")

    assert done.code == 4
    assert "broken.py (driver) has changed" in done.err


def test_two_runs_are_compared(folder: Path, plainbench: Any) -> None:
    describe(folder)
    plainbench("run")
    describe(folder, driver="broken.py:Stalls", messages=100)
    plainbench("run")
    one, other = runs_of(folder)

    done = plainbench(f"compare {one} {other}")

    assert done.code == 0, done.err
    assert re.search(r"target.driver +sqew +broken.py:Stalls", done.out)
    assert "due → claim p99 ms" in done.out


def test_runs_with_other_loads_are_refused(folder: Path, plainbench: Any) -> None:
    describe(folder)
    plainbench("run")
    describe(folder, messages=101)
    plainbench("run")

    done = plainbench(["compare", *map(str, runs_of(folder))])

    assert done.code == 4
    assert "had other inputs (workload)" in done.err
    assert "--force" in done.err
