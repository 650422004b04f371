"""Bodies that don't fit in memory: lines of JSON, sent and received."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from typing import Any

from sqew.client.calls import NDJSON, ApiCall
from sqew.errors import BadValue, NoAnswer
from sqew.rules.values import check_iterable, shown

_TOGETHER = 64 * 1024


class Splitter:
    """A splitter of chunks, cut anywhere, into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def lines(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now, with their line breaks."""
        if b"\n" not in chunk:
            self._rest += chunk
            return []
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        return [line + b"\n" for line in whole]

    def check_end(self, where: str) -> None:
        """Raise if the last line has no end."""
        if self._rest:
            raise NoAnswer(f"What {where} sent ends in the middle of a line. Ask again.")


def chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines joined into chunks."""
    check_iterable("lines", lines)
    waiting, size = [], 0
    for line in lines:
        ended = _ended(line)
        waiting.append(ended)
        size += len(ended)
        if size >= _TOGETHER:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


async def chunks_of(lines: Iterable[bytes] | AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Yield the same from lines that may have to be awaited."""
    if not isinstance(lines, AsyncIterable):
        for chunk in chunks(lines):
            yield chunk
        return
    async for line in lines:
        yield _ended(line)


def _ended(line: bytes) -> bytes:
    if not isinstance(line, bytes):
        raise BadValue(f"A line can't be {shown(line)}: it must be bytes.")
    return line if line.endswith(b"\n") else line + b"\n"


def headers_of(call: ApiCall[Any], streamed: bool) -> dict[str, str]:
    """Return the headers about the body."""
    if streamed:
        return {"content-type": NDJSON}
    return {} if call.body is None else {"content-type": "application/json"}
