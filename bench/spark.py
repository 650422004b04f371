"""The benchmark of the Spark pipeline, as ``python3 dev bench spark`` runs it. See docs/benchmarks-spark.md."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from bench import command, report, serving, spark_analyse
from bench.workspace import say
from sqew.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTERS = ("local[1]", "local[2]")
BEST = MASTERS[-1]
_PARTITIONS = 8
_BODY = "concat('{\"order\":', id, ',\"customer\":', id % 1000, ',\"note\":\"', repeat('x', 60), '\"}')"
_SCHEMA = "id LONG, lane STRING, priority INT, body STRING, created_at TIMESTAMP"


class Scale(Struct, frozen=True):
    """The length of everything."""

    rounds: int
    messages: int
    streamed: int
    events: int
    analyses: int
    needed_bytes: int = 6 << 30


SCALES = {
    "quick": Scale(rounds=1, messages=100_000, streamed=50_000, events=200_000, analyses=1),
    "default": Scale(rounds=3, messages=1_000_000, streamed=500_000, events=5_000_000, analyses=1),
    "full": Scale(rounds=5, messages=1_000_000, streamed=1_000_000, events=5_000_000, analyses=3),
}


@contextmanager
def on(master: str) -> Iterator[SparkSession]:
    """Open a session of its own, whose workers start anew. Java is the same, and keeps its compiled code."""
    spark = session(master, **{"spark.sql.shuffle.partitions": "8"})
    try:
        yield spark
    finally:
        spark.stop()


def rows(spark: SparkSession, count: int) -> DataFrame:
    """Make messages to write, with bodies of about 100 bytes."""
    return spark.range(0, count, numPartitions=_PARTITIONS).selectExpr(f"{_BODY} AS body")


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def drop(frame: DataFrame) -> None:
    """Have Spark make every row, and keep none."""
    frame.write.format("noop").mode("overwrite").save()


def fill(spark: SparkSession, served: serving.Served, count: int) -> None:
    rows(spark, count).write.format("sqew").mode("append").option("url", served.url).option(
        "queue", serving.QUEUE
    ).save()


class Rates(Struct):
    """Rows a second by the name of the measurement, of every round."""

    of: dict[str, list[float]] = {}  # msgspec copies it

    def measure(self, name: str, count: int, work: Callable[[], object]) -> None:
        self.of.setdefault(name, []).append(count / seconds(work))

    def best(self, name: str) -> float:
        return median(self.of[name])

    def part(self, name: str, ceiling: str) -> float:
        """Return the rate as a part of the ceiling's in the same round."""
        return median(ours / theirs for ours, theirs in zip(self.of[name], self.of[ceiling], strict=True))

    def table(self, title: str, ceilings: dict[str, str]) -> report.Table:
        """Make a table; ``ceilings`` names for each rate the one that it is compared with."""
        cells = []
        for name, found in self.of.items():
            ceiling = ceilings.get(name)
            part = f"{self.part(name, ceiling):.2f}" if ceiling else ""
            cells.append([name, f"{median(found):,.0f}", f"{min(found):,.0f}–{max(found):,.0f}", part])
        return report.Table(title, ["", "rows/s", "from–to", "part of the ceiling"], cells)


def read(folder: Path, _seed: int, scale: Scale) -> report.Section:
    """Read a queue's snapshot, from a server and from its file, beside the same rows in a JSON file of Spark's own."""
    rates, db = Rates(), folder / "queue.db"
    ceilings: dict[str, str] = {}
    with serving.sqew(folder, "fast", db, beside=True) as served:
        _prepare_reads(folder, served, scale)
        for turn in range(scale.rounds):
            for master in MASTERS:
                say(f"read {scale.messages:,}, round {turn + 1} of {scale.rounds}, {master}")
                with on(master) as spark:
                    names = _read_all(spark, rates, folder, served, scale.messages, master)
                ceilings |= dict.fromkeys(names[1:], names[0])
    json, server = (f"{name}, {BEST}" for name in ("spark.read.json", "format('sqew'), server"))
    part = rates.part(server, json)
    return report.Section(
        "read",
        "Reading a queue",
        [rates.table(f"{scale.messages:,} messages of about 100 bytes, every column made", ceilings)],
        [report.Figure("read from a server: part of Spark's JSON reader", "≥ 0.35", f"{part:.2f}", part >= 0.35)],
        {"rates": rates.of},
    )


def _prepare_reads(folder: Path, served: serving.Served, scale: Scale) -> None:
    with on(BEST) as spark:
        fill(spark, served, scale.messages)
        source = spark.read.format("sqew").option("path", str(folder / "queue.db")).option("queue", serving.QUEUE)
        source.schema(_SCHEMA).load().repartition(_PARTITIONS).write.json(str(folder / "json"))


def _read_all(
    spark: SparkSession, rates: Rates, folder: Path, served: serving.Served, count: int, master: str
) -> list[str]:
    source = spark.read.format("sqew").option("queue", serving.QUEUE).schema(_SCHEMA)
    frames = {
        "spark.read.json": spark.read.schema(_SCHEMA).json(str(folder / "json")),
        "format('sqew'), server": source.option("url", served.url).load(),
    }
    source = spark.read.format("sqew").option("queue", serving.QUEUE).schema(_SCHEMA)
    frames["format('sqew'), file"] = source.option("path", str(folder / "queue.db")).load()
    names = [f"{name}, {master}" for name in frames]
    for name, frame in zip(names, frames.values(), strict=True):
        # Once for nothing: the first rows wait for Python to start and for Java to compile.
        drop(frame)
        rates.measure(name, count, lambda frame=frame: drop(frame))  # type: ignore[misc]
    return names


def write(folder: Path, _seed: int, scale: Scale) -> report.Section:
    """Write into a server, staged and promoted, beside a Parquet file."""
    rates = Rates()
    ceilings: dict[str, str] = {}
    for turn in range(scale.rounds):
        for master in MASTERS:
            say(f"write {scale.messages:,}, round {turn + 1} of {scale.rounds}, {master}")
            parquet, ours = f"Parquet, {master}", f"format('sqew'), {master}"
            ceilings[ours] = parquet
            place = folder / f"{turn}-{master}"
            with on(master) as spark, serving.sqew(place, "fast", beside=True) as served:
                to, few = str(place / "parquet"), scale.messages // 10
                # Some for nothing: the first rows wait for Python to start and for Java to compile.
                rows(spark, few).write.parquet(to + "-first")
                fill(spark, served, few)
                rates.measure(parquet, scale.messages, lambda: rows(spark, scale.messages).write.parquet(to))  # noqa: B023
                rates.measure(ours, scale.messages, lambda: fill(spark, served, scale.messages))
                _check_depth(served, scale.messages + few)
    rate = rates.best(f"format('sqew'), {BEST}")
    return report.Section(
        "write",
        "Writing to a queue",
        [rates.table(f"{scale.messages:,} messages of about 100 bytes, exactly once in effect, fast", ceilings)],
        [report.Figure("write into a server", "≥ 80,000 rows/s", f"{rate:,.0f} rows/s", rate >= 80_000)],
        {"rates": rates.of},
    )


def _check_depth(served: serving.Served, expected: int, queue: str = serving.QUEUE) -> None:
    found = served.json("GET", f"/queues/{queue}/stats")["ready"]
    if found != expected:
        sys.exit(f"bench: {found:,} messages are ready in {queue}, and not {expected:,}.")


def stream(folder: Path, _seed: int, scale: Scale) -> report.Section:
    """Stream from one queue to another: claimed, written exactly once in effect, and acked."""
    rates = Rates()
    for turn in range(scale.rounds):
        for master in MASTERS:
            say(f"stream {scale.streamed:,}, round {turn + 1} of {scale.rounds}, {master}")
            place = folder / f"{turn}-{master}"
            with on(master) as spark, serving.sqew(place, "fast", beside=True) as served:
                serving.make_queue(served, "results")
                fill(spark, served, scale.streamed)
                rates.measure(
                    f"queue to queue, {master}",
                    scale.streamed,
                    lambda: _stream(spark, served, place / "checkpoint"),  # noqa: B023
                )
                _check_depth(served, scale.streamed, "results")
    rate = rates.best(f"queue to queue, {BEST}")
    return report.Section(
        "stream",
        "Streaming",
        [rates.table(f"{scale.streamed:,} messages, batches of 100,000, trigger availableNow, fast", {})],
        [report.Figure("stream, exactly once in effect", "≥ 25,000 rows/s", f"{rate:,.0f} rows/s", rate >= 25_000)],
        {"rates": rates.of},
    )


def _stream(spark: SparkSession, served: serving.Served, checkpoint: Path) -> None:
    source = spark.readStream.format("sqew").option("url", served.url).option("queue", serving.QUEUE)
    messages = source.option("consumer", "bench").load().select("body")
    sink = messages.writeStream.format("sqew").option("url", served.url).option("queue", "results")
    query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def _draw(_sections: Sequence[report.Section], _to: Path) -> None:
    sys.exit("bench: this benchmark has tables only; leave out --plot.")


BENCHMARK = command.Benchmark(
    name="bench.spark",
    doc="Measure the Spark pipeline.",
    lengths={"quick": "two minutes: does it run at all?", "full": "half an hour: for figures to publish"},
    scales=SCALES,
    sections={"read": read, "write": write, "stream": stream, "analyse": spark_analyse.long_log},
    packages=("pyspark", "pyarrow", "duckdb", "apsw", "msgspec"),
    draw=_draw,
)


def main(arguments: list[str] | None = None) -> int:
    return command.run(BENCHMARK, arguments)


if __name__ == "__main__":
    command.exit_with(main)
