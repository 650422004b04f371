"""The messages of two runs side by side: the same load gives a message the same number in both."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from sqew.spark.transforms.percentiles import PARTS, samples

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MEASURES = ("to_claim", "to_ack")
BLOCKS = 50
"""The number of stretches of consecutive messages in a queue: what slows one message slows its neighbours."""
_FOR_EVER = float("inf")


def pairs(base: DataFrame, other: DataFrame) -> DataFrame:
    """Return a row for each message that both runs were to send, and each measure: its microseconds in either run.

    What never happened is infinite. ``block`` is the stretch of the load that the message belongs to.
    """
    mine, theirs = (samples(run).select("queue", "n", *MEASURES) for run in (base, other))
    joined = mine.alias("mine").join(theirs.alias("theirs"), ["queue", "n"])
    measured = [
        F.struct(
            F.lit(name).alias("measure"), F.col(f"mine.{name}").alias("base"), F.col(f"theirs.{name}").alias("other")
        )
        for name in MEASURES
    ]
    rows = joined.select("queue", "n", F.explode(F.array(*measured)).alias("one")).select("queue", "n", "one.*")
    ends = mine.groupBy("queue").agg(F.min("n").alias("first"), F.max("n").alias("last"))
    block = F.floor((F.col("n") - F.col("first")) * BLOCKS / (F.col("last") - F.col("first") + 1))
    return rows.join(F.broadcast(ends), "queue").select("queue", "n", "measure", "base", "other", block.alias("block"))


def by_block(pairs: DataFrame) -> DataFrame:
    """Count the messages of each stretch that were faster in the other run than in the base, and the slower ones."""
    faster, slower = F.col("other") < F.col("base"), F.col("other") > F.col("base")
    return pairs.groupBy("queue", "measure", "block").agg(
        F.count(F.when(faster, 1)).alias("faster"),
        F.count(F.when(slower, 1)).alias("slower"),
        F.count(F.lit(1)).alias("messages"),
    )


def differences(pairs: DataFrame) -> DataFrame:
    """Return for each queue and measure the quantiles in either run, and of how much longer the other took; in ms.

    Null is infinite. A message that either run did not finish is not among the differences.
    """
    both = (F.col("base") < _FOR_EVER) & (F.col("other") < _FOR_EVER)
    rows = pairs.withColumn("longer", F.when(both, F.col("other") - F.col("base")))
    figures = [_quantiles(name) for name in ("base", "other", "longer")]
    found = rows.groupBy("queue", "measure").agg(F.count(F.lit(1)).alias("messages"), *figures)
    columns = [
        _ms(F.get(name, place)).alias(f"{name}_{part}")
        for name in ("base", "other", "longer")
        for place, part in enumerate(PARTS)
    ]
    return found.select("queue", "measure", "messages", *columns)


def _quantiles(column: str) -> Column:
    parts = ", ".join(f"{part}D" for part in PARTS.values())
    return F.expr(f"percentile_disc(array({parts})) within group (order by {column})").alias(column)


def _ms(us: Column) -> Column:
    return F.when(us < _FOR_EVER, us / 1000)


def unpaired(base: DataFrame, other: DataFrame) -> DataFrame:
    """Return the number of messages of each queue that only one of the runs was to send."""
    sides = [
        one.join(two, ["queue", "n"], "left_anti").groupBy("queue").agg(F.count(F.lit(1)).alias("messages"))
        for one, two in ((samples(base), samples(other)), (samples(other), samples(base)))
    ]
    return (
        reduce(lambda one, two: one.unionByName(two), sides).groupBy("queue").agg(F.sum("messages").alias("messages"))
    )
