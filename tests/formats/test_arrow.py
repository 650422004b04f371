"""The Arrow stream that a server writes without pyarrow, as pyarrow reads it."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.formats import arrow
from sqew.model import ARCHIVE_COLUMNS, MESSAGE_COLUMNS, Columns, Same

TEXTS = st.text(max_size=12)
MICROSECONDS = st.integers(0, 4_102_444_800_000_000)
JSON = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXTS | st.lists(st.integers(0, 9), max_size=3)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(1, 2**62),
    "queue": TEXTS,
    "lane": TEXTS,
    "priority": st.integers(-1_000, 1_000),
    "body": st.none() | TEXTS.map(str.encode),
    "format": st.sampled_from(["json", "text"]),
    "key": st.none() | TEXTS,
    "group": st.none() | TEXTS,
    "headers": st.none() | st.dictionaries(TEXTS, JSON, max_size=3),
    "attempts": st.integers(0, 2**31 - 1),
    "state": st.none() | st.sampled_from(["ready", "leased"]),
    "created_at": MICROSECONDS,
    "available_at": MICROSECONDS,
    "expires_at": st.none() | MICROSECONDS,
    "outcome": st.sampled_from(["done", "dead"]),
    "finished_at": MICROSECONDS,
    "reason": TEXTS,
}


@st.composite
def columns(draw: st.DrawFn) -> Columns:
    """Draw messages of any kind: columns of different values, and columns of one."""
    count = draw(st.integers(0, 40))
    values: dict[str, Any] = {}
    for name, value in VALUES.items():
        if draw(st.booleans()):
            values[name] = draw(st.lists(value, min_size=count, max_size=count))
        else:
            values[name] = Same(draw(value))
    return Columns(count, values, None)


def read(stream: bytes) -> pa.Table:
    table = pa.ipc.open_stream(stream).read_all()
    table.validate(full=True)
    return table


def streamed(names: tuple[str, ...], *parts: Columns) -> bytes:
    return arrow.schema(names) + b"".join(arrow.batch(part, names) for part in parts) + arrow.END


def as_read(name: str, value: Any) -> Any:
    """Return a value as pyarrow shows it."""
    if value is None:
        return None
    if name == "body":
        return value.decode()
    if name == "headers":
        return [
            (key, text if isinstance(text, str) else json.dumps(text, separators=(",", ":")))
            for key, text in value.items()
        ]
    if name.endswith("_at"):
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=value)
    return value


@given(columns())
def test_pyarrow_reads_what_was_written_whatever_the_values_are(part: Columns) -> None:
    table = read(streamed(ARCHIVE_COLUMNS, part))

    assert table.num_rows == part.count
    for name, given_values in part.values.items():
        values = [given_values.value] * part.count if isinstance(given_values, Same) else given_values
        assert table[name].to_pylist() == [as_read(name, value) for value in values], name


@given(st.sets(st.sampled_from(ARCHIVE_COLUMNS), min_size=1), columns())
def test_only_the_columns_that_were_asked_for_are_in_the_stream(names: set[str], part: Columns) -> None:
    chosen = tuple(sorted(names))

    table = read(streamed(chosen, part))

    assert table.column_names == list(chosen)


@given(columns(), columns())
def test_batches_follow_each_other(first: Columns, second: Columns) -> None:
    table = read(streamed(("id", "body"), first, second))

    assert table.num_rows == first.count + second.count


def test_a_stream_of_nothing_has_its_schema() -> None:
    table = read(streamed(MESSAGE_COLUMNS, Columns(0, {}, None)))

    assert table.num_rows == 0
    assert table.schema == pa.schema(
        [
            ("id", pa.int64()),
            ("queue", pa.string()),
            ("lane", pa.string()),
            ("priority", pa.int32()),
            ("body", pa.string()),
            ("format", pa.string()),
            ("key", pa.string()),
            ("group", pa.string()),
            ("headers", pa.map_(pa.string(), pa.string())),
            ("attempts", pa.int32()),
            ("state", pa.string()),
            ("created_at", pa.timestamp("us", "UTC")),
            ("available_at", pa.timestamp("us", "UTC")),
            ("expires_at", pa.timestamp("us", "UTC")),
        ]
    )


def test_a_stream_that_was_cut_off_is_not_taken_for_the_whole() -> None:
    part = Columns(3, {"id": [1, 2, 3]}, None)
    whole = streamed(("id",), part)

    cut = whole[: -len(arrow.END) - 8]

    with pytest.raises((pa.ArrowInvalid, OSError)):
        pa.ipc.open_stream(cut).read_all()
