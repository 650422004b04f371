"""Exports: many messages in one response, by the range of their ids, as Arrow or as lines of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from sqew import operations as ops
from sqew.core.broker import StepSize
from sqew.errors import BadValue, UnknownColumn, UnknownLane
from sqew.formats import arrow, ndjson
from sqew.http.service import Service
from sqew.http.wire.exchange import NDJSON, Request, Stream
from sqew.model import ARCHIVE_COLUMNS, MESSAGE_COLUMNS, ArchivedMessage, Columns, Message, State
from sqew.rules.values import LARGEST_ID, check_int

_STEP = 5_000
"""Messages that are read at a time, and make a record batch."""
_STEP_OF_DATABASE = 2_500
"""The same for a database: fetching them is the loop's work, and keeps others waiting for some 3 ms."""
_ARCHIVE_STEP = 50
"""Archived messages that are read between others' operations, where they go out as lines."""
_PIECE = 262_144
"""Bytes of lines that are put together before they are handed over."""


class ExportRange(Struct, frozen=True):
    """A selection of a queue's messages by their ids, lane and state, and the columns of each."""

    queue: str
    after: int = 0
    up_to: int | None = None
    """The last id; None: up to the messages that are there now."""
    archive: bool = False
    columns: tuple[str, ...] | None = None
    """The columns of each message; None: all."""
    lane: str | None = None
    state: State | None = None

    @property
    def known_columns(self) -> tuple[str, ...]:
        return ARCHIVE_COLUMNS if self.archive else MESSAGE_COLUMNS


def columns_named(given: str | None) -> tuple[str, ...] | None:
    """Return the columns in a comma-separated list."""
    return None if given is None else tuple(dict.fromkeys(name.strip() for name in given.split(",")))


def wants_arrow(request: Request) -> bool:
    """Return True if the client accepts Arrow."""
    return arrow.CONTENT_TYPE in request.headers.get(b"accept", b"").lower()


async def export(service: Service, request: Request, wanted: ExportRange) -> Stream:
    """Return the messages of a range in the order of their ids, in the format that the client asks for."""
    # What is wrong is said before the answer begins.
    info = await service.broker.run(ops.GetQueue(wanted.queue))
    _check(wanted)
    # Of an archive, a lane may be gone that messages were in.
    if wanted.lane is not None and not wanted.archive and wanted.lane not in info.policy.lanes:
        raise UnknownLane(info.name, wanted.lane, info.policy.lanes)
    if wanted.up_to is None:
        wanted = replace(wanted, up_to=LARGEST_ID if wanted.archive else await service.broker.run(ops.LastId()))
    if wants_arrow(request):
        return Stream(_record_batches(service, request, wanted), arrow.CONTENT_TYPE)
    return Stream(_archive_lines(service, wanted) if wanted.archive else _lines(service, wanted), NDJSON)


def _check(wanted: ExportRange) -> None:
    check_int("after", wanted.after, 0, LARGEST_ID)
    check_int("up_to", wanted.up_to or 0, 0, LARGEST_ID)
    check_columns(wanted.columns, wanted.known_columns)
    if wanted.archive and wanted.state is not None:
        raise BadValue("Messages in an archive have no state: they are finished. Leave state out.")


def check_columns(columns: tuple[str, ...] | None, known: tuple[str, ...]) -> None:
    """Raise unless all of these columns are known."""
    for column in columns or ():
        if column not in known:
            raise UnknownColumn(column, known)


async def _record_batches(service: Service, request: Request, wanted: ExportRange) -> AsyncIterator[bytes]:
    columns = wanted.columns or wanted.known_columns
    assert wanted.up_to is not None
    limit = _STEP if service.broker.database() is None else _STEP_OF_DATABASE
    step: ops.ReadColumns | None = ops.ReadColumns(
        wanted.queue, wanted.after, wanted.up_to, limit, columns, wanted.archive, wanted.lane, wanted.state
    )
    yield arrow.schema(columns)
    while step is not None:
        part, piece = await read_batch(service, step, columns)
        request.rows += part.count
        step = None if part.after is None else replace(step, after=part.after)
        # A client that does not read must not keep both: they are 8 MiB each.
        del part
        yield piece
    yield arrow.END


async def read_batch(service: Service, step: ops.Operation[Columns], columns: tuple[str, ...]) -> tuple[Columns, bytes]:
    """Read some messages, and return them also as a record batch. Both are done beside the loop."""
    async with service.reading_in_turn:
        (part,) = await service.broker.read(step)
        return part, await asyncio.to_thread(arrow.batch, part, columns)


async def _lines(service: Service, wanted: ExportRange) -> AsyncIterator[bytes]:
    async for messages in service.broker.scan(wanted.queue, wanted.after, wanted.up_to):
        for piece in pieces(ndjson.line(one, wanted.columns) for one in messages if _is_wanted(one, wanted)):
            yield piece


def pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Put lines together, some 256 KiB at a time: they are made when the client has read those before."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= _PIECE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _is_wanted(message: Message, wanted: ExportRange) -> bool:
    return wanted.lane in (None, message.lane) and wanted.state in (None, message.state)


async def _archive_lines(service: Service, wanted: ExportRange) -> AsyncIterator[bytes]:
    after, up_to, step = wanted.after, wanted.up_to or 0, StepSize(_ARCHIVE_STEP)
    while True:
        page = await service.broker.run(ops.ListArchive(wanted.queue, step.limit, after))
        step.took(sum(len(one.message.body) for one in page.messages))
        for piece in pieces(
            ndjson.archived_line(one, wanted.columns) for one in page.messages if _is_within(one, wanted)
        ):
            yield piece
        if page.after is None or page.after >= up_to:
            return
        after = page.after


def _is_within(archived: ArchivedMessage, wanted: ExportRange) -> bool:
    message = archived.message
    return message.id <= (wanted.up_to or 0) and wanted.lane in (None, message.lane)
