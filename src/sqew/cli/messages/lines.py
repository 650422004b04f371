"""Files of lines to send: every line is checked before the first is sent, then they go in batches."""

from __future__ import annotations

import codecs
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Self

import msgspec

from sqew import operations as ops
from sqew.cli.session import QueueSession
from sqew.errors import NoAnswer, NotSqew, OutcomeUnknown, RateLimited, RequestTimeout, SqewError, TooLarge
from sqew.model import NewMessage, Sent
from sqew.terminal.exits import CommandError, Exit, complain
from sqew.terminal.output import byte_count, plural
from sqew.terminal.progress import Bar

if TYPE_CHECKING:
    from sqew.cli.session import Queues

MOST_BAD_LINES_SHOWN = 10
BATCH_BYTES = 8 * 1024 * 1024
"""The bytes of a batch, at most, so that large bodies don't pile up in memory and a server accepts it."""
_LARGEST_DOCUMENT = 64 * 1024 * 1024
_NAMES_OF_FIELDS = 150
_encode = msgspec.json.Encoder().encode

Parse = Callable[[bytes], NewMessage | None]
"""A function that returns the message of a line, or None for one that is to be left out. It raises for a bad line."""


@dataclass
class SendCounts:
    """The results of sending so far."""

    sent: int = 0
    duplicates: int = 0
    first_id: int | None = None
    last_id: int | None = None
    unsure: int = 0
    """The number of further messages whose fate is unknown: they are on their way, or no answer came."""

    def add(self, answers: list[Sent]) -> None:
        """Count the results of one batch."""
        new = [answer.id for answer in answers if not answer.duplicate]
        self.sent += len(new)
        self.duplicates += len(answers) - len(new)
        self.unsure = 0
        if new:
            self.first_id = new[0] if self.first_id is None else self.first_id
            self.last_id = new[-1]

    @property
    def done(self) -> int:
        """The number of messages that were sent, or were there already."""
        return self.sent + self.duplicates


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """Open a file of lines that can be read twice; ``-`` is stdin. What can't be rewound is copied first.

    A file that holds one array, or any other JSON document over several lines, is accepted as well: an array as a line
    for each element, anything else as one line.
    """
    if name == "-":
        source: IO[bytes] = sys.stdin.buffer
    else:
        try:
            source = Path(name).open("rb")  # noqa: SIM115 (closed below, unlike stdin)
        except OSError as error:
            raise CommandError(f"{name} can't be read: {error.strerror}.", Exit.INVALID) from error
    try:
        if name != "-" and source.seekable():
            with _in_lines(source) as lines:
                yield lines
        else:
            with tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(source, copy)
                with _in_lines(copy) as lines:
                    yield lines
    finally:
        if name != "-":
            source.close()


@contextmanager
def _in_lines(file: IO[bytes]) -> Iterator[IO[bytes]]:
    file.seek(0)
    if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
        # Editors and shells of Windows begin a file with it. It is no part of the first line.
        with tempfile.TemporaryFile() as rest:
            shutil.copyfileobj(file, rest)
            with _in_lines(rest) as lines:
                yield lines
        return
    file.seek(0)
    first = next((line for line in file if line.strip()), b"null")
    # Mostly it can be told from the first two lines, however long the file is.
    is_one_array = first.lstrip().startswith(b"[") and not any(line.strip() for line in file)
    documents = _unfolded(file) if is_one_array or not _is_json(first) else None
    if is_one_array and len(first) > _LARGEST_DOCUMENT:
        raise CommandError(
            f"The file holds one array of more than {byte_count(_LARGEST_DOCUMENT)}, which is too much at once. Write "
            "each of its messages on a line of its own: jq -c '.[]' FILE",
            Exit.INVALID,
        )
    file.seek(0)
    if documents is None:
        yield file
        return
    with tempfile.TemporaryFile() as lines:
        lines.writelines(msgspec.json.format(document, indent=-1) + b"\n" for document in documents)
        lines.seek(0)
        yield lines


def _unfolded(file: IO[bytes]) -> list[msgspec.Raw] | None:
    """Return the elements of the one array that a file holds, or the one other value; None if it holds neither."""
    file.seek(0)
    content = file.read(_LARGEST_DOCUMENT + 1)
    if len(content) > _LARGEST_DOCUMENT or not _is_json(content):
        return None
    if content.lstrip().startswith(b"["):
        return msgspec.json.decode(content, type=list[msgspec.Raw])
    return [msgspec.Raw(content)]


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def messages_in(file: IO[bytes], name: str, parse: Parse, done: str = "sent") -> int:
    """Count a file's messages. If any line is bad, report it and raise: nothing has been sent (or else ``done``)."""
    name = "stdin" if name == "-" else name
    count = lines = bad = 0
    folded = False
    file.seek(0)
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        lines += 1
        folded = folded or (bad < lines == 1 and line.strip() in (b"{", b"["))
        try:
            count += parse(line) is not None
        except SqewError as error:
            bad += 1
            if bad <= MOST_BAD_LINES_SHOWN:
                complain(f"{name}, line {number}: {error}")
    if bad:
        more = f" ({bad - MOST_BAD_LINES_SHOWN} more not shown)" if bad > MOST_BAD_LINES_SHOWN else ""
        are = "is" if bad == 1 else "are"
        hint = " Each message is one line: `jq -c . FILE` writes them so." if folded else ""
        raise CommandError(
            f"{bad} of {plural(lines, 'line')} in {name} {are} bad{more}, so nothing was {done}.{hint}", Exit.INVALID
        )
    return count


def send(
    session: QueueSession,
    q: Queues,
    queue: str,
    messages: Iterator[NewMessage],
    total: int,
    sync_commit: bool | None = None,
) -> SendCounts:
    """Send messages in batches, each in one transaction. On Ctrl-C, report how many were sent."""
    counts = SendCounts()
    with Bar("sending", session.plain, total) as bar, CtrlC() as ctrl_c:
        try:
            batches = Batches(messages, session.settings.max_batch)
            while batch := batches.next():
                try:
                    _send_batch(q, ops.Send(queue, batch, sync_commit=sync_commit), counts, ctrl_c)
                except TooLarge:
                    if len(batch) == 1:
                        raise
                    batches.put_back(batch)
                bar.reach(counts.done)
        except KeyboardInterrupt:
            raise CommandError(f"Interrupted: {_so_far(counts, total)}.", Exit.INTERRUPTED) from None
        except SqewError:
            if counts.done or counts.unsure:
                bar.hide()
                complain(f"Stopped: {_so_far(counts, total)}.")
            raise
    return counts


def _so_far(counts: SendCounts, total: int) -> str:
    duplicates = f", {counts.duplicates} of them were there already" if counts.duplicates else ""
    unsure = f", and perhaps the {counts.unsure} after them" if counts.unsure else ""
    return f"{counts.done} of {plural(total, 'message')} were sent{duplicates}{unsure}"


def _send_batch(q: Queues, operation: ops.Send, counts: SendCounts, ctrl_c: CtrlC) -> None:
    """Send one batch. If the queue has a rate limit, wait and retry: a file is sent at that rate."""
    while True:
        counts.unsure = len(operation.messages)
        try:
            with ctrl_c.held():
                return counts.add(q.run(operation))
        except (NoAnswer, RequestTimeout, OutcomeUnknown, NotSqew):
            raise
        except RateLimited as error:
            counts.unsure = 0
            ctrl_c.check()
            time.sleep(error.retry_after_ms / 1000)
        except SqewError:
            counts.unsure = 0
            raise


class Batches:
    """A source of batches, each with as many messages as may be sent at once."""

    def __init__(self, messages: Iterator[NewMessage], most: int) -> None:
        self._messages, self._most = messages, most
        self._back: deque[NewMessage] = deque()

    def next(self) -> list[NewMessage]:
        """Return the next batch; an empty one when there are no more."""
        batch: list[NewMessage] = []
        size = 0
        while len(batch) < self._most and (message := self._draw()) is not None:
            size += _size(message)
            if batch and size > BATCH_BYTES:
                self._back.appendleft(message)
                break
            batch.append(message)
        return batch

    def put_back(self, batch: list[NewMessage]) -> None:
        """Put back a batch that was too large for the server, whose limits are unknown here. The next are smaller."""
        self._most = len(batch) // 2
        self._back.extendleft(reversed(batch))

    def _draw(self) -> NewMessage | None:
        return self._back.popleft() if self._back else next(self._messages, None)


def _size(message: NewMessage) -> int:
    """Return a message's size in a request, where a control character in text takes six bytes."""
    body = message.body if message.format == "json" else _encode(message.body.decode())
    return len(body) + len(_encode((message.headers, message.key, message.group, message.lane))) + _NAMES_OF_FIELDS


class CtrlC:
    """A handler that defers Ctrl-C while a batch is on its way, so that the count of sent messages is exact."""

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
        was_pressed, self._pressed = self._pressed, True
        # Who presses it twice won't wait for an answer that may never come.
        if was_pressed or not self._holding:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer the interrupt to the end of the block. An error that ends it takes precedence: it says more."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        self.check()

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was deferred."""
        if self._pressed:
            raise KeyboardInterrupt
