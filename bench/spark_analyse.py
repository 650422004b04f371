"""`sqew spark analyse` on a long event log, beside a query written by hand, in Spark and in DuckDB.

The query by hand makes three tables with the obvious code: for each message, when it was due, sent, received, retried,
acked and given up, how often and by which worker; exact percentiles of four latencies by queue, lane and worker; and
the events of each kind in each second, by queue, lane and worker. `analyse` makes these and more: it keeps the events
and pairs each delivery with its end, and works out depths, faults, latencies over time and the slowest messages.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
_OF_MESSAGES = ("sending", "sent", "received", "retried", "acked", "died")
_STEP_US = 1_000_000
_TICKS = os.sysconf("SC_CLK_TCK")


class Scale(Protocol):
    """The length of everything."""

    @property
    def analyses(self) -> int:
        """The number of rounds."""

    @property
    def events(self) -> int:
        """The number of events in the log."""


class Taken(Struct, frozen=True):
    """The time of one measurement, on the wall and of the processors."""

    seconds: float
    cpu_seconds: float


class Contenders:
    """Contenders, each with the same number of cores."""

    def __init__(self, spark: SparkSession, cores: int) -> None:
        self.spark, self._cores = spark, cores

    def of(self, name: str) -> Callable[[Path, Path], None]:
        return {_ANALYSE: self._analyse, _PLAIN: self._plain, _DUCKDB: self._duckdb}[name]

    def _analyse(self, log: Path, to: Path) -> None:
        analyse(self.spark, [str(log)], str(to))

    def _plain(self, log: Path, to: Path) -> None:
        schema = "at long, event string, topic string, lane string, n long, worker string, due long"
        events = self.spark.read.schema(schema).json(str(log / _LOGS))
        at, event, worker = F.col("at"), F.col("event"), F.col("worker")
        messages = events.where(event.isin(*_OF_MESSAGES)).groupBy("topic", "n").agg(
            F.max("lane").alias("lane"),
            F.max("due").alias("due"),
            *(F.min(F.when(event == kind, at)).alias(f"{kind}_at") for kind in _OF_MESSAGES),
            F.min_by(F.when(event == "received", worker), F.when(event == "received", at)).alias("worker"),
            F.count(F.when(event == "received", 1)).alias("deliveries"),
            F.count(F.when(event == "retried", 1)).alias("retries"),
        )  # fmt: skip
        messages.write.parquet(str(to / "messages"))
        kept = self.spark.read.parquet(str(to / "messages"))
        took = ("sent_at - due", "received_at - due", "acked_at - due", "acked_at - received_at")
        for number, cut in enumerate((["topic"], ["topic", "lane"], ["worker"])):
            quantiles = (
                F.expr(f"percentile({one}, array(0.5, 0.95, 0.99))").alias(f"p{i}") for i, one in enumerate(took)
            )
            kept.groupBy(*cut).agg(F.count(F.lit(1)).alias("messages"), *quantiles).write.parquet(
                str(to / f"latencies-{number}")
            )
        step = F.floor(at / _STEP_US).alias("step")
        events.groupBy(step, "topic", "lane", "worker", "event").count().write.parquet(str(to / "rates"))

    def _duckdb(self, log: Path, to: Path) -> None:
        to.mkdir()
        texts, numbers = ("event", "topic", "lane", "worker"), ("at", "n", "due")
        types = [f"{name}: 'VARCHAR'" for name in texts] + [f"\"{name}\": 'BIGINT'" for name in numbers]
        columns = f"{{{', '.join(types)}}}"
        lines = f"read_json('{log / _LOGS}', format = 'newline_delimited', columns = {columns})"
        times = ", ".join(f"min(\"at\") filter (event = '{kind}') as {kind}_at" for kind in _OF_MESSAGES)
        took = ("sent_at - due", "received_at - due", "acked_at - due", "acked_at - received_at")
        quantiles = ", ".join(f"quantile_cont({one}, [0.5, 0.95, 0.99])" for one in took)
        with duckdb.connect(config={"threads": self._cores}) as db:
            db.execute(f"""
                create table messages as
                select topic, n, max(lane) as lane, max(due) as due, {times},
                  min_by(worker, "at") filter (event = 'received') as worker,
                  count(*) filter (event = 'received') as deliveries, count(*) filter (event = 'retried') as retries
                from {lines} where event in {_OF_MESSAGES} group by topic, n
            """)
            db.execute(f"copy messages to '{to / 'messages.parquet'}'")
            for number, cut in enumerate(("topic", "topic, lane", "worker")):
                found = f"select {cut}, count(*), {quantiles} from messages group by {cut}"
                db.execute(f"copy ({found}) to '{to / f'latencies-{number}.parquet'}'")
            counted = (
                f'select "at" // {_STEP_US} as step, topic, lane, worker, event, count(*) from {lines} group by all'
            )
            db.execute(f"copy ({counted}) to '{to / 'rates.parquet'}'")


@contextmanager
def _spark_on(cores: int) -> Iterator[SparkSession]:
    spark = session(f"local[{cores}]", "bench")
    try:
        yield spark
    finally:
        spark.stop()


def _own_cpu_seconds() -> float:
    """Return the processor time that this process has used so far."""
    ours = os.times()
    return ours.user + ours.system


def _cpu_seconds(spark: SparkSession) -> dict[int, float]:
    """Return the processor time that Java, all its children, and this process have used so far, by process."""
    gateway = spark.sparkContext._gateway
    return {os.getpid(): _own_cpu_seconds(), **({} if gateway is None else _cpu_seconds_below(gateway.proc.pid))}


def _cpu_seconds_below(root: int) -> dict[int, float]:
    parents, used = {}, {}
    for process in (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()):
        with suppress(OSError):  # it has ended meanwhile
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            parents[process], used[process] = int(fields[1]), sum(map(int, fields[11:13])) / _TICKS
    family = {root}
    while more := {process for process, parent in parents.items() if parent in family} - family:
        family |= more
    return {process: used[process] for process in family if process in used}


def _measured(contenders: Contenders, name: str, log: Path, to: Path) -> Taken:
    shutil.rmtree(to, ignore_errors=True)
    began, before = time.perf_counter(), _cpu_seconds(contenders.spark)
    contenders.of(name)(log, to)
    seconds, used = time.perf_counter() - began, _cpu_seconds(contenders.spark)
    # By process: those of Python that idled for a minute end, and the time that they used before with them.
    return Taken(seconds, sum(total - before.get(process, 0) for process, total in used.items()))


def _rounds(cores: int, folder: Path, scale: Scale) -> dict[str, list[Taken]]:
    taken: dict[str, list[Taken]] = {name: [] for name in (_ANALYSE, _PLAIN, _DUCKDB)}
    with _spark_on(cores) as spark:
        contenders = Contenders(spark, cores)
        for name in taken:
            say(f"local[{cores}]: warming up {name}")
            _measured(contenders, name, folder / "short", folder / "out")
        for number in range(scale.analyses):
            for name in in_turn(list(taken), number):
                say(f"local[{cores}], round {number + 1} of {scale.analyses}: {name}")
                taken[name].append(_measured(contenders, name, folder / "long", folder / "out"))
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
