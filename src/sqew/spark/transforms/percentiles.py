"""Exact quantiles of durations: what never happened is infinite, and stays in the count.

A quantile is the least sample that at least that part of all does not exceed: numpy's ``inverted_cdf``, and
PlainBench's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARTS = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
CUT = ("queue", "lane", "worker")
"""The columns that figures are grouped by: a queue, one of its lanes, or a worker. The others are empty then."""
OF_MESSAGES = ("to_stored", "to_claim", "to_ack")
"""The measures of messages, from when they were due."""
_FOR_EVER = float("inf")


def quantiles(samples: DataFrame, keys: Sequence[str], measures: Sequence[str]) -> DataFrame:
    """Return a row for each group and measure: how many samples, how many never happened, and quantiles in
    milliseconds.

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


def samples(messages: DataFrame) -> DataFrame:
    """Return the messages that were to be sent while the log was written, whatever their fate."""
    durations = {name: _or_for_ever(F.col(name)) for name in OF_MESSAGES}
    return messages.where(F.col("due").isNotNull() & ~F.col("is_found")).withColumns(durations)


def held_samples(deliveries: DataFrame) -> DataFrame:
    """Return the deliveries that were to be acked: not those that were given back on purpose."""
    meant = F.col("end").isNull() | F.col("end").isin("acked", "refused", "unanswered")
    return deliveries.where(meant).withColumn("held", _or_for_ever(F.col("held")))


def _or_for_ever(us: Column) -> Column:
    return F.coalesce(us.cast("double"), F.lit(_FOR_EVER))
