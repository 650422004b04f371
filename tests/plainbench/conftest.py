"""What the tests of the lab share: scenes without a run, configurations, and the real `plainbench`."""

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
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def environment_of_children():
    """An environment that sets nothing of Sqew's, with the package that is tested, however it was found here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SQEW_")}
    return kept | {"PYTHONPATH": str(Path(sqew.__file__).parents[1])}


@pytest.fixture
def plainbench(tmp_path):
    """Run the real program in an empty folder: ``plainbench("stats --json")``."""

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
    """A configuration from plain data, with a topic unless it is given others."""

    def make(**keys):
        return msgspec.convert({"topics": [{"name": "orders"}], **keys}, Config)

    return make


@pytest.fixture
def context(tmp_path, config):
    """A scene in a folder of its own, in which nothing runs: ``scene(workload=[…])``."""
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
