"""Sending files of lines: every line is checked before the first is sent, then they go in batches."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Self

from sqew import operations as ops
from sqew.cli.exits import Exit, Failure, complain
from sqew.cli.output import plural
from sqew.cli.progress import Bar
from sqew.cli.session import Session
from sqew.errors import RateLimited, SqewError
from sqew.model import NewMessage, Sent

if TYPE_CHECKING:
    from sqew.cli.session import Queues

MOST_BAD_LINES_SHOWN = 10
BATCH_BYTES = 8 * 1024 * 1024
"""A batch is sent when it has this many bytes, so that large bodies don't pile up in memory."""

Parse = Callable[[bytes], NewMessage | None]
"""The message that a line stands for, or None for one that is to be left out. Raises for a bad line."""


@dataclass
class Tally:
    """What became of the messages so far."""

    sent: int = 0
    duplicates: int = 0
    first_id: int | None = None
    last_id: int | None = None

    def add(self, answers: list[Sent]) -> None:
        """Count what one batch did."""
        new = [answer.id for answer in answers if not answer.duplicate]
        self.sent += len(new)
        self.duplicates += len(answers) - len(new)
        if new:
            self.first_id = new[0] if self.first_id is None else self.first_id
            self.last_id = new[-1]

    @property
    def done(self) -> int:
        """How many were dealt with."""
        return self.sent + self.duplicates


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """A file to be read twice; ``-`` is stdin. What can't be rewound is copied first."""
    if name == "-":
        source: IO[bytes] = sys.stdin.buffer
    else:
        try:
            source = Path(name).open("rb")  # noqa: SIM115 (closed below, unlike stdin)
        except OSError as error:
            raise Failure(f"{name} can't be read: {error.strerror}.", Exit.INVALID) from error
    try:
        if name != "-" and source.seekable():
            yield source
        else:
            with tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(source, copy)
                copy.seek(0)
                yield copy
    finally:
        if name != "-":
            source.close()


def messages_in(file: IO[bytes], name: str, parse: Parse) -> int:
    """How many messages a file holds. If any line is bad, says which and raises: nothing has been sent."""
    name = "stdin" if name == "-" else name
    count = lines = bad = 0
    file.seek(0)
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        lines += 1
        try:
            count += parse(line) is not None
        except SqewError as error:
            bad += 1
            if bad <= MOST_BAD_LINES_SHOWN:
                complain(f"{name}, line {number}: {error}")
    if bad:
        more = f" ({bad - MOST_BAD_LINES_SHOWN} more not shown)" if bad > MOST_BAD_LINES_SHOWN else ""
        are = "is" if bad == 1 else "are"
        raise Failure(f"{bad} of {plural(lines, 'line')} in {name} {are} bad{more}, so nothing was sent.", Exit.INVALID)
    return count


def send(session: Session, q: Queues, queue: str, messages: Iterator[NewMessage], total: int) -> Tally:
    """Send messages in batches, each in one transaction. On Ctrl-C it says how many were sent."""
    tally = Tally()
    with Bar("sending", session.plain, total) as bar, CtrlC() as ctrl_c:
        try:
            for batch in _batches(messages, session.limits.max_batch):
                _send_batch(q, ops.Send(queue, batch), tally, ctrl_c)
                bar.reach(tally.done)
        except KeyboardInterrupt:
            raise Failure(f"Interrupted: {_so_far(tally, total)}.", Exit.INTERRUPTED) from None
        except SqewError:
            if tally.done:
                complain(f"Stopped: {_so_far(tally, total)}.")
            raise
    return tally


def _so_far(tally: Tally, total: int) -> str:
    duplicates = f", {tally.duplicates} of them were there already" if tally.duplicates else ""
    return f"{tally.done} of {plural(total, 'message')} were sent{duplicates}"


def _send_batch(q: Queues, operation: ops.Send, tally: Tally, ctrl_c: CtrlC) -> None:
    """Send one batch. A queue with a rate limit takes a file at its rate."""
    while True:
        try:
            with ctrl_c.held():
                return tally.add(q.run(operation))
        except RateLimited as error:
            time.sleep(error.retry_after_ms / 1000)


def _batches(messages: Iterator[NewMessage], most: int) -> Iterator[list[NewMessage]]:
    batch: list[NewMessage] = []
    size = 0
    for message in messages:
        batch.append(message)
        size += len(message.body)
        if len(batch) == most or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class CtrlC:
    """Holds Ctrl-C back while a batch is on its way, so that the count of what was sent is exact."""

    def __init__(self) -> None:
        self._holding = self._pressed = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _press(self, _signal: int, _frame: FrameType | None) -> None:
        self._pressed = True
        if not self._holding:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Interrupt at the end of the block at the earliest."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            if self._pressed:
                raise KeyboardInterrupt
