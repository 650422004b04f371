"""`sqew spark archive`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
import msgspec

from sqew.cli.parameters import QueueName
from sqew.cli.session import QueueSession
from sqew.cli.spark.lake import lake_option, place_of_queues, read_queue
from sqew.cli.spark.work import spark_at_work, spark_options
from sqew.terminal.command import Command
from sqew.terminal.output import Column, Table, plural

if TYPE_CHECKING:
    from sqew.cli.session import Queues
    from sqew.spark.jobs.archive import ArchiveResult


@click.command(cls=Command)
@click.option("--queue", "queues", multiple=True, type=QueueName(), help="The queue; may be repeated.  [default: all]")
@lake_option("Where the lake is, or is to be.")
@click.option("--delete", is_flag=True, help="Then delete from the queue's archive what the lake has.")
@spark_options
@click.pass_obj
def archive(
    session: QueueSession,
    queues: tuple[str, ...],
    lake: str,
    delete: bool,
    master: str | None,
    spark_settings: tuple[str, ...],
) -> None:
    """Copy finished messages to a lake of Parquet files, by queue and day.

    Run it as often as you like: what the lake has is not added again, and a run that was stopped is made good by the
    next. Queues keep finished messages if they were made with --keep archive.
    """
    place = place_of_queues(session)
    with session.open() as q:
        names = _names(q, queues)
        with spark_at_work(session, "archiving", master, spark_settings) as spark:
            from sqew.spark.jobs.archive import archive as archive_queue
            from sqew.spark.lake.commits import Lake
            from sqew.spark.lake.files import files_of

            to = Lake(files_of(spark, lake))
            done = [
                archive_queue(
                    read_queue(spark, place, name, archive=True),
                    name,
                    to,
                    partial(q.delete_archived, name) if delete else None,
                    times=read_queue(spark, place, name, archive=True, columns="finished_at TIMESTAMP"),
                )
                for name in names
            ]
    _show(session, done, lake)


def _names(q: Queues, queues: tuple[str, ...]) -> list[str]:
    """Return the queues to archive, in order. Raise if one is not there."""
    if not queues:
        return [info.name for info in q.queues()]
    return [q.info(name).name for name in dict.fromkeys(queues)]


def _show(session: QueueSession, done: list[ArchiveResult], lake: str) -> None:
    columns = [Column("queue"), Column("added", right=True), Column("files", right=True), Column("deleted", right=True)]
    rows = [(each.queue, each.added, each.files, each.deleted) for each in done]
    session.show(
        {"lake": lake, "queues": msgspec.to_builtins(done)}, Table(columns, rows, empty="There are no queues.")
    )
    added = sum(each.added for each in done)
    session.note(f"Added {plural(added, 'message')} to {lake}." if added else f"{lake} has it all already.")
