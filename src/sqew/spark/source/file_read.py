"""A queue in a local file, read without a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from sqew.clock import Clock
from sqew.formats import arrow
from sqew.model import Bounds, State
from sqew.operations import ReadBounds, ReadColumns
from sqew.stores.sqlite.file_reader import SQLiteReader

_STEP = 2_000
"""The number of messages that are read at a time."""


def bounds(path: str, queue: str, archive: bool) -> Bounds:
    """Return the lowest and highest id of the messages, and their number."""
    with SQLiteReader(path, now=Clock().now()) as file:
        found: Bounds = file.read(ReadBounds(queue, archive))
        return found


def batches(
    path: str,
    queue: str,
    after: int,
    up_to: int,
    columns: Sequence[str],
    *,
    archive: bool,
    lane: str | None,
    state: State | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages after one id and up to another."""
    with SQLiteReader(path, now=Clock().now()) as file:
        place: int | None = after
        while place is not None:
            part = file.read(ReadColumns(queue, place, up_to, _STEP, columns, archive, lane, state))
            if part.count:
                stream = arrow.schema(columns) + arrow.batch(part, columns) + arrow.END
                yield from pa.ipc.open_stream(stream)
            place = part.after
