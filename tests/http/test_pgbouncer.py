"""Servers that reach their database through PgBouncer in transaction mode, as Debian's package sets it up."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from time import monotonic
from typing import Any

import asyncpg
import pytest

from sqew.stores.postgres.connection import PLANNING
from tests.http.dialects.vocabularies import SQEW, new_name, new_queue
from tests.http.webhooks import eventually, new_key, publish, subscribe
from tests.support.cluster import pooler
from tests.support.endpoint import endpoint
from tests.support.postgres import fetch_column, new_database
from tests.support.serving import Answer, Serving, serving

FLAGS = ("--database-pooler", "--durability", "fast", "--schedule-poll-ms", "50", "--delivery-allow", "127.0.0.1")
UNCHECKED = (
    "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/sqs/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=00"
)
TIMEOUT_MS = 300
WARNING = "a pooler loses the wake-ups of other servers"


@contextlib.contextmanager
def two_servers(folder: Path, pooled: str, *flags: str) -> Iterator[list[Serving]]:
    with (
        serving(folder, *FLAGS, *flags, database=pooled) as one,
        serving(folder, *FLAGS, *flags, database=pooled) as two,
    ):
        yield [one, two]


@pytest.fixture(scope="module")
def database() -> str:
    """Return the URL of the database itself."""
    return new_database("template0")


@pytest.fixture(scope="module")
def pooled(database: str) -> Iterator[str]:
    """Yield the URL of a pooler to the database with three connections, fewer than a server would like."""
    with pooler(database, connections=3) as url:
        yield url


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, database: str, pooled: str) -> Iterator[list[Serving]]:
    """Yield two servers that found an empty database, and notify each other past the pooler."""
    folder = tmp_path_factory.mktemp("pair")
    with two_servers(folder, pooled, "--database-listen-url", database) as servers:
        yield servers
        assert not [log for log in logs(servers) if "Traceback" in log or WARNING in log]


def logs(servers: list[Serving]) -> list[str]:
    return [server.log.read_text() for server in servers]


def sqs(server: Serving, action: str, **parameters: Any) -> Any:
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"}
    answer = server.call("POST", "/", parameters, {**headers, "Authorization": UNCHECKED})
    assert answer.status == 200, answer
    return answer.json if answer.body else None


def send(server: Serving, queue: str) -> Answer:
    return server.call("POST", f"/queues/{queue}/messages", {"payload": 1})


def poll(server: Serving, queue: str, **options: int) -> list[Any]:
    asked = "&".join(f"{name}={value}" for name, value in options.items())
    messages: list[Any] = server.call("POST", f"/queues/{queue}/poll?{asked}", timeout=60).json["messages"]
    return messages


def test_what_one_server_sends_another_receives_and_acks(pair):
    one, two = pair
    queue = new_queue(one)
    sent = [SQEW.send(one, queue, n) for n in range(20)]

    received = poll(two, queue, batch=100)
    acked = two.call("POST", f"/queues/{queue}/ack", [{"id": m["id"], "token": m["token"]} for m in received])

    assert [message["id"] for message in received] == sent
    assert [result["ok"] for result in acked.json["results"]] == [True] * 20
    assert one.call("GET", f"/queues/{queue}/stats").json["leased"] == 0


def test_many_clients_get_every_message_once_though_there_are_fewer_connections(pair):
    queue, count = new_queue(pair[0]), 400
    numbers = iter(range(count))
    lock = threading.Lock()

    def work(server: Serving) -> list[int]:
        taken = []
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return taken
            SQEW.send(server, queue, number)
            for message in poll(server, queue, batch=2):
                taken.append(message["payload"])
                assert (
                    server.call("POST", f"/queues/{queue}/ack", {"id": message["id"], "token": message["token"]}).status
                    == 200
                )

    with ThreadPoolExecutor(16) as threads:
        taken = [number for part in threads.map(work, pair * 8) for number in part]

    # What the other server was slow to commit is found within a second.
    while rest := poll(pair[0], queue, batch=100, wait_ms=2_000):
        taken += [message["payload"] for message in rest]
    assert sorted(taken) == list(range(count))


def test_a_group_stays_in_order_when_two_servers_take_turns(pair):
    queue = f"{new_name()}.fifo"
    assert pair[0].call("POST", "/queues", {"name": queue}).status == 201
    for n in range(20):
        body = {"payload": n, "group": "g"}
        assert pair[n % 2].call("POST", f"/queues/{queue}/messages", body).status == 201

    seen = []
    for n in range(20):
        (message,) = poll(pair[n % 2], queue, batch=1)
        seen.append(message["payload"])
        assert (
            pair[(n + 1) % 2]
            .call("POST", f"/queues/{queue}/ack", {"id": message["id"], "token": message["token"]})
            .status
            == 200
        )

    assert seen == list(range(20))


def test_sqs_works(pair):
    one, two = pair
    url = sqs(one, "CreateQueue", QueueName=new_name())["QueueUrl"]
    sent = sqs(one, "SendMessage", QueueUrl=url, MessageBody="hello")

    (message,) = sqs(two, "ReceiveMessage", QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    sqs(one, "DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "hello")
    attributes = sqs(two, "GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_each_slot_of_a_schedule_fires_once(pair):
    one, two = pair
    queue, name = new_queue(one), new_name()
    schedule = {"name": name, "target_kind": "queue", "target": queue, "every": "1 second", "message": "tick"}
    assert one.call("POST", "/v1/schedules", schedule).status == 201

    assert eventually(lambda: two.call("GET", f"/queues/{queue}/stats").json["ready"] >= 3, within=20)
    assert two.call("DELETE", f"/v1/schedules/{name}").status in (200, 204)

    slots = Counter(m["headers"]["_schedule"]["scheduled_for"] for m in poll(one, queue, batch=100))
    assert set(slots.values()) == {1}


def test_each_event_is_posted_once(pair):
    key = new_key()
    with endpoint() as hook:
        subscribe(pair[0], key, endpoint=hook.url("/hook"))

        for n in range(20):
            publish(pair[n % 2], key, n)

        assert eventually(lambda: len(hook.received("/hook")) >= 20, within=20)
        assert eventually(lambda: pair[0].call("GET", "/v1/deliveries").json == [], within=20)
        assert Counter(request.body for request in hook.received("/hook")) == Counter(b"%d" % n for n in range(20))


HEARD = 'db_notices_total{way="heard"}'


def woken_after_s(receiver: Serving, sender: Serving) -> float:
    """Return the seconds until a receiver that waits at one server gets a message sent to another."""
    queue = new_queue(receiver)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(poll, receiver, queue, wait_ms=30_000)
        # Long enough for it to have found nothing; were it not, the figure would only be better.
        with contextlib.suppress(TimeoutError):
            waiting.exception(0.2)
        began = monotonic()
        assert send(sender, queue).status == 201
        assert len(waiting.result(40)) == 1
        return monotonic() - began


def test_a_long_poll_is_woken_by_a_send_to_another_server(pair):
    before = pair[0].figure(HEARD)

    took_s = [woken_after_s(*pair) for _ in range(3)]

    # Who is not told looks by itself, at the latest after 5 seconds.
    assert pair[0].figure(HEARD) >= before + 3
    assert max(took_s) < 4.5, took_s


def test_without_a_way_past_the_pooler_who_waits_looks_by_itself_and_the_log_says_so_once(tmp_path, pooled):
    with two_servers(tmp_path, pooled) as servers:
        assert eventually(lambda: all(WARNING in log for log in logs(servers)))
        took_s = woken_after_s(*servers)

    assert [log.count(WARNING) for log in logs(servers)] == [1, 1]
    assert "set database_listen_url to the database itself" in logs(servers)[0]
    # Not every 5 seconds, as where notices arrive.
    assert took_s < 4.5, took_s


def test_in_session_mode_notices_are_heard_through_the_pooler(tmp_path, database):
    with pooler(database, "session", connections=30) as url, two_servers(tmp_path, url) as servers:
        took_s = [woken_after_s(*servers) for _ in range(3)]
        heard = servers[0].figure(HEARD)

    assert not [log for log in logs(servers) if WARNING in log]
    assert heard >= 3
    assert max(took_s) < 4.5, took_s


def test_a_queue_is_deleted_while_another_server_sends(pair, database):
    one, two = pair
    queue = new_queue(one)
    stored, over = threading.Event(), threading.Event()
    statuses: Counter[int] = Counter()

    def send_until_it_is_gone() -> None:
        while not over.is_set():
            status = send(two, queue).status
            statuses[status] += 1
            if status != 201:
                return
            stored.set()

    with ThreadPoolExecutor(8) as threads:
        senders = [threads.submit(send_until_it_is_gone) for _ in range(8)]
        assert stored.wait(20)
        deleted = one.call("DELETE", f"/queues/{queue}")
        # They end by themselves, unless something is wrong.
        wait(senders, 20)
        over.set()

    assert deleted.status == 200
    assert set(statuses) == {201, 404}
    # What was stored before has gone with it; nothing was put beside it afterwards.
    of_none = (
        "SELECT count(*) FROM sqew_message WHERE queue_id NOT IN (SELECT id FROM sqew_queue WHERE name IS NOT NULL)"
    )
    assert eventually(lambda: fetch_column(database, of_none) == [0], within=20)


@contextlib.contextmanager
def locked(database: str) -> Iterator[None]:
    """Lock the messages against all other use during the block."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(database))
        runner.run(connection.execute("BEGIN; LOCK TABLE sqew_message"))
        try:
            yield
        finally:
            runner.run(connection.close())


@pytest.mark.parametrize(
    ("role_has_it", "code"),
    [(True, "store_busy"), (False, "store_unavailable")],
    ids=["the role has the timeout", "only the server has it"],
)
def test_a_statement_that_takes_too_long_is_refused(tmp_path, role_has_it, code):
    database = new_database()
    if role_has_it:
        name = database.rpartition("/")[2]
        fetch_column(database, f"ALTER ROLE sqew IN DATABASE {name} SET statement_timeout = {TIMEOUT_MS}")
    with (
        pooler(database) as url,
        serving(tmp_path, *FLAGS, "--database-timeout-ms", str(TIMEOUT_MS), database=url) as server,
    ):
        queue = new_queue(server)
        with locked(database):
            refused = send(server, queue)

        sent = eventually(lambda: send(server, queue).status == 201)

    assert sent
    assert (refused.status, refused.headers["x-sqew-error"]) == (503, code)


def test_a_server_that_is_not_told_of_the_pooler_says_what_to_set(tmp_path, pooled):
    command = [sys.executable, "-m", "sqew", "serve", "--port", "0", "--database-url", pooled]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)

    assert ended.returncode == 5
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert "Set database_pooler to true" in ended.stderr


def test_the_page_on_postgresql_names_what_connections_of_our_own_are_set_to() -> None:
    page = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text()
    named = dict(re.findall(r"^ALTER ROLE sqew SET (\w+) = '?(\w+)'?;$", page, re.MULTILINE))

    assert named.items() >= PLANNING.items()
