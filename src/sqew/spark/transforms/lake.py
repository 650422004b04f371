"""The transforms between a queue's archive and the lake: which messages are where, and how they look in each."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.types import DateType, StructField, StructType

from sqew.spark.source.schema import schema_of

IDENTITY = ("id", "finished_at")
"""The key of a queue's finished messages: a dead one that is requeued has its id again when it finishes."""
CONTENT = ("lane", "priority", "body", "format", "key", "group", "attempts", "created_at", "outcome", "reason")
"""The content of a message, beside its headers."""
LAKE_SCHEMA = StructType([*schema_of(archive=True).fields, StructField("day", DateType())])
"""The columns of the lake: those of an archive, and the day (UTC) on which the message finished."""
SENT_AGAIN = ("body", "format", "lane", "priority", "group", "headers")
"""The columns that a message keeps when it is replayed. Its key may still be known: then it would not be stored."""

_DAY_S = 86_400


def by_day(archive: DataFrame) -> DataFrame:
    """Return messages of an archive as rows of the lake."""
    # Not to_date: that is the day in the time zone of the session, which may be another's.
    days = F.floor(F.unix_seconds("finished_at") / _DAY_S).cast("int")
    return archive.withColumn("day", F.date_from_unix_date(days)).select(*LAKE_SCHEMA.fieldNames())


def missing_from(lake: DataFrame, archive: DataFrame) -> DataFrame:
    """Return the messages of an archive that the lake lacks."""
    return archive.join(lake.select(*IDENTITY), list(IDENTITY), "left_anti")


def present_in(lake: DataFrame, archive: DataFrame) -> DataFrame:
    """Return the messages of an archive that the lake has: their ids, and when each finished in epoch milliseconds.

    A message whose row in the lake is damaged, or differs from the archive's, is not among them.
    """
    keys = [*IDENTITY, "content"]
    both = _with_content(archive).join(_with_content(lake), keys, "left_semi")
    return both.select("id", F.unix_millis("finished_at").alias("finished_at"))


def _with_content(messages: DataFrame) -> DataFrame:
    """Return the key of each message, and a hash of its content."""
    whole = messages.where("body IS NOT NULL")
    # Of a map there is no hash, and its entries may come in any order.
    headers = F.to_json(F.array_sort(F.map_entries("headers")))
    return whole.select(*IDENTITY, F.xxhash64(*CONTENT, headers).alias("content"))


def spread_over_files(rows: DataFrame) -> DataFrame:
    """Spread rows of the lake so that a day is in few files, each in the order of ids. A large day is split."""
    return rows.hint("rebalance", "day").sortWithinPartitions("day", "id")


def facts_by_file(rows: DataFrame) -> DataFrame:
    """Return the facts of each file that rows of the lake were read from."""
    finished = F.unix_millis("finished_at")
    return rows.groupBy(F.col("_metadata.file_path").alias("path")).agg(
        F.count("*").alias("rows"),
        F.min("id").alias("first_id"),
        F.max("id").alias("last_id"),
        F.min(finished).alias("first_finished_at"),
        F.max(finished).alias("last_finished_at"),
    )


def oldest(archive: DataFrame) -> DataFrame:
    """Return when the first of these messages finished, in epoch milliseconds; null if there is none."""
    return archive.select(F.min(F.unix_millis("finished_at")).alias("finished_at"))


def chosen(rows: DataFrame, where: str | None, since: int | None, until: int | None, outcome: str | None) -> DataFrame:
    """Return rows of the lake that finished from one time on and before another (epoch milliseconds), and so on."""
    conditions: list[Column | str] = [where] if where else []
    if since is not None:
        conditions.append(F.col("finished_at") >= F.timestamp_millis(F.lit(since)))
    if until is not None:
        conditions.append(F.col("finished_at") < F.timestamp_millis(F.lit(until)))
    if outcome is not None:
        conditions.append(F.col("outcome") == outcome)
    for condition in conditions:
        rows = rows.where(condition)
    return rows


def to_send_again(rows: DataFrame, lane: str | None = None) -> DataFrame:
    """Return rows of the lake as messages to write, all in one lane if it is given. Damaged rows are left out."""
    messages = rows.where("body IS NOT NULL").select("id", *SENT_AGAIN)
    return messages if lane is None else messages.withColumn("lane", F.lit(lane))
