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
from tests.faults.total_queue import Target, make_queues, new_clients, work_for
from tests.support.serving import serving

KILLS = 12


def kill_and_judge(folder: Path, kills: int, seed: int) -> Verdict:
    random, target = Random(seed), Target()
    clients = new_clients(target)
    for life in range(kills):
        # A small WAL, so that kills fall into checkpoints too.
        flags = ["--durability", random.choice(("durable", "fast")), "--wal-autocheckpoint-pages", "50"]
        with serving(folder, *flags) as server:
            if life == 0:
                make_queues(server)
                for client in clients:
                    client.start()
            target.servers = [server]
            work_for(clients, random.uniform(0.1, 0.5))
            server.process.kill()
            server.process.wait()
            target.servers = []
            assert "Traceback" not in server.log.read_text()
    target.over.set()
    for client in clients:
        client.join(20)
    with closing(apsw.Connection(str(folder / "queue.db"))) as connection:
        assert not problems_of(connection)
    return check([event for client in clients for event in client.events] + drain(folder / "queue.db"))


def drain(path: Path) -> list[Event]:
    events: list[Event] = []
    now = Clock().now
    with closing(SQLiteStore(path, now=now())) as store:
        Client(store, events.append, "drain", now).drain()
    return events


def test_a_killed_server_loses_nothing_it_has_answered(tmp_path, capsys):
    verdict = kill_and_judge(tmp_path, KILLS, seed=1)

    with capsys.disabled():
        print(f"\n{KILLS} kills of the server: {verdict}")  # noqa: T201
    assert not verdict.violations
    # Otherwise the kills fell where nothing was at stake.
    assert verdict.unknown
    assert verdict.recovered
    assert verdict.duplicated
    assert len(verdict.acked) > 10 * KILLS
