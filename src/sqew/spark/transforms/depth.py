"""How many messages were in the queues, over time, and what else happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STATES = ("ready", "leased", "delayed", "blocked", "dead")
SEEN = (*STATES, "wal_bytes", "lag_us")
_CRASHES = ("before_commit", "after_commit", "before_reply")


def changes(messages: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """By how much the messages of a queue and lane that were there became more or fewer in each step.

    ``waiting``: stored, and never received so far; ``unfinished``: stored, and neither acked, dead nor removed. What
    was there before the log began is not in it.
    """
    stored = messages.where(F.col("sent_at").isNotNull())
    # A message may be received before the answer to its send is noted.
    received = F.greatest("received_at", F.when(F.col("received_at").isNotNull(), F.col("sent_at")))
    ended = F.least("done_at", "died_at", "removed_at")
    ended = F.greatest(ended, F.when(ended.isNotNull(), F.col("sent_at")))
    all_changes = F.explode(
        F.array(
            _change(F.col("sent_at"), 1, 1), _change(received, -1, 0), _change(ended, 0, -1),
        )
    )  # fmt: skip
    return (
        stored.select("queue", "lane", all_changes.alias("change"))
        .where(F.col("change.at").isNotNull())
        .groupBy("queue", "lane", F.floor((F.col("change.at") - began_at) / step_us).alias("step"))
        .agg(F.sum("change.waiting").alias("waiting"), F.sum("change.unfinished").alias("unfinished"))
    )


def _change(at: Column, waiting: int, unfinished: int) -> Column:
    return F.struct(
        at.alias("at"), F.lit(waiting).cast("long").alias("waiting"), F.lit(unfinished).cast("long").alias("unfinished")
    )


def happenings(events: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """What happened in each step besides messages: how often each fault, and the most that was seen of each queue.

    A death has a row of its own: ``who`` died and when; ``settling``: what it had asked for may be done.
    """
    kind, is_fault = F.col("kind"), F.col("kind") == "fault"
    crashed = is_fault & F.col("what").isin(*_CRASHES)
    died = (kind == "worker") & (F.col("what") == "died")
    settling = F.col("stream").startswith("queue/") & F.col("where").isin("ack", "retry")
    settling = F.coalesce(settling, F.lit(False)) & (F.col("what") != "before_commit")
    return events.where(kind.isin("fault", "depth", "generator") | died).groupBy(
        F.floor((F.col("at") - began_at) / step_us).alias("step"),
        "kind",
        F.when(~is_fault, F.col("queue")).alias("queue"),
        F.when(~is_fault, F.col("lane")).alias("lane"),
        *(F.when(is_fault, F.coalesce(name, F.lit(""))).alias(name) for name in ("what", "where")),
        F.when(crashed | died, F.col("worker")).alias("who"),
        F.when(crashed | died, F.col("at")).alias("died_at"),
        F.when(crashed | died, died | settling).alias("settling"),
    ).agg(F.count(F.lit(1)).alias("count"), *(F.max(f"figures.{name}").alias(name) for name in SEEN))  # fmt: skip
