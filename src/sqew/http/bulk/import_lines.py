"""Imports: messages by the thousand in one request, as a stream of lines."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from sqew import operations as ops
from sqew.errors import SqewError, TooLarge, UnknownLane, WrongContentType
from sqew.formats import ndjson
from sqew.http.service import Service
from sqew.http.statuses import headers_of, status_of
from sqew.http.wire.exchange import BodyStream, Request, Response
from sqew.model import NewMessage, Policy

_encode = msgspec.json.Encoder().encode
_BATCH = 200
"""Most messages that are sent in one transaction, since others wait for it: on a busy machine their median was 15 ms
beside an import in steps of 200, and 40 in steps of 1,000 (17,000 and 25,000 imported a second, durable).
"""
_BATCH_BYTES = 1_048_576
"""Most bytes of bodies that wait to be sent together: memory stays flat however large they are."""
_SHORT_LINE = 65_536
"""Longest line that is held however many large requests are."""
_LINES = frozenset(
    {b"x-ndjson", b"ndjson", b"jsonl", b"x-jsonl", b"jsonlines", b"x-jsonlines", b"json", b"octet-stream"}
)
"""The content types under ``application/`` that lines may come as: any web page could send what a form can send."""


class Imported(Struct):
    """The numbers of messages that were sent and of lines that were left out."""

    imported: int
    skipped: int
    """Messages whose lifetime is over, whose body was lost before they were exported, or whose key was sent before."""


async def import_lines(service: Service, request: Request) -> Response:
    """Send the messages in the lines of a request, while they arrive."""
    assert request.stream is not None
    assert request.route is not None
    check_type(request)
    info = await service.broker.run(ops.GetQueue(request.params[0]))
    importing = _Import(service, request, info.name, info.policy)
    try:
        await importing.run(request.stream)
    except SqewError as error:
        status = status_of(error)
        service.counters.failed(error, info.name)
        reported = SqewError(f"{importing.where}{error.public_text} {importing.count} imported before that.")
        reported.code = error.code
        return Response(status, request.route.dialect.failure(reported, status), headers=headers_of(error))
    finally:
        request.rows = importing.imported
    return Response(200, _encode(Imported(importing.imported, importing.skipped)))


def check_type(request: Request) -> None:
    """Raise unless the body is said to be lines of JSON, or JSON (or nothing is said)."""
    given = request.headers.get(b"content-type")
    kind, _, name = (given or b"application/x-ndjson").partition(b";")[0].strip().lower().partition(b"/")
    if kind != b"application" or name not in _LINES:
        raise WrongContentType("The lines must be JSON. Add the header 'Content-Type: application/x-ndjson'.")


class _Import:
    """An import: what it has done so far, and the line it is at."""

    def __init__(self, service: Service, request: Request, queue: str, policy: Policy) -> None:
        self._broker = service.broker
        self._request = request
        self._limits = service.broker.limits
        self._most = min(_BATCH, self._limits.max_batch)
        self._longest = service.settings.max_request_bytes
        self._queue, self._lanes = queue, policy.lanes
        self._line = 0
        self._batch: list[NewMessage] = []
        self._batch_bytes = 0
        self.imported = self.skipped = 0
        self.where = ""
        """The line at fault, if it is one."""

    @property
    def count(self) -> str:
        """The number of messages imported so far, in words."""
        return "1 message was" if self.imported == 1 else f"{self.imported} messages were"

    async def run(self, chunks: BodyStream) -> None:
        """Send all lines. If one fails, those before it stay sent."""
        held = bytearray()
        async for chunk in chunks:
            end = chunk.rfind(b"\n")
            if end < 0:
                held += chunk
                if len(held) > self._longest:
                    await self._take(bytes(held))
                self._hold(len(held))
                continue
            held += chunk[:end]
            for line in bytes(held).split(b"\n"):
                await self._take(line)
            held = bytearray(chunk[end + 1 :])
            self._hold(len(held))
        if held:
            await self._take(bytes(held))
        await self._send()

    def _hold(self, size: int) -> None:
        """Count the beginning of a long line with all that is held of large requests; raise if that is too much."""
        self._request.connection.weigh(self._request, size if size > _SHORT_LINE else 0)

    async def _take(self, line: bytes) -> None:
        self._line += 1
        try:
            message = self._parsed(line)
        except SqewError:
            await self._send()
            self.where = f"Line {self._line}: "
            raise
        if message is None:
            return
        self._batch.append(message)
        self._batch_bytes += len(message.body)
        if len(self._batch) >= self._most or self._batch_bytes >= _BATCH_BYTES:
            await self._send()

    def _parsed(self, line: bytes) -> NewMessage | None:
        if len(line) > self._longest:
            raise TooLarge(f"It has more than {self._longest} bytes (max_request_bytes). Send less in one message.")
        if not line.strip():
            return None
        message = ndjson.parse(line, self._broker.now(), self._limits)
        if message is None:
            self.skipped += 1
        elif message.lane is not None and message.lane not in self._lanes:
            raise UnknownLane(self._queue, message.lane, self._lanes)
        return message

    async def _send(self) -> None:
        """Send what waits, in a transaction of its own."""
        if not self._batch:
            return
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        sent = await self._broker.send(self._queue, batch)
        duplicates = sum(one.duplicate for one in sent)
        self.imported += len(sent) - duplicates
        self.skipped += duplicates
