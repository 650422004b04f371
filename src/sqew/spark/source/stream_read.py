"""Streaming reads of a queue: at least once, and nothing is lost.

Each of Spark's batches is one claim of a named consumer: messages that the server has leased together and remembers by
a number. A claim is acked after Spark has asked for the one after it, because then the batch before is in the
checkpoint; claims that are still open are given again, whole and unchanged, to a driver that comes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from socket import gethostname
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from sqew.client.calls import ApiCall
from sqew.errors import SqewError
from sqew.spark.source import calls
from sqew.spark.source.consumer import Consumer
from sqew.spark.source.options import Options
from sqew.spark.source.project import Shape, batches_of
from sqew.spark.source.schema import check_readable
from sqew.spark.source.wire import PATIENT, Wire

_EVERYTHING = 10_000_000
"""The number of messages that a claim takes if Spark wants all that there are: the most that a server gives."""
_PARTS_PER_TASK = 4
"""A part has up to 5,000 messages, and starting a task costs about as much as reading so many."""
_FEWEST_TASKS = 4
"""The minimum number of tasks, if there are as many parts."""

Offset = dict[str, Any]
"""``claim``: the number of the last claim that was given; 0: none yet. ``owner``: the holder of the consumer. It is in
the checkpoint, so that a driver that comes back is recognized at once as the one that holds it."""


@dataclass
class PartsOfClaim(InputPartition):
    """The parts of a claim that a task reads. ``turn`` selects the server that it begins with."""

    number: int
    parts: tuple[int, ...]
    turn: int


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of what becomes ready in a queue, under the name of a consumer that only one query can have at a time."""

    def __init__(self, options: Options, schema: StructType) -> None:
        options.check_use("streaming read")
        check_readable(schema, archive=False)
        self._options, self._schema = options, schema
        self._consumer: Consumer | None = None
        self._left: int | None = None
        """The number of messages that may still be claimed, if the query is to end when it has what is there now."""

    def __getstate__(self) -> tuple[Options, StructType]:
        # What tasks need of it: not the driver's connections.
        return self._options, self._schema

    def __setstate__(self, state: tuple[Options, StructType]) -> None:
        self._options, self._schema = state
        self._consumer = self._left = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        return ReadMaxRows(self._options.messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        with Wire(self._options.target) as wire:
            self._left = wire.ask(calls.depth(self._options.queue)).queue_visible_length

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        # Nothing is opened here: Spark also asks for it when it repeats the first batch of an owner that it knows.
        return {"owner": f"{gethostname()} {uuid4().hex}", "claim": 0}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 (Spark's name)
        consumer = self._consumer_of(start)
        most = self._most(limit)
        claim = consumer.claim_after(start["claim"], most)
        if claim is None:
            return start
        if self._left is not None and claim.number not in consumer.found_open:
            self._left = max(self._left - claim.count, 0)
        # Only where there was more than it could take is the next one made at once: what comes while Spark is at work
        # would have to wait for the one after that.
        consumer.go_ahead(claim, self._most(limit) if claim.count >= most else 0)
        return {"owner": start["owner"], "claim": claim.number}

    def partitions(self, start: Offset, end: Offset) -> list[PartsOfClaim]:
        if start["claim"] == end["claim"]:
            return []
        parts = [part.part for part in self._consumer_of(end).parts_of(end["claim"])]
        tasks = max(min(len(parts), _FEWEST_TASKS), -(-len(parts) // _PARTS_PER_TASK))
        return [PartsOfClaim(end["claim"], tuple(parts[turn::tasks]), turn) for turn in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, PartsOfClaim)
        options, shape = self._options, Shape(self._schema)
        with Wire(options.target, partition.turn, retries=PATIENT) as wire:
            for part in partition.parts:
                call = calls.claimed(options.queue, options.consumer, partition.number, part, shape.names)
                yield from map(shape.of, _whole(wire, call))

    def stop(self) -> None:
        """Release the consumer. Nothing is acked: the next start shows if the last batch is in the checkpoint."""
        if self._consumer is not None:
            self._consumer.leave()
            self._consumer = None

    def _consumer_of(self, offset: Offset) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._options, offset["owner"])
        self._consumer.check_held()
        return self._consumer

    def _most(self, limit: ReadLimit) -> int:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else _EVERYTHING
        return most if self._left is None else min(most, self._left)


def _whole(wire: Wire, call: ApiCall[None]) -> list[pa.RecordBatch]:
    """Return a part's batches, all at once so that the call can be retried: a part is a few thousand messages."""
    for tried in count():
        try:
            with wire.stream(call) as pieces:
                return list(batches_of(pieces))
        except SqewError as error:
            wire.wait_or_raise(call, error, tried)
    raise AssertionError("counting never ends")
