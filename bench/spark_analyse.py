"""`sqew spark analyse` on a long event log, beside the query that one would write by hand, in Spark and in DuckDB.

The query by hand reads the lines, finds the times of each message, takes exact percentiles by queue, lane and worker,
and counts events by the second. `analyse` does that and more: it keeps the events and the deliveries, and works out
depths, retries, deaths and the slowest messages.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import duckdb
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from bench import lab_summary, report
from bench.timing import in_turn, ratios, spread
from bench.workspace import say
from sqew.spark import session
from sqew.spark.jobs.analyse import analyse

_ANALYSE, _PLAIN, _DUCKDB = "sqew spark analyse", "a Spark query by hand", "the same in DuckDB"
_LOGS = "*.events.jsonl"
_WARM_UP_EVENTS = 20_000
_TICKS = os.sysconf("SC_CLK_TCK")


class Scale(Protocol):
    """How long everything takes."""

    @property
    def rounds(self) -> int:
        """How often everything is measured."""

    @property
    def events(self) -> int:
        """How long the log is."""


class Taken(Struct, frozen=True):
    """How long one took, and how much of the processors."""

    seconds: float
    cpu_seconds: float


class Contenders:
    """What is measured, each with the same number of cores."""

    def __init__(self, spark: SparkSession, cores: int) -> None:
        self._spark, self._cores = spark, cores

    def of(self, name: str) -> Callable[[Path, Path], None]:
        return {_ANALYSE: self._analyse, _PLAIN: self._plain, _DUCKDB: self._duckdb}[name]

    def _analyse(self, log: Path, to: Path) -> None:
        analyse(self._spark, [str(log)], str(to))

    def _plain(self, log: Path, to: Path) -> None:
        schema = "at long, event string, topic string, lane string, n long, worker string, due long"
        events = self._spark.read.schema(schema).json(str(log / _LOGS))
        received, acked = F.col("event") == "received", F.col("event") == "acked"
        messages = events.where(F.col("event").isin("sent", "received", "acked")).groupBy("topic", "n")
        times = messages.agg(
            F.first("lane").alias("lane"),
            F.min("due").alias("due"),
            F.min(F.when(received, F.col("at"))).alias("received_at"),
            F.min(F.when(acked, F.col("at"))).alias("acked_at"),
            F.min(F.when(received, F.col("worker"))).alias("worker"),
        )
        times.write.parquet(str(to / "messages"))
        kept = self._spark.read.parquet(str(to / "messages"))
        for cut in (["topic"], ["topic", "lane"], ["worker"]):
            kept.groupBy(*cut).agg(
                *(F.expr(f"percentile({at} - due, array(0.5, 0.95, 0.99))") for at in ("received_at", "acked_at"))
            ).collect()
        events.groupBy("topic", "event", F.floor(F.col("at") / 1_000_000)).count().write.parquet(str(to / "rates"))

    def _duckdb(self, log: Path, to: Path) -> None:
        to.mkdir()
        texts, numbers = ("event", "topic", "lane", "worker"), ("at", "n", "due")
        types = [f"{name}: 'VARCHAR'" for name in texts] + [f"\"{name}\": 'BIGINT'" for name in numbers]
        columns = f"{{{', '.join(types)}}}"
        lines = f"read_json('{log / _LOGS}', format = 'newline_delimited', columns = {columns})"
        with duckdb.connect(config={"threads": self._cores}) as db:
            db.execute(f"""
                create table messages as
                select topic, n, first(lane) as lane, min(due) as due,
                  min("at") filter (where event = 'received') as received_at,
                  min("at") filter (where event = 'acked') as acked_at,
                  min(worker) filter (where event = 'received') as worker
                from {lines} where event in ('sent', 'received', 'acked') group by topic, n
            """)
            db.execute(f"copy messages to '{to / 'messages.parquet'}'")
            for cut in ("topic", "topic, lane", "worker"):
                db.execute(f"""
                    select {cut}, quantile_cont(received_at - due, [0.5, 0.95, 0.99]),
                      quantile_cont(acked_at - due, [0.5, 0.95, 0.99])
                    from messages group by {cut}
                """).fetchall()
            db.execute(f"""
                copy (select topic, event, "at" // 1000000 as second, count(*) from {lines} group by all)
                to '{to / "rates.parquet"}'
            """)


@contextmanager
def _spark_on(cores: int) -> Iterator[SparkSession]:
    spark = session(f"local[{cores}]", "bench")
    try:
        yield spark
    finally:
        spark.stop()


def _cpu_seconds(spark: SparkSession) -> float:
    """What Java and we have used of the processors so far."""
    gateway = spark.sparkContext._gateway
    java = gateway.proc.pid if gateway is not None else os.getpid()
    fields = Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()
    ours = os.times()
    return (int(fields[11]) + int(fields[12])) / _TICKS + ours.user + ours.system


def _measured(spark: SparkSession, work: Callable[[Path, Path], None], log: Path, to: Path) -> Taken:
    shutil.rmtree(to, ignore_errors=True)
    began, used = time.perf_counter(), _cpu_seconds(spark)
    work(log, to)
    return Taken(time.perf_counter() - began, _cpu_seconds(spark) - used)


def _rounds(cores: int, folder: Path, scale: Scale) -> dict[str, list[Taken]]:
    taken: dict[str, list[Taken]] = {name: [] for name in (_ANALYSE, _PLAIN, _DUCKDB)}
    with _spark_on(cores) as spark:
        contenders = Contenders(spark, cores)
        for name in taken:
            say(f"local[{cores}]: warming up {name}")
            _measured(spark, contenders.of(name), folder / "short", folder / "out")
        for number in range(scale.rounds):
            for name in in_turn(list(taken), number):
                say(f"local[{cores}], round {number + 1} of {scale.rounds}: {name}")
                taken[name].append(_measured(spark, contenders.of(name), folder / "long", folder / "out"))
    return taken


def long_log(folder: Path, _seed: int, scale: Scale) -> report.Section:
    for name, events in (("short", _WARM_UP_EVENTS), ("long", scale.events)):
        say(f"a log of {events:,} events")
        (folder / name).mkdir(parents=True)
        lab_summary.make(folder / name, events)
    found = {cores: _rounds(cores, folder, scale) for cores in (1, 2)}
    rows = [row for cores, taken in found.items() for row in _table_rows(cores, taken)]
    ratio = ratios(*([one.seconds for one in found[2][name]] for name in (_ANALYSE, _PLAIN)))
    scaled = ratios(*([one.seconds for one in found[cores][_ANALYSE]] for cores in (1, 2)))
    title = f"{scale.events:,} events from JSONL, a warm session"
    return report.Section(
        "long",
        "Analysing an event log",
        [
            report.Table(
                title, ["cores", "", "seconds", "of the processors", "to the query by hand"], rows,
                f"Two cores are {scaled.median:.2f} times as fast as one. Besides the query's tables, `analyse` writes "
                "events, deliveries, depths, retries, deaths and the slowest messages.",
            )
        ],
        [
            report.Figure(
                f"analyse {scale.events:,} events: to the query by hand, two cores", "≤ 1.3", f"{ratio.median:.2f}",
                ratio.median <= 1.3,
            )
        ],
        {str(cores): taken for cores, taken in found.items()},
    )  # fmt: skip


def _table_rows(cores: int, taken: dict[str, list[Taken]]) -> Iterator[list[str]]:
    by_hand = [one.seconds for one in taken[_PLAIN]]
    for name, rounds in taken.items():
        seconds = [one.seconds for one in rounds]
        used = spread([one.cpu_seconds for one in rounds])
        ratio = ratios(seconds, by_hand)
        yield [
            str(cores),
            name,
            f"{spread(seconds).median:.1f}",
            f"{used.median:.1f} s",
            f"{ratio.median:.2f} [{ratio.low:.2f}–{ratio.high:.2f}]",
        ]
