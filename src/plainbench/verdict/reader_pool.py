"""Processes that read the parts of a long log, so that all cores take part.

``python -m plainbench.verdict.reader_pool`` reads parts from stdin and answers with their columns on stdout. It ends
when its stdin does, so none is left behind when its parent is killed. It says nothing else: if it can't read a part,
or is no more, the parent reads the part itself, with the error that one reader alone would have met.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Self

import msgspec
import numpy as np

from plainbench.verdict.log_columns import Numbers
from plainbench.verdict.log_parts import TABLES, Facts, Found, Part, find

_LENGTH_BYTES = 8

_encode = msgspec.msgpack.encode
_decode_part = msgspec.msgpack.Decoder(Part).decode
_decode_header = msgspec.msgpack.Decoder(tuple[Facts, dict[str, int]]).decode
"""The facts, and the number of rows of each table: their columns follow, one behind the other."""


class Readers:
    """A pool of ``count`` processes, or fewer if the machine lets no more start. With one, the caller reads itself."""

    def __init__(self, count: int) -> None:
        self._count = count if count > 1 else 0
        self._readers: list[_Reader] = []
        self._pool = ThreadPoolExecutor(max(1, count))

    def __enter__(self) -> Self:
        try:
            with suppress(OSError):
                while len(self._readers) < self._count:
                    self._readers.append(_Reader())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for reader in self._readers:
            reader.kill()
        self._pool.shutdown(cancel_futures=True)
        for reader in self._readers:
            reader.close()

    def find(self, parts: Iterable[Part]) -> Iterator[Found]:
        """Return the contents of each part, in the order of the parts."""
        if not self._readers:
            return map(find, parts)
        free: SimpleQueue[_Reader] = SimpleQueue()
        for reader in self._readers:
            free.put(reader)

        def read(part: Part) -> Found:
            reader = free.get()
            try:
                return reader.find(part)
            finally:
                free.put(reader)

        return self._pool.map(read, parts)


class _Reader:
    def __init__(self) -> None:
        self._is_there, self._is_wanted = True, True
        self._process = subprocess.Popen(
            [sys.executable, "-m", "plainbench.verdict.reader_pool"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            # Ctrl-C is for the lab, which ends them.
            start_new_session=True,
        )  # fmt: skip

    def find(self, part: Part) -> Found:
        if self._is_there:
            try:
                return self._ask(part)
            except (OSError, EOFError):
                self._is_there = False
        if not self._is_wanted:
            raise CancelledError
        return find(part)

    def _ask(self, part: Part) -> Found:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _write(self._process.stdin, _encode(part))
        self._process.stdin.flush()
        return _receive(self._process.stdout)

    def kill(self) -> None:
        """Kill the reader, whatever it is doing: it only reads."""
        self._is_wanted = False
        self._process.kill()

    def close(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]


def main() -> None:
    parts, answers = sys.stdin.buffer, sys.stdout.buffer
    while length := parts.read(_LENGTH_BYTES):
        _send(answers, find(_decode_part(_read(parts, int.from_bytes(length)))))


def _send(to: IO[bytes], found: Found) -> None:
    rows = {table: len(found.tables[table][names[0]]) for table, names in TABLES.items()}
    _write(to, _encode((found.facts, rows)))
    for table, names in TABLES.items():
        to.writelines(found.tables[table][name].data for name in names)
    to.flush()


def _receive(answers: IO[bytes]) -> Found:
    facts, rows = _decode_header(_read(answers, int.from_bytes(_read(answers, _LENGTH_BYTES))))
    tables = {table: {name: _column(answers, rows[table]) for name in names} for table, names in TABLES.items()}
    return Found(facts, tables)


def _column(answers: IO[bytes], rows: int) -> Numbers:
    return np.frombuffer(_read(answers, rows * np.dtype(np.int64).itemsize), np.int64)


def _write(to: IO[bytes], message: bytes) -> None:
    to.write(len(message).to_bytes(_LENGTH_BYTES))
    to.write(message)


def _read(stream: IO[bytes], length: int) -> bytes:
    message = stream.read(length)
    if len(message) < length:
        raise EOFError
    return message


if __name__ == "__main__":
    main()
