"""`sqew spark ingest`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec.structs import replace

from sqew.cli.parameters import Name, QueueName
from sqew.cli.session import QueueSession
from sqew.cli.spark.work import server_of, spark_at_work, spark_options, wire_to, write_options
from sqew.spark.session import check_packages
from sqew.terminal.command import Command
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.output import plural

if TYPE_CHECKING:
    from sqew.formats.files import Format
    from sqew.spark.jobs.ingest import Ingested

_TAB = ("\\t", "tab")


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True)
@click.option("--queue", required=True, type=QueueName(), help="The queue.")
@click.option(
    "--format", type=click.Choice(["jsonl", "csv"]), help="What the files are.  [default: as their names say]"
)
@click.option("--delimiter", default=",", metavar="CHARACTER", help="What is between two cells.  [default: a comma]")
@click.option("--schema", metavar="DDL", help="What each must have: 'sku INT NOT NULL, price DOUBLE'.")
@click.option("--lane", metavar="NAME", help="In which lane.")
@click.option("--priority", type=click.IntRange(-1000, 1000), default=0, metavar="N", help="With which priority.")
@click.option("--group-by", metavar="FIELD", help="The field that names the group, for a FIFO queue.")
@click.option("--quarantine", metavar="FOLDER", help="Where rejects go.  [default: quarantine/QUEUE]")
@click.option(
    "--job-id", type=Name(), metavar="ID", help="What this job is called; one of the same name sends nothing again."
)
@spark_options
@click.pass_obj
def ingest(
    session: QueueSession, files: tuple[str, ...], queue: str, format: Format | None, delimiter: str,
    schema: str | None, lane: str | None, priority: int, group_by: str | None, quarantine: str | None,
    job_id: str | None, master: str | None, spark_settings: tuple[str, ...],
) -> None:  # fmt: skip
    """Send the lines of JSONL or CSV files to a queue.

    FILES are names, patterns or URLs, plain or compressed with gzip or zstd. Of CSV each row is a message, an object of
    strings named by the first row. What can't be a message is set aside in the quarantine folder, with its file, its
    line and the reason. Nothing is sent before all files are read, and of each file all messages appear together. A
    file that was sent before is not sent again, whatever it is called now.
    """
    server_of(session, "ingest")
    check_packages()
    from sqew.spark.body_schema import parse_schema
    from sqew.spark.jobs.ingest import Ingest, Into, check_target
    from sqew.spark.transforms.ingest import Manner

    into, began = Into(queue, lane, priority), time.monotonic()
    manner = Manner(_format(files, format), _delimiter(delimiter), group_by=group_by)
    with session.connect() as client:
        policy = client.info(queue).policy
    manner = replace(manner, limits=check_target(policy, into, group_by))
    with spark_at_work(session, "ingesting", master, spark_settings) as spark, wire_to(session, queue) as wire:
        if schema is not None:
            manner = replace(manner, schema=parse_schema(schema))
        options = write_options(session, queue)
        work = Ingest(spark, wire, into, manner, options, job_id=job_id, in_order=policy.fifo)
        done = work.run(files, quarantine or f"quarantine/{queue}")
    _show(session, queue, done, time.monotonic() - began)


def _format(files: tuple[str, ...], format: Format | None) -> Format:
    from pathlib import Path

    from sqew.formats.files import format_of

    if format is not None:
        return format
    formats = {format_of(Path(file)) for file in files}
    if len(formats) > 1:
        raise CommandError("Some of the files are CSV by their names, and some are not: give --format.", Exit.INVALID)
    return formats.pop()


def _delimiter(delimiter: str) -> str:
    delimiter = "\t" if delimiter in _TAB else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise CommandError(f"--delimiter can't be {delimiter!r}: it must be one character, or tab.", Exit.INVALID)
    return delimiter


def _show(session: QueueSession, queue: str, done: Ingested, seconds: float) -> None:
    parts = [f"Sent {plural(done.sent, 'message')} of {plural(done.files, 'file')} to '{queue}'."]
    if done.repeated:
        parts.append(f"Left {plural(done.repeated, 'message')} out that an earlier run had sent.")
    if done.rejects:
        parts.append(f"Set {plural(done.rejected, 'line')} aside that can't be messages: see {done.rejects}.")
    session.show({**msgspec.to_builtins(done), "seconds": round(seconds, 3)}, *parts)
