"""How many messages were in the queues, over time: worked out from the messages, and as somebody saw it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STATES = ("ready", "leased", "delayed", "blocked", "dead")
SEEN = (*STATES, "wal_bytes", "lag_us")


def depths(messages: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """How many messages of a queue and lane were there at the end of each step in which that changed.

    ``waiting``: stored, and never received so far; ``unfinished``: stored, and neither acked, dead nor removed. What
    was there before the log began is not in it.
    """
    stored = messages.where(F.col("sent_at").isNotNull())
    # A message may be received before the answer to its send is noted.
    received = F.greatest("received_at", F.when(F.col("received_at").isNotNull(), F.col("sent_at")))
    ended = F.least("done_at", "died_at", "removed_at")
    ended = F.greatest(ended, F.when(ended.isNotNull(), F.col("sent_at")))
    changes = F.explode(
        F.array(
            _change(F.col("sent_at"), 1, 1), _change(received, -1, 0), _change(ended, 0, -1),
        )
    )  # fmt: skip
    steps = (
        stored.select("queue", "lane", changes.alias("change"))
        .where(F.col("change.at").isNotNull())
        .groupBy("queue", "lane", F.floor((F.col("change.at") - began_at) / step_us).alias("step"))
        .agg(F.sum("change.waiting").alias("waiting"), F.sum("change.unfinished").alias("unfinished"))
    )
    so_far = Window.partitionBy("queue", "lane").orderBy("step")
    return steps.select(
        (F.col("step") * step_us).alias("at"),
        "queue",
        "lane",
        F.sum("waiting").over(so_far).alias("waiting"),
        F.sum("unfinished").over(so_far).alias("unfinished"),
    )


def _change(at: Column, waiting: int, unfinished: int) -> Column:
    return F.struct(
        at.alias("at"), F.lit(waiting).cast("long").alias("waiting"), F.lit(unfinished).cast("long").alias("unfinished")
    )


def looks(events: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """The most that was seen in each step, where somebody looked: by state, the size of the log file, and lags."""
    seen = events.where(F.col("kind").isin("depth", "generator"))
    step = F.floor((F.col("at") - began_at) / step_us).alias("step")
    most = seen.groupBy(step, "kind", "queue", "lane").agg(*(F.max(f"figures.{name}").alias(name) for name in SEEN))
    return most.select((F.col("step") * step_us).alias("at"), "kind", "queue", "lane", *SEEN)


def faults(events: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """How often each fault happened in each step."""
    step = F.floor((F.col("at") - began_at) / step_us).alias("step")
    where = F.coalesce("where", F.lit("")).alias("where")
    happened = events.where(F.col("kind") == "fault").groupBy(step, "what", where).agg(F.count(F.lit(1)).alias("count"))
    return happened.select((F.col("step") * step_us).alias("at"), "what", "where", "count")
