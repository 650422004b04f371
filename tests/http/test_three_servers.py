"""Servers on one database, three of them, do together what one does alone."""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.http.dialects.vocabularies import SQEW, new_name, new_queue
from tests.http.webhooks import eventually, new_key, publish, subscribe
from tests.support.endpoint import endpoint
from tests.support.postgres import new_database
from tests.support.serving import Answer, Serving, serving

FLAGS = ("--durability", "fast", "--schedule-poll-ms", "50", "--delivery-allow", "127.0.0.1")


@contextlib.contextmanager
def three_servers(folder: Path, database: str) -> Iterator[list[Serving]]:
    """Yield three servers that were started at the same moment."""
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(3) as threads:
        yield list(threads.map(lambda _: stack.enter_context(serving(folder, *FLAGS, database=database)), range(3)))


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Serving]]:
    """Yield three servers that found a database without a single table, and shared the work of making them."""
    with three_servers(tmp_path_factory.mktemp("trio"), new_database("template0")) as servers:
        yield servers


def at_once(*calls: Callable[[], Answer]) -> list[Answer]:
    """Make calls at the same moment, as near as threads can."""
    ready = threading.Barrier(len(calls))

    def make(call: Callable[[], Answer]) -> Answer:
        ready.wait(10)
        return call()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(make, calls))


def send(server: Serving, queue: str, body: Any) -> Callable[[], Answer]:
    return lambda: server.call("POST", f"/queues/{queue}/messages", body)


def ready(server: Serving, queue: str) -> int:
    count: int = server.call("GET", f"/queues/{queue}/stats").json["ready"]
    return count


def test_a_queue_that_one_makes_is_there_for_the_others_at_once(trio):
    for maker in trio:
        queue = new_queue(maker)

        ids = [SQEW.send(server, queue, 1) for server in trio]

        assert sorted(set(ids)) == ids


def test_a_queue_that_all_make_at_once_is_as_one_of_them_wants_it(trio):
    name = new_name()

    def make(server: Serving, quota: int) -> Callable[[], Answer]:
        return lambda: server.call("POST", "/queues", {"name": name, "quota": quota})

    answers = at_once(*(make(server, quota) for quota, server in enumerate(trio, 1)))

    assert sorted(answer.status for answer in answers) == [201, 409, 409]
    (made,) = [quota for quota, answer in enumerate(answers, 1) if answer.status == 201]
    assert {server.call("GET", f"/queues/{name}").json["quota"] for server in trio} == {made}


def test_a_policy_that_one_changes_holds_for_the_others_at_once(trio):
    queue = new_queue(trio[0])
    SQEW.send(trio[1], queue, 1)

    trio[0].call("PATCH", f"/queues/{queue}", {"quota": 1})

    assert [send(server, queue, {"payload": 2})().status for server in trio] == [429] * 3


def test_a_long_poll_on_one_server_is_answered_by_a_send_to_another(trio, capsys):
    queue, took = new_queue(trio[0]), []
    for n in range(20):
        receiver, sender = trio[n % 3], trio[(n + 1) % 3]
        with ThreadPoolExecutor(1) as threads:
            poll = threads.submit(receiver.call, "POST", f"/queues/{queue}/poll?wait_ms=20000")
            # Long enough for the poll to have found nothing; were it not, the figure below would only be better.
            with contextlib.suppress(TimeoutError):
                poll.exception(0.1)

            began = time.perf_counter()
            SQEW.send(sender, queue, n)
            answer = poll.result(30)
            took.append((time.perf_counter() - began) * 1000)

        assert [message["payload"] for message in answer.json["messages"]] == [n]
    with capsys.disabled():
        print(f"\nfrom a send to the answer on another server: {statistics.median(took):.1f} ms, {max(took):.1f} ms")  # noqa: T201
    # On a machine that is busy with other tests some take longer; who was not told at all would look after 5 s.
    assert min(took) < 50, took
    assert max(took) < 4_500, took


def test_an_idempotency_key_that_three_are_given_at_once_is_stored_once(trio):
    queue = new_queue(trio[0])
    for n in range(30):
        body = {"payload": n, "idempotency_key": f"key-{n}"}

        answers = at_once(*(send(server, queue, body) for server in trio))

        assert {answer.status for answer in answers} <= {200, 201}
        assert len({answer.json["message_id"] for answer in answers}) == 1
        assert sorted(answer.json["duplicate"] for answer in answers) == [False, True, True]
    assert ready(trio[0], queue) == 30


def test_a_quota_holds_for_all_servers_together(trio):
    queue = new_queue(trio[0], quota=20)

    with ThreadPoolExecutor(12) as threads:
        calls = [send(trio[n % 3], queue, {"payload": n}) for n in range(90)]
        statuses = Counter(answer.status for answer in threads.map(lambda call: call(), calls))

    assert statuses == {201: 20, 429: 70}
    assert ready(trio[1], queue) == 20


def test_each_message_goes_to_one_receiver_whichever_server_it_asks(trio):
    queue = new_queue(trio[0])
    for server in trio:
        server.call("POST", f"/queues/{queue}/messages", [{"payload": n} for n in range(100)])

    def receive_all(server: Serving) -> list[int]:
        received = []
        while messages := server.call("POST", f"/queues/{queue}/poll?batch=7").json["messages"]:
            received += [message["id"] for message in messages]
        return received

    with ThreadPoolExecutor(6) as threads:
        taken = [id for ids in threads.map(receive_all, trio * 2) for id in ids]

    # A receiver may pass over what another has locked, so some may be left for who asks again.
    taken += receive_all(trio[0])
    assert len(taken) == len(set(taken)) == 300


def test_a_group_stays_in_order_with_competing_consumers_on_two_servers(trio):
    queue = f"{new_name()}.fifo"
    assert trio[0].call("POST", "/queues", {"name": queue}).status == 201
    groups = ("a", "b", "c")
    for n in range(40):
        server = trio[n % 3]
        server.call("POST", f"/queues/{queue}/messages", [{"payload": n, "group": group} for group in groups])
    seen: dict[str, list[int]] = defaultdict(list)

    def consume(server: Serving) -> None:
        while sum(map(len, seen.values())) < 120:
            messages = server.call("POST", f"/queues/{queue}/poll?batch=3&wait_ms=200").json["messages"]
            for message in messages:
                seen[message["group"]].append(message["payload"])
            refs = [{"id": message["id"], "token": message["token"]} for message in messages]
            if refs:
                assert server.call("POST", f"/queues/{queue}/ack", refs).status == 200

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(consume, trio[:2] * 2, timeout=60))

    assert seen == {group: list(range(40)) for group in groups}


def test_each_slot_of_a_schedule_fires_once(trio):
    queue, name = new_queue(trio[0]), new_name()
    schedule = {"name": name, "target_kind": "queue", "target": queue, "every": "1 second", "message": "tick"}
    assert trio[0].call("POST", "/v1/schedules", schedule).status == 201

    assert eventually(lambda: ready(trio[1], queue) >= 5, within=60)
    assert trio[2].call("DELETE", f"/v1/schedules/{name}").status in (200, 204)

    messages = trio[0].call("POST", f"/queues/{queue}/poll?batch=100").json["messages"]
    slots = Counter(message["headers"]["_schedule"]["scheduled_for"] for message in messages)
    assert set(slots.values()) == {1}
    assert len(slots) >= 5


def test_each_event_is_posted_once_whichever_server_it_came_by(trio):
    key = new_key()
    with endpoint() as hook:
        subscribe(trio[0], key, endpoint=hook.url("/hook"))

        for n in range(60):
            publish(trio[n % 3], key, n)

        assert eventually(lambda: len(hook.received("/hook")) >= 60, within=60)
        assert eventually(lambda: trio[0].call("GET", "/v1/deliveries").json == [], within=60)
        posted = Counter(json.loads(request.body) for request in hook.received("/hook"))
    assert posted == Counter(range(60))


NUL = "a\0b"


@pytest.mark.parametrize(
    "body",
    [{"payload": 1, "idempotency_key": NUL}, {"payload": 1, "group": NUL}, {"payload": 1, "lane": NUL}],
    ids=lambda body: [*body][-1],
)
def test_what_the_database_can_not_hold_is_refused_as_any_store_refuses_it(trio, body):
    queue = new_queue(trio[0])

    answer = send(trio[0], queue, body)()

    assert answer.status == 400
    assert "NUL. Leave it out." in answer.json["error"]["message"]
    assert ready(trio[0], queue) == 0


def test_a_body_holds_whatever_it_may_hold_elsewhere(trio):
    queue = new_queue(trio[0])

    SQEW.send(trio[0], queue, {NUL: NUL})

    (message,) = trio[1].call("POST", f"/queues/{queue}/poll").json["messages"]
    assert message["payload"] == {NUL: NUL}
