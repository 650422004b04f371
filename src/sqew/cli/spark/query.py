"""`sqew spark query`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from sqew.cli.parameters import limit_option
from sqew.cli.session import QueueSession
from sqew.cli.spark.lake import lake_option, place_of_queues, read_queue
from sqew.cli.spark.work import spark_at_work, spark_options
from sqew.terminal.command import Command
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.output import Column, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqew.spark.jobs.query import Found

_LAKE_VIEW = "lake"


@click.command(cls=Command)
@click.argument("sql", required=False)
@lake_option("The lake, which is then the view `lake`.", required=False)
@click.option("--views", is_flag=True, help="Only list what can be asked.")
@limit_option(100)
@spark_options
@click.pass_obj
def query(
    session: QueueSession,
    sql: str | None,
    lake: str | None,
    views: bool,
    limit: int,
    master: str | None,
    spark_settings: tuple[str, ...],
) -> None:
    """Ask the lake and the queues in SQL, Spark's own.

    The lake is the view `lake`; what waits in the queue mail-out is `queue_mail_out`, and what is finished there
    `archive_mail_out`. Looking takes nothing out of a queue.

    \b
    sqew spark query --lake /data/lake "SELECT day, outcome, count(*) FROM lake GROUP BY ALL ORDER BY day"
    """
    if sql is None and not views:
        raise CommandError(
            'Say what to ask: sqew spark query "SELECT …". --views lists what can be asked.', Exit.INVALID
        )
    queues = _queues(session, lake)
    if views:
        _show_views(session, queues, lake)
        return
    assert sql is not None
    with spark_at_work(session, "asking", master, spark_settings) as spark:
        from sqew.spark.jobs.query import query as ask

        found = ask(spark, sql, _views(session, spark, queues, lake), limit)
    _show(session, found)


def _queues(session: QueueSession, lake: str | None) -> list[str]:
    """Return the queues that can be queried: none if only a lake is given."""
    if lake is not None and not session.url and "db" not in session.flags:
        return []
    with session.open() as q:
        return [info.name for info in q.queues()]


def _views(
    session: QueueSession, spark: SparkSession, queues: list[str], lake: str | None
) -> dict[str, Callable[[], DataFrame]]:
    from sqew.spark.jobs.query import views_of
    from sqew.spark.lake.commits import Lake
    from sqew.spark.lake.files import files_of
    from sqew.spark.lake.read import read

    place = place_of_queues(session) if queues else {}
    views = views_of(
        queues,
        lambda queue: read_queue(spark, place, queue, archive=False),
        lambda queue: read_queue(spark, place, queue, archive=True),
    )
    if lake is not None:
        at = Lake(files_of(spark, lake))
        at.check()
        views[_LAKE_VIEW] = lambda: read(spark, at)
    return views


def _show_views(session: QueueSession, queues: list[str], lake: str | None) -> None:
    from sqew.spark.jobs.naming import view_name

    rows = [(_LAKE_VIEW, f"the lake {lake}")] if lake is not None else []
    for queue in queues:
        rows.append((view_name("queue", queue), f"messages of queue {queue}"))
        rows.append((view_name("archive", queue), f"finished messages of queue {queue}"))
    session.show(
        {"views": [{"name": name, "what": what} for name, what in rows]},
        Table([Column("view"), Column("what")], rows, empty="There are no queues, and no lake was given."),
    )


def _show(session: QueueSession, found: Found) -> None:
    rows = [[_plain(value) for value in row] for row in found.rows]
    session.show(
        {"columns": found.columns, "rows": rows, "more": found.more},
        Table([Column(name, cut=True) for name in found.columns], rows, empty="No rows."),
    )
    if found.more:
        session.note(f"There are more than these {len(found.rows)} rows. Ask for more with --limit.")


def _plain(value: Any) -> Any:
    """Return one of Spark's values as JSON and tables have it."""
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | Decimal():
            return str(value)
        case bytes() | bytearray():
            return bytes(value).decode(errors="backslashreplace")
        case dict():
            return {str(name): _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
    return value
