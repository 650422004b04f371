"""The event log: a file with one JSON line for each event of a message (docs/event-log.md).

`EventLog.record` is on the hot path. It keeps the facts of a few transactions and then encodes them together; the log's
own thread writes the lines at most 100 ms later. Encoding the facts of each transaction at once was measured and
rejected: between two transactions its code and data leave the processor's caches, and the 1.2 µs that it takes in a
loop become 4. Encoding in the thread costs as much, and takes the interpreter from the queue for longer at a time.
Lines put together in Python take two to three times as long as msgspec's.

Every write happens under a lock on a file beside the log. So processes can share one log: none writes to a file that
another has just rotated away, and half a line at the end can only have been left by a writer that died.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import logging
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from sqew.errors import BadValue, NotFound, StoreClosed, StoreDamaged, StoreUnusable
from sqew.model import NO_REASON, Fact, FactKind
from sqew.observe.log import spelled_out
from sqew.observe.logfile import LogFile, Rotated, locked, rotated

MAX_BYTES = 64 * 1024 * 1024
"""Bytes of a file at which a new one is begun."""
KEEP = 10
"""Full files that are kept beside the current one."""
LINGER_SECONDS = 0.1
"""Seconds that a line waits for others to be written with it."""
BATCH_BYTES = 256 * 1024
"""Bytes of lines that are written without waiting any longer."""
MOST_PENDING_BYTES = 64 * 1024 * 1024
"""The most bytes of lines that may wait for a disk that stalls. Then `record` waits too: see `EventLog`."""

_ENCODED_TOGETHER = 32
_log = logging.getLogger(__name__)


class LoggedEvent(Struct, frozen=True, gc=False, omit_defaults=True):
    """A line of the log. The names and the order of the fields are those of the file."""

    t: int
    """The time of the event, in epoch microseconds."""
    event: FactKind
    queue: str
    lane: str
    id: int
    attempts: int
    """Deliveries of the message so far."""
    worker: str | None = None
    """The worker that holds or held the lease, if it gave a name."""
    age_ms: int | None = None
    """received: how long it had been ready; acked: how long the work took; None for other events."""
    reason: str = NO_REASON


# Names may be of a class that is more than a string, which msgspec does not know.
_encode_lines = msgspec.json.Encoder(enc_hook=str.__str__).encode_lines
_decode = msgspec.json.Decoder(LoggedEvent).decode


class EventLog:
    """A log of the events of messages, shared by the threads of this process and by other processes.

    It records what is already committed, so it never fails its caller: lines that can't be written, because the disk is
    full or the folder is gone, are counted in `lost` and reported once to the logger `sqew.observe.eventlog`. Later
    lines are tried again.

    When the disk stalls without failing, lines gather in memory, at most 64 MiB of them. Then `record` waits for the
    disk. Dropping some would make the log lie about a queue that works, and the queue's own file, which is usually on
    the same disk, waits just the same.

    A forked process goes on with an empty buffer of its own; the lines that its parent recorded are written by the
    parent. A log that is not closed is flushed when the interpreter exits.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, keep: int = KEEP) -> None:
        if max_bytes < 1 or keep < 0:
            raise BadValue("An event log needs max_bytes of at least 1 and keep of at least 0.")
        self.path = os.fspath(path)
        self.lost = 0
        """Lines that could not be written."""
        self._file = LogFile(self.path, max_bytes, keep)
        self._failing = False
        self._closed = False
        self._start_empty()
        try:
            with locked(self.path):
                self._file.seek_end()
        except OSError as error:
            raise StoreUnusable(
                f"The event log {self.path} can't be written: {error.strerror or error}. "
                "Name a file in a folder that exists and that you may write to, or turn the event log off."
            ) from error
        _open_logs.add(self)

    def _start_empty(self) -> None:
        self._lock = threading.Lock()  # guards what follows; held for moments only
        self._pending: list[tuple[Sequence[Fact], int]] = []
        self._pending_count = 0
        self._due_at_count = 1  # when they must be encoded: at once while the writer sleeps, so that it is woken
        self._buffer = bytearray()
        self._unwritten_bytes = 0
        self._thread: threading.Thread | None = None
        self._gathered = threading.Condition(self._lock)
        self._written = threading.Condition(self._lock)
        self._writing = threading.Lock()  # guards the file; taken before _lock

    def record(self, facts: Sequence[Fact], time_us: int) -> None:
        """Log the facts of a transaction at a time in epoch microseconds. The facts must not change any more."""
        if not facts:
            return
        with self._lock:
            if self._closed:
                raise StoreClosed(f"The event log {self.path} was closed. Open it again to record more.")
            self._pending.append((facts, time_us))
            self._pending_count += len(facts)
            if self._pending_count < self._due_at_count or self._hand_to_writer():
                return
        self.flush()

    def flush(self) -> None:
        """Write all lines recorded so far."""
        with self._writing:
            with self._lock:
                self._encode_pending()
                lines, self._buffer = self._buffer, bytearray()
                self._unwritten_bytes = len(lines)
            try:
                if lines:
                    self._write(lines)
            finally:
                with self._lock:
                    self._unwritten_bytes = 0
                    self._written.notify_all()

    def close(self) -> None:
        """Write all lines recorded so far, and stop. Closing again does nothing."""
        with self._lock:
            self._closed = True
            self._gathered.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        self.flush()
        with self._writing:
            self._file.close()
        _open_logs.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _hand_to_writer(self) -> bool:
        """Encode pending facts, and wake the writer if it is time. Return False if there is no writer."""
        self._encode_pending()
        if not self._writer_runs():
            return False
        if self._due_at_count == 1 or len(self._buffer) >= BATCH_BYTES:
            self._due_at_count = _ENCODED_TOGETHER
            self._gathered.notify()
        while len(self._buffer) + self._unwritten_bytes >= MOST_PENDING_BYTES:
            self._written.wait()
        return True

    def _encode_pending(self) -> None:
        self._buffer += _lines(self._pending)
        self._pending.clear()
        self._pending_count = 0

    def _writer_runs(self) -> bool:
        if self._thread is None or not self._thread.is_alive():
            thread = threading.Thread(target=self._write_batches, name="sqew event log", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads: a limit of the system, or the interpreter is shutting down
                return False
            self._thread = thread
        return True

    def _write_batches(self) -> None:
        while True:
            with self._lock:
                self._gathered.wait_for(lambda: self._closed or len(self._buffer) >= BATCH_BYTES, LINGER_SECONDS)
                if self._closed:
                    return  # close() writes the rest
                if not self._buffer and not self._pending:
                    # Nothing came for a while, so it sleeps until something does.
                    self._due_at_count = 1
                    self._gathered.wait_for(lambda: self._closed or self._buffer)
                    continue
            self.flush()

    def _write(self, lines: bytearray) -> None:
        written = 0
        try:
            with locked(self.path):
                while written < len(lines):
                    written = self._file.append(lines, written)
        except (OSError, StoreUnusable) as error:
            self.lost += lines.count(b"\n", written)
            if not self._failing:
                self._failing = True
                _log.warning(
                    "The event log %s can't be written, and events are lost until that is mended: %s", self.path, error
                )
            return
        if self._failing:
            self._failing = False
            _log.warning("The event log %s is written again; %d events were lost so far.", self.path, self.lost)


_open_logs: weakref.WeakSet[EventLog] = weakref.WeakSet()


def _flush_open_logs() -> None:
    for log in list(_open_logs):
        log.flush()


def _start_empty_in_child() -> None:
    for log in list(_open_logs):
        log._start_empty()


atexit.register(_flush_open_logs)
os.register_at_fork(after_in_child=_start_empty_in_child)


def _lines(commits: list[tuple[Sequence[Fact], int]]) -> bytes:
    events = [
        LoggedEvent(
            time_us,
            kind := fact.kind,
            fact.queue,
            fact.lane,
            fact.id,
            fact.attempts,
            fact.by,
            fact.age_ms if kind == "received" or kind == "acked" else None,
            fact.reason,
        )
        for facts, time_us in commits
        for fact in facts
    ]
    try:
        return _encode_lines(events)
    except UnicodeEncodeError:
        return _encode_lines([_printable(event) for event in events])


def _printable(event: LoggedEvent) -> LoggedEvent:
    """Return the event with lone surrogates, which UTF-8 can't hold, as escapes."""
    worker = None if event.worker is None else spelled_out(event.worker)
    return msgspec.structs.replace(event, worker=worker, reason=spelled_out(event.reason))


def read(path: str | os.PathLike[str]) -> Iterator[LoggedEvent]:
    """Yield the events of a log, its rotated files included, the oldest first, up to the last one written so far.

    The log may be written and rotated meanwhile. Half a line at the very end, which a crash may leave, is skipped.

    A line that is not an event raises an error that names its file and line. docs/event-log.md has an example.
    """
    log = os.fspath(path)
    if not Path(log).exists() and not _rotated_or_none(log):
        raise NotFound(f"There is no event log at {log}. Give the path that the setting event_log names.")
    return _read(log)


def _rotated_or_none(path: str) -> list[Rotated]:
    try:
        return rotated(path)
    except FileNotFoundError:
        return []


def _read(path: str) -> Iterator[LoggedEvent]:
    current: _Reader | None = None
    try:
        while (newer := _open_newer(path, current)) is not None:
            if current is not None:
                yield from current.events()  # those that were added between its end and its rotation
                current.close()
            current = newer
            yield from current.events()
    finally:
        if current is not None:
            current.close()


def _open_newer(path: str, current: _Reader | None) -> _Reader | None:
    """Open the file that follows the current one in the log; without a current one, the oldest.

    The current file is known by its inode, which can't be given to another file while it is open. If it is gone, it was
    the oldest, and the oldest that is left follows it.
    """
    with contextlib.ExitStack() as stack:
        # A copy of a log, or one of somebody else's, may have no lock: nobody rotates it.
        with contextlib.suppress(FileNotFoundError, PermissionError):
            stack.enter_context(locked(path, shared=True))
        files = [file.path for file in rotated(path)]
        if Path(path).exists():
            files.append(Path(path))
        if current is not None:
            places = [place for place, file in enumerate(files) if current.is_at(file)]
            if places:
                files = files[places[0] + 1 :]
        return _Reader(files[0]) if files else None


class _Reader:
    """A file of a log, read as far as it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb", buffering=0)
        self._line = self._offset = 0

    def is_at(self, path: Path) -> bool:
        return os.path.samestat(os.fstat(self._file.fileno()), path.stat())

    def events(self) -> Iterator[LoggedEvent]:
        """Yield the events that have not been read yet."""
        self._file.seek(self._offset)
        # A buffer for this time only: half a line that is in it may be cut off and written over before the next.
        lines = io.BufferedReader(self._file, 65_536)
        try:
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                self._line += 1
                yield self._event(line)
        finally:
            lines.detach()

    def _event(self, line: bytes) -> LoggedEvent:
        try:
            return _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreDamaged(
                f"{self._path}, line {self._line} is not an event: {error}. "
                "Remove the line, or read a log that is whole."
            ) from error

    def close(self) -> None:
        self._file.close()
