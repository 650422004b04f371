"""Plans of PostgreSQL's queries: rows are found by the index meant for them, without reading a table whole or sorting.

The plans are those that connections make once and keep, on a database with a lopsided backlog, with statistics and
without, and where statistics say that there is nothing but one queue, one group and so on, or next to nothing at all.
The indexes meant are the counterparts of SQLite's: see stores/sqlite.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from sqew.stores.postgres.connection import PLANNING, SQL
from tests.stores.sqlite import test_query_plans as sqlite
from tests.stores.sqlite.test_query_plans import DUE, GROUP, NOTHING, ORIGIN, ROW, TURN, WALK
from tests.support.postgres import new_database

NAMES = {
    sqlite.NAMES: "sqew_queue_name_key",
    sqlite.SCHEDULES: "sqew_schedule_name_key",
    "sqlite_autoindex_sqew_subscription_1": "sqew_subscription_pattern_target_key",
    "sqlite_autoindex_sqew_move_task_1": "sqew_move_task_id_key",
    sqlite.STAGINGS: "sqew_staging_queue_id_writer_epoch_key",
    sqlite.PARTS: "sqew_part_staging_id_name_key",
    sqlite.CONSUMERS: "sqew_consumer_queue_id_name_key",
    sqlite.CLAIM_CHUNKS: ROW,
    WALK: ROW,
}
"""PostgreSQL's names for the indexes that SQLite calls otherwise."""

DEPTH = "sqew_depth_queue"

HOT = {
    **{name: {NAMES.get(way, way) for way in ways} for name, ways in sqlite.HOT.items() if name in SQL.texts},
    # Sending, receiving, acking.
    "insert_plain": NOTHING,
    "insert_alike": NOTHING,
    "insert_staged": NOTHING,
    "claim_plain": {DUE, ROW},
    "unclaim": {ROW},
    "finish_alike": {ROW},
    "finish_plain": {ROW},
    "finish_leased": {ROW},
    "draw_ids": NOTHING,
    "ready_in_lane": {DUE},
    "first_due": {DUE},
    "hold_queues": NOTHING,
    "queues_held_elsewhere": NOTHING,
    "queues_to_sweep": {"sqew_message_expires", "sqew_message_dies"},
    "lane_in_use": {DUE, GROUP},
    "turns": {TURN},
    # The numbers of messages under quotas.
    "finish_counted": {ROW},
    "read_depth": {DEPTH},
    "add_up_depth": {DEPTH},
    "change_depth": NOTHING,
    "update_policy": {ROW, DEPTH},
    "delete_queue": {ROW, DEPTH},
}

COLD = {
    **{name: why for name, why in sqlite.COLD.items() if name in SQL.texts and name not in HOT},
    "is_moved_into": "a row for each file that was ever moved in",
    "find_spare_buckets": "walks the few buckets, once a minute",
    "drop_spare_buckets": "the same, where there are very many",
    "count_depth": "counts the messages of one queue when its quota is new",
}

AS_GOOD = {
    "find_dead_in_archive": "sqew_archive_queue",
    "find_dead_letter": ORIGIN,
    "move_running": "sqew_move_task_queue",
}
"""Statements for which another index leads to the one row, or to a few, as well."""

FILL = """
ALTER TABLE sqew_message SET (autovacuum_enabled = off);
ALTER TABLE sqew_delivery SET (autovacuum_enabled = off);
ALTER TABLE sqew_archive SET (autovacuum_enabled = off);
INSERT INTO sqew_queue (id, name, policy, created_at)
SELECT n, 'q' || n, '{}', 1 FROM generate_series(1, 50) n;
INSERT INTO sqew_lane (queue_id, id, name) SELECT n, 0, 'default' FROM generate_series(1, 50) n;
INSERT INTO sqew_bucket (queue_id, lane_id, priority) SELECT n, 0, 0 FROM generate_series(1, 50) n;
-- Nearly all is the first queue's, and of one group.
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, is_text, checksum, body,
                          expires_at, group_id, origin, lease_until, dies_at, died_at)
SELECT nextval('sqew_message_id'), CASE WHEN others THEN 2 + n / 1000 % 40 ELSE 1 END, 0, 0,
       CASE WHEN n % 3 > 0 THEN n END, 1, 1, 0, 0, 'x', CASE WHEN n % 7 = 0 THEN n END,
       CASE WHEN n % 3 = 0 THEN CASE WHEN others THEN 'g' || n ELSE 'g' END END,
       CASE WHEN n % 4 = 0 THEN CASE WHEN others THEN 'q2' ELSE 'q1' END END,
       CASE WHEN n % 5 = 0 THEN n END, CASE WHEN n % 10 = 0 THEN n END, CASE WHEN n % 4 = 0 THEN n END
  FROM generate_series(1, 40000) n;
INSERT INTO sqew_archive (id, queue_id, lane, priority, attempts, available_at, created_at, finished_at, purge_at,
                          outcome, is_text, checksum, body)
SELECT n, CASE WHEN others THEN 2 ELSE 1 END, 'default', 0, 0, 1, 1, 1, n,
       CASE WHEN n % 5 = 0 THEN 'dead' ELSE 'done' END, 0, 0, 'x' FROM generate_series(1, 10000) n;
INSERT INTO sqew_key SELECT CASE WHEN others THEN 2 ELSE 1 END, 'k' || n, n, CASE WHEN n % 2 = 0 THEN n END
  FROM generate_series(1, 5000) n;
INSERT INTO sqew_attempt SELECT CASE WHEN others THEN 2 ELSE 1 END, 'a' || n, 't', n, '[]', n
  FROM generate_series(1, 5000) n;
INSERT INTO sqew_activity SELECT 1 + n % 2, 'default', 'sent', n, 1 FROM generate_series(1, 2000) n;
INSERT INTO sqew_subscription (pattern, protocol, target, form, created_at, uuid, ends_at, filtered)
SELECT CASE WHEN others THEN 'few.' || n ELSE 'many' END, CASE WHEN n % 2 = 0 THEN 'http' ELSE 'queue' END,
       't' || n, 0, 1, CASE WHEN n % 3 = 0 THEN 'u' || n END, CASE WHEN n % 50 = 0 THEN n END, n % 100 / 99
  FROM generate_series(1, 2000) n;
INSERT INTO sqew_unsubscription SELECT n, n, 'p', 'http', 't', 0 FROM generate_series(1, 2000) n;
INSERT INTO sqew_topic SELECT 'topic' || n, '{}', '{}', 1 FROM generate_series(1, 2000) n;
INSERT INTO sqew_payload (routing_key, message_id, form, is_text, checksum, pending, body)
SELECT 'k', 'm', 0, 0, 0, 1, 'x' FROM generate_series(1, 20000) n;
-- Nearly all deliveries are one subscription's.
INSERT INTO sqew_delivery (payload_id, subscription_id, endpoint, checksum, created_at, due_at, tried_at)
SELECT n, CASE WHEN others THEN n / 50 ELSE 1 END, 'e', 1, 1, CASE WHEN n % 2 = 0 THEN n END, n
  FROM generate_series(1, 20000) n;
INSERT INTO sqew_schedule (name, version, status, target_kind, due_at, slot_at, details, is_text, checksum, body)
SELECT 's' || n, 1, 'active', 'queue', n, n, '{}', 0, 0, 'x' FROM generate_series(1, 2000) n;
INSERT INTO sqew_move_task (id, queue_id, status, to_move, started_at, due_at, moved)
SELECT 'm' || n, 1 + n % 40, 'running', 1, 1, CASE WHEN n <= 40 THEN n END, 0 FROM generate_series(1, 2000) n;
INSERT INTO sqew_writer SELECT CASE WHEN others THEN 2 ELSE 1 END, 'w' || n, 1, 1, 0, n FROM generate_series(1, 2000) n;
-- Nearly all epochs are one writer's, nearly all parts one epoch's, and nearly all chunks one part's.
INSERT INTO sqew_staging (queue_id, writer, epoch, due_at, ends_at)
SELECT 1, CASE WHEN others THEN 'w' || n ELSE 'w' END, n, CASE WHEN n % 2 = 0 THEN n END, CASE WHEN n % 2 = 1 THEN n END
  FROM generate_series(1, 2000) n;
INSERT INTO sqew_part (staging_id, name, messages, turn)
SELECT CASE WHEN others THEN n ELSE 1 END, 'p' || n, 1, CASE WHEN n % 2 = 0 THEN n END FROM generate_series(1, 2000) n;
INSERT INTO sqew_chunk (staging_id, part_id, messages, packed)
SELECT 1, CASE WHEN others THEN n ELSE 1 END, 1, 'x' FROM generate_series(1, 2000) n;
-- Nearly all claims are one consumer's, and nearly all chunks one claim's.
INSERT INTO sqew_consumer (queue_id, name, owner, epoch, hold_ms, held_until, last, is_closing)
SELECT CASE WHEN others THEN 2 ELSE 1 END, 'c' || n, 'o', 1, 1, n, 1, 0 FROM generate_series(1, 2000) n;
INSERT INTO sqew_claim SELECT CASE WHEN others THEN n ELSE 1 END, n, n, 1, 1 FROM generate_series(1, 2000) n;
INSERT INTO sqew_claim_chunk SELECT 1, CASE WHEN others THEN n ELSE 1 END, n, 1, 't', 'x'
  FROM generate_series(1, 2000) n;
INSERT INTO sqew_depth SELECT CASE WHEN others THEN 2 ELSE 1 END, 1, 0 FROM generate_series(1, 1000) n;
INSERT INTO sqew_body SELECT n, 'x' FROM generate_series(1, 2000) n;
INSERT INTO sqew_api_key SELECT 1 + n % 40, 'k' || n, 'x', 'send', '', NULL, 1 FROM generate_series(1, 2000) n;
"""


class Planner:
    """A connection with the settings of the store's."""

    def __init__(self, runner: asyncio.Runner, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._runner, self._connection = runner, connection

    def steps(self, sql: str) -> list[dict[str, Any]]:
        """Return the steps of a statement's plan, whatever its parameters are."""
        count = len(set(re.findall(r"\$\d+", sql)))
        parameters = f"({', '.join(['NULL'] * count)})" if count else ""
        return list(_flat(json.loads(self._runner.run(self._explain(sql, parameters)))[0]["Plan"]))

    async def _explain(self, sql: str, parameters: str) -> str:
        await self._connection.execute(f"PREPARE looked_at AS {sql}")
        plan = await self._connection.fetchval(f"EXPLAIN (FORMAT json) EXECUTE looked_at{parameters}")
        await self._connection.execute("DEALLOCATE looked_at")
        return str(plan)


def _flat(step: dict[str, Any], within: str = "") -> Iterator[dict[str, Any]]:
    yield step | {"Within": within}
    for inner in step.get("Plans", ()):
        yield from _flat(inner, step["Node Type"])


LOPSIDED = FILL.replace("others", "n % 40 = 0")

BACKLOGS = {
    "without statistics": LOPSIDED,
    "with statistics": LOPSIDED + "ANALYZE",
    "one has all": FILL.replace("others", "FALSE") + "ANALYZE",
    # How most queues are most of the time, and so when somebody counts what they hold. The plans must do for a backlog.
    "few": re.sub(r"\d+000\) n", "40) n", LOPSIDED) + "ANALYZE",
    "nothing": "ANALYZE",
}


@contextlib.contextmanager
def planning(backlog: str) -> Iterator[Planner]:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(new_database(), server_settings=PLANNING))
        runner.run(connection.execute(BACKLOGS[backlog]))
        yield Planner(runner, connection)
        runner.run(connection.close())


@pytest.mark.parametrize("backlog", BACKLOGS)
def test_every_statement_finds_its_rows_by_the_index_meant_for_it_and_sorts_nothing(backlog: str) -> None:
    with planning(backlog) as planner:
        plans = {name: planner.steps(SQL[name]) for name in HOT}

    wrong = [f"{name} {fault}" for name, steps in plans.items() for fault in faults(name, steps)]
    assert not wrong, "\n".join(wrong)


def faults(name: str, steps: list[dict[str, Any]]) -> list[str]:
    """Return the faults in the plan of a statement."""
    found = ways_in(steps)
    # A row found by an index may lead to others by their own keys; the names of the queues that exist are few.
    meant = HOT[name] | {ROW, NAMES[sqlite.NAMES]}
    is_by_index = HOT[name] <= found <= meant or AS_GOOD.get(name) in found <= meant | {AS_GOOD[name]}
    wrong = [] if is_by_index else [f"goes by {sorted(found)}, not by {sorted(HOT[name])}"]
    wrong += [f"has a {step['Node Type']}" for step in steps if reads_whole_or_sorts(step)]
    return wrong + [f"reads all of {step['Index Name']}" for step in steps if reads_all(step)]


def ways_in(steps: list[dict[str, Any]]) -> set[str]:
    """Return the indexes by which the steps find their rows."""
    names = {step["Index Name"] for step in steps if "Index Name" in step}
    return {ROW if name.endswith("_pkey") else name for name in names}


def reads_whole_or_sorts(step: dict[str, Any]) -> bool:
    return re.search("Seq Scan|Bitmap|Sort|Hash Join", step["Node Type"]) is not None


def reads_all(step: dict[str, Any]) -> bool:
    """Return True if an index is read without a condition, unless a limit ends that, or it has only the few queues."""
    is_first = step["Within"] == "Limit" and "Filter" not in step
    return "Index Name" in step and "Index Cond" not in step and not is_first and step["Relation Name"] != "sqew_queue"


def test_every_statement_is_guarded_or_known_to_be_cold() -> None:
    assert HOT.keys() | COLD.keys() == SQL.texts.keys()
    assert not HOT.keys() & COLD.keys()


def test_the_guard_sees_a_table_that_is_read_whole_and_an_index_that_is_not_meant() -> None:
    with planning("nothing") as planner:
        whole = planner.steps("SELECT id FROM sqew_message WHERE attempts = 1")
        other = planner.steps("SELECT id FROM sqew_message WHERE id = $1")

    assert faults("draw_ids", whole)[-1] in ("has a Seq Scan", "reads all of sqew_message_pkey")
    assert faults("first_due", other) == [f"goes by {[ROW]}, not by {[DUE]}"]
