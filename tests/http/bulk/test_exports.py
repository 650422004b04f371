"""Exports of many messages in one answer: by a range of ids, as Arrow and as lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pyarrow.ipc
import pytest

from tests.support.serving import STORES, Answer, Serving

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
_numbers = count()


@pytest.fixture(params=STORES)
def server(request: pytest.FixtureRequest, servers: Callable[[str], Serving]) -> Serving:
    return servers(request.param)


@pytest.fixture
def queue(server: Serving) -> str:
    """Return a queue of the test's own that keeps finished messages."""
    name = f"exports-{next(_numbers)}"
    assert server.call("POST", "/v1/queues", {"name": name, "keep": "archive", "lanes": ["a", "b"]}).status == 201
    return name


def send(server: Serving, queue: str, messages: list[dict[str, object]]) -> list[int]:
    ids: list[int] = server.call("POST", f"/v1/queues/{queue}/messages", messages).json["ids"]
    return ids


def export(server: Serving, queue: str, query: str = "") -> pa.Table:
    answer = server.call("GET", f"/v1/queues/{queue}/export{query}", headers=ARROW)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == ARROW["Accept"]
    return pa.ipc.open_stream(answer.body).read_all()


def lines(answer: Answer) -> list[dict[str, object]]:
    assert answer.status == 200, answer.body
    return [json.loads(line) for line in answer.body.splitlines()]


def test_bounds_tell_where_messages_lie(server: Serving, queue: str) -> None:
    ids = send(server, queue, [{"message": 1}] * 3)

    assert server.call("GET", f"/v1/queues/{queue}/bounds").json == {"first": ids[0], "last": ids[-1], "count": 3}
    assert server.call("GET", f"/v1/queues/{queue}/bounds?archive=true").json == {
        "first": None,
        "last": None,
        "count": 0,
    }


def test_a_range_is_exported_as_arrow(server: Serving, queue: str) -> None:
    ids = send(server, queue, [{"message": {"n": n}, "headers": {"n": n, "who": "me"}} for n in range(10)])

    table = export(server, queue, f"?after={ids[1]}&up_to={ids[5]}")

    assert table["id"].to_pylist() == ids[2:6]
    assert [json.loads(body) for body in table["body"].to_pylist()] == [{"n": n} for n in range(2, 6)]
    assert table["headers"].to_pylist()[0] == [("n", "2"), ("who", "me")]
    assert set(table["queue"].to_pylist()) == {queue}


def test_more_messages_than_a_batch_holds_are_all_there(server: Serving, queue: str) -> None:
    ids = [id for _ in range(12) for id in send(server, queue, [{"message": "x" * 50}] * 1000)]

    table = export(server, queue, "?columns=id,body")

    assert table["id"].to_pylist() == ids
    assert table.column_names == ["id", "body"]


def test_lanes_and_states_are_chosen(server: Serving, queue: str) -> None:
    a, b, later = send(
        server,
        queue,
        [{"message": 1, "lane": "a"}, {"message": 2, "lane": "b"}, {"message": 3, "lane": "a", "delay": 60}],
    )

    assert export(server, queue, "?lane=a")["id"].to_pylist() == [a, later]
    assert export(server, queue, "?state=ready")["id"].to_pylist() == [a, b]
    answer = server.call("GET", f"/v1/queues/{queue}/export?lane=a&state=ready&columns=id,lane")
    assert lines(answer) == [{"id": a, "lane": "a"}]


def test_an_archive_is_exported_with_its_outcomes(server: Serving, queue: str) -> None:
    ids = send(server, queue, [{"message": n} for n in range(4)])
    server.call("DELETE", f"/v1/queues/{queue}/messages", {"ids": ids[:3]})

    table = export(server, queue, f"?archive=true&after={ids[0]}")

    assert table["id"].to_pylist() == ids[1:3]
    assert table["outcome"].to_pylist() == ["done", "done"]
    assert lines(server.call("GET", f"/v1/queues/{queue}/export?archive=true&up_to={ids[0]}&columns=id,outcome")) == [
        {"id": ids[0], "outcome": "done"}
    ]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("?columns=id,bdoy", "Messages have no column 'bdoy' (did you mean 'body'?)"),
        ("?columns=outcome", "Messages have no column 'outcome'"),
        ("?lane=c", "has no lane 'c'"),
        ("?state=ready&archive=true", "Messages in an archive have no state"),
        ("?state=raedy", "state"),
        ("?after=-1", "after"),
        ("?upto=3", "upto"),
    ],
)
@pytest.mark.parametrize("headers", [{}, ARROW], ids=["lines", "arrow"])
def test_what_is_wrong_is_said_before_the_answer_begins(
    server: Serving, queue: str, query: str, told: str, headers: dict[str, str]
) -> None:
    answer = server.call("GET", f"/v1/queues/{queue}/export{query}", headers=headers)

    assert answer.status == 400
    assert told in answer.json["error"]


def test_an_unknown_queue_is_refused(server: Serving) -> None:
    assert server.call("GET", "/v1/queues/nowhere/export", headers=ARROW).status == 404
    assert server.call("GET", "/v1/queues/nowhere/bounds").status == 404
