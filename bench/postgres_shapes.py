"""Latency of a claim with much behind it: long backlogs, long groups, and dead rows that a snapshot keeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import asyncpg
from msgspec import Struct

from bench.postgres_cluster import Cluster
from bench.postgres_contenders import Sqew
from bench.report import Figure, Section, Table
from bench.timing import Quantiles, quantiles
from bench.workspace import say
from sqew.model import NewMessage, Policy
from sqew.operations import CreateQueue, Send

_FILL = """
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, is_text, checksum,
                          group_id, body)
SELECT nextval('sqew_message_id'), m.queue_id, m.lane_id, m.priority,
       CASE WHEN m.group_id IS NULL THEN m.due_at + n / 100 END,
       m.available_at, m.created_at, m.is_text, m.checksum, m.group_id, m.body
  FROM sqew_message m, generate_series(1, {count}) AS n
"""
_WARM = 50


class Scale(Struct, frozen=True):
    backlogs: Sequence[int]
    groups: Sequence[int]
    passed: int
    """Messages that pass while a snapshot is held."""
    claims: int


def measure(cluster: Cluster, scale: Scale) -> Section:
    backlogs = {count: asyncio.run(_with_backlog(cluster, count, scale.claims, fifo=False)) for count in scale.backlogs}
    groups = {count: asyncio.run(_with_backlog(cluster, count, scale.claims, fifo=True)) for count in scale.groups}
    held = asyncio.run(_while_held(cluster, scale))
    keeping_up = asyncio.run(_keeping_up_while_held(cluster, scale))
    rows = [
        *([f"backlog of {count:,}", *_cells(took)] for count, took in backlogs.items()),
        *([f"one FIFO group of {count:,}", *_cells(took)] for count, took in groups.items()),
        *([f"snapshot held, {title}", *_cells(took)] for title, took in held.items()),
        *([f"snapshot held, consumers keep up, {title}", *_cells(took)] for title, took in keeping_up.items()),
    ]
    table = Table("Claim one message, one client", ["", "p50", "p95", "p99"], rows)
    before, after = held.values()
    few_before, none_before, few_after, none_after = keeping_up.values()
    figures = [
        _figure(f"claim p50, backlog of {scale.backlogs[-1]:,} to {scale.backlogs[0]:,}", 1.5, _ends(backlogs)),
        _figure(f"claim p50, FIFO group of {scale.groups[-1]:,} to {scale.groups[0]:,}", 2, _ends(groups)),
        _figure(f"claim p50, snapshot held while {scale.passed:,} messages passed", 3, after.p50 / before.p50),
        _figure("the same where consumers keep up, ten of the one there", 3, few_after.p50 / few_before.p50),
        _figure("the same of an empty queue", 3, none_after.p50 / none_before.p50),
    ]
    return Section(
        "shapes",
        "Backlogs, groups and held snapshots",
        [table],
        figures,
        {"backlogs": backlogs, "groups": groups, "held": held, "keeping_up": keeping_up},
    )


def _ends(found: dict[int, Quantiles]) -> float:
    first, *_, last = found.values()
    return last.p50 / first.p50


async def _with_backlog(cluster: Cluster, count: int, claims: int, *, fifo: bool) -> Quantiles:
    say(f"{'a group' if fifo else 'a backlog'} of {count:,}")
    url, queue = cluster.new_database(), "bench.fifo" if fifo else "bench"
    sqew = Sqew()
    await sqew.open(url, 1)
    if fifo:
        await sqew.broker.run(CreateQueue(queue, Policy(fifo=True)))
    await sqew.broker.run(Send(queue, [NewMessage(b'{"n":1}', group="g" if fifo else None)]))
    cluster.execute(_FILL.format(count=count), url)
    cluster.execute("VACUUM ANALYZE", url)
    found = await _claim(sqew, claims, queue)
    await sqew.close()
    cluster.drop(url)
    return found


async def _claim(sqew: Sqew, claims: int, queue: str = "bench") -> Quantiles:
    took = []
    for _ in range(claims + _WARM):
        began = time.perf_counter_ns()
        messages = await sqew.claim(1, queue)
        took.append(time.perf_counter_ns() - began)
        await sqew.ack(messages, queue)
    return quantiles(took[_WARM:])


async def _while_held(cluster: Cluster, scale: Scale) -> dict[str, Quantiles]:
    say("a held snapshot")
    url = cluster.new_database()
    sqew = Sqew()
    await sqew.open(url, 1)
    await sqew.send(0, 1)
    cluster.execute(_FILL.format(count=scale.passed + 10 * (scale.claims + _WARM)), url)
    cluster.execute("VACUUM ANALYZE", url)
    holder = await asyncpg.connect(url)
    await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sqew_meta")
    found = {"at first": await _claim(sqew, scale.claims)}
    passed = 0
    while passed < scale.passed:
        passed += await sqew.take(0, 100)
    found[f"{passed:,} messages later"] = await _claim(sqew, scale.claims)
    await holder.close()
    await sqew.close()
    cluster.drop(url)
    return found


async def _keeping_up_while_held(cluster: Cluster, scale: Scale) -> dict[str, Quantiles]:
    """Measure claims of ten with one message there, and of one with none."""
    say("a held snapshot, and consumers that keep up")
    url = cluster.new_database()
    sqew = Sqew()
    await sqew.open(url, 1)
    few_before, none_before = await _claim_few(sqew, scale.claims)
    holder = await asyncpg.connect(url)
    await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sqew_meta")
    passed = 0
    while passed < scale.passed:
        await sqew.send(0, 100)
        passed += await sqew.take(0, 100)
    few_after, none_after = await _claim_few(sqew, scale.claims)
    await holder.close()
    await sqew.close()
    cluster.drop(url)
    return {
        "the one there is, at first": few_before,
        "an empty queue, at first": none_before,
        f"the one there is, {passed:,} messages later": few_after,
        f"an empty queue, {passed:,} messages later": none_after,
    }


async def _claim_few(sqew: Sqew, claims: int) -> tuple[Quantiles, Quantiles]:
    few, none = [], []
    for _ in range(claims + _WARM):
        await sqew.send(0, 1)
        began = time.perf_counter_ns()
        messages = await sqew.claim(10, "bench")
        few.append(time.perf_counter_ns() - began)
        await sqew.ack(messages, "bench")
        began = time.perf_counter_ns()
        await sqew.claim(1, "bench")
        none.append(time.perf_counter_ns() - began)
    return quantiles(few[_WARM:]), quantiles(none[_WARM:])


def _cells(took: Quantiles) -> list[str]:
    return [f"{value / 1000:.2f} ms" for value in (took.p50, took.p95, took.p99)]


def _figure(name: str, most: float, measured: float) -> Figure:
    return Figure(name, f"≤ {most:g} times", f"{measured:.2f} times", measured <= most)
