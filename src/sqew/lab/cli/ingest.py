"""`plainbench ingest`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqew.cli.exits import Exit, Failure
from sqew.cli.output import plural
from sqew.cli.progress import Bar
from sqew.cli.session import Session
from sqew.lab.cli.command import Group, config_option, loaded

if TYPE_CHECKING:
    from sqew.lab.config.model import TopicConfig
    from sqew.lab.workload.ingest import Ingest, Into
    from sqew.lab.workload.reading import Format

KEPT = "ingest"
"""The folder beside the configuration that holds an ingest's rejects, and its progress while it goes on."""


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


@ingest.command()
@_files
@_topic
@_lane
@_priority
@_group_by
@_restart
@config_option
@click.pass_obj
def jsonl(
    session: Session, files: tuple[str, ...], topic: str, lane: str | None, priority: int, group_by: str | None,
    restart: bool, config: Path,
) -> None:  # fmt: skip
    """Each line is a message: JSON of any kind. Files may be compressed with gzip."""
    from sqew.lab.workload.ingest import Into

    _ingest(session, files, "jsonl", Into(topic, lane, priority, group_by), restart, config, ",")


@ingest.command()
@_files
@_topic
@_lane
@_priority
@_group_by
@click.option("--delimiter", default=",", metavar="CHARACTER", help="What is between two cells.  [default: a comma]")
@_restart
@config_option
@click.pass_obj
def csv(
    session: Session, files: tuple[str, ...], topic: str, lane: str | None, priority: int, group_by: str | None,
    delimiter: str, restart: bool, config: Path,
) -> None:  # fmt: skip
    """Each row is a message: an object of texts, named by the first row. Files may be compressed with gzip."""
    from sqew.lab.workload.ingest import Into

    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise Failure(f"--delimiter can't be {delimiter!r}: it must be one character, or tab.", Exit.INVALID)
    _ingest(session, files, "csv", Into(topic, lane, priority, group_by), restart, config, delimiter)


def _ingest(
    session: Session, patterns: tuple[str, ...], format: Format, into: Into, restart: bool, config: Path, delimiter: str
) -> None:
    from sqew.lab.cli.queues import as_made, queue_of, topic_of
    from sqew.lab.workload.ingest import Ingest
    from sqew.lab.workload.reading import files_of

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
            work.go_on()
        if work.went_on:
            session.note(f"Going on after the {plural(work.progress.sent, 'message')} of the interrupted ingest.")
        _show(session, work, *_sent(session, work, delimiter), driver.durability)


def _check(topic: TopicConfig, into: Into) -> None:
    from sqew.errors import BadValue, UnknownLane

    lanes = [lane.name for lane in topic.lanes]
    if into.lane is not None and into.lane not in lanes:
        raise UnknownLane(topic.name, into.lane, lanes or ["none"])
    if topic.fifo and into.group_by is None:
        raise BadValue(f"Topic '{topic.name}' is FIFO, so each message needs a group: give --group-by FIELD.")


def _sent(session: Session, work: Ingest, delimiter: str) -> tuple[int, float]:
    """Send it all: how many messages, in how many seconds."""
    before, began = work.progress.sent, time.monotonic()
    with Bar("ingesting", session.plain) as bar:
        try:
            work.run(lambda progress: bar.reach(progress.sent), delimiter)
        except KeyboardInterrupt:
            bar.hide()
            raise Failure(
                f"Interrupted after {plural(work.progress.sent, 'message')}. The same command goes on from there.",
                Exit.INTERRUPTED,
            ) from None
    return work.progress.sent - before, time.monotonic() - began


def _show(session: Session, work: Ingest, sent: int, seconds: float, durability: str) -> None:
    progress = work.progress
    rejects = str(work.rejects) if progress.rejected else None
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
