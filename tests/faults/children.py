"""Producers and consumers as processes of their own, to be killed at any moment: started and ended from here.

Run as a script it is such a process: it writes what it does to its history file and ends only when it is told to.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Literal, Self

from sqew.clock import Clock
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import Durability
from tests.faults.client import Client, Workload, create_queues
from tests.faults.history import Event, from_files, to_file
from tests.faults.planted import STORES

ROOT = Path(__file__).parents[2]
Role = Literal["producer", "consumer"]
LEASE_MS = 250


class Child:
    """A producer's or consumer's single life."""

    def __init__(self, process: subprocess.Popen[bytes], history: Path) -> None:
        self.process, self.history = process, history

    @property
    def is_at_work(self) -> bool:
        """True if it has called the store at least once."""
        return self.history.exists() and self.history.stat().st_size > 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ended_by_itself(self) -> str | None:
        """Return its output if it died of something else than a kill, else None."""
        code = self.process.poll()
        if code is None or code == -signal.SIGKILL:
            return None
        return f"exit {code}: {self.history.with_suffix('.err').read_text()}"


class Children:
    """Processes on one file. Each start is a new life with a history of its own."""

    def __init__(self, folder: Path, *, durability: Durability = "durable", store: str = "Sound") -> None:
        self.folder, self.path = folder, folder / "queue.db"
        self.stop_file = folder / "stop"
        self._options = ["--durability", durability, "--store", store]
        self.started: list[Child] = []
        # Opening a new file together is another test's concern.
        now = Clock().now()
        with closing(SQLiteStore(self.path, now=now, durability=durability)) as opened:
            create_queues(opened, now)

    def start(self, role: Role, *, messages: int = 0, batch: int = 5) -> Child:
        name = f"{role}{len(self.started)}"
        history = self.folder / f"{name}.jsonl"
        command = [
            sys.executable,
            "-m",
            "tests.faults.children",
            role,
            name,
            str(self.path),
            str(history),
            *self._options,
        ]
        command += ["--messages", str(messages), "--batch", str(batch), "--stop", str(self.stop_file)]
        with history.with_suffix(".err").open("wb") as errors:
            child = Child(subprocess.Popen(command, cwd=ROOT, stderr=errors, stdin=subprocess.DEVNULL), history)
        self.started.append(child)
        return child

    def histories(self) -> list[Event]:
        return from_files(child.history for child in self.started if child.history.exists())

    def histories_of_the_dead(self) -> list[Event]:
        """Return what those did that have ended: nothing will be added to it."""
        dead = [child for child in self.started if child.process.poll() is not None]
        return from_files(child.history for child in dead if child.history.exists())

    def complaints(self) -> list[str]:
        return [said for child in self.started if (said := child.ended_by_itself()) and not said.startswith("exit 0")]

    def kill_all(self) -> None:
        for child in self.started:
            if child.process.poll() is None:
                child.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()


def kill_at_random(children: Children, roles: list[Role], kills: int, random: Random) -> Iterator[Child]:
    """Keep one child of each role alive and kill one after the other, each while it is at work."""
    alive = [(role, children.start(role)) for role in roles]
    for _ in range(kills):
        index = random.randrange(len(alive))
        role, victim = alive[index]
        deadline = time.monotonic() + 20
        while not victim.is_at_work:
            assert victim.process.poll() is None, victim.ended_by_itself()
            assert time.monotonic() < deadline, "a child did not get to work"
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.06))
        victim.kill()
        yield victim
        alive[index] = (role, children.start(role))


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("producer", "consumer"))
    parser.add_argument("name")
    parser.add_argument("path", type=Path)
    parser.add_argument("history", type=Path)
    parser.add_argument("--durability", default="durable")
    parser.add_argument("--store", default="Sound")
    parser.add_argument("--messages", type=int, default=0, help="end after so many calls; 0: go on until killed")
    parser.add_argument("--batch", type=int, default=5)
    parser.add_argument("--stop", type=Path, help="consumers end when this file is there and nothing is left")
    options = parser.parse_args()

    clock = Clock()
    # A small WAL: kills must fall into checkpoints, too.
    sqlite = SQLiteStore(options.path, now=clock.now(), durability=options.durability, wal_autocheckpoint_pages=50)
    with closing(STORES[options.store](sqlite)) as store:
        create_queues(store, clock.now())
        client = Client(store, to_file(options.history), options.name, clock.now)
        workload = Workload(client, Random(f"{options.name}"))
        calls = 0
        while options.role == "producer" and calls != (options.messages or -1):
            workload.send(options.batch)
            calls += 1
            if not options.messages:
                # Unbounded producers leave their consumers some of the disk.
                time.sleep(0.002)
        empty = 0
        while options.role == "consumer" and empty < 20:
            received = workload.consume(options.batch, LEASE_MS)
            if not received:
                time.sleep(0.005)
            empty = 0 if received or not options.stop.exists() else empty + 1


if __name__ == "__main__":
    # A child must not outlive a test run that was itself killed.
    signal.alarm(600)
    os.environ.pop("PYTHONWARNINGS", None)
    _main()
