"""A server killed (kill -9) while many clients send and receive over HTTP, judged by Jepsen's total-queue."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import apsw

from sqew.clock import Clock
from sqew.stores.sqlite import SQLiteStore
from tests.faults.client import Client
from tests.faults.consistency import problems_of
from tests.faults.history import Event, Verdict, check
from tests.faults.total_queue import Target, finished, make_queues, new_clients, work_for
from tests.support.serving import serving

KILLS = 12
MOST_KILLS = 4 * KILLS
"""The most there may be until some have fallen where something was at stake."""


def kill_and_judge(folder: Path, seed: int) -> tuple[int, Verdict]:
    """Kill the server so often, and on until it mattered. Return how often, and what came of it."""
    random, target = Random(seed), Target()
    clients = new_clients(target)
    killed = 0
    while killed < KILLS or (killed < MOST_KILLS and not mattered(check(finished(clients)))):
        # A small WAL, so that kills fall into checkpoints too.
        flags = ["--durability", random.choice(("durable", "fast")), "--wal-autocheckpoint-pages", "50"]
        with serving(folder, *flags) as server:
            if killed == 0:
                make_queues(server)
                for client in clients:
                    client.start()
            target.servers = [server]
            work_for(clients, random.uniform(0.1, 0.5))
            server.process.kill()
            server.process.wait()
            target.servers = []
            killed += 1
            assert "Traceback" not in server.log.read_text()
    target.over.set()
    for client in clients:
        client.join(20)
    with closing(apsw.Connection(str(folder / "queue.db"))) as connection:
        assert not problems_of(connection)
    return killed, check([event for client in clients for event in client.events] + drain(folder / "queue.db"))


def mattered(verdict: Verdict) -> bool:
    """Return True if requests were cut off, some of them after their commit, and messages came again."""
    return bool(verdict.unknown and verdict.recovered and verdict.duplicated and len(verdict.acked) > 10 * KILLS)


def drain(path: Path) -> list[Event]:
    events: list[Event] = []
    now = Clock().now
    with closing(SQLiteStore(path, now=now())) as store:
        Client(store, events.append, "drain", now).drain()
    return events


def test_a_killed_server_loses_nothing_it_has_answered(tmp_path, capsys):
    killed, verdict = kill_and_judge(tmp_path, seed=1)

    with capsys.disabled():
        print(f"\n{killed} kills of the server: {verdict}")  # noqa: T201
    assert not verdict.violations
    assert mattered(verdict), f"{killed} kills fell where nothing was at stake: {verdict}"
