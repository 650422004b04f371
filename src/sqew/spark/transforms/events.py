"""The lines of event logs as events: those of PlainBench (`sqew.lab.events`) and those of a server (docs/event-log.md).

Both say the same in other words: a topic is a queue, a number an id, and to nack is to retry. Names are long and many,
so each event also has codes: Spark groups millions of rows by numbers several times as fast as by texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from sqew.spark.transforms.lines import BROKEN_IN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
    """An event for each line (`sqew.spark.transforms.lines`).

    ``at`` is in microseconds, of a server's log since 1970 and else since the run began. ``last`` is the last number
    where several messages are sent in one call. ``whose`` is a code for queue, lane and worker together. A line that is
    no event has only ``broken_in``, the file that it stands in.
    """
    at, queue = F.coalesce("at", "t"), F.coalesce("topic", "queue", F.lit(""))
    lane, worker = F.coalesce("lane", F.lit("")), F.coalesce("worker", F.lit(""))
    n = F.coalesce("n", "id", F.lit(0).cast("long"))
    is_event = F.col(BROKEN_IN).isNull()
    return lines.select(
        F.when(is_event, at).alias("at"),
        F.when(is_event, _kind()).alias("kind"),
        queue.alias("queue"),
        lane.alias("lane"),
        worker.alias("worker"),
        n.alias("n"),
        F.greatest("to", n).alias("last"),
        F.coalesce("attempt", "attempts", F.lit(0)).cast("int").alias("attempt"),
        # A server does not know when a message was meant to be sent: its time begins when it is stored.
        F.coalesce("due", F.when(F.col("event") == "sent", F.col("t"))).alias("due"),
        F.coalesce("took", F.lit(0).cast("long")).alias("took"),
        "what",
        "where",
        "stream",
        "figures",
        F.xxhash64(queue).alias("queue_code"),
        F.xxhash64(queue, lane, worker).alias("whose"),
        BROKEN_IN,
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


def tallied(events: DataFrame) -> DataFrame:
    """How many events there are of each kind, queue, lane and worker, their first and last time, and the codes of all.

    Lines that are no events have no kind, and the file that they stand in.
    """
    counts = events.groupBy("kind", "queue", "lane", "worker", "broken_in").agg(
        F.count(F.lit(1)).alias("events"), F.min("at").alias("first_at"), F.max("at").alias("last_at")
    )
    return counts.withColumns(
        {
            "queue_code": F.xxhash64("queue"),
            "whose": F.xxhash64("queue", "lane", "worker"),
            "process": process_of("worker"),
        }
    )


def process_of(slot: str) -> Column:
    """The worker that a slot is one of: ``w`` of ``w/3``."""
    process = F.regexp_replace(slot, "/[^/]*$", "")
    return F.when(process == "", F.col(slot)).otherwise(process)
