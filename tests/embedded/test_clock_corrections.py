"""A clock that is wrong for a while, and the messages sent meanwhile, by this process or by one that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sqew import Queue
from sqew.clock import Clock, ManualClock

DAY_S = 86_400
DAY_MS = DAY_S * 1000


class WrongClock(Clock):
    """A clock some seconds ahead of this machine's."""

    def __init__(self, seconds: int = 0) -> None:
        self.seconds = seconds
        super().__init__(lambda: time.time_ns() + self.seconds * 1_000_000_000)


def test_what_was_sent_while_the_clock_was_ahead_was_invisible_for_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = WrongClock()
    with Queue.open(tmp_path / "q.db", clock=clock) as q:
        q.create("jobs")
        q.create("jobs.fifo", fifo=True)
        clock.seconds = DAY_S
        q.enqueue("jobs", "undelayed")
        q.enqueue("jobs", "delayed", delay_seconds=1)
        q.enqueue("jobs.fifo", "first", group="g")
        q.enqueue("jobs.fifo", "second", group="g")

        clock.seconds = 0
        values = [q.claim(queue, wait_seconds=20).value for queue in ("jobs", "jobs", "jobs.fifo")]

        assert values == ["undelayed", "delayed", "first"]
        assert abs(q.get("jobs", 1).created_at - time.time() * 1000) < DAY_MS / 2


@pytest.mark.parametrize("seconds", [DAY_S, 3600])
def test_what_a_killed_process_sent_while_the_clock_was_ahead_is_found_at_the_start(
    tmp_path: Path, seconds: int
) -> None:
    sender = f"""
import time, sys
from sqew import Queue
from sqew.clock import Clock
q = Queue.open({str(tmp_path / "q.db")!r}, clock=Clock(lambda: time.time_ns() + {seconds} * 10**9))
q.create("jobs")
q.create("jobs.fifo", fifo=True)
q.enqueue("jobs", 1)
q.enqueue("jobs.fifo", 2, group="g")
print("sent", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", sender], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"sent\n"
        os.kill(process.pid, signal.SIGKILL)

    with Queue.open(tmp_path / "q.db") as q:
        assert [q.claim(queue).value for queue in ("jobs", "jobs.fifo")] == [1, 2]


def test_a_machine_that_starts_in_1970_delivers_what_was_undelayed_and_loses_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    start = clock.wall_ms
    with Queue.open(tmp_path / "q.db", clock=clock) as q:
        q.create("jobs")
        q.enqueue("jobs", "undelayed", ttl_seconds=3600)
        q.enqueue("jobs", "delayed", delay_seconds=600)
    slow = ManualClock(10_000)

    with Queue.open(tmp_path / "q.db", clock=slow) as q:
        q.enqueue("jobs", "new")
        first = q.claim("jobs", lease_seconds=5)
        slow.wall_ms = start + 60_000

        assert first.value == "undelayed"
        assert sorted(q.claim("jobs").value for _ in range(2)) == ["new", "undelayed"]
        assert q.claim("jobs") is None
        slow.advance(540_000)
        assert "delayed" in {q.claim("jobs").value for _ in range(3)}


def test_who_waits_does_not_wait_for_a_day_longer(tmp_path: Path) -> None:
    clock = WrongClock(DAY_S)
    with Queue.open(tmp_path / "q.db", clock=clock) as q:
        q.create("jobs")
        waiter = threading.Thread(target=q.claim, args=("jobs",), kwargs={"wait_seconds": 3})
        waiter.start()
        deadline = time.monotonic() + 30
        while not q._engine.waiters:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        clock.seconds = 0
        q.create("others")
        waiter.join(60)

        assert not waiter.is_alive()


def test_upkeep_goes_on_after_the_clock_was_set_back(tmp_path: Path) -> None:
    clock = ManualClock()
    with Queue.open(tmp_path / "q.db", clock=clock) as q:
        q.create("jobs", rate_limit=10)
        clock.advance(DAY_MS)
        q.enqueue("jobs", 1)
        clock.advance(-DAY_MS)
        q.enqueue("jobs", 2, ttl_seconds=1)

        clock.advance(5_000)
        q.enqueue("jobs", 3)

        assert q.stats("jobs").totals["expired"] == 1


def test_a_transaction_of_the_caller_goes_by_the_corrected_time(tmp_path: Path) -> None:
    clock = ManualClock()
    with Queue.open(tmp_path / "q.db", clock=clock) as q:
        q.create("jobs")
        clock.advance(DAY_MS)
        q.enqueue("jobs", 1)
        clock.advance(-DAY_MS)

        with q.transaction():
            assert q.claim("jobs").value == 1
