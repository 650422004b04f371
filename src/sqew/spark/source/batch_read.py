"""Batch reads of a queue, or its archive, as it is now: each task takes a range of ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from typing import get_args

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from sqew.errors import SqewError, UnknownLane
from sqew.model import Bounds, State
from sqew.spark.source import calls
from sqew.spark.source.options import MOST_PARTITIONS, Options
from sqew.spark.source.project import Shape, batches_of
from sqew.spark.source.schema import check_readable
from sqew.spark.source.wire import PATIENT, Wire

_ROWS_PER_PARTITION = 100_000
"""The approximate number of messages per task, if the user does not set the number of tasks."""
_LARGEST_ID = (1 << 63) - 1


@dataclass
class WantedRows:
    """The messages to read: a range of ids, and optionally a lane and a state."""

    after: int = 0
    up_to: int = _LARGEST_ID
    lane: str | None = None
    state: State | None = None

    def narrowed(self, filter: Filter) -> bool:
        """Narrow the selection to what the filter lets through. Return False if the filter can't be applied here."""
        match filter:
            case EqualTo(("id",), int(id)):
                self.after, self.up_to = max(self.after, id - 1), min(self.up_to, id)
            case GreaterThan(("id",), int(id)):
                self.after = max(self.after, id)
            case GreaterThanOrEqual(("id",), int(id)):
                self.after = max(self.after, id - 1)
            case LessThan(("id",), int(id)):
                self.up_to = min(self.up_to, id - 1)
            case LessThanOrEqual(("id",), int(id)):
                self.up_to = min(self.up_to, id)
            case EqualTo(("lane",), str(lane)) if self.lane in (None, lane):
                self.lane = lane
            case EqualTo(("state",), str(state)) if self.state in (None, state) and state in get_args(State):
                self.state = state  # type: ignore[assignment]  # one of them, as was just seen
            case _:
                return False
        return True


@dataclass
class IdRange(InputPartition):
    """The ids that a task reads. ``turn`` selects the server that it begins with."""

    after: int
    up_to: int
    turn: int


class QueueReader(DataSourceReader):
    """Reader of the messages that are there when the read is planned, and still there when their turn comes."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_use("batch read")
        check_readable(schema, options.archive)
        self._options, self._schema = options, schema
        self._wanted = WantedRows()

    def partitions(self) -> list[IdRange]:
        found = self._bounds()
        if found.first is None or found.last is None:
            return [IdRange(0, 0, 0)]
        after, up_to = max(found.first - 1, self._wanted.after), min(found.last, self._wanted.up_to)
        most = self._options.partitions or min(-(-found.count // _ROWS_PER_PARTITION), MOST_PARTITIONS)
        return list(_ranges(after, max(after, up_to), most))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, IdRange)
        if partition.after >= partition.up_to:
            return
        shape = Shape(self._schema)
        # The id says where to go on after an interruption.
        columns = shape.names if "id" in shape.names else ("id", *shape.names)
        try:
            for batch in self._batches(partition, columns):
                yield shape.of(batch)
        except UnknownLane:
            # No message can be in it, and a filter that nothing passes is no error.
            return

    def _bounds(self) -> Bounds:
        options = self._options
        if options.path is not None:
            from sqew.spark.source import file_read

            return file_read.bounds(options.path, options.queue, options.archive)
        with Wire(options.target) as wire:
            return wire.ask(calls.bounds(options.queue, options.archive))

    def _batches(self, part: IdRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        options, wanted = self._options, self._wanted
        if options.path is None:
            yield from self._from_server(part, columns)
            return
        # Imported only here: a store takes as long to import as all the rest of the source.
        from sqew.spark.source import file_read

        yield from file_read.batches(
            options.path,
            options.queue,
            part.after,
            part.up_to,
            columns,
            archive=options.archive,
            lane=wanted.lane,
            state=wanted.state,
        )

    def _from_server(self, part: IdRange, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        options, after = self._options, part.after
        only = {name: value for name, value in (("lane", self._wanted.lane), ("state", self._wanted.state)) if value}
        with Wire(options.target, part.turn, retries=PATIENT) as wire:
            for tried in count():
                call = calls.export(options.queue, after, part.up_to, options.archive, columns, **only)
                try:
                    with wire.stream(call) as pieces:
                        for batch in batches_of(pieces):
                            yield batch
                            after = batch.column("id")[-1].as_py()
                    return
                except SqewError as error:
                    wire.wait_or_raise(call, error, tried)


class FilteringReader(QueueReader):
    """A reader to which Spark pushes its filters down. Spark refuses it where that is switched off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        for filter in filters:
            match filter:
                case EqualTo(("state",), _) if self._options.archive:
                    # What is finished has none.
                    yield filter
                case _ if not self._wanted.narrowed(filter):
                    yield filter


def _ranges(after: int, up_to: int, most: int) -> Iterator[IdRange]:
    """Yield consecutive ranges of about the same width."""
    parts = max(1, min(most, up_to - after))
    ends = [after + (up_to - after) * number // parts for number in range(parts + 1)]
    for turn, (start, end) in enumerate(pairwise(ends)):
        yield IdRange(start, end, turn)
