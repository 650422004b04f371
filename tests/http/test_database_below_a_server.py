"""A server on a database that runs but does not let it work: a full disk, missing rights, ended connections."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from tests.support.postgres import fetch_column, new_database
from tests.support.serving import Answer, Serving, serving

WITHIN_S = 30.0
NO_ROOM = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON sqew_message EXECUTE FUNCTION no_room();
"""
CUT_OFF = """
SELECT pg_terminate_backend(pid) FROM pg_locks
 WHERE locktype = 'advisory' AND objid = 1 AND NOT granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@pytest.fixture
def database() -> str:
    return new_database()


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[Serving]:
    """Yield a server, with a queue and a message."""
    with serving(tmp_path, "--log-format", "json", database=database) as server:
        assert server.call("POST", "/queues", {"name": "orders"}).status == 201
        assert send(server).status == 201
        yield server


def send(server: Serving) -> Answer:
    return server.call("POST", "/queues/orders/messages", {"payload": 1})


def run(database: str, sql: str) -> None:
    for statement in re.split(r";\n", sql):
        fetch_column(database, statement)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def told(server: Serving) -> Counter[str]:
    """Return the number of lines in the log for each event."""
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    return Counter(line["event"] for line in lines)


def test_a_full_disk_is_said_by_answers_readyz_metrics_and_once_by_the_log(server: Serving, database: str) -> None:
    run(database, NO_ROOM)
    refused = [send(server) for _ in range(3)]
    ready = server.call("GET", "/readyz")
    metrics = server.call("GET", "/metrics").body.decode()
    run(database, "DROP TRIGGER no_room ON sqew_message")
    again = send(server)

    assert {(answer.status, answer.headers["x-sqew-error"]) for answer in refused} == {(507, "store_full")}
    assert "Free some on its disk, and try again." in refused[0].body.decode()
    assert (ready.status, ready.json["error"]) == (503, "The store has no room left. Free some on its disk.")
    assert 'db_refusals_total{reason="full"} 3' in metrics
    assert (again.status, server.call("GET", "/readyz").status) == (201, 200)
    until(lambda: told(server)["the database has room again"])
    assert told(server)["the database has no room left"] == 1


def test_a_server_whose_rights_were_taken_away_is_not_ready(database: str, tmp_path: Path) -> None:
    worker = f"worker_{os.getpid()}"
    run(database, f"DROP ROLE IF EXISTS {worker};\nCREATE ROLE {worker} LOGIN")
    run(database, f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {worker}")
    run(database, f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {worker}")
    with serving(tmp_path, database=re.sub("//sqew@", f"//{worker}@", database)) as server:
        before = server.call("GET", "/readyz")

        run(database, f"REVOKE INSERT ON sqew_message FROM {worker}")
        without = server.call("GET", "/readyz")
        run(database, f"GRANT INSERT ON sqew_message TO {worker}")

        assert (before.status, without.status, server.call("GET", "/readyz").status) == (200, 503, 200)
        until(lambda: "permission denied for table sqew_message" in server.log.read_text())


def test_damage_that_upkeep_meets_is_told_and_does_not_end_a_server(server: Serving, database: str) -> None:
    # A queue that can't be: it has no lanes.
    run(database, "INSERT INTO sqew_queue (name, policy, created_at) SELECT NULL, policy, 0 FROM sqew_queue LIMIT 1")

    until(lambda: told(server)["upkeep failed"] >= 2)

    assert send(server).status == 201


async def _cut_off_while_it_starts(database: str) -> None:
    """Have a starting server wait for the lock of table creation, and end its connection there."""
    maker = await asyncpg.connect(database)
    try:
        await maker.execute("SELECT pg_advisory_lock(1399940471, 1)")
        async with asyncio.timeout(WITHIN_S):
            while True:
                if await maker.fetch(CUT_OFF):
                    return
                await asyncio.sleep(0.02)
    finally:
        await maker.close()


def test_a_server_whose_connection_is_ended_while_it_starts_starts_all_the_same(tmp_path: Path) -> None:
    database = new_database("template0")

    with ThreadPoolExecutor() as pool:
        cut_off = pool.submit(asyncio.run, _cut_off_while_it_starts(database))
        with serving(tmp_path, database=database) as server:
            cut_off.result()
            ready = server.call("GET", "/readyz")

    assert ready.status == 200
    assert "went away while the server starts" in server.log.read_text()
