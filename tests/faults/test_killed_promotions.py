"""Promotions whose server is killed (kill -9): every message is in the queue once, by whichever process finishes."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from pathlib import Path

import apsw
import pytest

from sqew.clock import Clock
from sqew.formats.columns import CHUNK, columns
from sqew.model import NewMessage
from sqew.operations import CreateQueue, Promote, Stage, StepPromotion
from sqew.rules.policies import default_policy
from sqew.stores.sql.staging import LEFT_UNDONE_MS
from sqew.stores.sqlite import SQLiteStore
from tests.support.postgres import fetch_column, new_database
from tests.support.serving import STORES, Serving, serving

COUNT, BATCH, KILLS = 30_000, 5_000, 3
MOST_EPOCHS = 10
"""The most that may be promoted before their server is killed, on a machine that is slow to kill it."""
LEFT = "SELECT CAST(coalesce(sum(messages), 0) AS BIGINT) FROM sqew_part"
WITHIN_S = 60.0


class Place:
    """A place where a server keeps its queues, readable while the server is dead or alive."""

    def __init__(self, store: str, folder: Path) -> None:
        self._folder = folder
        self.database = new_database() if store == "postgres" else None

    def served(self) -> AbstractContextManager[Serving]:
        return serving(self._folder, "--durability", "durable", database=self.database)

    def left(self) -> int:
        """Count the messages that are staged."""
        if self.database is not None:
            return int(fetch_column(self.database, LEFT)[0])
        with closing(apsw.Connection(str(self._folder / "queue.db"), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(10_000)
            return int(connection.execute(LEFT).get)


def path_of(epoch: int) -> str:
    return f"/v1/queues/orders/writers/job/epochs/{epoch}"


def stage_all(server: Serving, epoch: int) -> None:
    for start in range(0, COUNT, BATCH):
        messages = [{"message": epoch * COUNT + number} for number in range(start, start + BATCH)]
        assert server.call("POST", f"{path_of(epoch)}/parts/p?offset={start}", messages).status == 200


def promote(server: Serving, epoch: int = 0) -> dict[str, object] | None:
    """Promote the epoch and return the answer; None if there was none."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        answer = server.call("POST", f"{path_of(epoch)}/promote", {"parts": {"p": COUNT}}, timeout=WITHIN_S)
        assert answer.status == 200, answer
        return dict(answer.json)
    return None


def kill_when(server: Serving, has_come: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not has_come():
        assert time.monotonic() < deadline
    server.process.kill()
    server.process.wait()


def exported(server: Serving) -> Iterator[int]:
    for line in server.call("GET", "/queues/orders/export").body.splitlines():
        yield json.loads(line)["body"]


@pytest.mark.parametrize("store", STORES)
def test_a_promotion_that_is_killed_again_and_again_adds_every_message_once(store, tmp_path):
    place = Place(store, tmp_path)
    with place.served() as server:
        assert server.call("POST", "/v1/queues", {"name": "orders"}).status == 201
    for epoch in range(MOST_EPOCHS):
        with place.served() as server:
            stage_all(server, epoch)
        kills = kill_in_the_middle(place, epoch)
        if kills == KILLS:
            break  # otherwise it was done before the server was killed: the next one then

    with place.served() as server:
        answer = promote(server, epoch)
        again = promote(server, epoch)
        found = list(exported(server))

    assert kills == KILLS, f"the last of {epoch + 1} epochs was promoted after {kills} kills in the middle of it"
    assert answer == {"promoted": COUNT, "duplicates": 0, "repeated": False}
    assert again == {"promoted": COUNT, "duplicates": 0, "repeated": True}
    assert sorted(found) == list(range((epoch + 1) * COUNT))


def kill_in_the_middle(place: Place, epoch: int) -> int:
    """Kill servers while they promote an epoch, and return how often it was done in part."""
    for kills in range(KILLS):
        with place.served() as server:
            before = place.left()
            client = threading.Thread(target=promote, args=(server, epoch))
            client.start()
            kill_when(server, lambda before=before: place.left() < before)
            client.join()
            if not place.left():
                return kills
    return KILLS


def test_a_server_finishes_the_promotion_of_a_client_that_is_gone(tmp_path):
    path, past = tmp_path / "queue.db", Clock().now() - LEFT_UNDONE_MS
    messages = columns(NewMessage(b"%d" % number) for number in range(3 * CHUNK))
    with closing(SQLiteStore(path, now=past)) as store:
        store.run([CreateQueue("orders", default_policy("orders", {"dead_letter": None}))], past)
        store.run([Stage("orders", "job", 0, "p", messages)], past)
        store.run([Promote("orders", "job", 0, {"p": 3 * CHUNK})], past)
        store.run([StepPromotion("orders", "job", 0)], past)

    with serving(tmp_path) as server:
        deadline = time.monotonic() + WITHIN_S
        while server.call("GET", "/v1/queues/orders/writers/job").json["staged"]:
            assert time.monotonic() < deadline

        assert sorted(exported(server)) == list(range(3 * CHUNK))


def test_two_servers_that_promote_the_same_epoch_at_once_add_every_message_once(tmp_path):
    database = new_database()
    with serving(tmp_path, database=database) as one, serving(tmp_path, database=database) as other:
        assert one.call("POST", "/v1/queues", {"name": "orders"}).status == 201
        stage_both(one, other)

        with ThreadPoolExecutor() as threads:
            answers = list(threads.map(promote, (one, other, one, other)))

        assert {answer["promoted"] for answer in answers if answer is not None} == {COUNT}
        assert len(answers) == 4
        assert sorted(exported(other)) == list(range(COUNT))


def stage_both(*servers: Serving) -> None:
    """Stage the batches of one part by two servers at a time, each of them twice."""
    with ThreadPoolExecutor() as threads:
        for start in range(0, COUNT, BATCH):
            messages = [{"message": number} for number in range(start, start + BATCH)]
            path = f"{path_of(0)}/parts/p?offset={start}"
            under_way = [threads.submit(server.call, "POST", path, messages) for server in servers * 2]
            assert [one.result().json for one in under_way] == [{"staged": BATCH}] * 4
