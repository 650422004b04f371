"""Conversion of messages, as they arrive in Arrow, to the columns that Spark was promised."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sqew.errors import NoAnswer


class Shape:
    """The columns of a read. It is made where it is used, so that Arrow's schema need not be pickled."""

    def __init__(self, schema: StructType) -> None:
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self.names = tuple(schema.fieldNames())

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with these columns alone, in their order and of their types."""
        chosen = batch.select(self.names)
        return chosen if chosen.schema.equals(self._schema) else chosen.cast(self._schema)


class _Body:
    """A response's pieces as a file that Arrow reads."""

    closed = False

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        if size <= len(self._rest):
            taken, self._rest = self._rest[:size], self._rest[size:]
            return bytes(taken)
        found, missing = [self._rest], size - len(self._rest)
        self._rest = memoryview(b"")
        for piece in self._pieces:
            found.append(memoryview(piece)[:missing])
            self._rest = memoryview(piece)[missing:]
            missing -= len(found[-1])
            if not missing:
                return b"".join(found)
        # Arrow would take that for the end, and what is missing would never be missed. It does not read beyond its own.
        raise NoAnswer("What the server sent ends before it is complete. Ask again.")


def batches_of(pieces: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream of Arrow."""
    try:
        # Arrow wants to know the size of what it opens, and of a wrapped file it does not ask.
        yield from pa.ipc.open_stream(pa.PythonFile(_Body(pieces), mode="r"))
    except pa.ArrowInvalid as error:
        raise NoAnswer(f"What the server sent is no whole stream of Arrow ({error}). Ask again.") from error
