"""Three servers on one database while servers, or the database, are killed: judged by Jepsen's total-queue."""

from __future__ import annotations

import contextlib
import functools
import time
from contextlib import closing
from pathlib import Path
from random import Random

from sqew.clock import Clock
from sqew.operations import Measure
from tests.faults.client import FIFO, STANDARD, Client
from tests.faults.consistency import problems_of_database
from tests.faults.history import Event, Verdict, check
from tests.faults.total_queue import HttpClient, Target, finished, make_queues, new_clients, work_for
from tests.support.cluster import crashing_cluster
from tests.support.postgres import Awaited, fetch_column, new_database
from tests.support.serving import Serving, serving

SERVERS = 3
KILLS, MOST_KILLS = 6, 24
CRASHES, MOST_CRASHES = 4, 12
"""The most there may be until some have fallen where something was at stake."""


class Servers:
    """A number of servers on one database, each replaced when it is killed."""

    def __init__(self, folder: Path, database: str, stack: contextlib.ExitStack) -> None:
        self._folder, self._database, self._stack = folder, database, stack
        self.started: list[Serving] = []

    def start(self) -> Serving:
        server = self._stack.enter_context(serving(self._folder, database=self._database))
        self.started.append(server)
        return server

    def complaints(self) -> list[str]:
        logs = [server.log.read_text() for server in self.started]
        return [log for log in logs if "Traceback" in log]


def drain(database: str) -> list[Event]:
    """Take all that is left. The servers still run: a message that one gives back, its waiter being gone, is locked at
    that moment, and a receive skips it.
    """
    events: list[Event] = []
    now = Clock().now
    deadline = time.monotonic() + 10
    with closing(Awaited(database, now(), Random(1))) as store:
        client = Client(store, events.append, "drain", now)
        client.drain()
        while _is_left(store, client.now()) and time.monotonic() < deadline:
            time.sleep(0.05)
            client.drain()
    return events


def _is_left(store: Awaited, now: int) -> bool:
    return any(depths.total() for depths in store.run([Measure(STANDARD), Measure(FIFO)], now).results)


def judge(clients: list[HttpClient], target: Target, database: str) -> Verdict:
    """Compare the answers of the clients, once they have ended, with what is left."""
    target.over.set()
    for client in clients:
        client.join(30)
    assert not problems_of_database(functools.partial(fetch_column, database))
    return check([event for client in clients for event in client.events] + drain(database))


def test_killed_servers_lose_nothing_that_they_answered(tmp_path, capsys):
    random, target, database = Random(1), Target(), new_database()
    clients = new_clients(target)
    with contextlib.ExitStack() as stack:
        servers = Servers(tmp_path, database, stack)
        target.servers = [servers.start() for _ in range(SERVERS)]
        make_queues(target.servers[0])
        for client in clients:
            client.start()
        killed = 0
        while killed < KILLS or (killed < MOST_KILLS and not kills_mattered(check(finished(clients)))):
            work_for(clients, random.uniform(0.1, 0.4))
            killed += 1
            victim = random.choice(target.servers)
            victim.process.kill()
            victim.process.wait()
            target.servers = [server for server in target.servers if server is not victim]
            target.servers = [*target.servers, servers.start()]
        work_for(clients, 0.1)
        verdict = judge(clients, target, database)

    with capsys.disabled():
        print(f"\n{killed} kills of one of {SERVERS} servers on a database: {verdict}")  # noqa: T201
    assert not servers.complaints()
    assert not verdict.violations
    assert kills_mattered(verdict), f"{killed} kills fell where nothing was at stake: {verdict}"


def kills_mattered(verdict: Verdict) -> bool:
    """Return True if requests were cut off, and messages came again whose receivers' server had been killed."""
    return bool(verdict.unknown and verdict.duplicated and len(verdict.acked) > 10 * KILLS)


def test_a_database_that_is_killed_loses_nothing_that_was_answered(tmp_path, capsys):
    random, target = Random(2), Target()
    clients = new_clients(target)
    with crashing_cluster("crashing") as cluster, contextlib.ExitStack() as stack:
        servers = Servers(tmp_path, cluster.url(), stack)
        target.servers = [servers.start() for _ in range(SERVERS)]
        make_queues(target.servers[0])
        for client in clients:
            client.start()
        crashed = 0
        while crashed < CRASHES or (crashed < MOST_CRASHES and not crashes_mattered(clients)):
            work_for(clients, random.uniform(0.1, 0.4))
            cluster.crash_and_start()
            crashed += 1
        # They go on by themselves: none of them was started again.
        work_for(clients, 0.1)
        verdict = judge(clients, target, cluster.url())
        assert [server.process.poll() for server in servers.started] == [None] * SERVERS

    refused = sum(client.refused for client in clients)
    with capsys.disabled():
        print(f"\n{crashed} crashes of the database, {refused} requests refused meanwhile: {verdict}")  # noqa: T201
    assert not servers.complaints()
    assert not verdict.violations
    assert crashes_mattered(clients), f"{crashed} crashes: {refused} requests refused meanwhile: {verdict}"


def crashes_mattered(clients: list[HttpClient]) -> bool:
    """Return True if requests came while the database was away, and enough was done while it was there."""
    acked = check(finished(clients)).acked
    return any(client.refused for client in clients) and len(acked) > 10 * CRASHES
