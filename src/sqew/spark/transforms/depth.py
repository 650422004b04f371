"""Events that are not of messages: faults, deaths, and how full the queues were at each observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATES = ("ready", "leased", "delayed", "blocked", "dead")
SEEN = (*STATES, "wal_bytes", "lag_us")
_CRASHES = ("before_commit", "after_commit", "before_reply")


def happenings(events: DataFrame, step_us: int, began_at: int = 0) -> DataFrame:
    """Return what happened in each step besides messages: counts of each fault, and the maxima observed of each queue.

    A death has a row of its own: ``who`` died and when; ``settling``: its last request may have been done.
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
