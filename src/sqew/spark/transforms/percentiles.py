"""Exact quantiles of durations: what never happened took for ever, and stays in the count.

A quantile is a sample that at least that part of all does not exceed: numpy's ``inverted_cdf``, and PlainBench's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from msgspec import Struct
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARTS = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
CUT = ("queue", "lane", "worker")
"""Of what the figures are: of a queue, of one of its lanes, or of a worker. The others are empty then."""
_OF_MESSAGES = ("to_stored", "to_claim", "to_ack")
MEASURES = (*_OF_MESSAGES, "held")
_FOR_EVER = float("inf")


def quantiles(samples: DataFrame, keys: Sequence[str], measures: Sequence[str]) -> DataFrame:
    """A row for each group and measure: how many samples, how many never happened, and quantiles in milliseconds.

    Measures are columns of microseconds, null for what is no sample, and infinite for what never happened.
    """
    parts = ", ".join(f"{part}D" for part in PARTS.values())
    figures = [
        F.struct(
            F.lit(measure).alias("measure"),
            F.count(measure).alias("count"),
            F.count(F.when(F.col(measure) == _FOR_EVER, 1)).alias("missing"),
            F.expr(f"percentile_disc(array({parts})) within group (order by {measure})").alias("found"),
            F.max(measure).alias("most"),
        ).alias(measure)
        for measure in measures
    ]
    # One row and not a union of them: that would go through the samples once for each measure.
    grouped = samples.groupBy(*keys).agg(*figures).select(*keys, F.explode(F.array(*measures)).alias("of"))
    return grouped.where("of.count > 0").select(
        *keys,
        "of.measure",
        "of.count",
        "of.missing",
        *(_ms(F.get("of.found", F.lit(place))).alias(name) for place, name in enumerate(PARTS)),
        _ms(F.col("of.most")).alias("max"),
    )


def _ms(us: Column) -> Column:
    return F.when(us < _FOR_EVER, us / 1000)


class Part(Struct, frozen=True):
    """Some of the samples: which columns are the queue, the lane and the worker that they are of; the others are empty.

    A sample that lacks one of them is not of it.
    """

    of: dict[str, str]
    measures: tuple[str, ...]
    over_time: bool = False


_BY_LANE: tuple[dict[str, str], ...] = ({"queue": "queue"}, {"queue": "queue", "lane": "lane"})
_PARTS_OF_MESSAGES = (
    *(Part(of, _OF_MESSAGES) for of in _BY_LANE),
    Part({"worker": "claimed_process"}, ("to_stored", "to_claim")),
    Part({"worker": "acked_process"}, ("to_ack",)),
    Part({"queue": "queue"}, ("to_ack",), over_time=True),
    Part({}, ("to_ack",), over_time=True),
)
_PARTS_OF_DELIVERIES = tuple(Part(of, ("held",)) for of in (*_BY_LANE, {"worker": "process"}))
_PARTS_OF_DROPS = tuple(Part(of, ("to_stored",)) for of in _BY_LANE)


def latencies(
    messages: DataFrame, deliveries: DataFrame, drops: DataFrame | None, step_us: int, began_at: int = 0
) -> DataFrame:
    """All quantiles: of each queue, lane and worker, and over time of each queue and of all, whose names are empty.

    ``to_stored``, ``to_claim`` and ``to_ack`` are of messages, from when they were due; ``held`` is of deliveries, from
    claim to ack. What a generator dropped was due, and never stored. ``at`` is null for the whole log, and else the
    beginning of the step that the messages were due in.
    """
    step = F.floor((F.col("due") - began_at) / step_us) * step_us
    parts = [
        _parted(samples(messages).withColumn("at", step), _PARTS_OF_MESSAGES),
        _parted(held_samples(deliveries), _PARTS_OF_DELIVERIES),
    ]
    if drops is not None:
        parts.append(_parted(drops.withColumn("to_stored", F.lit(_FOR_EVER)), _PARTS_OF_DROPS))
    # All in one: Spark takes longer to plan and compile a query than to work out a short log.
    return quantiles(reduce(lambda one, other: one.unionByName(other), parts), ["at", *CUT], MEASURES)


def _parted(samples: DataFrame, parts: Sequence[Part]) -> DataFrame:
    """The samples once for each part that they belong to."""
    rows = samples.select(F.inline(F.array(*(_of_part(part) for part in parts))))
    return rows.where(F.col("queue").isNotNull())


def _of_part(part: Part) -> Column:
    row = F.struct(
        (F.col("at") if part.over_time else F.lit(None).cast("long")).alias("at"),
        *((F.col(part.of[name]) if name in part.of else F.lit("")).alias(name) for name in CUT),
        *((F.col(name) if name in part.measures else F.lit(None).cast("double")).alias(name) for name in MEASURES),
    )
    if not part.of:
        return row
    has_all = reduce(lambda one, other: one & other, (F.coalesce(name, F.lit("")) != "" for name in part.of.values()))
    return F.when(has_all, row)


def samples(messages: DataFrame) -> DataFrame:
    """The messages that were to be sent while the log was written, whatever came of them."""
    durations = {name: _or_for_ever(F.col(name)) for name in _OF_MESSAGES}
    return messages.where(F.col("due").isNotNull() & ~F.col("is_found")).withColumns(durations)


def held_samples(deliveries: DataFrame) -> DataFrame:
    """The deliveries that were to be acked: not those that were given back on purpose."""
    meant = F.col("end").isNull() | F.col("end").isin("acked", "refused", "unanswered")
    return deliveries.where(meant).withColumn("held", _or_for_ever(F.col("held")))


def _or_for_ever(us: Column) -> Column:
    return F.coalesce(us.cast("double"), F.lit(_FOR_EVER))
