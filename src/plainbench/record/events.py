"""The event log of a run: what the lab saw, a line of JSON each (docs/plainbench.md).

Each process of a run writes a file of its own, so no process waits for another; a reader merges them by time. Events
that decide the verdict are in the file before the queue is called: a delivery is written before its message is acked,
so that a process that dies between the two leaves no ack without a delivery.
"""

from __future__ import annotations

import heapq
import io
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec import Struct

from sqew.errors import NotFound, StoreDamaged

Kind = Literal[
    "sending",  # numbers n to `to` are about to be sent, in one call
    "sent",  # they are in the queue: the call has returned
    "unsent",  # the call has failed; `unknown`: they may be in the queue all the same
    "dropped",  # the generator was too late for number n, and did not send it
    "found",  # number n was in the queue when the run began
    "received",  # a worker got number n
    "extended",  # the lease of number n was made longer, from now
    "acked",
    "retried",  # it was given back, to be delivered again
    "died",  # it was given up, or has gone to the dead letters
    "refused",  # the queue did not take the ack, retry or death: the lease had run out, say
    "left",  # number n was still in the queue when the run ended (`where`: ready, leased, dead …)
    "fault",
    "worker",  # something happened to a worker: started, died, …
    "depth",
    "generator",  # how far behind its plan a generator was, and what it has dropped
    "run",  # began, ended, interrupted
]


NO_FIGURES: Mapping[str, float] = MappingProxyType({})


class Event(Struct, frozen=True, gc=False, omit_defaults=True):
    """A line of the log. The names and the order of the fields are those of the file; empty fields are left out.

    No default can be changed, so all events share them: a list and a dict for each would take as long as the rest.
    """

    at: int
    """Microseconds from the beginning of the run to the end of the event."""
    event: Kind
    topic: str = ""
    lane: str = ""
    n: int = 0
    """The number of the message: the lab counts what its runs send, from 1. Other messages have numbers below 1."""
    to: int = 0
    """sending, sent, unsent: the last number, if there are several."""
    worker: str = ""
    """The actor: the worker's name, a slash, and its slot; or the generator's name."""
    attempt: int = 0
    group: str = ""
    check: int | None = None
    """sending, received: a checksum of body, lane and group (`plainbench.verdict.checksums`) …"""
    checks: Sequence[int] = ()
    """The same of each, where several are sent in one call."""
    due: int | None = None
    """sending, sent, dropped: the time at which it was due. Latencies count from there, whether or not the generator
    kept up.
    """
    took: int | None = None
    """Duration of the call to the queue, in microseconds."""
    what: str = ""
    """fault: its name; worker, run: the event; left: the state it was in; unsent, refused: the error's name."""
    where: str = ""
    """fault: the call in which it happened (send, receive, ack, db …)."""
    stream: str = ""
    """fault: the stream that decided it …"""
    index: int | None = None
    """… and the number of the decision."""
    ms: float | None = None
    """fault: the length of the delay, the jump …"""
    unknown: bool = False
    """unsent: they may be stored all the same; run: the messages left in the queue could not be read."""
    reason: str = ""
    figures: Mapping[str, float] = NO_FIGURES
    """depth: ready, leased, delayed, dead; generator: lag_us, dropped; wal_bytes; run: what is known of the driver …"""


_encode_lines = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(Event).decode
_decode_lines = msgspec.json.Decoder(Event).decode_lines

_WRITTEN_TOGETHER = 2_000
SUFFIX = ".events.jsonl"


class LogFailed(Exception):
    """A failure to write the log. It is no `SqewError`: code that bears with a queue's errors must not bear with it."""


class Recorder:
    """A writer of the events of a process. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._path = path
        self._lock = threading.Lock()
        self._pending: list[Event] = []
        self._failed: str | None = None

    def record(self, event: Event) -> None:
        """Write an event at some time: with the next `flush` at the latest."""
        with self._lock:
            self._pending.append(event)
            if len(self._pending) >= _WRITTEN_TOGETHER:
                self._write()

    def record_all(self, events: Iterable[Event]) -> None:
        # Whoever makes them may have something to record meanwhile.
        made = list(events)
        with self._lock:
            self._pending += made
            if len(self._pending) >= _WRITTEN_TOGETHER:
                self._write()

    def flush(self) -> None:
        """Hand all events to the operating system: then a killed process does not lose them.

        Raise `LogFailed` if that fails, and ever after: a log with a hole in it would be untrue.
        """
        with self._lock:
            self._write()

    def _write(self) -> None:
        if self._failed is not None:
            # Nothing may be told to the queue that can't be told to the log.
            raise LogFailed(self._failed)
        if not self._pending:
            return
        lines = _encode_lines(self._pending)
        self._pending.clear()
        written = 0
        try:
            while written < len(lines):
                written += self._file.write(lines[written:])
        except OSError as error:
            self._cut_off_half_a_line(lines[:written])
            self._failed = (
                f"The event log {self._path} can't be written: {error.strerror}. The run can't go on: make room, and "
                "run it again."
            )
            raise LogFailed(self._failed) from error

    def _cut_off_half_a_line(self, written: bytes) -> None:
        half = len(written) - written.rfind(b"\n") - 1
        if half:
            # If that fails too, readers pass over half a line at the end.
            with suppress(OSError):
                self._file.truncate(self._file.seek(0, os.SEEK_END) - half)

    def close(self) -> None:
        try:
            if self._failed is None:
                self.flush()
        finally:
            self._file.close()


def log_files(run: Path) -> list[Path]:
    """Return the files of a run's log."""
    files = sorted(run.glob(f"*{SUFFIX}"))
    if not files:
        raise NotFound(f"There is no event log in {run}. Give the folder of a run, as `plainbench run` prints it.")
    return files


def read_chunks(
    path: Path, size: int = 16 * 1024 * 1024, *, start: int = 0, stop: int = sys.maxsize
) -> Iterator[list[Event]]:
    """Yield the events of a file in the order of the file, many at a time. Half a line at the end is passed over.

    With ``start`` and ``stop``: only those whose lines begin between these two bytes.
    """
    with path.open("rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        while (at := file.tell()) < stop and (block := file.read(min(size, stop - at))):
            if not block.endswith(b"\n"):
                block += file.readline()
            whole = block[: block.rfind(b"\n") + 1]
            try:
                yield _decode_lines(whole)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                raise _first_mistake(path, whole, at) from None
            if len(whole) < len(block):
                # Its other half may come meanwhile, and would not be a line.
                return


def _first_mistake(path: Path, lines: bytes, at: int) -> StoreDamaged:
    """Return an error that names the first line that is no event. The lines begin at byte ``at`` of the file."""
    for number, line in enumerate(io.BytesIO(lines), _lines_before(path, at) + 1):
        try:
            _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return StoreDamaged(f"{path}, line {number} is not an event: {error}.")
    raise AssertionError("one of them is no event")


def _lines_before(path: Path, at: int) -> int:
    with path.open("rb") as file:
        blocks = iter(lambda: file.read(min(1 << 20, at - file.tell())), b"")
        return sum(block.count(b"\n") for block in blocks)


def read(run: Path) -> Iterator[Event]:
    """Return all events of a run, by time."""
    files = ((event for chunk in read_chunks(path) for event in chunk) for path in log_files(run))
    return heapq.merge(*files, key=lambda event: event.at)
