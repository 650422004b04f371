"""`plainbench ingest`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plainbench.cli.command import Group, config_option, loaded
from sqew.cli.spark.work import spark_at_work, spark_options
from sqew.spark.session import check_packages
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.output import plural
from sqew.terminal.progress import Bar
from sqew.terminal.session import TerminalSession

if TYPE_CHECKING:
    from plainbench.config.model import TopicConfig
    from plainbench.workload.ingest import Ingest, Into, Progress
    from sqew.formats.files import Format
    from sqew.spark.jobs.ingest import Ingested

KEPT = "ingest"
"""The folder beside the configuration that holds an ingest's rejects, and its progress while it runs."""


@click.group(cls=Group)
def ingest() -> None:
    """Put the lines of files into a topic.

    What can't be a message is set aside in ingest/rejects, with its file, its line and the reason. An ingest that was
    interrupted goes on where it stopped when the same command is given again.
    """


_files = click.argument("files", nargs=-1, required=True)
_topic = click.option("--topic", required=True, metavar="NAME", help="Where to.")
_lane = click.option("--lane", metavar="NAME", help="In which lane.  [default: normal, or the topic's first]")
_priority = click.option(
    "--priority", type=click.IntRange(-1000, 1000), default=0, metavar="N", help="With which priority.  [default: 0]"
)
_group_by = click.option("--group-by", metavar="FIELD", help="The field that names the group, in a FIFO topic.")
_restart = click.option("--restart", is_flag=True, help="Begin anew, also where an ingest was interrupted.")
_by_spark = click.option("--spark", "by_spark", is_flag=True, help="Have Spark do it, for large files: see --master.")


@ingest.command()
@_files
@_topic
@_lane
@_priority
@_group_by
@_restart
@_by_spark
@spark_options
@config_option
@click.pass_obj
def jsonl(
    session: TerminalSession, files: tuple[str, ...], topic: str, lane: str | None, priority: int, group_by: str | None,
    restart: bool, by_spark: bool, master: str | None, spark_settings: tuple[str, ...], config: Path,
) -> None:  # fmt: skip
    """Send each line as a message: JSON of any kind. Files may be compressed with gzip."""
    from plainbench.workload.ingest import Into

    into = Into(topic, lane, priority, group_by)
    if by_spark:
        _ingest_by_spark(session, files, "jsonl", into, restart, config, ",", (master, spark_settings))
    else:
        _ingest(session, files, "jsonl", into, restart, config, ",")


@ingest.command()
@_files
@_topic
@_lane
@_priority
@_group_by
@click.option("--delimiter", default=",", metavar="CHARACTER", help="What is between two cells.  [default: a comma]")
@_restart
@_by_spark
@spark_options
@config_option
@click.pass_obj
def csv(
    session: TerminalSession, files: tuple[str, ...], topic: str, lane: str | None, priority: int, group_by: str | None,
    delimiter: str, restart: bool, by_spark: bool, master: str | None, spark_settings: tuple[str, ...], config: Path,
) -> None:  # fmt: skip
    """Send each row as a message: an object of strings, named by the first row. Files may be compressed with gzip."""
    from plainbench.workload.ingest import Into

    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise CommandError(f"--delimiter can't be {delimiter!r}: it must be one character, or tab.", Exit.INVALID)
    into = Into(topic, lane, priority, group_by)
    if by_spark:
        _ingest_by_spark(session, files, "csv", into, restart, config, delimiter, (master, spark_settings))
    else:
        _ingest(session, files, "csv", into, restart, config, delimiter)


def _ingest(
    session: TerminalSession,
    patterns: tuple[str, ...],
    format: Format,
    into: Into,
    restart: bool,
    config: Path,
    delimiter: str,
) -> None:
    from plainbench.cli.queues import as_made, queue_of, topic_of
    from plainbench.workload.ingest import Ingest
    from sqew.formats.files import files_of

    read, folder = loaded(config)
    topic = topic_of(read, into.topic)
    _check(topic, into)
    files = files_of(patterns, Path.cwd())
    with queue_of(read, folder) as driver:
        driver.create(as_made(read, topic))
        work = Ingest(driver, into, files, format, folder / KEPT)
        if restart:
            work.forget()
        else:
            work.resume()
        if work.went_on:
            session.note(f"Going on after the {plural(work.progress.sent, 'message')} of the interrupted ingest.")
        sent, seconds = _sent(session, work, delimiter)
        rejects = str(work.rejects) if work.progress.rejected else None
        _show(session, work.progress, rejects, sent, seconds, driver.durability)


def _ingest_by_spark(
    session: TerminalSession, patterns: tuple[str, ...], format: Format, into: Into, restart: bool, config: Path,
    delimiter: str, where: tuple[str | None, tuple[str, ...]],
) -> None:  # fmt: skip
    check_packages()
    from plainbench.cli.ingest_by_spark import check_driver, sent_by_spark
    from plainbench.cli.queues import as_made, queue_of, topic_of

    read, folder = loaded(config)
    check_driver(read)
    topic = topic_of(read, into.topic)
    _check(topic, into)
    with queue_of(read, folder) as driver:
        driver.create(as_made(read, topic))
        durability = driver.durability
    began = time.monotonic()
    with spark_at_work(session, "ingesting", *where) as spark:
        done = sent_by_spark(spark, read, folder, folder / KEPT, patterns, format, delimiter, into, restart)
    if done.repeated:
        session.note(f"Left {plural(done.repeated, 'message')} out that were sent before: --restart sends them again.")
    _show(session, done, done.rejects, done.sent, time.monotonic() - began, durability)


def _check(topic: TopicConfig, into: Into) -> None:
    from sqew.errors import BadValue, UnknownLane

    lanes = [lane.name for lane in topic.lanes]
    if into.lane is not None and into.lane not in lanes:
        raise UnknownLane(topic.name, into.lane, lanes or ["none"])
    if topic.fifo and into.group_by is None:
        raise BadValue(f"Topic '{topic.name}' is FIFO, so each message needs a group: give --group-by FIELD.")


def _sent(session: TerminalSession, work: Ingest, delimiter: str) -> tuple[int, float]:
    """Send all messages; return their number and the seconds that it took."""
    before, began = work.progress.sent, time.monotonic()
    with Bar("ingesting", session.plain) as bar:
        try:
            work.run(lambda progress: bar.reach(progress.sent), delimiter)
        except KeyboardInterrupt:
            bar.hide()
            raise CommandError(
                f"Interrupted after {plural(work.progress.sent, 'message')}. The same command goes on from there.",
                Exit.INTERRUPTED,
            ) from None
    return work.progress.sent - before, time.monotonic() - began


def _show(
    session: TerminalSession,
    progress: Progress | Ingested,
    rejects: str | None,
    sent: int,
    seconds: float,
    durability: str,
) -> None:
    rate = sent / max(seconds, 1e-9)
    parts = [f"Sent {plural(progress.sent, 'message')} ({rate:,.0f} a second, {durability})."]
    if rejects:
        parts.append(f"Set {plural(progress.rejected, 'line')} aside that can't be messages: see {rejects}.")
    session.show(
        {
            "sent": progress.sent,
            "rejected": progress.rejected,
            "rejects": rejects,
            "seconds": round(seconds, 3),
            "durability": durability,
        },
        *parts,
    )
