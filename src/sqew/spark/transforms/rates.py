"""How much was done: over time, and by each queue, lane and worker."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from sqew.spark.transforms.percentiles import BY_LANE, CUT, cut, samples

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OF_ACKS = ("first_due", "done", "last_done")
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


def throughput(messages: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Of each queue, lane and worker: messages, deliveries, retries and deaths, and messages a second while it lasted.

    Of a worker, messages are those that it was the first to receive. Rates are from when the first message was due, or
    was sent, to the last that was stored or acked.
    """
    sent, done = _sends(messages), F.col("last_done").isNotNull()
    came = deliveries.groupBy("queue", "lane", "process").agg(
        F.count(F.lit(1)).alias("deliveries"),
        F.count(F.when(F.col("end") == "retried", 1)).alias("retries"),
        F.count(F.when(F.col("end") == "died", 1)).alias("deaths"),
    )
    parts = [
        cut(sent, *BY_LANE),
        cut(sent.drop(*_OF_ACKS), {"worker": "claimed_process"}),
        cut(sent.select("acked_process", *_OF_ACKS).where(done), {"worker": "acked_process"}),
        cut(came, *BY_LANE, {"worker": "process"}),
    ]
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    counts = ("claimed", "sent", "done", "deliveries", "retries", "deaths")
    return _rated(
        rows.groupBy(*CUT).agg(
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in counts),
            F.least(F.min("first_began"), F.min("first_due")).alias("start"),
            F.max("last_sent").alias("last_sent"),
            F.max("last_done").alias("last_done"),
        )
    )


def _sends(messages: DataFrame) -> DataFrame:
    """Counts, firsts and lasts of the messages that belong to the same cuts: few rows, however many messages."""
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


def _rated(counts: DataFrame) -> DataFrame:
    messages = F.when(F.col("worker") != "", F.col("claimed")).otherwise(F.col("sent"))
    return counts.select(
        *CUT,
        messages.alias("messages"),
        *("deliveries", "done", "retries", "deaths"),
        _per_second("sent", "last_sent").alias("sent_per_s"),
        _per_second("done", "last_done").alias("acked_per_s"),
    )


def _per_second(count: str, last: str) -> Column:
    seconds = (F.col(last) - F.col("start")) / 1e6
    return F.coalesce(F.when(seconds > 0, F.col(count) / seconds), F.lit(0.0))


def slowest(messages: DataFrame, most: int) -> DataFrame:
    """The messages that took the longest from when they were due to their ack; first those that were never acked."""
    sampled = messages.where(F.col("due").isNotNull() & ~F.col("is_found"))
    return sampled.orderBy(F.col("to_ack").desc_nulls_first(), "queue", "n").limit(most)
