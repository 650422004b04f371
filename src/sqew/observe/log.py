"""The server's log: JSON lines for machines, text for a terminal.

Logging only queues a line; a thread writes the queued lines. So a slow reader of stderr holds nothing up: while 4 MiB
wait for it, further lines are dropped, and their number is logged as soon as it reads again.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from sqew.settings import LogFormat, LogLevel

LINGER_S = 0.05
"""Seconds that a line waits for others, to be written with them."""
MOST_WAITING_BYTES = 4 * 1024 * 1024
_CLOSE_WITHIN_S = 1.0

SEVERITIES: dict[LogLevel, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_LEVELS: dict[int, LogLevel] = {number: name for name, number in SEVERITIES.items()}

_encode = msgspec.json.Encoder(enc_hook=str).encode


class Writer:
    """Writer of lines to a file descriptor, in a thread of its own."""

    def __init__(self, fd: int, *, as_json: bool) -> None:
        self.as_json = as_json
        self._fd = fd
        self._lines: list[bytes] = []
        self._bytes = 0
        self._dropped = 0
        self._closed = False
        self._asleep = True
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._write_as_they_come, name="sqew log", daemon=True)
        self._thread.start()

    def add(self, line: bytes) -> None:
        """Queue a line to be written soon."""
        with self._lock:
            if self._bytes + len(line) > MOST_WAITING_BYTES:
                self._dropped += 1
                return
            self._lines.append(line)
            self._bytes += len(line)
            if self._asleep:
                self._asleep = False
                self._news.notify()

    def close(self) -> None:
        """Write the rest, unless nobody reads it."""
        with self._lock:
            self._closed = True
            self._news.notify()
        self._thread.join(_CLOSE_WITHIN_S)

    def _write_as_they_come(self) -> None:
        while True:
            with self._lock:
                self._asleep = not self._lines
                self._news.wait_for(lambda: self._lines or self._closed)
                closed = self._closed
                lines, self._lines = self._lines, []
                dropped, self._dropped = self._dropped, 0
            self._write(b"".join(lines))
            with self._lock:
                # Only now: what is being written still waits for its reader.
                self._bytes = sum(map(len, self._lines))
            if dropped:
                self._write(rendered(_dropped(dropped), as_json=self.as_json))
            if closed:
                return
            with self._lock:
                # The first line goes out at once, those that follow it together.
                self._news.wait_for(lambda: self._closed, LINGER_S)

    def _write(self, text: bytes) -> None:
        left = memoryview(text)
        # Where stderr is closed there is nobody to tell.
        with contextlib.suppress(OSError):
            while left:
                left = left[os.write(self._fd, left) :]


class LogLine(Struct, omit_defaults=True):
    """A line that is not about a request."""

    time: str
    level: LogLevel
    event: str
    logger: str = ""
    fields: dict[str, Any] = {}  # msgspec copies it
    traceback: str = ""


class Handler(logging.Handler):
    """Handler that writes the records of `logging`. ``extra={"fields": {…}}`` adds fields to a line."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write(_event_of(record))
        except Exception:  # noqa: BLE001 (as logging's own handlers do: a bad log call must not end a request)
            self.handleError(record)


def _event_of(record: logging.LogRecord) -> LogLine:
    trace = ""
    if record.exc_info and record.exc_info[0] is not None:
        trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    level = _LEVELS.get(record.levelno // 10 * 10, "error")
    fields = getattr(record, "fields", {})
    return LogLine(timestamp(record.created), level, record.getMessage(), record.name, fields, trace)


_writer: Writer | None = None


def write(line: Struct) -> None:
    """Log a line, or nothing if logging is not set up."""
    if _writer is not None:
        _writer.add(rendered(line, as_json=_writer.as_json))


def announce(event: str, fields: dict[str, Any]) -> bool:
    """Log an event whatever the level. Return False if the log is for people: then say it in a sentence instead."""
    if _writer is None or not _writer.as_json:
        return False
    write(LogLine(timestamp(time.time()), "info", event, "sqew.server", fields))
    return True


@contextlib.contextmanager
def logging_to_stderr(level: LogLevel, format: LogFormat = "auto") -> Iterator[None]:
    """Log to stderr, all records of at least that level, until the end of the block."""
    global _writer
    as_json = format == "json" or (format == "auto" and not sys.stderr.isatty())
    sys.stderr.flush()
    _writer = writer = Writer(sys.stderr.fileno(), as_json=as_json)
    root, handler = logging.getLogger(), Handler()
    before = root.level
    root.addHandler(handler)
    root.setLevel(SEVERITIES[level])
    atexit.register(writer.close)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        _writer = None
        writer.close()
        atexit.unregister(writer.close)


def rendered(line: Struct, *, as_json: bool) -> bytes:
    """Render a line as it is written.

    >>> event = LogLine("2026-01-31T12:00:00.000Z", "info", "listening", "sqew.server", {"pid": 7})
    >>> rendered(event, as_json=True)
    b'{"time":"2026-01-31T12:00:00.000Z","level":"info","event":"listening","logger":"sqew.server","pid":7}\\n'
    >>> rendered(event, as_json=False)
    b'12:00:00.000 info    listening  logger=sqew.server pid=7\\n'
    """
    if as_json and type(line) is not LogLine:
        return _encode(line) + b"\n"
    flat = _flat(line)
    if as_json:
        try:
            return _encode(flat) + b"\n"
        except UnicodeEncodeError:
            return _encode({name: spelled_out(str(value)) for name, value in flat.items()}) + b"\n"
    shown = [f"{name}={_shown(value)}" for name, value in flat.items() if name not in _LEADING]
    trace = "\n" + str(flat["traceback"]) if "traceback" in flat else ""
    clock = str(flat["time"])[11:23]
    text = f"{clock} {flat['level']:7} {_one_line(str(flat['event']))}  {' '.join(shown)}".rstrip() + trace + "\n"
    return spelled_out(text).encode()


_LEADING = frozenset({"time", "level", "event", "traceback"})


def _flat(line: Struct) -> dict[str, Any]:
    flat: dict[str, Any] = {
        name: value
        for name in line.__struct_fields__
        if (value := getattr(line, name)) is not None and value != "" and name != "fields"
    }
    flat.update(getattr(line, "fields", {}))
    return flat


def spelled_out(text: str) -> str:
    """Return the string with lone surrogates, which UTF-8 can't hold, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else _encode(value).decode()
    return f'"{_one_line(text)}"' if not text.isprintable() or " " in text else text


def _one_line(text: str) -> str:
    return text if text.isprintable() else _encode(spelled_out(text)).decode()[1:-1]


def _dropped(count: int) -> LogLine:
    fields = {"lines": count}
    return LogLine(timestamp(time.time()), "warning", "lines dropped: stderr was not read", "sqew.log", fields)


def timestamp(seconds: float) -> str:
    """Format a time in UTC, to the millisecond.

    >>> timestamp(1_700_000_000.5)
    '2023-11-14T22:13:20.500Z'
    """
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
