"""Logs read in parts, by one process or several: the result is the same for any cut and any reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from plainbench.record.events import SUFFIX, Event, Kind, Recorder, read_chunks
from plainbench.verdict.log_parts import cut
from plainbench.verdict.read_log import read
from plainbench.verdict.summary import summarize
from sqew.errors import StoreDamaged
from tests.plainbench.conftest import environment_of_children
from tests.plainbench.made_up import SECOND, MadeUpRun, config_of, with_manifest

PARTS = (31, 100, 333, 1_000, 4_096, 1 << 20)
MESSAGES = 40


def generated() -> Iterator[Event]:
    for n in range(1, MESSAGES + 1):
        topic, lane, at = f"t{n % 3}", ("", "fast", "slow")[n % 3], n * 1_000
        yield Event(at, "sending", topic, lane, n, worker="generator-0/0", group=f"g{n % 7}", check=n)
        yield Event(at + 100, "sent", topic, lane, n, worker="generator-0/0", group=f"g{n % 7}", due=at, took=90)
        if n % 9 == 0:
            yield Event(at + 100, "dropped", f"late{n % 2}", "slow", 1_000 + n, worker="generator-0/1", due=at)
        if n % 8 == 0:
            yield Event(at + 110, "sending", "batches", n=n * 100, to=n * 100 + 2, worker="b", checks=[n, n + 1, n + 2])
            yield Event(at + 120, "unsent", "batches", n=n * 100, to=n * 100 + 2, worker="b", unknown=True)
    yield Event(SECOND, "generator", "t0", worker="generator-0/0", figures={"lag_us": 3.0})


def handled() -> Iterator[Event]:
    for n in range(1, MESSAGES + 1):
        topic, lane, at, who = f"t{n % 3}", ("", "fast", "slow")[n % 3], n * 1_000 + 500, f"w/{n % 4}"
        yield Event(at, "received", topic, lane, n, worker=who, attempt=1, group=f"g{n % 7}", check=n, took=9)
        yield Event(at + 1, "fault", worker=who, what="latency", where="ack", stream=f"queue/{who}/0/latency", ms=0.1)
        how = ("acked", "retried", "died", "refused", "extended")[n % 5]
        what = "NoAnswer" if n % 10 == 3 else ""
        yield Event(at + 200, how, topic, lane, n, worker=who, attempt=1, group=f"g{n % 7}", took=8, what=what)
        if n % 11 == 0:
            yield Event(at + 300, "fault", what="clock_jump", where="", stream="clock/0", ms=-5.0)
            yield Event(at + 300, "fault", worker=who, what="after_commit", where="ack", stream=f"queue/{who}/0/crash")


def looked_after() -> Iterator[Event]:
    yield Event(0, "found", "t1", n=-1, what="ready")
    yield Event(0, "run", what="began")
    for n in range(1, 6):
        yield Event(n * SECOND, "depth", "t1", "fast", figures={"ready": float(n), "wal_bytes": 4096.0 * n})
        yield Event(n * SECOND, "worker", worker="w", what="died", reason="an accident: né")
    yield Event(9 * SECOND, "left", "t2", n=2, what="dead")
    yield Event(9 * SECOND, "run", what="time", reason="over", figures={"shows_dead": 1.0})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Write a log of several files, with every kind of event in it, that ends in half a line."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name, events in (("generator-0-0", generated()), ("lab", looked_after()), ("worker-0-0", handled())):
        recorder = Recorder(folder / f"{name}{SUFFIX}")
        recorder.record_all(events)
        recorder.close()
    (folder / f"worker-0-1{SUFFIX}").write_bytes(b"")
    append(folder / f"worker-0-0{SUFFIX}", b'{"at":99,"event":"acked","topic":"t1","n":4')
    return folder


def content(run: Path, **how: Any) -> dict[str, Any]:
    """Return everything in a log, in a form that can be compared."""
    known = dict(vars(read(run, **how)))
    for name, value in known.items():
        if isinstance(value, dict):
            # The order counts too.
            known[name] = [(key, one.tolist() if isinstance(one, np.ndarray) else one) for key, one in value.items()]
    return known


def append(path: Path, more: bytes) -> None:
    with path.open("ab") as file:
        file.write(more)


def test_every_kind_of_event_is_in_the_log_that_the_tests_cut(run: Path) -> None:
    kinds = {event.event for path in run.iterdir() for chunk in read_chunks(path) for event in chunk}

    assert kinds == set(get_args(Kind))


@pytest.mark.parametrize("size", PARTS)
def test_however_a_log_is_cut_the_result_is_that_of_one_part(run: Path, size: int) -> None:
    assert content(run, part_bytes=size, readers=1) == content(run, readers=1)


@pytest.mark.parametrize("size", [333, 4_096])
@pytest.mark.parametrize("readers", [2, 3])
def test_readers_side_by_side_find_what_one_finds(run: Path, size: int, readers: int) -> None:
    assert content(run, part_bytes=size, readers=readers) == content(run, readers=1)


def test_each_line_is_in_one_part_and_in_the_order_of_the_files(run: Path) -> None:
    files = sorted(run.iterdir())
    whole = [event for path in files for chunk in read_chunks(path) for event in chunk]

    for size in PARTS:
        parts = [(Path(os.fsdecode(part.path)), part.start, part.stop) for part in cut(files, size)]
        found = [
            event for path, start, stop in parts for chunk in read_chunks(path, 64, start=start, stop=stop)
            for event in chunk
        ]  # fmt: skip
        assert found == whole


def test_what_is_written_while_a_log_is_read_is_for_the_next_time(run: Path) -> None:
    events, file = read(run).events, run / f"lab{SUFFIX}"
    told = []

    def progress(count: int) -> None:
        if not told:
            append(file, b'{"at":1,"event":"acked"}\n')
        told.append(count)

    assert read(run, progress=progress, part_bytes=500, readers=1).events == events
    assert told == sorted(told)
    assert told[-1] == events
    assert read(run).events == events + 1


def test_the_other_half_of_the_last_line_is_no_line(run: Path) -> None:
    path = run / f"worker-0-0{SUFFIX}"
    chunks = read_chunks(path)
    next(chunks)

    append(path, b',"worker":"w/0"}\n')

    assert list(chunks) == []
    assert sum(map(len, read_chunks(path))) == path.read_bytes().count(b"\n")


@pytest.mark.parametrize("readers", [1, 2])
@pytest.mark.parametrize(
    "damage", [b'{"at":1,"event":"nonsense"}', b"half a l", b'{"at":1,"event":"run","what":"\xff"}']
)
def test_a_damaged_line_is_named_whoever_reads_it(run: Path, damage: bytes, readers: int) -> None:
    path = run / f"generator-0-0{SUFFIX}"
    lines = path.read_bytes().splitlines()
    lines[60], lines[70] = damage, b"damaged as well"
    path.write_bytes(b"\n".join(lines) + b"\n")

    with pytest.raises(StoreDamaged, match=rf"generator-0-0{SUFFIX}, line 61 is not an event"):
        read(run, part_bytes=700, readers=readers)


@pytest.mark.parametrize("readers", [1, 2])
def test_what_can_not_be_read_is_an_error_whoever_reads_it(run: Path, readers: int) -> None:
    (run / f"worker-0-2{SUFFIX}").mkdir()

    with pytest.raises(IsADirectoryError, match="worker-0-2"):
        read(run, part_bytes=500, readers=readers)


@pytest.mark.parametrize("executable", ["/nowhere/python", "/bin/false"])
def test_where_no_process_starts_or_stays_the_log_is_read_alone(
    run: Path, executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = content(run, readers=1)
    monkeypatch.setattr(sys, "executable", executable)

    assert content(run, part_bytes=500, readers=2) == wanted


def state_of(pid: int) -> tuple[str, int]:
    """Return the state of a process (running, sleeping, a zombie …) and its parent."""
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "gone", 0
    return state, int(parent)


def is_there(pid: int) -> bool:
    return state_of(pid)[0] not in ("Z", "gone")


def children_of(parent: int) -> set[int]:
    """Return the processes that a process has started and that have not ended."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    return {pid for pid in pids if state_of(pid)[1] == parent and is_there(pid)}


class Watched:
    """An observer of progress that looks for the readers once the first part was read."""

    def __init__(self, *, kill: bool = False) -> None:
        self._before, self._kill = children_of(os.getpid()), kill
        self.readers: set[int] | None = None

    def __call__(self, _events: int) -> None:
        if self.readers is None:
            self.readers = children_of(os.getpid()) - self._before
            for reader in self.readers if self._kill else ():
                os.kill(reader, signal.SIGKILL)


@pytest.mark.parametrize("readers", [2, 3])
def test_no_reader_is_left_when_the_log_is_read(run: Path, readers: int) -> None:
    watched = Watched()

    read(run, progress=watched, part_bytes=200, readers=readers)

    assert watched.readers is not None
    assert len(watched.readers) == readers
    assert not [reader for reader in watched.readers if is_there(reader)]


def test_readers_that_are_killed_are_stood_in_for(run: Path) -> None:
    watched = Watched(kill=True)

    found = content(run, progress=watched, part_bytes=200, readers=2)

    assert watched.readers is not None
    assert len(watched.readers) == 2
    assert found == content(run, readers=1)


@pytest.mark.parametrize("readers", [None, 1])
def test_a_short_log_or_one_core_starts_no_process(run: Path, readers: int | None) -> None:
    watched = Watched()

    read(run, progress=watched, part_bytes=200, readers=readers)

    assert watched.readers == set()


READS = """
import sys
from pathlib import Path
from plainbench.verdict.read_log import read

try:
    # It takes for ever: parts are as small as they can be.
    read(Path(sys.argv[1]), part_bytes=1, readers=2, progress=lambda events: print(events, flush=True))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)])
def test_whoever_ends_the_lab_while_it_reads_ends_its_readers(run: Path, end: signal.Signals, code: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", READS, str(run)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment_of_children(),
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    readers = children_of(process.pid)

    process.send_signal(end)

    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (code, b"")
    assert len(readers) == 2
    until = time.monotonic() + 60
    while any(map(is_there, readers)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not [reader for reader in readers if is_there(reader)]


LINE = (
    b'{"at":611,"event":"fault","worker":"w/0","what":"latency","where":"ack","stream":"queue/w/0/latency","ms":1.0}\n'
)
LONG = 65 << 20
"""Bytes: more than a log may have that is read by one process."""


def test_a_long_log_is_summarized_with_all_its_events(tmp_path: Path) -> None:
    made = MadeUpRun(tmp_path / "run")
    made.done(1)
    folder = with_manifest(made.finish(), config_of())
    (folder / f"worker-0-0{SUFFIX}").write_bytes(LINE * (LONG // len(LINE)))

    summary = summarize(folder)

    assert summary.faults == {"latency in ack": LONG // len(LINE)}
    assert (summary.verdict.outcome, summary.topics[0].messages) == ("passed", 1)
