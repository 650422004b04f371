"""Upload of files' lines by tasks, each for the writer of its file: so what was sent is known file by file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from uuid import uuid4

import pyarrow as pa
from msgspec import Struct
from pyspark import TaskContext

from sqew.errors import TooLarge
from sqew.spark.source import calls
from sqew.spark.source.options import Target
from sqew.spark.source.requests import requests
from sqew.spark.source.wire import PATIENT, Wire

EPOCH = 0
"""The only epoch that a writer of files has."""
UPLOADED = pa.schema(
    [
        ("writer", pa.string()),
        ("staged", pa.string()),
        ("count", pa.int64()),
        ("part", pa.int32()),
        ("line", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.string()),
    ]
)
"""A task's output: what it has staged for a writer, and how many messages; or a line that the server refuses."""


class Upload(Struct, frozen=True):
    """A task that uploads its rows (`transforms.ingest.MESSAGES`) and outputs what it has uploaded (`UPLOADED`)."""

    target: Target
    writers: Mapping[int, str]
    """The writer for each part of a file."""
    lane: str | None = None
    priority: int = 0
    grouped: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        turn = 0 if context is None else context.partitionId()
        with Wire(self.target, turn, retries=PATIENT) as wire:
            for writer, some in groupby(self._by_writer(batches), key=lambda pair: pair[0]):
                upload = _FileUpload(wire, self.target.queue, writer)
                refused = [line for _, rows in some for line in upload.stage(rows, self._addressed(rows))]
                uploaded = {"writer": writer, "staged": upload.staged, "count": upload.count}
                yield pa.RecordBatch.from_pylist([uploaded, *refused], UPLOADED)

    def _by_writer(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for batch in batches:
            start = 0
            writers = map(self.writers.__getitem__, batch.column("part").to_pylist())
            for writer, those in groupby(writers):
                count = sum(1 for _ in those)
                yield writer, batch.slice(start, count)
                start += count

    def _addressed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of a message: the body, and those that differ from the queue's defaults."""
        columns = {"body": rows.column("body")}
        if self.lane is not None:
            columns["lane"] = pa.repeat(self.lane, rows.num_rows)
        if self.priority:
            columns["priority"] = pa.repeat(self.priority, rows.num_rows)
        if self.grouped:
            columns["group"] = rows.column("group")
        return pa.RecordBatch.from_pydict(columns)


class _FileUpload:
    """The upload of one attempt of a task for one writer."""

    def __init__(self, wire: Wire, queue: str, writer: str) -> None:
        self._wire, self._queue, self._writer = wire, queue, writer
        self.staged, self.count = uuid4().hex, 0
        self._is_over = False

    def stage(self, rows: pa.RecordBatch, messages: pa.RecordBatch) -> Iterator[dict[str, object]]:
        """Stage messages, and yield the lines of those that the server refuses."""
        start = 0
        for request in requests([messages], "json"):
            end = start + request.count
            if self._is_over:
                return
            try:
                self._stage(request.body, request.count)
            except TooLarge as error:
                if request.count == 1:
                    yield _refused(rows.slice(start, 1), error)
                else:
                    # The server takes less at a time than we send, or less in one message than it says of the queue.
                    middle = (start + end) // 2
                    for low, high in ((start, middle), (middle, end)):
                        yield from self.stage(rows.slice(low, high - low), messages.slice(low, high - low))
            start = end

    def _stage(self, body: bytes, count: int) -> None:
        call = calls.stage(self._queue, self._writer, EPOCH, self.staged, body, offset=self.count)
        if self._wire.ask(call).promoted:
            # Another run has sent the file meanwhile.
            self._is_over = True
        else:
            self.count += count


def _refused(row: pa.RecordBatch, error: TooLarge) -> dict[str, object]:
    [line] = row.to_pylist()
    raw = line["body"].decode()
    return {"part": line["part"], "line": line["line"], "reason": str(error).removeprefix("Message 1: "), "raw": raw}
