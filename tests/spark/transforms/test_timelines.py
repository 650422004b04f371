"""Timelines that tasks in Python derive from events: no session is needed to test that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sqew.spark.files import parts_of
from sqew.spark.jobs import small_tables
from sqew.spark.transforms import histograms, rates
from sqew.spark.transforms.events import EVENTS, as_events, tallied, tallied_together, with_codes
from sqew.spark.transforms.log_lines import read_part
from sqew.spark.transforms.timelines import (
    STEPS,
    Deaths,
    EventNames,
    Followed,
    deliveries_of,
    followed,
    messages_of,
    spread,
    steps_of,
)

Event = dict[str, Any]


class Log:
    """A log of events, as the tasks that read it have them."""

    def __init__(self, folder: Path, events: list[Event], deaths: list[Event] | None = None) -> None:
        path = folder / "log.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        (part,) = parts_of([str(path)], "jsonl")
        self.blocks = [as_events(lines) for lines in read_part(part)]
        self.tally = with_codes(tallied_together([tallied(block) for block in self.blocks]))
        schema = pa.schema([("who", pa.string()), ("died_at", pa.int64()), ("settling", pa.bool_())])
        self.deaths = pa.Table.from_pylist(deaths or [], schema)
        self.known = small_tables.names(self.tally, self.deaths)
        self.names = EventNames(self.known)
        self.steps = np.concatenate([np.empty(0, STEPS), *map(steps_of, self.blocks)])

    def followed(self) -> Followed:
        return followed(self.steps, self.names, Deaths(self.deaths))

    def messages(self) -> list[Event]:
        rows: list[Event] = messages_of(self.followed(), self.names).sort_by("n").to_pylist()
        return rows

    def deliveries(self) -> list[Event]:
        rows: list[Event] = deliveries_of(self.followed(), self.names).sort_by("at").to_pylist()
        return rows


def event(at: int, kind: str, n: int = 1, worker: str = "w/0", **fields: Any) -> Event:
    return {"at": at, "event": kind, "topic": "orders", "n": n, "worker": worker, **fields}


def test_the_end_of_a_delivery_is_that_of_the_worker_that_received_it(tmp_path: Path) -> None:
    log = Log(
        tmp_path,
        [
            event(10, "received", worker="a", attempt=1),
            event(20, "received", worker="b", attempt=2),
            event(30, "acked", worker="a", attempt=1),
            event(40, "retried", worker="b", attempt=2),
            event(50, "received", worker="b", attempt=3),
        ],
    )

    found = [(row["worker"], row["at"], row["end"], row["end_at"], row["held"]) for row in log.deliveries()]

    assert found == [("a", 10, "acked", 30, 20), ("b", 20, "retried", 40, None), ("b", 50, None, None, None)]


def test_at_the_same_time_a_delivery_comes_before_its_end(tmp_path: Path) -> None:
    log = Log(tmp_path, [event(10, "acked", attempt=1), event(10, "received", attempt=1)])

    (found,) = log.deliveries()

    assert (found["end"], found["held"]) == ("acked", 0)


def test_the_same_number_in_two_queues_is_two_messages(tmp_path: Path) -> None:
    log = Log(tmp_path, [event(10, "sent", due=5), event(30, "sent", topic="mail", due=10)])

    assert {(row["queue"], row["n"], row["to_stored"]) for row in log.messages()} == {("orders", 1, 5), ("mail", 1, 20)}


def test_an_ack_that_nobody_heard_of_is_done_when_its_worker_died(tmp_path: Path) -> None:
    received = [event(10, "received", 1, "w/0"), event(10, "received", 2, "w/1"), event(10, "received", 3, "v/0")]
    deaths = [
        {"who": "w/0", "died_at": 5, "settling": True},
        {"who": "w/0", "died_at": 70, "settling": True},
        {"who": "w", "died_at": 90, "settling": True},
        {"who": "v", "died_at": 80, "settling": False},
    ]

    log = Log(tmp_path, received, deaths)

    assert [row["done_at"] for row in log.messages()] == [70, 90, None]


def test_a_message_that_came_again_after_a_death_was_not_done_by_then(tmp_path: Path) -> None:
    deaths = [{"who": "w/0", "died_at": 50, "settling": True}]

    log = Log(tmp_path, [event(10, "received"), event(100, "received", worker="v/0", took=20)], deaths)

    assert [row["done_at"] for row in log.messages()] == [None]


def test_what_a_sender_that_died_was_refused_may_be_stored(tmp_path: Path) -> None:
    unsent = [event(10, "unsent", 1, "generator-0/0"), event(10, "unsent", 2, "generator-1/0")]

    log = Log(tmp_path, unsent, [{"who": "generator-0", "died_at": 20, "settling": False}])

    assert [row["outcome"] for row in log.messages()] == ["unsure", "unsent"]


def test_a_log_without_messages_has_none(tmp_path: Path) -> None:
    log = Log(tmp_path, [{"at": 1, "event": "run", "what": "began"}])

    assert (log.messages(), log.deliveries()) == ([], [])


def test_all_that_happened_to_a_message_goes_to_the_same_part(tmp_path: Path) -> None:
    log = Log(tmp_path, [event(at, "received", n=at % 50 + 1) for at in range(1_000)])

    parts = {number: np.frombuffer(some, STEPS) for number, some in spread(log.steps, log.steps["n"], 7).items()}

    assert sum(len(steps) for steps in parts.values()) == 1_000
    assert sum(len(np.unique(steps["n"])) for steps in parts.values()) == 50
    assert len(parts) == 7


def test_events_have_the_columns_of_their_table(tmp_path: Path) -> None:
    log = Log(tmp_path, [event(10, "sent")])

    assert pa.Table.from_batches(log.blocks).cast(EVENTS).schema == EVENTS


@pytest.mark.parametrize("size", [1, 2, 3, 19, 20, 21, 999, 1_000, 1_001])
def test_quantiles_of_counts_equal_numpys_however_the_samples_are_spread(tmp_path: Path, size: int) -> None:
    generator = np.random.default_rng(size)
    took = generator.integers(0, 2 * size, size)
    events = [event(0, "sent", n, due=0) for n in range(size)]
    events += [event(int(us), "received", n) for n, us in enumerate(took)]
    log = Log(tmp_path, events)
    parts = spread(log.steps, log.steps["n"], 4).values()

    counts = [
        histograms.counts_of(followed(np.frombuffer(part, STEPS), log.names, Deaths(log.deaths)), log.names, 1, 0)
        for part in parts
    ]

    rows = histograms.latencies(np.concatenate(counts), log.names).to_pylist()
    (found,) = [row for row in rows if row["measure"] == "to_claim" and row["queue"] == "orders"]
    expected = np.quantile(took, (0.5, 0.95, 0.99, 0.999), method="inverted_cdf") / 1000
    assert [found[name] for name in ("p50", "p95", "p99", "p999")] == expected.tolist()
    assert (found["count"], found["missing"], found["max"]) == (size, 0, took.max() / 1000)


def test_what_was_dropped_was_never_stored(tmp_path: Path) -> None:
    dropped = [event(at, "dropped", lane="slow") for at in range(3)]
    log = Log(tmp_path, [event(10, "sent", due=5, lane="slow"), *dropped])
    counts = histograms.counts_of(log.followed(), log.names, 1, 0)
    drops = log.tally.filter(pc.equal(log.tally["kind"], "dropped"))

    together = np.concatenate([counts, histograms.counts_of_drops(drops, log.names)])

    found = {
        (row["queue"], row["lane"]): (row["count"], row["missing"], row["p50"])
        for row in histograms.latencies(together, log.names).to_pylist()
        if row["measure"] == "to_stored"
    }
    assert found == {("orders", ""): (4, 3, None), ("orders", "slow"): (4, 3, None)}


def test_nothing_counted_has_no_quantiles(tmp_path: Path) -> None:
    log = Log(tmp_path, [event(10, "found")])

    counts = histograms.counts_of(log.followed(), log.names, 1, 0)

    assert (len(counts), histograms.latencies(counts, log.names).num_rows) == (0, 0)


def counted(log: Log, parts: int) -> dict[str, list[Event]]:
    """Return the counts of a log whose messages are spread over so many tasks."""
    speeds, tallies, slow = [], [], []
    for some in spread(log.steps, log.steps["n"], parts).values():
        steps = np.frombuffer(some, STEPS)
        found = followed(steps, log.names, Deaths(log.deaths))
        messages, deliveries = messages_of(found, log.names), deliveries_of(found, log.names)
        speeds.append(rates.speeds(steps, 100, 0))
        tallies.append(rates.tallies(messages, deliveries, 100, 0))
        slow.append(rates.slowest(found, messages, 10))
    together = pa.concat_tables(tallies)
    return {
        "rates": rows_of(small_tables.rates(pa.concat_tables(speeds), log.known, 100), "at", "lane", "worker"),
        "throughput": rows_of(small_tables.throughput(together), "queue", "lane", "worker"),
        "depths": rows_of(small_tables.depths(together, 100), "at", "lane"),
        "slowest": small_tables.slowest(pa.concat_tables(slow), 10).to_pylist(),
    }


def rows_of(table: pa.Table, *order: str) -> list[Event]:
    rows: list[Event] = table.sort_by([(name, "ascending") for name in order]).to_pylist()
    return rows


def test_what_is_counted_is_the_same_however_the_messages_are_spread(tmp_path: Path) -> None:
    events = []
    for n in range(1, 101):
        worker, lane = f"w/{n % 3}", ("fast", "slow")[n % 2]
        events.append(event(n * 10, "sent", n, "generator-0/0", due=n * 10 - 5, lane=lane))
        events.append(event(n * 10 + n % 7 * 30, "received", n, worker, lane=lane, attempt=1))
        if n % 10:
            events.append(event(n * 10 + 400, "acked", n, worker, lane=lane, attempt=1))
    log = Log(tmp_path, events)

    once = counted(log, 1)

    assert counted(log, 6) == once
    assert [row["n"] for row in once["slowest"]] == list(range(10, 101, 10))
    assert sum(row["acked"] for row in once["rates"]) == 90
    assert {row["lane"]: row["unfinished"] for row in once["depths"]} == {"fast": 10, "slow": 0}
