"""What became of every message, and of every delivery.

Events are paired by what comes first and last of a message (min and max of a group), which needs neither a join nor an
order. Only which end belongs to which delivery is a matter of order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.window import Window

from sqew.spark.transforms.events import ENDS, REMOVALS, SENDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OF_MESSAGES = (*SENDS, "received", *ENDS, *REMOVALS, "found", "left")
_GONE = "gone"


def deliveries(events: DataFrame) -> DataFrame:
    """A row for each delivery: by whom, when, how it ended and when. Without an end, ``end`` is null."""
    handled = events.where(F.col("kind").isin("received", *ENDS)).select(
        "n", "queue_code", "whose", "at", "attempt", "kind", "took"
    )
    # What a worker does with a message is in the order of time; in virtual time much happens at the same time, and then
    # a delivery comes before its end. The number comes first, as that is what Spark sorts by the fastest.
    is_end = F.when(F.col("kind") == "received", 0).otherwise(1)
    following = Window.partitionBy("n", "whose").orderBy("at", "attempt", is_end)
    paired = handled.select(
        "*", F.lead("kind").over(following).alias("next_kind"), F.lead("at").over(following).alias("next_at")
    )
    ended = F.col("next_kind") != "received"
    return paired.where(F.col("kind") == "received").select(
        "n",
        "queue_code",
        "whose",
        "attempt",
        "at",
        "took",
        F.when(ended, F.col("next_kind")).alias("end"),
        F.when(ended, F.col("next_at")).alias("end_at"),
    )


def unheard(deliveries: DataFrame, deaths: DataFrame) -> DataFrame:
    """Deliveries whose worker died before anybody heard of their end, though they may be acked; and when it died."""
    is_open = deliveries.where(F.col("end").isNull())
    mine = is_open.select("*", F.explode(F.array_distinct(F.array("worker", "process"))).alias("who"))
    later = mine.join(F.broadcast(deaths), "who").where(F.col("died_at") >= F.col("at"))
    first = later.groupBy("n", "queue", "worker", "at").agg(
        F.min("died_at").alias("died_at"), F.min_by("settling", "died_at").alias("settling")
    )
    return first.where("settling").select("n", F.xxhash64("queue").alias("queue_code"), F.col("died_at").alias("at"))


def timelines(events: DataFrame, names: DataFrame, unheard: DataFrame | None = None) -> DataFrame:
    """A row for each message: when it was due, sent, received and done, by whom, and how long that took.

    Times and durations are microseconds. What did not happen is null. ``done_at`` is when it was acked or, of an ack
    that nobody heard of, when its worker died.
    """
    rows = _by_message(events)
    if unheard is not None:
        gone = unheard.select("n", "queue_code", "at", F.lit(_GONE).alias("kind"))
        rows = rows.unionByName(gone, allowMissingColumns=True)
    return _measured(_named(_of_messages(rows), names))


def _by_message(events: DataFrame) -> DataFrame:
    """The events of messages. One of several messages becomes one of each."""
    numbers = F.when(F.col("last") > F.col("n"), F.sequence("n", "last")).otherwise(F.array("n"))
    mine = events.where(F.col("kind").isin(*_OF_MESSAGES))
    is_dead = F.col("what") == "dead"
    return mine.select(
        F.explode(numbers).alias("n"),
        "queue_code",
        "whose",
        "at",
        "kind",
        "attempt",
        "due",
        "took",
        is_dead.alias("dead"),
    )


def _of_messages(rows: DataFrame) -> DataFrame:
    at, whose = F.col("at"), F.col("whose")
    is_send, came, acked = F.col("kind").isin(*SENDS), _is("received"), _is("acked")
    # All of them fit into eight bytes: then Spark can keep the groups in a hash table, and need not sort.
    return rows.groupBy("n", "queue_code").agg(
        F.max(F.when(is_send, F.col("due"))).alias("due"),
        F.max(F.when(_is("sending"), at)).alias("sending_at"),
        F.max(F.when(_is("sent"), at)).alias("sent_at"),
        F.max(_is("unsure")).alias("is_unsure"),
        F.max(_is("unsent")).alias("is_unsent"),
        F.max(is_send).alias("is_ours"),
        F.min(F.when(came, at)).alias("received_at"),
        F.max_by(F.when(came, at - F.col("took")), F.when(came, at)).alias("last_began"),
        F.min(F.when(acked, at)).alias("acked_at"),
        F.min(F.when(_is("died"), at)).alias("died_at"),
        F.min(F.when(F.col("kind").isin(*REMOVALS), at)).alias("removed_at"),
        F.min(F.when(_is(_GONE), at)).alias("first_gone"),
        F.max(F.when(_is(_GONE), at)).alias("last_gone"),
        F.count(F.when(came, at)).alias("deliveries"),
        F.count(F.when(_is("retried"), at)).alias("retries"),
        F.max(F.when(came, F.col("attempt"))).alias("attempts"),
        F.max(_is("found")).alias("is_found"),
        F.max(_is("left")).alias("is_left"),
        F.max(_is("left") & F.coalesce("dead", F.lit(False))).alias("is_left_dead"),
        F.min(whose).alias("any_of"),
        F.min_by(F.when(is_send, whose), F.when(is_send, at)).alias("sent_by"),
        F.min_by(F.when(came, whose), F.when(came, at)).alias("claimed_by"),
        F.min_by(F.when(acked, whose), F.when(acked, at)).alias("acked_by"),
    )


def _is(kind: str) -> Column:
    return F.col("kind") == kind


def _named(found: DataFrame, names: DataFrame) -> DataFrame:
    """The same with names in place of codes, and when it was done."""
    parts = {
        "any_of": ("queue",),
        "sent_by": ("lane", "worker", "is_dead"),
        "claimed_by": ("lane", "worker", "process"),
        "acked_by": ("worker", "process"),
    }
    for code, columns in parts.items():
        known = names.select(F.col("whose").alias(code), *(F.col(name).alias(f"{code}_{name}") for name in columns))
        found = found.join(F.broadcast(known), code, "left")
    return found.withColumn("done_at", _done_at())


def _done_at() -> Column:
    """An ack that nobody heard of counts unless the message came again later, or is still there."""
    gone_by = F.when(F.col("first_gone") >= F.col("last_began"), F.col("first_gone")).when(
        F.col("last_gone") >= F.col("last_began"), F.col("last_gone")
    )
    return F.coalesce("acked_at", F.when(~F.col("is_left"), gone_by))


def _measured(messages: DataFrame) -> DataFrame:
    return messages.select(
        F.col("any_of_queue").alias("queue"),
        F.coalesce(F.nullif("sent_by_lane", F.lit("")), "claimed_by_lane", F.lit("")).alias("lane"),
        "n",
        _outcome().alias("outcome"),
        F.col("sent_by_worker").alias("sender"),
        F.col("claimed_by_worker").alias("claimed_by"),
        F.col("acked_by_worker").alias("acked_by"),
        "due",
        F.coalesce("sending_at", "sent_at").alias("began_at"),
        "sent_at",
        "received_at",
        "acked_at",
        "died_at",
        "removed_at",
        "done_at",
        "deliveries",
        "retries",
        F.coalesce("attempts", F.lit(0)).alias("attempts"),
        "is_found",
        "is_left",
        "is_left_dead",
        _since_due("sent_at").alias("to_stored"),
        _since_due("received_at").alias("to_claim"),
        (F.col("acked_at") - F.col("received_at")).alias("to_finish"),
        _since_due("done_at").alias("to_ack"),
        F.col("claimed_by_process").alias("claimed_process"),
        F.col("acked_by_process").alias("acked_process"),
    )


def _outcome() -> Column:
    """What came of sending it: sent; unsent, if it was refused to the end; unsure, if no answer came."""
    unsent = F.col("is_unsent") & ~F.col("is_unsure")
    # A sender that was refused, tried again and died meanwhile can't tell whether the last try was stored.
    return (
        F.when(F.col("sent_at").isNotNull(), "sent")
        .when(unsent & ~F.coalesce("sent_by_is_dead", F.lit(False)), "unsent")
        .when(F.col("is_ours"), "unsure")
    )


def _since_due(at: str) -> Column:
    # A message may be received before the answer to its send is noted, never before it was due.
    return F.greatest(F.col(at) - F.col("due"), F.when(F.col(at).isNotNull(), F.lit(0).cast("long")))


def with_names(deliveries: DataFrame, names: DataFrame) -> DataFrame:
    """Deliveries with the names of their queue, lane and worker, and how long each was held until it was acked."""
    held = F.when(F.col("end") == "acked", F.col("end_at") - F.col("at"))
    return deliveries.join(F.broadcast(names), "whose").select(
        "queue", "lane", "n", "worker", "process", "attempt", "at", "took", "end", "end_at", held.alias("held")
    )
