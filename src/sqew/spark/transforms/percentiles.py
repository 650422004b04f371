"""Exact quantiles of durations: what never happened took for ever, and stays in the count.

A quantile is a sample that at least that part of all does not exceed: numpy's ``inverted_cdf``, and PlainBench's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PARTS = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
CUT = ("queue", "lane", "worker")
"""Of what the figures are: of a queue, of one of its lanes, or of a worker. The others are empty then."""
BY_LANE: tuple[dict[str, str], ...] = ({"queue": "queue"}, {"queue": "queue", "lane": "lane"})
_OF_MESSAGES = ("to_stored", "to_claim", "to_ack")
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


def cut(rows: DataFrame, *cuts: Mapping[str, str]) -> DataFrame:
    """The rows once for each cut that they belong to. A cut says which column is the queue, the lane, the worker.

    A row belongs to a cut if none of its columns is empty.
    """
    of_cuts = [
        F.when(
            reduce(lambda one, other: one & other, (F.coalesce(name, F.lit("")) != "" for name in one_cut.values())),
            F.struct(*((F.col(one_cut[name]) if name in one_cut else F.lit("")).alias(name) for name in CUT)),
        )
        for one_cut in cuts
    ]
    others = [name for name in rows.columns if name not in CUT]
    return rows.select(*others, F.explode(F.array_compact(F.array(*of_cuts))).alias("cut")).select(*others, "cut.*")


def latencies(messages: DataFrame, deliveries: DataFrame, drops: DataFrame) -> DataFrame:
    """All quantiles, of each queue, lane and worker.

    ``to_stored``, ``to_claim`` and ``to_ack`` are of messages, from when they were due; ``held`` is of deliveries, from
    claim to ack. What a generator dropped was due, and never stored.
    """
    sampled, held = samples(messages), held_samples(deliveries).select("queue", "lane", "process", "held")
    never = drops.select("queue", "lane", F.lit(_FOR_EVER).alias("to_stored"))
    due = sampled.select("queue", "lane", *_OF_MESSAGES).unionByName(never, allowMissingColumns=True)
    tables = [
        quantiles(cut(due, *BY_LANE), CUT, _OF_MESSAGES),
        quantiles(cut(held, *BY_LANE, {"worker": "process"}), CUT, ["held"]),
        quantiles(cut(sampled, {"worker": "claimed_process"}), CUT, ["to_stored", "to_claim"]),
        quantiles(cut(sampled, {"worker": "acked_process"}), CUT, ["to_ack"]),
    ]
    return reduce(lambda one, other: one.unionByName(other), tables)


def over_time(messages: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """Quantiles from due to ack of the messages that were due in each step: of each queue, and of all (queue empty)."""
    step = F.floor((F.col("due") - began_at) / step_us) * step_us
    queues = F.explode(F.array(F.lit(""), "queue")).alias("queue")
    return quantiles(samples(messages).select(step.alias("at"), queues, "to_ack"), ["at", "queue"], ["to_ack"])


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
