"""The figures and plots of a run from the tables of `sqew spark analyse`, for logs that are too long for one machine.

They are those that the lab works out itself. The verdict was given when the run ended, and is taken from its summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from sqew.lab.config.model import AtOnce, Closed
from sqew.lab.record import manifest
from sqew.lab.record.manifest import Manifest
from sqew.lab.report import series
from sqew.lab.report.page import MOST_LINES, html
from sqew.lab.report.series import Axis, Curve, Line, Note, Noted, Noting, Plotted, Values
from sqew.lab.verdict import summary as summaries
from sqew.lab.verdict.latencies import Quantiles
from sqew.lab.verdict.summary import Figures, Generator, Summary, Throughput
from sqew.spark.jobs.analyse import Tables, analyse
from sqew.spark.transforms.depth import SEEN
from sqew.spark.transforms.events import process_of
from sqew.spark.transforms.percentiles import held_samples, quantiles, samples
from sqew.spark.transforms.rates import COUNTED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

FOLDER = "analysis"
"""In the run's folder: where the tables are."""
TABLES = ("latencies", "latencies_over_time", "throughput", "rates", "looks", "faults")
"""What the report needs, besides the messages."""
_MEASURES = ("to_stored", "to_claim", "held", "to_ack")
_NOTHING = Quantiles(0, 0)
_TOO_OFTEN = range(series.SELDOM + 1)
"""Stands for the times of a fault that are too many to tell."""


def report(spark: SparkSession, run: Path, step: Callable[[str], object] = lambda _doing: None) -> str:
    """The whole page of a run. ``step`` is told what is being done."""
    recorded, judged = manifest.read(run), summaries.read(run)
    axis = series.axis_of(round(judged.seconds * 1e6))
    found = analyse(spark, [str(run)], str(run / FOLDER), step_us=axis.step_us, wanted=TABLES, step=step)
    tables = Tables(spark, found.to)
    step("drawing")
    return html(recorded, summary_of(tables, recorded, judged), plotted(tables, axis))


def summary_of(tables: Tables, recorded: Manifest, judged: Summary) -> Summary:
    """The summary with the figures of the tables."""
    latencies: dict[tuple[str, str, str], dict[str, Quantiles]] = {}
    for row in tables.read("latencies").collect():
        latencies.setdefault(_cut(row), {})[row["measure"]] = _quantiles(row)
    figures = [
        _figures(row, latencies.get(_cut(row), {}), recorded.durability)
        for row in sorted(tables.read("throughput").collect(), key=_cut)
    ]
    return replace(
        judged,
        topics=[one for one in figures if one.topic and not one.lane],
        lanes=[one for one in figures if one.lane],
        workers=[one for one in figures if one.worker],
        generators=_generators(tables, recorded),
    )


def _cut(row: Row) -> tuple[str, str, str]:
    return row["queue"], row["lane"], row["worker"]


def _quantiles(row: Row) -> Quantiles:
    return Quantiles(*(row[name] for name in Quantiles.__struct_fields__))


def _figures(row: Row, latencies: Mapping[str, Quantiles], durability: str) -> Figures:
    return Figures(
        *_cut(row),
        row["messages"],
        row["deliveries"],
        Throughput(row["sent_per_s"], row["acked_per_s"], durability),
        *(latencies.get(measure, _NOTHING) for measure in _MEASURES),
    )


def _generators(tables: Tables, recorded: Manifest) -> list[Generator]:
    """How late the sends began that had times of their own."""
    free = [
        f"generator-{number}"
        for number, workload in enumerate(recorded.config.workload)
        if isinstance(workload.arrivals, AtOnce | Closed)
    ]
    messages = tables.read("messages").where(F.col("outcome").isNotNull())
    timed = messages.where(F.col("due").isNotNull() & ~process_of("sender").isin(free))
    lag = F.greatest(F.col("began_at") - F.col("due"), F.lit(0)).cast("double")
    lags = {row["queue"]: _quantiles(row) for row in _collected(timed.withColumn("lag", lag), "lag")}
    dropped = {
        row["queue"]: row["count"]
        for row in tables.read("events").where(F.col("kind") == "dropped").groupBy("queue").count().collect()
    }
    sent = {row["queue"] for row in messages.select("queue").distinct().collect()}
    return [Generator(name, lags.get(name, _NOTHING), dropped.get(name, 0)) for name in sorted({*sent, *dropped})]


def _collected(rows: DataFrame, measure: str) -> list[Row]:
    return quantiles(rows, ["queue"], [measure]).collect()


# Plots


def plotted(tables: Tables, axis: Axis) -> Plotted:
    """What the plots show."""
    return Plotted(axis, _latency(tables, axis), _rates(tables, axis), _curves(tables), _noted(tables, axis))


def _latency(tables: Tables, axis: Axis) -> list[Line]:
    lines = [Line(name, np.full(axis.steps, np.nan)) for name in ("p50", "p99")]
    for row in tables.read("latencies_over_time").where("queue = ''").collect():
        for line in lines:
            value = row[line.name]
            line.values[_step(axis, row)] = np.inf if value is None else value
    return lines


def _step(axis: Axis, row: Row) -> int:
    return int(axis.of(np.array([row["at"]]))[0])


def _rates(tables: Tables, axis: Axis) -> list[Line]:
    counts = {kind: np.zeros(axis.steps) for kind in COUNTED}
    for row in tables.read("rates").groupBy("at").agg(*(F.sum(kind).alias(kind) for kind in COUNTED)).collect():
        for kind, of_kind in counts.items():
            of_kind[_step(axis, row)] += row[kind]
    always = ("sent", "received", "acked")
    shown = {kind: of_kind for kind, of_kind in counts.items() if kind in always or of_kind.any()}
    return [Line(kind, of_kind / (axis.step_us / 1e6)) for kind, of_kind in shown.items()]


def _noted(tables: Tables, axis: Axis) -> Noted:
    noting = Noting(axis)
    for row in tables.read("looks").orderBy("at").collect():
        figures = {name: row[name] for name in SEEN if row[name] is not None}
        noting.take(Note(row["at"], row["kind"], row["queue"], row["lane"], figures=figures))
    faults = tables.read("faults").orderBy("at").collect()
    totals = Counter({(row["what"], row["where"]): 0 for row in faults})
    for row in faults:
        totals[row["what"], row["where"]] += row["count"]
    seldom = [fault for fault, total in totals.items() if total <= series.SELDOM]
    for row in faults:
        if (row["what"], row["where"]) not in seldom:
            noting.take_faults(row["what"], row["where"], row["at"], row["count"], _TOO_OFTEN)
    for row in _times(tables, [what for what, _ in seldom]):
        if (row["what"], row["where"]) in seldom:
            noting.take_faults(row["what"], row["where"], row["at"], 1, [row["at"]])
    return noting.noted()


def _times(tables: Tables, whats: Sequence[str]) -> list[Row]:
    """When these faults happened, and others of their name."""
    happened = tables.read("events").where((F.col("kind") == "fault") & F.col("what").isin(*whats))
    return happened.select("at", "what", F.coalesce("where", F.lit("")).alias("where")).orderBy("at").collect()


class _Part(Struct, frozen=True):
    """Some of the messages, whose distribution is drawn."""

    queue: str
    lane: str

    @property
    def name(self) -> str:
        return f"{self.queue}/{self.lane}" if self.lane else self.queue

    def has(self) -> Column:
        mine = F.col("queue") == self.queue
        return mine & (F.col("lane") == self.lane) if self.lane else mine


def _curves(tables: Tables) -> dict[str, list[Curve]]:
    parts = _parts(tables.read("throughput").collect())
    messages, came = samples(tables.read("messages")), held_samples(tables.read("deliveries"))
    return {
        series.TO_CLAIM: _of_parts(messages, "to_claim", parts),
        series.HELD: _of_parts(came, "held", parts),
        series.TO_ACK: _of_parts(messages, "to_ack", parts),
    }


def _parts(throughput: Sequence[Row]) -> list[_Part]:
    """The queues, or their lanes where there are several; the largest, if there are too many."""
    rows = sorted((row for row in throughput if row["queue"]), key=_cut)
    chosen: list[Row] = []
    for queue in (row for row in rows if not row["lane"]):
        lanes = [row for row in rows if row["lane"] and row["queue"] == queue["queue"]]
        chosen += lanes if len(lanes) > 1 else [queue]
    largest = sorted(chosen, key=lambda row: -row["deliveries"])[:MOST_LINES]
    return [_Part(row["queue"], row["lane"]) for row in chosen if any(row is one for one in largest)]


def _of_parts(rows: DataFrame, measure: str, parts: Sequence[_Part]) -> list[Curve]:
    """The CDFs of a measure: the samples at the ranks that are drawn, of all parts in one pass."""
    if not parts:
        return []
    counts = rows.agg(*(F.count(F.when(part.has(), 1)) for part in parts)).collect()[0]
    ranks = [series.cdf_ranks(count) for count in counts]
    columns = [F.when(part.has(), F.col(measure)).alias(f"part_{place}") for place, part in enumerate(parts)]
    found = rows.select(*columns).agg(
        *(_at_ranks(f"part_{place}", *one) for place, one in enumerate(zip(ranks, counts, strict=True))),
        *(_last(f"part_{place}") for place in range(len(parts))),
    ).collect()[0]  # fmt: skip
    points, last = found[: len(parts)], found[len(parts) :]
    return [_curve(part.name, *of_part) for part, *of_part in zip(parts, ranks, counts, points, last, strict=True)]


def _at_ranks(column: str, ranks: Any, count: int) -> Column:
    # In the middle between two ranks, so that no rounding leads to another one.
    shares = ", ".join(f"{(rank + 0.5) / max(count, 1)!r}D" for rank in ranks.tolist())
    return F.expr(f"percentile_disc(array({shares})) within group (order by {column})")


def _last(column: str) -> Column:
    """The slowest that got there, and how many did."""
    happened = F.when(F.col(column) < float("inf"), F.col(column))
    return F.struct(F.max(happened).alias("us"), F.count(happened).alias("count"))


def _curve(name: str, ranks: Any, count: int, points: Sequence[float] | None, last: Row) -> Curve:
    if points is None or not last["count"]:
        return Curve(name, np.zeros(0), np.zeros(0))
    kept = ranks < last["count"] - 1
    us: Values = np.append(np.array(points)[kept], last["us"])
    return Curve(name, us / 1000, (np.append(ranks[kept], last["count"] - 1) + 1) / count)
