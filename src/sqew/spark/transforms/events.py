"""The lines of event logs as events: those of PlainBench (`sqew.lab.events`) and those of a server (docs/event-log.md).

Both say the same in other words: a topic is a queue, a number an id, and to nack is to retry. Names are long and many,
so each event also has codes: Spark groups millions of rows by numbers several times as fast as by texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BROKEN = "broken"
SCHEMA = (
    "at long, event string, topic string, lane string, n long, `to` long, worker string, attempt int, due long, "
    "took long, what string, `where` string, stream string, unknown boolean, "
    "figures struct<ready: double, leased: double, delayed: double, blocked: double, dead: double, wal_bytes: double, "
    f"lag_us: double, dropped: double>, t long, queue string, id long, attempts int, {BROKEN} string"
)
"""What is read of a line; the rest is passed over. A line that is none of it goes into the column ``broken``."""

SENDS = ("sending", "sent", "unsent", "unsure")
"""``unsure``: the send failed, and the message may be stored all the same."""
ENDS = ("acked", "retried", "died", "refused", "unanswered")
"""How a delivery ends. ``unanswered``: nobody knows whether what was asked for was done."""
REMOVALS = ("expired", "purged", "removed")
OTHERS = ("found", "left", "dropped", "extended", "requeued", "fault", "worker", "depth", "generator", "run")
KINDS = (*SENDS, "received", *ENDS, *REMOVALS, *OTHERS)

_SAME_AS = {"nacked": "retried", "dead": "died"}
_NO_ANSWER = ("OutcomeUnknown", "NoAnswer", "RequestTimeout")


def as_events(lines: DataFrame) -> DataFrame:
    """An event for each line that was read by `SCHEMA`, with the column ``file`` besides.

    ``at`` is in microseconds, of a server's log since 1970 and else since the run began. ``last`` is the last number
    where several messages are sent in one call. ``whose`` is a code for queue, lane and worker together. A line that is
    no event has only ``broken_in``, the file that it stands in.
    """
    at, queue = F.coalesce("at", "t"), F.coalesce("topic", "queue", F.lit(""))
    lane, worker = F.coalesce("lane", F.lit("")), F.coalesce("worker", F.lit(""))
    n = F.coalesce("n", "id", F.lit(0).cast("long"))
    is_event = F.col(BROKEN).isNull() & at.isNotNull() & F.col("event").isNotNull()
    return lines.select(
        F.when(is_event, at).alias("at"),
        F.when(is_event, _kind()).alias("kind"),
        queue.alias("queue"),
        lane.alias("lane"),
        worker.alias("worker"),
        n.alias("n"),
        F.coalesce("to", n).alias("last"),
        F.coalesce("attempt", "attempts", F.lit(0)).alias("attempt"),
        # A server does not know when a message was meant to be sent: its time begins when it is stored.
        F.coalesce("due", F.when(F.col("event") == "sent", F.col("t"))).alias("due"),
        F.coalesce("took", F.lit(0).cast("long")).alias("took"),
        "what",
        "where",
        "stream",
        "figures",
        F.xxhash64(queue).alias("queue_code"),
        F.xxhash64(queue, lane, worker).alias("whose"),
        F.when(~is_event, F.col("file")).alias("broken_in"),
    )


def _kind() -> Column:
    event, what = F.col("event"), F.col("what")
    is_end = event.isin("acked", "retried", "died", "refused")
    return (
        F.when(is_end & what.isin(*_NO_ANSWER), "unanswered")
        .when(event.isin("sending", "sent", "unsent") & F.coalesce("unknown", F.lit(False)), "unsure")
        .when(event == "nacked", _SAME_AS["nacked"])
        .when(event == "dead", _SAME_AS["dead"])
        .otherwise(event)
    )


def census(events: DataFrame) -> DataFrame:
    """How many events of each kind there are, and their first and last time; lines that are no events have no kind."""
    return events.groupBy("kind").agg(
        F.count(F.lit(1)).alias("events"), F.min("at").alias("first_at"), F.max("at").alias("last_at")
    )


def broken_lines(events: DataFrame) -> DataFrame:
    """How many lines of each file are no events."""
    broken = events.where(F.col("broken_in").isNotNull())
    return broken.groupBy(F.col("broken_in").alias("file")).agg(F.count(F.lit(1)).alias("lines"))


def names(events: DataFrame) -> DataFrame:
    """The names behind the codes: a row for each queue, lane and worker that occur together."""
    known = events.where(F.col("kind").isNotNull())
    found = known.select("whose", "queue_code", "queue", "lane", "worker").distinct()
    return found.withColumn("process", process_of("worker"))


def process_of(slot: str) -> Column:
    """The worker that a slot is one of: ``w`` of ``w/3``."""
    process = F.regexp_replace(slot, "/[^/]*$", "")
    return F.when(process == "", F.col(slot)).otherwise(process)
