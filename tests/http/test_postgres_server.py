"""A server with its queues in PostgreSQL, and its behaviour while the database is in trouble."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from sqew.errors import OutcomeUnknown, SqewError, StoreBusy, StoreError, StoreFull, StoreUnavailable
from sqew.http.dialects.aws.refusals import in_aws_words
from sqew.http.dialects.aws.sns.refusals import in_sns_words
from sqew.installing import UPGRADE
from tests.support.cluster import Cluster, crashing_cluster
from tests.support.postgres import fetch_column, new_database
from tests.support.serving import Answer, Serving, serving

WITHIN_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Yield a cluster that tests may stop; each starts it again."""
    with crashing_cluster("server") as cluster:
        yield cluster


@pytest.fixture
def server(cluster: Cluster, tmp_path: Path) -> Iterator[Serving]:
    """Yield a server on the cluster, with a queue."""
    with serving(tmp_path, "--database-url", cluster.url()) as server:
        assert server.call("POST", "/queues", {"name": "orders"}).status in (201, 409)
        server.call("POST", "/queues/orders/purge")
        yield server


@contextlib.contextmanager
def stopped(cluster: Cluster) -> Iterator[None]:
    cluster.stop("immediate")
    try:
        yield
    finally:
        cluster.start()


def send(server: Serving) -> Answer:
    return server.call("POST", "/queues/orders/messages", {"payload": 1})


def until(answer: Callable[[], Answer], status: int) -> Answer:
    """Repeat a request until the answer has that status."""
    deadline = time.monotonic() + WITHIN_S
    while (given := answer()).status != status:
        assert time.monotonic() < deadline, given
        time.sleep(0.02)
    return given


def test_a_server_goes_on_by_itself_when_its_database_is_back(server: Serving, cluster: Cluster) -> None:
    send(server)

    cluster.crash_and_start()

    until(lambda: send(server), 201)
    received = server.call("POST", "/queues/orders/poll?batch=10")
    assert len(received.json["messages"]) == 2


def test_while_the_database_is_away_requests_are_refused_at_once(server: Serving, cluster: Cluster) -> None:
    with stopped(cluster):
        until(lambda: send(server), 503)
        began = time.monotonic()
        answers = [send(server) for _ in range(50)]
        took_s = time.monotonic() - began

    assert {(answer.status, answer.headers.get("retry-after")) for answer in answers} == {(503, "1")}
    assert {answer.headers["x-sqew-error"] for answer in answers} == {"store_unavailable"}
    assert took_s < 10


def test_readyz_tells_and_livez_stays_up(server: Serving, cluster: Cluster) -> None:
    with stopped(cluster):
        away = until(lambda: server.call("GET", "/readyz"), 503)
        alive = server.call("GET", "/livez")

    assert away.json["status"] == "degraded"
    assert alive.status == 200
    until(lambda: server.call("GET", "/readyz"), 200)


def test_when_the_database_hangs_what_waits_is_refused_and_readyz_tells_at_once(
    server: Serving, cluster: Cluster
) -> None:
    with ThreadPoolExecutor() as pool, cluster.frozen():
        began = time.monotonic()
        sent = pool.submit(timed, lambda: send(server))
        ready, asked_s = timed(lambda: server.call("GET", "/readyz"))
        refused, waited_s = sent.result()
        again, refused_s = timed(lambda: send(server))
        known_s = time.monotonic() - began

    assert (ready.status, refused.status, again.status) == (503, 503, 503)
    assert refused.headers["x-sqew-error"] == "store_unavailable"
    assert asked_s < 5
    assert refused_s < 5
    assert waited_s < 15
    assert known_s < 20
    until(lambda: server.call("GET", "/readyz"), 200)
    assert "does not answer: no answer in time" in server.log.read_text()


def timed(act: Callable[[], Answer]) -> tuple[Answer, float]:
    began = time.monotonic()
    return act(), time.monotonic() - began


@pytest.mark.parametrize("path", ["/readyz", "/healthz", "/health"])
def test_who_looks_while_the_database_is_away_is_told_when_to_come_back_and_the_log_stays_calm(
    server: Serving, cluster: Cluster, path: str
) -> None:
    with stopped(cluster):
        away = until(lambda: server.call("GET", path), 503)
    until(lambda: server.call("GET", path), 200)
    server.stop()

    assert away.headers["retry-after"] == "1"
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    assert {line["level"] for line in lines if line.get("path") == path} == {"warning"}
    assert [line["level"] for line in lines if line["event"] == "the database is back"] == ["info"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/queues/orders/messages", {"payload": 1}),
        ("/v1/queues/orders/messages", {"message": 1}),
        ("/queues/orders/enqueue", {"n": 1}),
        ("/health", None),
    ],
)
def test_no_client_is_told_where_the_database_is_and_the_log_says_why(
    server: Serving, cluster: Cluster, path: str, body: object
) -> None:
    method = "GET" if body is None else "POST"
    with stopped(cluster):
        until(lambda: send(server), 503)
        refused = server.call(method, path, body)

    assert refused.status == 503
    assert b"127.0.0.1" not in refused.body
    assert b"postgresql://" not in refused.body
    assert b"Try again in a moment" in refused.body
    assert f"{cluster.url()} does not answer" in server.log.read_text()


@pytest.mark.parametrize("in_words", [in_aws_words, in_sns_words])
def test_nor_are_the_clients_of_aws(in_words: Callable[[SqewError], SqewError]) -> None:
    for kind in (StoreUnavailable, StoreBusy, OutcomeUnknown, StoreFull, StoreError):
        assert "10.0.0.7" not in str(in_words(kind("postgresql://10.0.0.7/queues does not answer.")))


def test_a_long_poll_survives_a_restart_of_the_database(server: Serving, cluster: Cluster) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(server.call, "POST", "/queues/orders/poll?wait_ms=30000", timeout=60)
        until_busy(server)
        cluster.crash_and_start()
        until(lambda: send(server), 201)
        received = waiting.result()

    assert received.status == 200
    assert len(received.json["messages"]) == 1


def until_busy(server: Serving) -> None:
    """Return when another request is in flight beside this one."""
    deadline = time.monotonic() + WITHIN_S
    while b"http_connections_active 2" not in server.call("GET", "/metrics").body:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_restart_under_load_gives_nothing_but_503(server: Serving, cluster: Cluster) -> None:
    statuses: Counter[int] = Counter()
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            statuses[send(server).status] += 1
            statuses[server.call("POST", "/queues/orders/poll?batch=5").status] += 1

    with ThreadPoolExecutor(8) as pool:
        loads = [pool.submit(load) for _ in range(8)]
        for _ in range(2):
            before = statuses[201]
            cluster.crash_and_start()
            deadline = time.monotonic() + WITHIN_S
            while statuses[201] < before + 200 and time.monotonic() < deadline:
                time.sleep(0.02)
        over.set()
        for one in loads:
            one.result()

    assert set(statuses) == {200, 201, 503}


def test_schedules_fire_again_when_the_database_is_back(server: Serving, cluster: Cluster) -> None:
    schedule = {"target_kind": "queue", "target": "orders", "cron": "* * * * * *", "message": 1}
    made = server.call("PUT", "/v1/schedules/often", schedule)
    assert made.status in (200, 201), made.body

    cluster.crash_and_start()
    until(lambda: server.call("GET", "/readyz"), 200)
    server.call("POST", "/queues/orders/purge")
    received = server.call("POST", "/queues/orders/poll?wait_ms=20000")
    server.call("DELETE", "/v1/schedules/often")

    assert len(received.json["messages"]) == 1


def test_servers_wake_each_other_again_when_the_database_is_back(
    server: Serving, cluster: Cluster, tmp_path: Path
) -> None:
    with serving(tmp_path, "--database-url", cluster.url()) as other, ThreadPoolExecutor() as pool:
        cluster.crash_and_start()
        until(lambda: server.call("GET", "/readyz"), 200)
        until(lambda: other.call("GET", "/readyz"), 200)
        heard = 'db_notices_total{way="heard"}'
        until_counted(other, heard, lambda: send(server))
        server.call("POST", "/queues/orders/purge")

        waiting = pool.submit(other.call, "POST", "/queues/orders/poll?wait_ms=20000", timeout=60)
        until_busy(other)
        sent_at = time.monotonic()
        send(server)
        received = waiting.result()

    assert len(received.json["messages"]) == 1
    # Who is not told looks by itself every 5 seconds.
    assert time.monotonic() - sent_at < 4.5


def until_counted(server: Serving, metric: str, act: Callable[[], object]) -> None:
    """Repeat an act until a metric of the server is above zero."""
    deadline = time.monotonic() + WITHIN_S
    while not server.figure(metric) > 0:
        assert time.monotonic() < deadline
        act()
        time.sleep(0.1)


def test_metrics_tell_of_the_database(server: Serving, cluster: Cluster) -> None:
    send(server)
    with stopped(cluster):
        until(lambda: send(server), 503)
        send(server)
        away = server.figure("db_up")
    until(lambda: send(server), 201)

    assert away == 0
    assert server.figure("db_up") == 1
    assert server.figure("db_reconnects_total") == 1
    assert server.figure('db_refusals_total{reason="away"}') >= 1
    assert server.figure("db_connections_max") == 8
    assert server.figure("db_transaction_operations_count") > 0


def pool_of(server: Serving) -> tuple[float, float, float]:
    """Return the pool's sizes in /metrics at one moment: all, idle and active."""
    text = server.call("GET", "/metrics").body.decode()
    size, idle, active = (
        float(line.split()[1])
        for name in ("size", "idle", "active")
        for line in text.splitlines()
        if line.startswith(f"db_pool_{name} ")
    )
    return size, idle, active


@contextlib.contextmanager
def everybody_held_up(url: str) -> Iterator[None]:
    """Hold the lock that every writing transaction waits for."""
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(url))
        runner.run(connection.execute("SELECT pg_advisory_lock(1399940471, 0)"))
        try:
            yield
        finally:
            runner.run(connection.close())


WAITING = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sqew' AND wait_event_type = 'Lock'"


def test_the_pool_is_counted_while_connections_are_held(server: Serving, cluster: Cluster) -> None:
    # The first scrape waits until the queues are counted, which is to be held up here.
    pool_of(server)
    with ThreadPoolExecutor() as pool:
        with everybody_held_up(cluster.url()):
            body = {"payload": 1, "idempotency_key": "held"}
            sending = pool.submit(server.call, "POST", "/queues/orders/messages", body)
            deadline = time.monotonic() + WITHIN_S
            while True:
                # The server's own upkeep is held up as well, by and by.
                [waiting], (size, idle, active) = fetch_column(cluster.url(), WAITING), pool_of(server)
                if waiting == active > 0:
                    break
                assert time.monotonic() < deadline, (waiting, active)
            assert size == idle + active
        assert sending.result().status == 201

    # What scrapes takes none of those for itself.
    deadline = time.monotonic() + WITHIN_S
    while pool_of(server)[2] != 0:
        assert time.monotonic() < deadline
    assert server.figure("db_pool_acquire_timeouts_total") == 0


def test_queues_that_could_not_be_counted_are_counted_again_soon(server: Serving, cluster: Cluster) -> None:
    with cluster.frozen():
        # It takes seconds to find out, and twenty times as long would be minutes.
        server.call("GET", "/metrics")
    until(lambda: send(server), 201)

    began = time.monotonic()
    while not server.figure('queue_messages_sent_total{queue="orders"}') > 0:
        assert time.monotonic() - began < WITHIN_S
        time.sleep(0.2)


def test_the_page_on_postgresql_names_every_metric_of_the_database(server: Serving) -> None:
    page = (Path(__file__).parents[2] / "docs" / "postgresql.md").read_text()
    also = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
    explained = dict(re.findall(r"^\| `(db_\w+)` \| (\w+) \|", page + also, re.MULTILINE))

    text = server.call("GET", "/metrics").body.decode()

    assert dict(re.findall(r"^# TYPE (db_\w+) (\w+)$", text, re.MULTILINE)) == explained


def test_a_server_that_is_older_than_its_database_ends_and_says_why(tmp_path: Path) -> None:
    database = new_database()
    with serving(tmp_path, database=database) as server:
        # As an upgrade of another server does, after which no connection is what it was.
        fetch_column(database, "INSERT INTO sqew_migration VALUES (999, 'later', 0) RETURNING version")
        fetch_column(
            database,
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )

        code = server.process.wait(WITHIN_S)

    assert code == 5
    assert UPGRADE in server.log.read_text().splitlines()[-1]


def test_a_server_that_an_upgrade_has_overtaken_answered_500_before_it_ended(tmp_path: Path) -> None:
    database = new_database()
    answers: list[Answer] = []
    with serving(tmp_path, database=database) as server:
        server.call("POST", "/queues", {"name": "jobs"})
        fetch_column(database, "INSERT INTO sqew_migration VALUES (999, 'later', 0)")
        others = "datname = current_database() AND pid <> pg_backend_pid()"
        fetch_column(database, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")

        # Until nobody listens any more.
        with contextlib.suppress(OSError):
            while server.process.poll() is None:
                answers.append(server.call("POST", "/queues/jobs/messages", {"payload": 1}))

        assert server.process.wait(20) == 5
    assert {answer.status for answer in answers} <= {201, 503}
    assert all("retry-after" in answer.headers for answer in answers if answer.status == 503)


def test_to_compact_is_refused_with_what_to_do_instead(server: Serving) -> None:
    answer = server.call("POST", "/queues/orders/compact")

    assert answer.status == 409
    assert "VACUUM" in answer.body.decode()


def test_figures_are_stored_without_anybody_asking_for_them(server: Serving, cluster: Cluster, tmp_path: Path) -> None:
    sent = 'queue_messages_sent_total{queue="orders"}'
    with serving(tmp_path, "--database-url", cluster.url()) as other:
        before = other.figure(sent)
        send(server)
        deadline = time.monotonic() + WITHIN_S
        while other.figure(sent) <= before and time.monotonic() < deadline:
            time.sleep(0.1)

        assert other.figure(sent) == before + 1


def test_the_log_names_the_database_and_not_its_password(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.url().replace("sqew@", "sqew:tr0mb0ne@")
    with serving(tmp_path, "--database-url", url, "--log-format", "json", "--log-level", "debug") as server:
        cluster.crash_and_start()
        until(lambda: server.call("GET", "/readyz"), 200)
        metrics = server.call("GET", "/metrics").body.decode()
        server.stop()
        log = server.log.read_text()

    (listening,) = [line for line in map(json.loads, log.splitlines()) if line["event"] == "listening"]
    assert listening["database"] == cluster.url()
    assert "db" not in listening
    assert "tr0mb0ne" not in log + metrics


def test_config_show_hides_the_password(tmp_path: Path) -> None:
    url = "postgresql://sqew:tr0mb0ne@localhost/queues"

    shown = sqew(tmp_path, "--database-url", url, "--database-listen-url", url, "config", "show")

    assert shown.returncode == 0
    assert "tr0mb0ne" not in shown.stdout + shown.stderr


def sqew(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sqew", *arguments], capture_output=True, text=True, cwd=folder, timeout=60
    )


@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [
        ("postgresql://sqew:tr0mb0ne@127.0.0.1:1/postgres", 5, "Check host and port"),
        ("postgresql://sqew:tr0mb0ne@no.such.host.invalid/postgres", 5, "Check host and port"),
        ("postgresql://sqew:tr0mb0ne@127.0.0.1:{port}/nothing", 5, "createdb -O sqew nothing"),
        ("postgresql://nobody:tr0mb0ne@127.0.0.1:{port}/postgres", 5, "Check user and password"),
        ("postgresql://sqew:tr0mb/0ne@127.0.0.1:{port}/postgres", 2, "percent-encoded"),
        ("postgresql://sqew:tr0mb0ne@127.0.0.1:{port}/postgres?sslmode=perhaps", 2, "sslmode"),
        ("mysql://sqew:tr0mb0ne@127.0.0.1/postgres", 2, "postgresql://"),
    ],
)
def test_a_url_that_does_not_lead_to_a_database_is_one_line(
    cluster: Cluster, tmp_path: Path, url: str, code: int, sentence: str
) -> None:
    ended = sqew(tmp_path, "serve", "--port", "0", "--database-url", url.format(port=cluster.port))

    assert ended.returncode == code, ended.stderr
    assert ended.stderr.count("\n") == 1, ended.stderr
    assert sentence in ended.stderr
    assert "tr0mb" not in ended.stderr
