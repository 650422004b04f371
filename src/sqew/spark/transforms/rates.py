"""How much was done: over time, and by each queue, lane and worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from sqew.spark.transforms.depth import changes
from sqew.spark.transforms.percentiles import samples

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTED = ("sent", "received", "acked", "retried", "died")


def rates(events: DataFrame, names: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """How many messages were sent, received, acked, retried and given up in each step of time, and how many a second.

    A row for each step, queue, lane and worker; ``at`` is where the step begins, from the beginning of the log.
    """
    counted = events.where(F.col("kind").isin(*COUNTED))
    step = F.floor((F.col("at") - began_at) / step_us).alias("step")
    count = F.col("last") - F.col("n") + 1
    counts = counted.groupBy(step, "whose").agg(
        *(F.sum(F.when(F.col("kind") == kind, count).otherwise(0)).alias(kind) for kind in COUNTED)
    )
    return counts.join(F.broadcast(names), "whose").select(
        (F.col("step") * step_us).alias("at"),
        "queue",
        "lane",
        "worker",
        *COUNTED,
        *((F.col(kind) / (step_us / 1e6)).alias(f"{kind}_per_s") for kind in COUNTED),
    )


def tallies(messages: DataFrame, deliveries: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """All that throughput and depths are worked out from, in one table of few rows: sends, receives and changes."""
    rows = sends(messages).unionByName(receives(deliveries), allowMissingColumns=True)
    return rows.unionByName(changes(messages, step_us, began_at), allowMissingColumns=True)


def sends(messages: DataFrame) -> DataFrame:
    """Counts, firsts and lasts of the messages that were received and acked by the same: few rows of many messages."""
    is_sent = F.col("outcome") == "sent"
    return samples(messages).groupBy("queue", "lane", "claimed_process", "acked_process").agg(
        F.count(F.lit(1)).alias("claimed"),
        F.count(F.when(is_sent, 1)).alias("sent"),
        F.min(F.when(is_sent, F.col("began_at"))).alias("first_began"),
        F.max(F.when(is_sent, F.col("sent_at"))).alias("last_sent"),
        F.min("due").alias("first_due"),
        F.count("done_at").alias("done"),
        F.max("done_at").alias("last_done"),
    )  # fmt: skip


def receives(deliveries: DataFrame) -> DataFrame:
    """How many deliveries there were of each queue, lane and worker, and how many of them ended in what."""
    return deliveries.groupBy("queue", "lane", "process").agg(
        F.count(F.lit(1)).alias("deliveries"),
        F.count(F.when(F.col("end") == "retried", 1)).alias("retries"),
        F.count(F.when(F.col("end") == "died", 1)).alias("deaths"),
    )


def slowest(messages: DataFrame, most: int) -> DataFrame:
    """The messages that took the longest from when they were due to their ack; first those that were never acked."""
    sampled = messages.where(F.col("due").isNotNull() & ~F.col("is_found"))
    return sampled.orderBy(F.col("to_ack").desc_nulls_first(), "queue", "n").limit(most)
