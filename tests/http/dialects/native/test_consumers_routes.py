"""Consumers over HTTP: claims that outlast the reader, and the server."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

from tests.support.postgres import new_database
from tests.support.serving import STORES, Answer, Serving, serving

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
_numbers = count()


@pytest.fixture(params=STORES)
def server(request: pytest.FixtureRequest, servers: Callable[[str], Serving]) -> Serving:
    return servers(request.param)


@pytest.fixture
def queue(server: Serving) -> str:
    name = f"consumed-{next(_numbers)}"
    assert server.call("POST", "/v1/queues", {"name": name}).status == 201
    return name


class Reader:
    """A consumer as a program uses it."""

    def __init__(self, server: Serving, queue: str, name: str = "spark") -> None:
        self.server, self.path = server, f"/v1/queues/{queue}/consumers/{name}"
        self.epoch = 0

    def open(self, owner: str = "driver", **fields: Any) -> Answer:
        answer = self.server.call("POST", f"{self.path}/open", {"owner": owner, **fields})
        if answer.status == 200:
            self.epoch = answer.json["epoch"]
        return answer

    def claim(self, after: int, limit: int = 10_000, **fields: Any) -> Answer:
        body = {"epoch": self.epoch, "after": after, "limit": limit, **fields}
        return self.server.call("POST", f"{self.path}/claims", body)

    def renew(self, **fields: Any) -> Answer:
        return self.server.call("POST", f"{self.path}/renew", {"epoch": self.epoch, **fields})

    def read(self, number: int, part: int = 0, query: str = "") -> pa.Table:
        answer = self.server.call("GET", f"{self.path}/claims/{number}/parts/{part}{query}", headers=ARROW)
        assert answer.status == 200, answer.body
        return pa.ipc.open_stream(answer.body).read_all()


@pytest.fixture
def reader(server: Serving, queue: str) -> Reader:
    return Reader(server, queue)


def send(server: Serving, queue: str, messages: int) -> list[int]:
    ids: list[int] = []
    for begin in range(0, messages, 1000):
        batch = [{"message": {"n": n}} for n in range(begin, min(begin + 1000, messages))]
        ids += server.call("POST", f"/v1/queues/{queue}/messages", batch).json["ids"]
    return ids


def length(server: Serving, queue: str) -> int:
    found: int = server.call("GET", f"/v1/queues/{queue}").json["queue_length"]
    return found


def test_a_queue_is_read_claim_by_claim(server: Serving, queue: str, reader: Reader) -> None:
    ids = send(server, queue, 7)
    assert reader.open().json == {"epoch": reader.epoch, "claims": [], "last": 0}

    first = reader.claim(0, 4)
    assert first.json == {"number": 1, "count": 4, "parts": [{"part": 0, "count": 4}]}
    assert reader.read(1)["id"].to_pylist() == ids[:4]
    second = reader.claim(1, 4)
    assert second.json == {"number": 2, "count": 3, "parts": [{"part": 0, "count": 3}]}
    assert length(server, queue) == 3

    assert reader.claim(2).json == {"number": 3, "count": 0, "parts": []}
    assert length(server, queue) == 0


def test_a_claim_of_many_is_read_in_parts(server: Serving, queue: str, reader: Reader) -> None:
    ids = send(server, queue, 7_200)
    reader.open()

    made = reader.claim(0).json

    assert made["parts"] == [{"part": 0, "count": 5_000}, {"part": 1, "count": 2_200}]
    tables = [reader.read(1, part, "?columns=id,body") for part in (0, 1)]
    assert [id for table in tables for id in table["id"].to_pylist()] == ids
    assert json.loads(tables[1]["body"][0].as_py()) == {"n": 5_000}


def test_with_a_limit_of_nothing_claims_are_finished_and_none_is_made(
    server: Serving, queue: str, reader: Reader
) -> None:
    send(server, queue, 3)
    reader.open()
    made = reader.claim(0, 2).json

    assert reader.claim(0, 0).json == made
    assert reader.claim(1, 0).json == {"number": 2, "count": 0, "parts": []}
    assert length(server, queue) == 1


def test_the_next_claim_can_be_made_while_the_one_before_it_is_worked_on(
    server: Serving, queue: str, reader: Reader
) -> None:
    ids = send(server, queue, 9)
    reader.open()
    reader.claim(0, 4)

    ahead = reader.claim(1, 4, done=0)

    assert ahead.json == {"number": 2, "count": 4, "parts": [{"part": 0, "count": 4}]}
    assert (reader.read(1)["id"].to_pylist(), reader.read(2)["id"].to_pylist()) == (ids[:4], ids[4:8])
    assert length(server, queue) == 9
    assert reader.claim(1, 0, done=0).json == ahead.json
    assert reader.claim(2, 4, done=1).json == {"number": 3, "count": 1, "parts": [{"part": 0, "count": 1}]}
    assert length(server, queue) == 5
    assert reader.claim(3).json == {"number": 4, "count": 0, "parts": []}
    assert length(server, queue) == 0


def test_all_claims_that_are_open_are_renewed_and_found_again(server: Serving, queue: str, reader: Reader) -> None:
    send(server, queue, 4)
    reader.open()
    made = [reader.claim(number, 2, done=0, lease_ms=60_000).json for number in (0, 1)]

    def leases() -> list[int]:
        [found] = server.call("GET", f"/v1/queues/{queue}/consumers").json
        return [claim["lease_until"] for claim in found["claims"]]

    before = leases()
    assert reader.renew(lease_ms=600_000).status == 204
    assert [after - early > 500_000 for after, early in zip(leases(), before, strict=True)] == [True, True]

    assert reader.open().json["claims"] == [1, 2]
    assert [reader.claim(number, 2, done=0).json for number in (0, 1)] == made


def test_a_part_is_read_as_lines_by_those_who_want_lines(server: Serving, queue: str, reader: Reader) -> None:
    [id] = send(server, queue, 1)
    reader.open()
    reader.claim(0)

    answer = server.call("GET", f"{reader.path}/claims/1/parts/0?columns=id,body,attempts")

    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in answer.body.splitlines()] == [{"id": id, "body": {"n": 0}, "attempts": 1}]


def test_a_second_owner_is_told_when_to_come_back(reader: Reader) -> None:
    reader.open("one", hold_ms=20_000)

    answer = reader.open("two")

    assert answer.status == 409
    assert answer.headers["x-sqew-error"] == "consumer_in_use"
    assert 18 <= int(answer.headers["retry-after"]) <= 20
    assert "is in the hands of 'one'" in answer.json["error"]


def test_a_driver_that_comes_back_has_its_claims_and_fences_off_the_one_before(
    server: Serving, queue: str, reader: Reader
) -> None:
    send(server, queue, 3)
    reader.open()
    made = reader.claim(0).json
    before, reader_now = reader, Reader(server, queue)

    opened = reader_now.open().json

    assert opened == {"epoch": before.epoch + 1, "claims": [1], "last": 1}
    for refused in (before.claim(1), before.renew()):
        assert refused.status == 409
        assert refused.headers["x-sqew-error"] == "fenced"
    assert reader_now.claim(0).json == made
    assert length(server, queue) == 3


def test_a_consumer_is_taken_over_when_its_hold_is_over(reader: Reader) -> None:
    before = reader.open("one", hold_ms=0).json["epoch"]

    assert reader.open("two").json["epoch"] == before + 1


def test_renewing_holds_it_for_longer(reader: Reader) -> None:
    reader.open("one", hold_ms=0)

    assert reader.renew(hold_ms=60_000, lease_ms=60_000).status == 204

    assert reader.open("two").status == 409


def test_a_claim_whose_lease_ends_comes_back_to_the_queue(server: Serving, queue: str, reader: Reader) -> None:
    ids = send(server, queue, 3)
    reader.open()
    reader.claim(0, lease_ms=100)

    answer = server.call("GET", f"/v1/queues/{queue}/messages?max=10&wait=15")

    assert [message["id"] for message in answer.json] == ids
    assert server.call("GET", f"{reader.path}/claims/1/parts/0").status == 404


def test_releasing_gives_everything_back(server: Serving, queue: str, reader: Reader) -> None:
    ids = send(server, queue, 2_500)
    reader.open()
    reader.claim(0)

    refused = server.call("DELETE", reader.path)
    assert refused.headers["x-sqew-error"] == "consumer_in_use"
    assert server.call("DELETE", f"{reader.path}?force=true").status == 204

    assert server.call("GET", f"/v1/queues/{queue}/consumers").json == []
    received = server.call("GET", f"/v1/queues/{queue}/messages?max=1000").json
    assert [message["id"] for message in received] == ids[:1000]
    assert server.call("DELETE", reader.path).status == 404


def test_consumers_are_listed(server: Serving, queue: str, reader: Reader) -> None:
    send(server, queue, 2)
    reader.open("query")
    reader.claim(0)

    [found] = server.call("GET", f"/v1/queues/{queue}/consumers").json

    assert (found["name"], found["owner"], found["epoch"], found["last"]) == ("spark", "query", reader.epoch, 1)
    assert [(claim["number"], claim["count"]) for claim in found["claims"]] == [(1, 2)]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/open", {"owner": ""}, 400),
        ("POST", "/open", {"owner": "o", "hold_ms": -1}, 400),
        ("POST", "/open", {}, 400),
        ("POST", "/claims", {"epoch": 1, "after": -1}, 400),
        ("POST", "/claims", {"epoch": 1, "after": 0, "limit": -1}, 400),
        ("POST", "/claims", {"epoch": 1, "after": 0, "lease_ms": -5}, 400),
        ("POST", "/claims", {"epoch": 1, "after": 1, "done": 2}, 400),
        ("POST", "/claims", {"epoch": 1, "after": 1, "done": -1}, 400),
        ("POST", "/claims", {"epoch": 7, "after": 1, "done": 0}, 409),
        ("POST", "/renew", {"epoch": 7}, 409),
        ("GET", "/claims/1/parts/0", None, 404),
        ("GET", "/claims/x/parts/0", None, 400),
        ("GET", "/claims/1/parts/-1", None, 400),
        ("GET", "/claims/1/parts/0?columns=boddy", None, 400),
        ("DELETE", "x", None, 404),
    ],
)
def test_what_is_wrong_is_refused(
    server: Serving, reader: Reader, method: str, path: str, body: Any, status: int
) -> None:
    reader.open()

    answer = server.call(method, reader.path + path, body)

    assert answer.status == status, answer.body
    assert answer.json["error"].endswith(".")


@pytest.mark.parametrize("store", STORES)
def test_a_claim_made_ahead_outlasts_the_server_as_the_one_before_it_does(store: str, tmp_path: Path) -> None:
    database = new_database() if store == "postgres" else None
    with serving(tmp_path, database=database) as server:
        server.call("POST", "/v1/queues", {"name": "orders"})
        ids = send(server, "orders", 3_000)
        reader = Reader(server, "orders")
        reader.open()
        made = [reader.claim(0, 1_200).json, reader.claim(1, 1_200, done=0).json]
        server.stop(signal.SIGKILL)

    with serving(tmp_path, database=database) as server:
        reader = Reader(server, "orders")
        assert reader.open().json["claims"] == [1, 2]
        assert [reader.claim(0, 0).json, reader.claim(1, 0, done=0).json] == made
        assert [id for number in (1, 2) for id in reader.read(number)["id"].to_pylist()] == ids[:2_400]
        assert reader.claim(2, done=1).json["count"] == 600
        assert length(server, "orders") == 1_800


@pytest.mark.parametrize("store", STORES)
def test_nothing_is_lost_when_the_server_is_killed_between_claim_and_ack(store: str, tmp_path: Path) -> None:
    database = new_database() if store == "postgres" else None
    with serving(tmp_path, database=database) as server:
        server.call("POST", "/v1/queues", {"name": "orders"})
        ids = send(server, "orders", 3_000)
        reader = Reader(server, "orders")
        reader.open()
        assert reader.claim(0, 2_000).json["count"] == 2_000
        read_before = reader.read(1)["id"].to_pylist()
        server.stop(signal.SIGKILL)

    with serving(tmp_path, database=database) as server:
        reader = Reader(server, "orders")
        assert reader.open().json == {"epoch": 2, "claims": [1], "last": 1}
        assert reader.claim(0).json["count"] == 2_000
        assert reader.read(1)["id"].to_pylist() == read_before == ids[:2_000]
        assert reader.claim(1).json["count"] == 1_000
        assert reader.read(2)["id"].to_pylist() == ids[2_000:]
        assert length(server, "orders") == 1_000
        server.stop(signal.SIGKILL)

    with serving(tmp_path, database=database) as server:
        reader = Reader(server, "orders")
        assert reader.open().json["claims"] == [2]
        assert reader.claim(2).json["count"] == 0
        assert length(server, "orders") == 0
