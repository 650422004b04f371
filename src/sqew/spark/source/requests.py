"""Batches of Arrow as the requests that upload them to a queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Raw, Struct

from sqew.errors import BadBody, BadValue
from sqew.model import Format
from sqew.rules.values import shown

MOST_ROWS = 5_000
MOST_BYTES = 3_000_000
"""The bytes of rows that one request holds at most. A single row may be larger."""
_MOST_ENCODED = 2 * MOST_BYTES
"""The same in bytes of JSON."""

_encode = msgspec.json.Encoder().encode
_as_json = msgspec.json.Decoder(Raw).decode


class StagedItem(Struct, omit_defaults=True):
    """A message as it stands in a request."""

    message: Raw
    format: Format = "json"
    lane: str | None = None
    priority: int | None = None
    delay_ms: int | None = None
    ttl_ms: int | None = None
    key: str | None = None
    group: str | None = None
    headers: dict[str, str] | None = None


class StageRequest(Struct, frozen=True):
    """A batch of messages that one request uploads."""

    body: bytes
    count: int


def requests(batches: Iterable[pa.RecordBatch], format: Format) -> Iterator[StageRequest]:
    """Yield the rows of a task as requests. ``format`` is that of bodies whose row does not name one."""
    for batch in batches:
        for start in range(0, batch.num_rows, MOST_ROWS):
            yield from _fitting(batch.slice(start, MOST_ROWS), format)


def _fitting(batch: pa.RecordBatch, format: Format) -> Iterator[StageRequest]:
    if not batch.num_rows:
        return
    if batch.num_rows == 1 or batch.nbytes <= MOST_BYTES:
        body = _request(batch, format)
        # Text may grow to six times its size on the way into JSON.
        if batch.num_rows == 1 or len(body) <= _MOST_ENCODED:
            yield StageRequest(body, batch.num_rows)
            return
    half = batch.num_rows // 2
    yield from _fitting(batch.slice(0, half), format)
    yield from _fitting(batch.slice(half), format)


def _request(batch: pa.RecordBatch, format: Format) -> bytes:
    columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    bodies = columns.pop("body")
    formats = columns.pop("format", None) or [format] * len(bodies)
    ready = [_body(body, kind or format) for body, kind in zip(bodies, formats, strict=True)]
    if not columns and formats.count("json") == len(formats):
        # Most messages are a body alone, and this takes a third of the time.
        return b'[{"message":' + b'},{"message":'.join(ready) + b"}]"
    if "headers" in columns:
        columns["headers"] = [None if pairs is None else dict(pairs) for pairs in columns["headers"]]
    names = tuple(columns)
    rows: Iterable[tuple[Any, ...]] = zip(*columns.values(), strict=True) if names else ((),) * len(ready)
    return _encode(
        [
            StagedItem(message=Raw(body), format=kind or format, **dict(zip(names, row, strict=True)))
            for body, kind, row in zip(ready, formats, rows, strict=True)
        ]
    )


def _body(body: bytes | str | None, format: str) -> bytes:
    """Return a body as it stands in a request: JSON unchanged, text as a JSON string."""
    if body is None:
        raise BadValue("The body of a row is null, and every message needs one. Leave such rows out, or fill it.")
    return _FORMS[format](body) if format in _FORMS else _refuse(format)


def _json(body: bytes | str) -> bytes:
    # Checked here: what is not JSON could end its message and begin another.
    try:
        return bytes(_as_json(body))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadBody(
            f"The body {shown(body)} is not JSON ({error}). Make it by to_json, or set option 'format' to 'text'."
        ) from None


def _text(body: bytes | str) -> bytes:
    try:
        return _encode(body if isinstance(body, str) else body.decode())
    except UnicodeError as error:
        raise BadBody(f"The body {shown(body)} is not UTF-8 ({error}). Encode it, for example by base64.") from None


_FORMS: dict[str, Callable[[bytes | str], bytes]] = {"json": _json, "text": _text}


def _refuse(format: str) -> bytes:
    raise BadValue(f"The format of a body can't be {shown(format)}: it is json or text.")
