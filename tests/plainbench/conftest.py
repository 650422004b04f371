"""Fixtures of the lab's tests: run contexts without a run, configurations, and the real `plainbench`."""

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

import sqew
from plainbench.config.model import Config
from plainbench.record.events import Recorder
from plainbench.run.clock import RealTime
from plainbench.run.context import RunContext


@dataclass
class Done:
    """The outcome of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def environment_of_children():
    """Return an environment that sets nothing of Sqew's, with the tested package, however it was found here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SQEW_")}
    return kept | {"PYTHONPATH": str(Path(sqew.__file__).parents[1])}


@pytest.fixture
def plainbench(tmp_path):
    """Return a function that runs the real program in an empty folder: ``plainbench("stats --json")``."""

    def run(command, *, timeout=120):
        words = shlex.split(command) if isinstance(command, str) else command
        environment = environment_of_children()
        done = subprocess.run(
            [sys.executable, "-m", "plainbench.cli.main", *words],
            capture_output=True, cwd=tmp_path, env=environment, timeout=timeout,
        )  # fmt: skip
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def config():
    """Return a function that makes a configuration from plain data, with a topic unless it is given others."""

    def make(**keys):
        return msgspec.convert({"topics": [{"name": "orders"}], **keys}, Config)

    return make


@pytest.fixture
def context(tmp_path, config):
    """Yield a function that makes a run context in a new folder, in which nothing runs: ``context(workload=[…])``."""
    recorders = []

    def make(folder=None, run=None, **keys):
        run = run or tmp_path / "run"
        run.mkdir(exist_ok=True)
        recorders.append(Recorder(run / f"generator-9-{len(recorders)}.events.jsonl"))
        clock = RealTime()
        clock.began_ns = time.monotonic_ns()
        return RunContext(config(**keys), folder or tmp_path, run, clock, recorders[-1], threading.Event())

    yield make
    for recorder in recorders:
        recorder.close()
