"""Rows as the requests that upload them: none is lost, none is too large, and none can pass for two."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sqew.errors import BadBody, BadValue
from sqew.spark.source.requests import MOST_BYTES, MOST_ROWS, requests


def _batch(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_bodies_alone_become_one_array() -> None:
    (request,) = requests([_batch(body=['{"a": 1}', '"text"', b"[2]".decode()])], "json")

    assert request.count == 3
    assert json.loads(request.body) == [{"message": {"a": 1}}, {"message": "text"}, {"message": [2]}]


def test_what_is_said_of_a_message_stands_beside_it() -> None:
    headers = pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string()))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(["1", "2"]), pa.array(["fast", None]), pa.array([5, None], pa.int32()), headers],
        ["body", "lane", "priority", "headers"],
    )

    (request,) = requests([batch], "json")

    assert json.loads(request.body) == [
        {"message": 1, "lane": "fast", "priority": 5, "headers": {"a": "b"}},
        {"message": 2},
    ]


def test_a_row_may_say_the_format_of_its_body() -> None:
    (request,) = requests([_batch(body=["hello", "1", "2"], format=["text", "json", None])], "json")

    read = [(item["message"], item.get("format", "json")) for item in json.loads(request.body)]
    assert read == [("hello", "text"), (1, "json"), (2, "json")]


def test_many_rows_become_several_requests() -> None:
    rows = [str(number) for number in range(2 * MOST_ROWS + 1)]

    made = list(requests([_batch(body=rows)], "json"))

    assert [request.count for request in made] == [MOST_ROWS, MOST_ROWS, 1]
    assert [item["message"] for request in made for item in json.loads(request.body)] == list(map(int, rows))


def test_large_rows_become_requests_that_are_not_too_large() -> None:
    rows = [json.dumps("x" * 400_000 + str(number)) for number in range(20)]

    made = list(requests([_batch(body=rows)], "json"))

    assert sum(request.count for request in made) == 20
    assert all(len(request.body) <= MOST_BYTES + 20 * 20 for request in made)
    assert [item["message"][-2:].lstrip("x") for request in made for item in json.loads(request.body)] == [
        str(number) for number in range(20)
    ]


def test_text_that_grows_on_its_way_becomes_requests_that_are_not_too_large() -> None:
    rows = ["\1" * 2_000 + str(number) for number in range(1_400)]

    made = list(requests([_batch(body=rows)], "text"))

    assert all(len(request.body) <= 2 * MOST_BYTES for request in made)
    assert [item["message"] for request in made for item in json.loads(request.body)] == rows


@pytest.mark.parametrize("body", ['1},{"message":2', '1,"priority":9', "", "hello", '{"a":1,}'])
def test_what_is_not_json_is_refused_before_it_is_sent(body: str) -> None:
    with pytest.raises(BadBody, match="is not JSON"):
        list(requests([_batch(body=[body])], "json"))


def test_a_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(BadBody, match="is not UTF-8"):
        list(requests([_batch(body=[b"\xff"])], "text"))


def test_a_row_without_a_body_is_refused() -> None:
    with pytest.raises(BadValue, match="is null"):
        list(requests([_batch(body=["1", None])], "json"))


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(BadValue, match="can't be 'xml': it is json or text"):
        list(requests([_batch(body=["1"], format=["xml"])], "json"))


def test_an_empty_batch_is_not_sent() -> None:
    assert list(requests([_batch(body=["1"]).slice(1)], "json")) == []
