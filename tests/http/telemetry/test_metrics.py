"""`/metrics` over a real socket: readable by Prometheus' own parser, true, and bounded."""

import json
import re
import secrets
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sqew.observe.labels import BY_ID
from tests.support.serving import serving

SEED_TYPES = {
    "http_requests": "counter",
    "http_request_duration_seconds": "histogram",
    "http_connections_active": "gauge",
    "queue_messages_sent": "counter",
    "queue_messages_received": "counter",
    "queue_messages_deleted": "counter",
    "queue_messages_redelivered": "counter",
    "queue_message_send_duration_seconds": "histogram",
    "queue_message_receive_duration_seconds": "histogram",
    "queue_message_delete_duration_seconds": "histogram",
    "queue_message_age_at_receive_seconds": "histogram",
    "queue_coalescer_flush_batch_size": "histogram",
    "queue_depth": "gauge",
    "queue_in_flight": "gauge",
    # And what the Sqew seed asks for: database time, ready against leased, retries, dead letters, errors.
    "db_transaction_duration_seconds": "histogram",
    "queue_messages": "gauge",
    "queue_messages_nacked": "counter",
    "queue_messages_dead": "counter",
    "http_errors": "counter",
}


class Scraped:
    """The samples of one scrape, as Prometheus understands them."""

    def __init__(self, server):
        answer = server.call("GET", "/metrics")
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        self.text = answer.body.decode()
        self.families = {family.name: family for family in text_string_to_metric_families(self.text)}
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name, **labels):
        return self.samples.get((name, frozenset(labels.items())), 0)

    def labels(self, name, label):
        return {dict(labels).get(label) for sample, labels in self.samples if sample == name}


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        yield server


def make(server, name, **policy):
    assert server.call("POST", "/queues", {"name": name, **policy}).status == 201


def send(server, name, count=1):
    for _ in range(count):
        assert server.call("POST", f"/queues/{name}/messages", {"payload": 1}).status == 201


def poll(server, name, batch=1):
    return server.call("POST", f"/queues/{name}/poll?batch={batch}").json["messages"]


def settle(server, name, how, message, **more):
    body = {"id": message["id"], "token": message["token"], **more}
    return server.call("POST", f"/queues/{name}/{how}", body).status


def test_every_metric_that_the_seeds_name_is_there_with_its_type(server):
    make(server, "orders")
    send(server, "orders")

    scraped = Scraped(server)

    assert {name: family.type for name, family in scraped.families.items() if name in SEED_TYPES} == SEED_TYPES


def test_requests_are_counted_by_method_pattern_and_status(server):
    make(server, "orders")
    send(server, "orders", 3)
    server.call("POST", "/queues/orders/messages", b"{", {"Content-Type": "application/json"})
    server.call("GET", "/queues/orders")
    server.call("HEAD", "/queues/orders")

    scraped = Scraped(server)

    path = "/queues/{queue}/messages"
    assert scraped("http_requests_total", method="POST", path=path, status="201") == 3
    assert scraped("http_requests_total", method="POST", path=path, status="400") == 1
    assert scraped("http_requests_total", method="GET", path="/queues/{queue}", status="200") == 1
    assert scraped("http_requests_total", method="HEAD", path="/queues/{queue}", status="200") == 1
    assert scraped("http_request_duration_seconds_count", method="POST", path=path) == 4
    assert 0 < scraped("http_request_duration_seconds_sum", method="POST", path=path) < 4


def test_a_request_that_waits_for_a_second_counts_as_that_long(server):
    make(server, "orders")
    server.call("POST", "/queues/orders/poll?wait_ms=300")

    scraped = Scraped(server)

    of_poll = {"method": "POST", "path": "/queues/{queue}/poll"}
    assert scraped("http_request_duration_seconds_bucket", le="0.25", **of_poll) == 0
    assert scraped("http_request_duration_seconds_bucket", le="1", **of_poll) == 1


def test_the_scrape_itself_is_in_flight_and_an_idle_connection_is_not(server):
    idle = server.connect()

    scraped = Scraped(server)
    idle.close()

    assert scraped("http_connections_active") == 1
    assert scraped("http_connections_open") == 2


def test_the_life_of_messages_moves_the_counters_of_their_queue(server):
    make(server, "orders", max_attempts=2, backoff={"kind": "fixed", "base_ms": 0, "jitter_ms": 0})
    send(server, "orders", 3)
    first, second, third = poll(server, "orders", 3)
    assert settle(server, "orders", "ack", first) == 200
    assert settle(server, "orders", "nack", second) == 200
    (again,) = poll(server, "orders")
    assert settle(server, "orders", "nack", again) == 200

    scraped = Scraped(server)

    of_queue = {"queue": "orders"}
    assert scraped("queue_messages_sent_total", **of_queue) == 3
    assert scraped("queue_messages_received_total", **of_queue) == 4
    assert scraped("queue_messages_deleted_total", **of_queue) == 1
    assert scraped("queue_messages_redelivered_total", **of_queue) == 1
    assert scraped("queue_messages_nacked_total", **of_queue) == 2
    assert scraped("queue_messages_dead_total", **of_queue) == 1
    assert scraped("queue_in_flight", **of_queue) == 1
    assert scraped("queue_messages", lane="normal", state="leased", **of_queue) == 1
    assert scraped("queue_depth", queue="orders-dlq") == 1
    assert scraped("queue_message_age_at_receive_seconds_count", **of_queue) == 3
    assert scraped("queue_message_send_duration_seconds_count", **of_queue) == 3
    assert scraped("queue_message_receive_duration_seconds_count", **of_queue) == 2
    assert scraped("queue_message_delete_duration_seconds_count", **of_queue) == 1
    assert third["attempts"] == 1


def test_the_age_at_receive_is_that_of_the_first_delivery(server):
    make(server, "orders")
    send(server, "orders")
    time.sleep(0.7)
    poll(server, "orders")

    scraped = Scraped(server)

    of_queue = {"queue": "orders"}
    assert scraped("queue_message_age_at_receive_seconds_bucket", le="0.5", **of_queue) == 0
    assert scraped("queue_message_age_at_receive_seconds_bucket", le="5", **of_queue) == 1
    assert 0.5 < scraped("queue_message_age_at_receive_seconds_sum", **of_queue) < 5


def test_a_batch_is_one_flush_of_as_many_messages(server):
    make(server, "orders")
    server.call("POST", "/queues/orders/messages", [{"payload": n} for n in range(40)])

    scraped = Scraped(server)

    assert scraped("queue_coalescer_flush_batch_size_sum") == 40
    assert scraped("queue_coalescer_flush_batch_size_bucket", le="20") == 0
    assert scraped("queue_coalescer_flush_batch_size_bucket", le="50") == 1


@pytest.mark.parametrize(
    ("queue", "sending", "receiving", "deleted"),
    [
        ("jobs", ("POST", "/queues/jobs/enqueue", {"a": 1}), ("GET", "/queues/jobs/receive", None), 1),
        ("mailbox", ("POST", "/v1/messages", {"body": "hello"}), ("GET", "/v1/messages", None), 0),
    ],
    ids=["hq", "mailbox"],
)
def test_every_dialect_moves_the_same_counters(server, queue, sending, receiving, deleted):
    make(server, queue)
    assert server.call(*sending).status in (200, 201)
    received = server.call(*receiving)
    assert received.status == 200
    if deleted:
        assert server.call("PUT", f"/messages/{received.json['id']}/complete").status == 200

    scraped = Scraped(server)

    assert scraped("queue_messages_sent_total", queue=queue) == 1
    assert scraped("queue_messages_received_total", queue=queue) == 1
    assert scraped("queue_messages_deleted_total", queue=queue) == 1
    assert scraped("queue_message_send_duration_seconds_count", queue=queue) == 1
    assert scraped("queue_message_receive_duration_seconds_count", queue=queue) == 1
    # (hq's jobs are finished by their ids alone, those of several queues together.)
    finished_in = BY_ID if sending[1].endswith("/enqueue") else queue
    assert scraped("queue_message_delete_duration_seconds_count", queue=finished_in) == deleted


def test_errors_are_counted_by_code_those_within_a_batch_too(server):
    make(server, "orders")
    server.call("POST", "/queues/nowhere/messages", {"payload": 1})
    server.call("GET", "/nowhere")
    server.call("POST", "/queues/orders/ack", [{"id": 77, "token": "t"}, {"id": 78, "token": "t"}])
    server.talk(b"this is not HTTP\r\n\r\n")

    scraped = Scraped(server)

    assert scraped("http_errors_total", code="queue_not_found") == 1
    assert scraped("http_errors_total", code="route_not_found") == 1
    assert scraped("http_errors_total", code="message_not_found") == 2
    assert scraped("http_errors_total", code="bad_request") == 1


def queue_errors(scraped):
    """Return the count of each queue's errors, by code."""
    return {
        (labels["queue"], labels["code"]): value
        for name, pairs in scraped.samples
        if name == "queue_errors_total"
        for labels, value in [(dict(pairs), scraped.samples[name, pairs])]
    }


def test_errors_are_counted_by_queue(server):
    make(server, "orders", quota=1)
    send(server, "orders")
    server.call("POST", "/queues/orders/messages", {"payload": 1})
    server.call("POST", "/queues/orders/messages", {"nothing": 1})
    server.call("POST", "/queues/orders/ack", [{"id": 77, "token": "t"}, {"id": 78, "token": "t"}])
    server.call("GET", "/queues/orders/messages/99")

    assert queue_errors(Scraped(server)) == {
        ("orders", "quota_exceeded"): 1,
        ("orders", "bad_value"): 1,
        ("orders", "message_not_found"): 3,
    }


@pytest.mark.parametrize(
    ("queue", "sent", "refused", "code"),
    [
        ("jobs", ("POST", "/queues/jobs/enqueue", 1), ("POST", "/queues/jobs/enqueue", b"{"), "bad_body"),
        ("jobs", ("POST", "/queues/jobs/enqueue", 1), ("POST", "/queues/jobs/enqueue", 2), "quota_exceeded"),
        ("mailbox", ("POST", "/v1/messages", {"body": "1"}), ("POST", "/v1/messages", {"body": "2"}), "quota_exceeded"),
        ("mailbox", ("POST", "/v1/messages", {"body": "1"}), ("POST", "/v1/acks", {"id": 9, "token": "x"}), None),
        ("n", ("POST", "/v1/queues/n/messages", {"message": 1}), ("POST", "/v1/queues/n/messages", {"message": 2}),
         "quota_exceeded"),
    ],
)  # fmt: skip
def test_every_dialect_counts_its_errors_by_queue(server, queue, sent, refused, code):
    make(server, queue, quota=1)
    assert server.call(*sent).status in (200, 201)

    answer = server.call(*refused)

    assert answer.status >= 400 or b'"ok":false' in answer.body
    assert queue_errors(Scraped(server)) == {(queue, code or "message_not_found"): 1}


def test_the_aws_dialect_counts_its_errors_by_queue(server):
    make(server, "orders", quota=1)
    send(server, "orders")
    url = f"{server.url}/000000000000/orders"
    scope = "20260101/us-east-1/sqs/aws4_request"
    signed = f"AWS4-HMAC-SHA256 Credential=any/{scope}, SignedHeaders=host, Signature={'0' * 64}"

    for action, fields in [
        ("SendMessage", {"MessageBody": "x"}),
        ("ReceiveMessage", {"MaxNumberOfMessages": 77}),
        ("DeleteMessage", {"ReceiptHandle": "nonsense"}),
    ]:
        headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
        answer = server.call("POST", "/", {"QueueUrl": url, **fields}, {**headers, "Authorization": signed})
        assert answer.status >= 400

    counted = queue_errors(Scraped(server))
    assert counted.pop(("orders", "quota_exceeded")) == 1
    assert {queue for queue, _ in counted} == {"orders"}
    assert sum(counted.values()) == 2


def test_names_that_somebody_made_up_make_no_series(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--metrics-queues", "2") as server:
        for name in ("a", "b", "c"):
            make(server, name, dlq=None)
            send(server, name)
        for name in ("a", "c", "x", "y", "z"):
            server.call("GET", f"/queues/{name}/messages/99")
            server.call("POST", f"/queues/{name}/messages", {"nothing": 1})
            server.call("POST", f"/queues/{name}/ack", {"id": 1})
            server.call("DELETE", f"/queues/{name}/messages/99")

        assert {queue for queue, _ in queue_errors(Scraped(server))} == {"a", "(other)"}


def test_a_deleted_queue_leaves_no_errors_behind(server):
    make(server, "orders")
    send(server, "orders")
    server.call("GET", "/queues/orders/messages/99")
    server.call("DELETE", "/queues/orders")
    make(server, "next")
    send(server, "next")
    server.call("GET", "/queues/next/messages/99")

    assert queue_errors(Scraped(server)) == {("next", "message_not_found"): 1}


def test_labels_stay_few_under_2000_random_paths_and_queues(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--metrics-queues", "10") as server:
        for n in range(12):
            make(server, f"real-{n:02}", dlq=None)
            send(server, f"real-{n:02}")
        with server.connect() as connection:
            for path in ("/nothing/", "/queues/"):
                names = [secrets.token_hex(8) for _ in range(1_000)]
                paths = [path + name + ("/messages" if "queues" in path else "") for name in names]
                for start in range(0, 1_000, 20):
                    post(connection, paths[start : start + 20])

        scraped = Scraped(server)

        assert scraped("http_requests_total", method="POST", path="(unknown)", status="404") == 1_000
        assert scraped("http_errors_total", code="queue_not_found") == 1_000
        assert len(scraped.labels("http_requests_total", "path")) <= 5
        expected = {f"real-{n:02}" for n in range(10)} | {"(other)"}
        assert scraped.labels("queue_depth", "queue") == expected
        assert scraped.labels("queue_message_send_duration_seconds_count", "queue") == expected
        assert scraped("queue_messages_sent_total", queue="(other)") == 2
        assert scraped("queue_depth", queue="(other)") == 2
        assert scraped("queue_message_send_duration_seconds_count", queue="(other)") == 2


def post(connection, paths):
    """Send requests together, and read all answers."""
    head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n"
    connection.sendall(b"".join(head % path.encode() + b'{"payload":1}' for path in paths))
    received = b""
    while received.count(b"HTTP/1.1 404") < len(paths):
        chunk = connection.recv(65_536)
        assert chunk
        received += chunk


def test_figures_of_queues_survive_a_restart(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        make(server, "orders")
        send(server, "orders", 5)
        poll(server, "orders", 2)
        before = Scraped(server)
        assert server.stop() == 0

    with serving(tmp_path, "--durability", "fast") as server:
        after = Scraped(server)

    kept = ("queue_messages_sent_total", "queue_messages_received_total", "queue_message_age_at_receive_seconds_count")
    assert [before(name, queue="orders") for name in kept] == [5, 2, 2]
    assert [after(name, queue="orders") for name in kept] == [5, 2, 2]
    assert after("queue_message_send_duration_seconds_count", queue="orders") == 0


def test_a_deleted_queue_is_gone_from_the_metrics(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        make(server, "orders", dlq=None)
        send(server, "orders")
        assert server.call("DELETE", "/queues/orders").status == 200

        scraped = Scraped(server)

    assert scraped.labels("queue_depth", "queue") == set()
    assert scraped.labels("queue_message_send_duration_seconds_count", "queue") == set()


def test_metrics_need_no_token(tmp_path):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "secret-token"}) as server:
        assert server.call("GET", "/queues").status == 401
        assert "secret-token" not in Scraped(server).text


def test_many_scrapes_at_once_are_one_count_of_the_queues(server):
    make(server, "orders")
    send(server, "orders")
    first = Scraped(server)
    send(server, "orders")

    second = Scraped(server)

    # The server's own figures are those of this moment, the queues' of a few seconds ago at most.
    assert first("queue_depth", queue="orders") == second("queue_depth", queue="orders") == 1
    path = "/queues/{queue}/messages"
    assert second("http_requests_total", method="POST", path=path, status="201") == 2


def test_the_page_on_observability_names_every_metric_and_no_other(server):
    make(server, "orders")
    page = (Path(__file__).parents[3] / "docs" / "observability.md").read_text()
    explained = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", page, re.MULTILINE))

    headings = dict(re.findall(r"^# TYPE (\w+) (\w+)$", Scraped(server).text, re.MULTILINE))

    assert headings == explained


def test_a_line_of_the_log_on_the_page_has_the_fields_of_a_real_one(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "observability.md").read_text()
    shown = json.loads(re.search(r"```json\n(.*?)\n```", page, re.DOTALL)[1])
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "t"}) as server:
        server.call("POST", "/queues/orders/messages", {"payload": 1})
        assert server.stop() == 0
        logged = [json.loads(line) for line in server.log.read_text().splitlines()]

    (real,) = [line for line in logged if line["event"] == "request"]
    assert list(shown) == list(real)
    assert [shown[name] for name in ("status", "level", "route")] == [
        real[name] for name in ("status", "level", "route")
    ]
