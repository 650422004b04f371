"""`sqew spark query`: SQL over the lake and the queues of a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from sqew.errors import BadValue, nearest
from sqew.spark.jobs.naming import view_name

Views = Mapping[str, Callable[[], DataFrame]]
"""The views that can be queried, by name. Those that the query does not name are not read."""

_WORD = re.compile(r"[A-Za-z_]\w*")


class Found(Struct, frozen=True):
    """The result of a query."""

    columns: list[str]
    rows: list[list[Any]]
    more: bool
    """True if there are rows that are not shown."""


def views_of(
    queues: Iterable[str], open_queue: Callable[[str], DataFrame], open_archive: Callable[[str], DataFrame]
) -> dict[str, Callable[[], DataFrame]]:
    """Return the views of queues: ``queue_NAME`` has the messages waiting there, ``archive_NAME`` the finished ones."""
    views: dict[str, Callable[[], DataFrame]] = {}
    for queue in queues:
        for prefix, opened in (("queue", open_queue), ("archive", open_archive)):
            name = view_name(prefix, queue)
            # Of `a-b` and `a_b`, the one that is called so has the name.
            if name not in views or name == f"{prefix}_{queue}":
                views[name] = lambda queue=queue, opened=opened: opened(queue)  # type: ignore[misc]
    return views


def query(spark: SparkSession, sql: str, views: Views, limit: int) -> Found:
    """Run a query, and return at most ``limit`` rows."""
    named = {word.lower() for word in _WORD.findall(sql)}
    for name, opened in views.items():
        if name.lower() in named:
            opened().createOrReplaceTempView(name)
    frame = _asked(spark, sql, views)
    rows = frame.limit(limit + 1).collect()
    return Found(frame.columns, [list(row) for row in rows[:limit]], len(rows) > limit)


def _asked(spark: SparkSession, sql: str, views: Views) -> DataFrame:
    try:
        # As part of another question, because a statement that changes something can't be.
        return spark.sql(f"SELECT * FROM (\n{sql.strip().rstrip(';')}\n)")  # noqa: S608  it is the user's own
    except ParseException as error:
        raise BadValue(f"That is no SQL question: {first_line(error)} Ask with SELECT.") from error
    except AnalysisException as error:
        missing = (error.getMessageParameters() or {}).get("relationName", "").strip("`")
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            raise BadValue(
                f"There is no view '{missing}'{nearest(missing, views)}. `sqew spark query --views` lists them."
            ) from error
        raise BadValue(f"That can't be asked: {first_line(error)}") from error


def first_line(error: AnalysisException) -> str:
    """Return Spark's message without the position in its own text and the number of the error."""
    said = re.sub(r"\s*SQLSTATE: \w+.*", "", str(error).splitlines()[0])
    said = re.sub(r"^\[[A-Z_.]+\]\s*", "", said).strip()
    return said if said.endswith((".", "?", "!")) else f"{said}."
