"""`sqew export` and `sqew import`: messages as lines of JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from sqew.cli.messages import lines
from sqew.cli.messages.message import show_counts
from sqew.cli.parameters import LINES_FILE, queue_option
from sqew.cli.session import QueueSession, now_ms
from sqew.errors import UnknownLane
from sqew.formats import ndjson
from sqew.model import NewMessage
from sqew.terminal.command import Command
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.output import plural
from sqew.terminal.progress import Bar

_WRITTEN_TOGETHER = 256 * 1024


@click.command(cls=Command)
@queue_option
@click.option("--archive", is_flag=True, help="The finished messages instead.")
@click.option("--output", default="-", metavar="FILE", help="Where to.  [default: stdout]")
@click.pass_obj
def export(session: QueueSession, queue: str, archive: bool, output: str) -> None:
    """Write the messages of a queue as lines of JSON.

    They are a snapshot: later changes to the queue don't show. A file appears only when it is complete.
    """
    with session.reader() as q:
        depths = q.stats(queue).depths
        total = depths.archived + depths.dead if archive else depths.total()
        with _written(output) as file, Bar("exporting", session.plain, total) as bar:
            count = _write(q.export(queue, archive=archive), file, bar)
    session.note(f"Exported {plural(count, 'message')} of '{queue}'.")


def _write(exported: Iterator[bytes], file: IO[bytes], bar: Bar) -> int:
    count, waiting, size = 0, [], 0
    for line in exported:
        waiting.append(line)
        count, size = count + 1, size + len(line)
        if size >= _WRITTEN_TOGETHER:
            file.write(b"".join(waiting))
            waiting, size = [], 0
            if not file.isatty():  # a bar between the lines would only be in the way
                bar.reach(count)
    file.write(b"".join(waiting))
    file.flush()
    return count


@contextmanager
def _written(output: str) -> Iterator[IO[bytes]]:
    """Open the target of the lines: stdout, a device or pipe, or a file that appears whole."""
    target = Path(output)
    if output == "-":
        yield sys.stdout.buffer
    elif target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
    else:
        unfinished = target.with_name(target.name + ".unfinished")
        try:
            with unfinished.open("wb") as file:
                yield file
            unfinished.replace(target)
        except OSError as error:
            raise CommandError(f"{output} can't be written: {error.strerror}.", Exit.FAILED) from error
        finally:
            unfinished.unlink(missing_ok=True)


@click.command("import", cls=Command)
@queue_option
@click.option("--file", type=LINES_FILE, default="-", metavar="FILE", help="Where from.  [default: stdin]")
@click.pass_obj
def import_(session: QueueSession, queue: str, file: str) -> None:
    """Send messages that `sqew export` wrote.

    Priorities, lanes, headers, groups, keys, delays and lifetimes come along; ids and attempts start anew, and what has
    expired or was damaged is left out. All lines are checked first: if one is bad, nothing is sent.
    """
    limits, now = session.limits, now_ms()
    with lines.opened(file) as source, session.open() as q:
        lanes = q.info(queue).policy.lanes

        def parse(line: bytes) -> NewMessage | None:
            message = ndjson.parse(line, now, limits)
            if message is not None and message.lane is not None and message.lane not in lanes:
                raise UnknownLane(queue, message.lane, lanes)
            return message

        total = lines.messages_in(source, file, parse)
        source.seek(0)
        parsed = [0]

        def messages() -> Iterator[NewMessage]:
            for line in source:
                if line.strip():
                    parsed[0] += 1
                    message = parse(line)
                    if message is not None:
                        yield message

        counts = lines.send(session, q, queue, messages(), total)
    show_counts(session, queue, counts, "Imported", left_out=parsed[0] - total)
