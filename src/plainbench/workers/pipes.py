"""The stdin and stdout of a command. Whatever the command does, no call waits for longer than allowed."""

from __future__ import annotations

import os
import select
import subprocess
import time
from contextlib import suppress
from typing import IO

from plainbench.run.context import Stop

MOST_BYTES = 16 * 1024 * 1024
"""The longest line that a command may write."""
_END_WITHIN_S = 2.0
"""Seconds that it may still take when the run is over."""
_LOOK_EVERY_S = 0.25


class TooSlow(Exception):
    """A command that did not read or write in time."""


class TooLong(Exception):
    """A command that wrote and wrote without the end of a line."""


class Pipes:
    """Lines to a command, and lines from it."""

    def __init__(self, process: subprocess.Popen[bytes], stop: Stop) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin: IO[bytes] = process.stdin
        self._stdout: IO[bytes] = process.stdout
        self._stop = stop
        self._unread = b""
        os.set_blocking(self._stdin.fileno(), False)

    def write(self, line: bytes, deadline: float | None) -> None:
        """Write all of a line, also to a command that reads slowly. BrokenPipeError: it does not read any more."""
        left = memoryview(line)
        while left:
            self._await(self._stdin, select.POLLOUT, deadline)
            with suppress(BlockingIOError):
                left = left[os.write(self._stdin.fileno(), left) :]

    def read_line(self, deadline: float | None) -> bytes:
        """Return the command's next line, without its end. EOFError: it has ended."""
        while b"\n" not in self._unread:
            self._await(self._stdout, select.POLLIN, deadline)
            self._read()
            if len(self._unread) > MOST_BYTES:
                raise TooLong(f"It wrote {MOST_BYTES} bytes without the end of a line.")
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def read_unasked(self) -> bytes:
        """Return what the command has written by now. EOFError: it has ended."""
        while not self._unread and _is_ready(self._stdout, select.POLLIN, 0):
            self._read()
        return self._unread

    def _read(self) -> None:
        data = os.read(self._stdout.fileno(), 65_536)
        if not data:
            raise EOFError
        self._unread += data

    def _await(self, pipe: IO[bytes], event: int, deadline: float | None) -> None:
        over_at: float | None = None
        while True:
            now = time.monotonic()
            if over_at is None and self._stop.is_set():
                over_at = now + _END_WITHIN_S
            ends = [end for end in (deadline, over_at) if end is not None]
            if _is_ready(pipe, event, max(0.0, min([now + _LOOK_EVERY_S, *ends]) - now)):
                return
            if any(end <= time.monotonic() for end in ends):
                raise TooSlow("The run was over before it answered.")

    def end_input(self) -> None:
        """Tell the command that nothing more comes."""
        self._stdin.close()

    def close(self) -> None:
        self._stdin.close()
        self._stdout.close()


def _is_ready(pipe: IO[bytes], event: int, within_s: float) -> bool:
    """Return True if the pipe can be used, be it to find out that the other side has gone."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(within_s * 1000))
