"""Queues with names that only hq's clients give: every dialect that can write such a name reaches the queue."""

import re
from urllib.parse import quote

import pytest

from sqew import Client, Queue
from sqew.errors import BadName
from tests.support.serving import STORES, serving

NAMES = [
    "my queue",
    "a/b",
    "über",
    "a.b:c-d_e",
    "x" * 200,
    'say "hi" \\ <b>',
    "100%41",
    "..",
    "?q=1&x#y",
    "日本語 🐟",
    "null",
]


@pytest.fixture(scope="module", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


def make(server, name, max_attempts=2):
    query = f"name={quote(name, safe='')}&max_attempts={max_attempts}&visibility_timeout_seconds=30"
    return server.call("POST", f"/queues?{query}")


@pytest.fixture(params=NAMES)
def name(request, shared_server):
    """Make a queue, yield its name, and delete it at the end."""
    made = make(shared_server, request.param)
    assert (made.status, made.body) == (200, b"")
    yield request.param
    assert shared_server.call("DELETE", f"/queues/{escaped(request.param)}").headers.get("x-sqew-error") is None


def escaped(name):
    return quote(name, safe="") if name != ".." else "%2E%2E"


def test_hq_works_with_it(shared_server, name):
    path = f"/queues/{escaped(name)}"
    sent = shared_server.call("POST", f"{path}/enqueue", {"n": 1}).json
    received = shared_server.call("GET", f"{path}/receive").json
    changed = shared_server.call("PUT", f"{path}?max_attempts=7")
    completed = shared_server.call("PUT", f"/messages/{received['id']}/complete")

    assert received == {"id": sent["message_id"], "args": {"n": 1}, "queue": name, "attempts": 1}
    assert (changed.status, completed.status) == (200, 200)
    shown = shared_server.call("GET", path).json
    assert (shown["name"], shown["max_attempts"]) == (name, 7)
    assert name in [queue["name"] for queue in shared_server.call("GET", "/queues").json]
    assert shared_server.call("GET", f"{path}/stats").json["totals"]["acked"] == 1


def test_the_native_dialect_works_with_it(shared_server, name):
    path = f"/v1/queues/{escaped(name)}"
    id = shared_server.call("POST", f"{path}/messages", {"message": "x"}).json["id"]

    assert shared_server.call("GET", path).json["name"] == name
    assert [one["id"] for one in shared_server.call("GET", f"{path}/messages").json] == [id]
    assert shared_server.call("DELETE", f"{path}/messages/{id}").status == 204
    assert shared_server.call("POST", "/v1/queues", {"name": name}).status == (201 if name == "null" else 400)


def test_our_client_works_with_it(shared_server, name):
    with Client(shared_server.url) as client:
        id = client.enqueue(name, {"n": 1})
        message = client.claim(name)
        client.ack(message)
        client.update(name, max_attempts=1)
        client.enqueue(name, {"n": 2})
        client.nack(client.claim(name))

        assert (message.id, message.queue) == (id, name)
        assert [one.queue for one in client.dead_letters(name)] == [name]
        assert client.requeue(name) == 1
        assert client.info(name).policy.dead_letter is None
        assert name in [info.name for info in client.queues()]


def test_events_and_schedules_lead_to_it(shared_server, name):
    subscribed = shared_server.call("POST", "/v1/events/odd.name/subscriptions", {"queue_name": name})
    published = shared_server.call("POST", "/v1/events/odd.name", {"message": 1}).json
    schedule = {"name": "odd", "target_kind": "queue", "target": name, "every": "1h", "message": 1}
    scheduled = shared_server.call("POST", "/v1/schedules", schedule)

    assert (subscribed.status, scheduled.status) == (201, 201)
    assert [message["queue"] for message in published["messages"]] == [name]
    assert shared_server.call("DELETE", "/v1/schedules/odd").status == 204
    assert shared_server.call("DELETE", f"/v1/subscriptions/{subscribed.json['id']}").status == 204


def test_it_may_take_the_dead_letters_of_another(shared_server, name):
    changed = shared_server.call("POST", "/queues", {"name": "has-odd-letters", "dlq": name})

    assert (changed.status, changed.json["dlq"]) == (201, name)
    assert shared_server.call("DELETE", "/queues/has-odd-letters").status == 200


def test_metrics_name_them(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        for name in NAMES:
            make(server, name)
            server.call("POST", f"/queues/{escaped(name)}/enqueue", {"n": 1})

        metrics = server.call("GET", "/metrics").body.decode()

        for name in NAMES:
            label = name.replace("\\", r"\\").replace('"', r"\"")
            assert f'queue="{label}"' in metrics
        assert all(re.match(r"#|$|[a-z_:]+(\{.*\})? \S+$", line) for line in metrics.split("\n"))


def test_sqs_passes_over_what_it_can_not_write(shared_server, name):
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": "application/x-amz-json-1.0"}
    headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/sqs/aws4_request, Signature=0"

    listed = shared_server.call("POST", "/", b"{}", headers)

    assert listed.status == 200
    can_write = re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name) is not None
    assert any(url.endswith(f"/{name}") for url in listed.json.get("QueueUrls", [])) is can_write


@pytest.mark.parametrize(
    "name", ["a\nb", "a\0b", "\x1b[31m", "a\x7f", "a\u2028b", "\x85", "(other)", "(by id)", "x" * 257]
)
def test_names_that_logs_and_metrics_could_not_show_are_refused(shared_server, name):
    answer = make(shared_server, name)

    assert (answer.status, answer.headers["x-sqew-error"]) == (400, "bad_name")


def test_a_queue_may_have_no_name_at_all_and_is_listed(tmp_path):
    with serving(tmp_path) as server:
        assert make(server, "").status == 200
        assert [queue["name"] for queue in server.call("GET", "/queues").json] == [""]
        with Client(server.url) as client, pytest.raises(BadName, match="can't be reached over HTTP"):
            client.info("")
    with Queue.open(tmp_path / "queue.db") as q:
        assert q.get("", q.enqueue("", {"n": 1})).queue == ""
        q.ack(q.claim(""))
        q.delete("")
        assert q.queues() == []


def test_jobs_of_a_queue_whose_name_ends_in_fifo_come_one_after_another(shared_server):
    make(shared_server, "odd name.fifo")
    sent = [shared_server.call("POST", "/queues/odd%20name.fifo/enqueue", n).json["message_id"] for n in (1, 2)]

    first = shared_server.call("GET", "/queues/odd%20name.fifo/receive").json
    meanwhile = shared_server.call("GET", "/queues/odd%20name.fifo/receive").json
    shared_server.call("PUT", f"/messages/{first['id']}/complete")
    second = shared_server.call("GET", "/queues/odd%20name.fifo/receive").json

    assert ([first["id"], second["id"]], meanwhile) == (sent, None)
    assert shared_server.call("DELETE", "/queues/odd%20name.fifo").status == 200


def test_a_key_opens_such_a_queue_and_no_other(tmp_path):
    admin = {"Authorization": "Bearer secret"}
    with serving(tmp_path, "--auth-token", "secret") as server:
        server.call("POST", "/queues?name=a%2Fb&max_attempts=2&visibility_timeout_seconds=30", None, admin)
        made = server.call("POST", "/queues/a%2Fb/keys", {"scopes": ["send", "admin"]}, admin)
        own = {"Authorization": f"Bearer {made.json['key']}"}

        assert server.call("POST", "/queues/a%2Fb/enqueue", 1, own).status == 200
        assert server.call("PATCH", "/queues/a%2Fb", {"max_attempts": 3}, own).status == 200
        assert server.call("POST", "/queues/a/enqueue", 1, own).status == 403
