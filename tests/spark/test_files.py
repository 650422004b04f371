"""Parts of files: whatever the split, every line is read once, and as it is read without one."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import BadValue
from sqew.formats.files import Row, rows, rows_in
from sqew.spark.files import opened, parts_of
from sqew.spark.transforms.ingest import lines_before


def read(path: Path, split_bytes: int) -> list[tuple[int, object]]:
    """Read a file in parts, and return each line with its number in the file."""
    found, lines = [], []
    for part in parts_of([str(path)], "jsonl", split_bytes):
        with opened(part) as reading:
            some = list(rows_in(reading.lines, part.file, "jsonl", first=part.start == 0))
            found.append(some)
            lines.append((part.number, part.file, reading.count))
    before = dict(lines_before(lines))
    return [(row.line + before[number], _said(row)) for number, some in enumerate(found) for row in some]


def read_whole(path: Path) -> list[tuple[int, object]]:
    return [(row.line, _said(row)) for row in rows(path, "jsonl")]


def _said(row: object) -> object:
    return row.body if isinstance(row, Row) else (row.reason, row.raw)  # type: ignore[attr-defined]


_lines = st.lists(
    st.sampled_from([b"{}", b"", b"[1, 2]", b'"a\xc3\xa9"', b"{broken", b"  7  ", b"\r", b"\xff"]), max_size=12
)


@given(lines=_lines, split=st.integers(1, 20), ends=st.booleans(), marked=st.booleans())
def test_parts_of_any_size_give_what_the_whole_file_gives(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], split: int, ends: bool, marked: bool
) -> None:
    path = tmp_path_factory.mktemp("parts") / "in.jsonl"
    path.write_bytes((b"\xef\xbb\xbf" if marked else b"") + b"\n".join(lines) + (b"\n" if ends else b""))

    assert read(path, split) == read_whole(path)


def test_a_line_that_is_longer_than_several_parts_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'1\n"' + b"x" * 1_000 + b'"\n3\n')

    assert read(path, 64) == [(1, b"1"), (2, b'"' + b"x" * 1_000 + b'"'), (3, b"3")]


def test_what_is_added_to_a_file_meanwhile_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"1\n2")
    [part] = parts_of([str(path)], "jsonl")
    path.write_bytes(b"1\n23\n4\n")

    with opened(part) as reading:
        found = [row.body for row in rows_in(reading.lines, part.file, "jsonl") if isinstance(row, Row)]

    assert found == [b"1", b"2"]


def test_a_compressed_file_is_one_part(tmp_path: Path) -> None:
    text = b"".join(b'{"n": %d}\n' % number for number in range(10_000))
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(text))
    with pa.CompressedOutputStream(str(tmp_path / "in.jsonl.zst"), "zstd") as file:
        file.write(text)

    for name in ("in.jsonl.gz", "in.jsonl.zst"):
        assert len(parts_of([str(tmp_path / name)], "jsonl", 1_000)) == 1
        assert read(tmp_path / name, 1_000) == read_whole(tmp_path / name)
        assert len(read_whole(tmp_path / name)) == 10_000


def test_the_digest_tells_contents_apart_and_not_names(tmp_path: Path) -> None:
    digests = {}
    for name, text in {"a": b"1\n2\n", "b": b"1\n2\n", "c": b"1\n3\n"}.items():
        (tmp_path / name).write_bytes(text)
        [part] = parts_of([str(tmp_path / name)], "jsonl")
        with opened(part) as reading:
            list(rows_in(reading.lines, name, "jsonl"))
            digests[name] = reading.digest

    assert digests["a"] == digests["b"] != digests["c"]


def test_urls_and_their_patterns_stand_for_files(tmp_path: Path) -> None:
    for name in ("a1.jsonl", "a2.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b"1\n")

    found = [part.file for part in parts_of([f"file://{tmp_path}/a*.jsonl"], "jsonl")]

    assert found == [f"file://{tmp_path}/a1.jsonl", f"file://{tmp_path}/a2.jsonl"]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("nothing-*.jsonl", "No file matches"),
        ("nothing.jsonl", "There is no file"),
        ("file:///nothing-here/*.jsonl", "No file matches"),
        ("file:///nothing-here/a.jsonl", "There is no file"),
        ("gopher://host/a.jsonl", "can't be opened"),
    ],
)
def test_what_is_not_there_is_said(pattern: str, said: str) -> None:
    with pytest.raises(BadValue, match=said):
        parts_of([pattern], "jsonl")


def test_a_compressed_file_that_is_cut_short_is_said(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"n": 1}\n' * 10_000)[:-20])

    with pytest.raises(BadValue, match="is not a whole gzip file"):
        read(path, 1_000)
