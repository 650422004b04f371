"""The event log when it can't be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plainbench.record.events import Event, LogFailed, Recorder, read
from tests.plainbench.conftest import environment_of_children

_ROOM = 4_096
_FILLS_THE_DISK = """
import resource, sys
from pathlib import Path
from plainbench.record.events import Event, LogFailed, Recorder

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
recorder = Recorder(Path(sys.argv[1]))
recorder.record_all(Event(number, "acked", "orders", n=number) for number in range(1, 1_000))
try:
    recorder.flush()
except LogFailed as error:
    print(error)
recorder.close()
"""


def fill(path: Path, room: int) -> str:
    """Write events to a file that may have only so many bytes, and return the program's output."""
    done = subprocess.run(
        [sys.executable, "-c", _FILLS_THE_DISK, str(path), str(room)],
        capture_output=True, text=True, check=True, env=environment_of_children(),
    )  # fmt: skip
    return done.stdout


def test_a_log_that_ran_out_of_room_ends_with_a_whole_line_and_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "worker-0-0.events.jsonl"

    said = fill(path, _ROOM)

    assert f"The event log {path} can't be written: File too large." in said
    written = path.read_bytes()
    assert written.endswith(b"}\n")
    assert _ROOM - 100 < len(written) < _ROOM
    assert [event.n for event in read(tmp_path)] == list(range(1, written.count(b"\n") + 1))


def test_after_a_failed_write_nothing_more_is_taken() -> None:
    recorder = Recorder(Path("/dev/full"))
    recorder.record(Event(1, "received", "orders", n=1))
    with pytest.raises(LogFailed, match="No space left"):
        recorder.flush()

    recorder.record(Event(2, "acked", "orders", n=1))

    with pytest.raises(LogFailed, match="/dev/full can't be written"):
        recorder.flush()
    recorder.close()


def test_a_run_whose_worker_can_not_write_its_log_ends_and_says_so(tmp_path: Path, plainbench: Any) -> None:
    (tmp_path / "plainbench.yaml").write_text(
        "target: {driver: sqew-http}\n"
        "topics: [{name: orders}]\n"
        "workload: [{topic: orders, messages: 100}]\n"
        "workers: [{name: w, call: 'small.py:handle'}]\n"
    )
    # The queue is another process's: of the worker's, only the log grows.
    (tmp_path / "small.py").write_text(
        "import resource\n"
        "def handle(message):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))\n"
    )

    done = plainbench("run")

    assert done.code == 1
    assert "UNCLEAR" in done.out
    assert "worker-0-0.events.jsonl can't be written: File too large." in done.err
    assert "Traceback" not in done.err
