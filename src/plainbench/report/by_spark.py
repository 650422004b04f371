"""The figures and plots of a run from the tables of `sqew spark analyse`, for logs that are too long for one machine.

They are the same that the lab works out itself. The verdict was given when the run ended, and is taken from its
summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from plainbench.config.model import AtOnce, Closed
from plainbench.record import manifest
from plainbench.record.manifest import Manifest
from plainbench.report import series
from plainbench.report.page import MOST_LINES, html
from plainbench.report.series import Annotation, AnnotationReader, Annotations, Axis, Curve, Line, Plotted, Values
from plainbench.verdict import summary as summaries
from plainbench.verdict.latencies import Quantiles
from plainbench.verdict.summary import Figures, Generator, Summary, Throughput
from sqew.spark.jobs.analyse import analyse
from sqew.spark.tables import Tables
from sqew.spark.transforms.depth import SEEN
from sqew.spark.transforms.events import process_of
from sqew.spark.transforms.percentiles import held_samples, quantiles, samples
from sqew.spark.transforms.rates import COUNTED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Row = Mapping[str, Any]
FOLDER = "analysis"
"""Folder of the tables, in the run's folder."""
TABLES = ("latencies", "latencies_over_time", "throughput", "rates", "looks", "faults")
"""Tables that the report needs, besides the messages."""
_MEASURES = ("to_stored", "to_claim", "held", "to_ack")
_DRAWN = {"to_claim": series.TO_CLAIM, "held": series.HELD, "to_ack": series.TO_ACK}
_NOTHING = Quantiles(0, 0)
_TOO_OFTEN = range(series.SELDOM + 1)
"""Placeholder for the times of a fault that happened too often to list them."""


def report(spark: SparkSession, run: Path, step: Callable[[str], object] = lambda _doing: None) -> str:
    """Return the whole page of a run. ``step`` is called with a description of each step."""
    recorded, judged = manifest.read(run), summaries.read(run)
    axis = series.axis_of(round(judged.seconds * 1e6))
    found = analyse(spark, [str(run)], str(run / FOLDER), step_us=axis.step_us, wanted=TABLES, step=step)
    tables = Tables(spark, found.to)
    step("drawing")
    return html(recorded, summary_of(tables, recorded, judged), plotted(tables, axis))


def summary_of(tables: Tables, recorded: Manifest, judged: Summary) -> Summary:
    """Return the summary with the figures of the tables."""
    latencies: dict[tuple[str, str, str], dict[str, Quantiles]] = {}
    for row in tables.fetch("latencies").to_pylist():
        latencies.setdefault(_cut(row), {})[row["measure"]] = _quantiles(row)
    figures = [
        _figures(row, latencies.get(_cut(row), {}), recorded.durability)
        for row in sorted(tables.fetch("throughput").to_pylist(), key=_cut)
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
    """Return, for each queue, the lag of sends that had due times of their own, and the number of dropped messages."""
    free = [
        f"generator-{number}"
        for number, workload in enumerate(recorded.config.workload)
        if isinstance(workload.arrivals, AtOnce | Closed)
    ]
    is_timed = F.col("due").isNotNull() & ~process_of("sender").isin(free)
    lag = F.greatest(F.col("began_at") - F.col("due"), F.lit(0)).cast("double")
    sent = tables.read("messages").where(F.col("outcome").isNotNull()).select(
        "queue", F.when(is_timed, lag).alias("lag"), F.lit(0.0).alias("sent")
    )  # fmt: skip
    dropped = tables.read("events").where(F.col("kind") == "dropped").select("queue", F.lit(0.0).alias("dropped"))
    found: dict[str, dict[str, Quantiles]] = {}
    for row in quantiles(
        sent.unionByName(dropped, allowMissingColumns=True), ["queue"], ["lag", "sent", "dropped"]
    ).collect():
        found.setdefault(row["queue"], {})[row["measure"]] = _quantiles(row.asDict())
    return [
        Generator(queue, of_queue.get("lag", _NOTHING), of_queue.get("dropped", _NOTHING).count)
        for queue, of_queue in sorted(found.items())
    ]


# Plots


def plotted(tables: Tables, axis: Axis) -> Plotted:
    """Return the data of the plots."""
    return Plotted(axis, _latency(tables, axis), _rates(tables, axis), _curves(tables), _annotations(tables, axis))


def _latency(tables: Tables, axis: Axis) -> list[Line]:
    lines = [Line(name, np.full(axis.steps, np.nan)) for name in ("p50", "p99")]
    over = (row for row in tables.fetch("latencies_over_time").to_pylist() if not row["queue"])
    for row, line in product(over, lines):
        value = row[line.name]
        line.values[_step(axis, row)] = np.inf if value is None else value
    return lines


def _step(axis: Axis, row: Row) -> int:
    return int(axis.of(np.array([row["at"]]))[0])


def _rates(tables: Tables, axis: Axis) -> list[Line]:
    counts = {kind: np.zeros(axis.steps) for kind in COUNTED}
    for row in tables.fetch("rates").group_by("at").aggregate([(kind, "sum") for kind in COUNTED]).to_pylist():
        for kind, of_kind in counts.items():
            of_kind[_step(axis, row)] += row[f"{kind}_sum"]
    always = ("sent", "received", "acked")
    shown = {kind: of_kind for kind, of_kind in counts.items() if kind in always or of_kind.any()}
    return [Line(kind, of_kind / (axis.step_us / 1e6)) for kind, of_kind in shown.items()]


def _annotations(tables: Tables, axis: Axis) -> Annotations:
    reader = AnnotationReader(axis)
    for row in tables.fetch("looks").to_pylist():
        figures = {name: row[name] for name in SEEN if row[name] is not None}
        reader.take(Annotation(row["at"], row["kind"], row["queue"], row["lane"], figures=figures))
    faults = tables.fetch("faults").to_pylist()
    totals = Counter({(row["what"], row["where"]): 0 for row in faults})
    for row in faults:
        totals[row["what"], row["where"]] += row["count"]
    seldom = [fault for fault, total in totals.items() if total <= series.SELDOM]
    for row in faults:
        if (row["what"], row["where"]) not in seldom:
            reader.take_faults(row["what"], row["where"], row["at"], row["count"], _TOO_OFTEN)
    for row in _times(tables, [what for what, _ in seldom]) if seldom else []:
        if (row["what"], row["where"]) in seldom:
            reader.take_faults(row["what"], row["where"], row["at"], 1, [row["at"]])
    return reader.annotations()


def _times(tables: Tables, whats: Sequence[str]) -> list[Row]:
    """Return the times of these faults, and of others of their name."""
    happened = tables.read("events").where((F.col("kind") == "fault") & F.col("what").isin(*whats))
    times = happened.select("at", "what", F.coalesce("where", F.lit("")).alias("where"))
    return list(times.toArrow().sort_by("at").to_pylist())


class _Part(Struct, frozen=True):
    """A part of the messages, whose distribution is drawn."""

    queue: str
    lane: str

    @property
    def name(self) -> str:
        return f"{self.queue}/{self.lane}" if self.lane else self.queue

    def has(self) -> Column:
        mine = F.col("queue") == self.queue
        return mine & (F.col("lane") == self.lane) if self.lane else mine


def _curves(tables: Tables) -> dict[str, list[Curve]]:
    parts = _parts(tables.fetch("throughput").to_pylist())
    counts = {(*_cut(row), row["measure"]): row["count"] for row in tables.fetch("latencies").to_pylist()}
    messages, came = samples(tables.read("messages")), held_samples(tables.read("deliveries"))
    wanted = [
        _Distribution(part, measure, counts.get((part.queue, part.lane, "", measure), 0))
        for measure in _DRAWN
        for part in parts
    ]
    curves = {
        **_of_rows(messages, [one for one in wanted if one.measure != "held"]),
        **_of_rows(came, [one for one in wanted if one.measure == "held"]),
    }
    return {title: [curves[one] for one in wanted if one.measure == measure] for measure, title in _DRAWN.items()}


def _parts(throughput: Sequence[Row]) -> list[_Part]:
    """Return the queues, or their lanes where there are several; the largest, if there are too many."""
    rows = sorted((row for row in throughput if row["queue"]), key=_cut)
    chosen: list[Row] = []
    for queue in (row for row in rows if not row["lane"]):
        lanes = [row for row in rows if row["lane"] and row["queue"] == queue["queue"]]
        chosen += lanes if len(lanes) > 1 else [queue]
    largest = sorted(chosen, key=lambda row: -row["deliveries"])[:MOST_LINES]
    return [_Part(row["queue"], row["lane"]) for row in chosen if any(row is one for one in largest)]


class _Distribution(Struct, frozen=True):
    """A distribution to be drawn: the samples of a measure in a part of the messages."""

    part: _Part
    measure: str
    count: int

    def samples(self) -> Column:
        return F.when(self.part.has(), F.col(self.measure))


def _of_rows(rows: DataFrame, wanted: Sequence[_Distribution]) -> dict[_Distribution, Curve]:
    """Compute the CDFs: the samples at the ranks that are drawn, all in one pass."""
    if not wanted:
        return {}
    ranks = [series.cdf_ranks(one.count) for one in wanted]
    found = rows.select(*(one.samples().alias(f"of_{place}") for place, one in enumerate(wanted))).agg(
        *(_at_ranks(f"of_{place}", ranks[place], one.count) for place, one in enumerate(wanted)),
        *(_last(f"of_{place}") for place in range(len(wanted))),
    ).collect()[0]  # fmt: skip
    points, last = found[: len(wanted)], found[len(wanted) :]
    return {
        one: _curve(one.part.name, of_one, one.count, *reached)
        for one, of_one, *reached in zip(wanted, ranks, points, last, strict=True)
    }


def _at_ranks(column: str, ranks: Any, count: int) -> Column:
    # In the middle between two ranks, so that no rounding leads to another one.
    shares = ", ".join(f"{(rank + 0.5) / max(count, 1)!r}D" for rank in ranks.tolist())
    return F.expr(f"percentile_disc(array({shares})) within group (order by {column})")


def _last(column: str) -> Column:
    """Return the slowest sample that happened, and the number of those that did."""
    happened = F.when(F.col(column) < float("inf"), F.col(column))
    return F.struct(F.max(happened).alias("us"), F.count(happened).alias("count"))


def _curve(name: str, ranks: Any, count: int, points: Sequence[float] | None, last: Row) -> Curve:
    if points is None or not last["count"]:
        return Curve(name, np.zeros(0), np.zeros(0))
    kept = ranks < last["count"] - 1
    us: Values = np.append(np.array(points)[kept], last["us"])
    return Curve(name, us / 1000, (np.append(ranks[kept], last["count"] - 1) + 1) / count)
