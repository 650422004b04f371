"""Answers in Arrow: read whole, however they are cut into pieces, and refused if they are cut short."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest

from sqew.errors import NoAnswer
from sqew.formats.arrow import END
from sqew.spark.source.project import batches_of


def _answer() -> tuple[list[pa.RecordBatch], bytes]:
    batches = [pa.RecordBatch.from_pydict({"id": list(range(start, start + 3))}) for start in (0, 3)]
    written = io.BytesIO()
    with pa.ipc.new_stream(written, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return batches, written.getvalue()


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
def test_an_answer_is_read_however_it_is_cut_into_pieces(size: int) -> None:
    batches, answer = _answer()

    pieces = (answer[start : start + size] for start in range(0, len(answer), size))

    assert list(batches_of(pieces)) == batches


def test_an_answer_that_ends_between_two_batches_is_not_taken_for_whole() -> None:
    _, answer = _answer()
    assert answer.endswith(END)

    with pytest.raises(NoAnswer, match="ends before it is complete"):
        list(batches_of(iter([answer.removesuffix(END)])))


def test_an_answer_that_ends_within_a_batch_is_not_taken_for_whole() -> None:
    _, answer = _answer()

    with pytest.raises(NoAnswer, match="ends before it is complete"):
        list(batches_of(iter([answer[:-30]])))
