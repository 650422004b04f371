"""The native dialect over a real socket."""

import json
import re
import threading

import pytest

from tests.http.dialects.vocabularies import caught_up, new_name
from tests.support.serving import STORES

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


@pytest.fixture
def queue(shared_server):
    return make(shared_server)


def make(server, **fields):
    answer = server.call("POST", "/v1/queues", {"name": new_name(), **fields})
    assert answer.status == 201, answer
    return answer.json["name"]


def send(server, queue, *messages):
    answer = server.call("POST", f"/v1/queues/{queue}/messages", [{"message": message} for message in messages])
    assert answer.status == 201, answer
    return answer.json["ids"]


def receive(server, queue, query=""):
    answer = server.call("GET", f"/v1/queues/{queue}/messages?{query}")
    assert answer.status == 200, answer
    return answer.json


# Queues


def test_a_queue_is_made_without_a_dead_letter_queue(shared_server):
    name = new_name()

    made = shared_server.call("POST", "/v1/queues", {"name": name, "fifo": False})

    assert made.status == 201
    assert made.json["name"] == name
    assert (made.json["is_partitioned"], made.json["is_unlogged"]) == (False, False)
    assert re.fullmatch(TIME, made.json["created_at"])
    policy = made.json["policy"]
    assert (policy["dead_letter"], policy["max_attempts"], policy["fifo"]) == (None, None, False)
    assert shared_server.call("GET", f"/queues/{name}-dlq").json is None


def test_a_queue_has_a_dead_letter_queue_where_one_is_asked_for(shared_server):
    letters = make(shared_server)

    policy = shared_server.call("POST", "/v1/queues", {"name": new_name(), "dead_letter": letters}).json["policy"]

    assert (policy["dead_letter"], policy["max_attempts"]) == (letters, 5)


def test_the_name_of_a_fifo_queue_gets_its_ending_in_other_dialects(shared_server):
    name = new_name()

    made = shared_server.call("POST", "/v1/queues", {"name": name, "fifo": True})
    again = shared_server.call("POST", "/v1/queues", {"name": f"{name}.fifo", "fifo": True})

    assert (made.status, made.json["name"], made.json["policy"]["fifo"]) == (201, name, True)
    assert (again.status, again.json) == (201, made.json)
    assert shared_server.call("GET", f"/queues/{name}.fifo").json["fifo"]


def test_a_queue_that_exists_with_another_policy_is_a_conflict(shared_server, queue):
    answer = shared_server.call("POST", "/v1/queues", {"name": queue, "visibility_ms": 5})

    assert answer.status == 409
    sentence = f"Queue '{queue}' exists, and its visibility_ms differs. Update it, or choose another name."
    assert answer.json == {"error": sentence, "code": "queue_exists", "message": sentence}


def test_a_queue_that_exists_is_answered_as_it_is_where_nothing_is_said_of_its_policy(shared_server, queue):
    changed = shared_server.call("PATCH", f"/v1/queues/{queue}", {"visibility_ms": 5_000, "max_attempts": 3})

    again = shared_server.call("POST", "/v1/queues", {"name": queue, "fifo": False, "max_attempts": 3})

    assert (again.status, again.json) == (201, changed.json)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ([], 422),
        ({"name": 5}, 422),
        ({"name": ""}, 400),
        ({"name": "a b"}, 400),
        ({"name": "x", "max_attempts": 0}, 400),
    ],
    ids=json.dumps,
)
def test_a_queue_that_can_not_be_is_refused(shared_server, body, status):
    answer = shared_server.call("POST", "/v1/queues", body)

    assert answer.status == status
    assert answer.json["code"] == "bad_request"
    assert answer.json["message"] == answer.json["error"]


def test_a_change_of_a_policy_with_an_unknown_field_is_refused(shared_server, queue):
    answer = shared_server.call("PATCH", f"/v1/queues/{queue}", {"visibilty_ms": 5})

    assert answer.status == 400
    assert "did you mean 'visibility_ms'" in answer.json["error"]


def test_queues_are_listed_by_name(shared_server):
    first, second = sorted((make(shared_server), make(shared_server)))

    listed = shared_server.call("GET", "/v1/queues").json
    after = shared_server.call("GET", f"/v1/queues?prefix=queue-&after={first}&limit=1").json

    assert [q["name"] for q in listed if q["name"] in (first, second)] == [first, second]
    assert all(set(q) == {"name", "is_partitioned", "is_unlogged", "created_at"} for q in listed)
    assert len(after) == 1
    assert after[0]["name"] > first


def test_the_figures_of_a_queue(shared_server, queue):
    empty = shared_server.call("GET", f"/v1/queues/{queue}").json
    send(shared_server, queue, 1, 2, 3)
    receive(shared_server, queue)

    counters = shared_server.call("GET", f"/v1/queues/{queue}").json

    assert (empty["queue_length"], empty["newest_msg_age_sec"], empty["oldest_msg_age_sec"]) == (0, None, None)
    assert (counters["name"], counters["queue_length"], counters["queue_visible_length"]) == (queue, 3, 2)
    assert 0 <= counters["newest_msg_age_sec"] <= counters["oldest_msg_age_sec"] < 60
    assert counters["total_messages"] == 3
    assert re.fullmatch(TIME, counters["scrape_time"])
    assert counters["policy"]["visibility_ms"] == 30_000


def test_a_policy_is_changed_in_part(shared_server, queue):
    changed = shared_server.call("PATCH", f"/v1/queues/{queue}", {"visibility_ms": 5_000, "keep": "archive"})

    assert changed.status == 200
    assert (changed.json["policy"]["visibility_ms"], changed.json["policy"]["keep"]) == (5_000, "archive")
    assert shared_server.call("GET", f"/v1/queues/{queue}").json["policy"] == changed.json["policy"]


def test_a_deleted_queue_is_gone(shared_server, queue):
    first = shared_server.call("DELETE", f"/v1/queues/{queue}")
    second = shared_server.call("DELETE", f"/v1/queues/{queue}")

    assert (first.status, first.body) == (204, b"")
    assert (second.status, second.body) == (204, b"")
    assert shared_server.call("GET", f"/v1/queues/{queue}").status == 404


def test_a_purge_deletes_what_is_leased_as_well(shared_server, queue):
    send(shared_server, queue, 1, 2, 3)
    receive(shared_server, queue)

    purged = shared_server.call("POST", f"/v1/queues/{queue}/purge")

    assert (purged.status, purged.body) == (200, b'{"deleted":3}')


@pytest.mark.parametrize("path", ["/v1/queues/{}/purge", "/queues/{}/purge"])
def test_an_empty_object_stands_for_no_body(shared_server, queue, path):
    send(shared_server, queue, 1)

    purged = shared_server.call("POST", path.format(queue), b" {}\n", {"Content-Type": "application/json"})
    refused = shared_server.call("POST", path.format(queue), {"really": True})

    assert purged.status == 200
    assert refused.status == 400


# Messages


def test_a_message_is_answered_with_its_id_and_a_batch_with_all_of_them(shared_server, queue):
    one = shared_server.call("POST", f"/v1/queues/{queue}/messages", {"message": {"a": 1}})
    many = shared_server.call("POST", f"/v1/queues/{queue}/messages", [{"message": 2}, {"message": None}])

    id = one.json["id"]
    assert (one.status, one.body) == (201, b'{"id":%d}' % id)
    assert (many.status, many.body) == (201, b'{"ids":[%d,%d]}' % (id + 1, id + 2))


def test_everything_about_a_message_arrives(shared_server):
    queue = make(shared_server, lanes={"slow": 1, "fast": 3})
    about = {"headers": {"trace": ["a", 1]}, "group_id": "g", "priority": 7, "lane": "fast", "key": "k", "ttl": 60}
    shared_server.call("POST", f"/v1/queues/{queue}/messages", {"message": {"a": [1]}, **about})

    (message,) = receive(shared_server, queue, "vt=30")

    assert (message["message"], message["read_ct"]) == ({"a": [1]}, 1)
    assert {name: message[name] for name in about if name != "ttl"} == {k: v for k, v in about.items() if k != "ttl"}
    assert re.fullmatch(TIME, message["enqueued_at"])
    assert message["enqueued_at"] < message["visible_at"] < message["expires_at"]
    assert re.fullmatch(r"[0-9a-f]{32}", message["token"])


def test_one_message_is_received_unless_more_are_asked_for(shared_server, queue):
    ids = send(shared_server, queue, *range(5))

    first = receive(shared_server, queue)
    rest = receive(shared_server, queue, "max=10")

    assert [message["id"] for message in first + rest] == ids
    assert len(first) == 1


def test_a_delayed_message_is_not_there_yet(shared_server, queue):
    shared_server.call("POST", f"/v1/queues/{queue}/messages", {"message": 1, "delay": 3_600})
    shared_server.call("POST", f"/v1/queues/{queue}/messages", {"message": 2, "delay": 0.05})

    assert [message["message"] for message in receive(shared_server, queue, "max=10&wait=10")] == [2]


def test_a_message_is_seen_again_when_its_time_is_over(shared_server, queue):
    send(shared_server, queue, 1)

    first = receive(shared_server, queue, "vt=0.05")
    again = receive(shared_server, queue, "wait=10")

    assert [message["read_ct"] for message in first + again] == [1, 2]


def test_a_waiting_receive_gets_what_is_sent(shared_server, queue):
    received = []
    waiting = threading.Thread(target=lambda: received.extend(receive(shared_server, queue, "wait=20")))
    waiting.start()
    caught_up(shared_server)

    ids = send(shared_server, queue, "now")
    waiting.join(timeout=10)

    assert [message["id"] for message in received] == ids


def test_a_fifo_queue_keeps_a_group_in_order_and_blocks_it_while_one_is_out(shared_server):
    queue = make(shared_server, fifo=True)
    items = [{"message": n, "group_id": group} for n, group in enumerate("aab")]
    shared_server.call("POST", f"/v1/queues/{queue}/messages", items)

    first = receive(shared_server, queue, "fifo=true")
    second = receive(shared_server, queue, "fifo=true&max=10")

    assert [message["message"] for message in first] == [0]
    assert [message["message"] for message in second] == [2]


def test_a_deleted_message_does_not_come_back(shared_server, queue):
    (id,) = send(shared_server, queue, 1)
    receive(shared_server, queue, "vt=0")

    first = shared_server.call("DELETE", f"/v1/queues/{queue}/messages/{id}")
    second = shared_server.call("DELETE", f"/v1/queues/{queue}/messages/{id}")

    assert (first.status, first.body, second.status) == (204, b"", 404)
    assert receive(shared_server, queue) == []


def test_a_batch_of_deletes_names_those_that_were_there(shared_server, queue):
    ids = send(shared_server, queue, 1, 2, 3)

    answer = shared_server.call("DELETE", f"/v1/queues/{queue}/messages", {"ids": [ids[2], 999_999_999, ids[0]]})

    assert (answer.status, answer.json) == (200, {"deleted": [ids[2], ids[0]]})
    assert [message["id"] for message in receive(shared_server, queue, "max=10")] == [ids[1]]


def test_visibility_is_changed_to_later_and_to_now(shared_server, queue):
    (id,) = send(shared_server, queue, 1)
    (message,) = receive(shared_server, queue, "vt=5")

    later = shared_server.call("PATCH", f"/v1/queues/{queue}/messages/{id}", {"vt": 60})
    now = shared_server.call("PATCH", f"/v1/queues/{queue}/messages/{id}", {"vt": 0})

    assert (later.status, later.json["id"]) == (200, id)
    assert re.fullmatch(TIME, later.json["visible_at"])
    assert now.json["visible_at"] < message["visible_at"] < later.json["visible_at"]
    assert [message["read_ct"] for message in receive(shared_server, queue)] == [2]


def test_visibility_of_a_message_that_is_not_there_is_not_found(shared_server, queue):
    answer = shared_server.call("PATCH", f"/v1/queues/{queue}/messages/999999999", {"vt": 60})

    assert (answer.status, answer.json["code"]) == (404, "message_not_found")


def test_visibility_is_changed_by_the_holder_of_the_token_alone_where_one_is_given(shared_server, queue):
    (id,) = send(shared_server, queue, 1)
    (message,) = receive(shared_server, queue)
    path = f"/v1/queues/{queue}/messages/{id}"

    stale = shared_server.call("PATCH", path, {"vt": 60, "token": "0" * 32})
    good = shared_server.call("PATCH", path, {"vt": 60, "token": message["token"]})

    assert (stale.status, good.status) == (409, 200)


# Many at once, and what is over


def test_the_archive_shows_what_became_of_messages(shared_server):
    queue = make(shared_server, keep="archive", max_attempts=1)
    done, dead = send(shared_server, queue, "done", "dead")
    shared_server.call("DELETE", f"/v1/queues/{queue}/messages/{done}")
    [held] = shared_server.call("POST", f"/queues/{queue}/poll").json["messages"]
    death = {"id": dead, "token": held["token"], "dead": True, "reason": "no use"}
    shared_server.call("POST", f"/queues/{queue}/nack", death)

    everything = shared_server.call("GET", f"/v1/queues/{queue}/archive").json
    after = shared_server.call("GET", f"/v1/queues/{queue}/archive?after={done}&limit=1").json
    only_done = shared_server.call("GET", f"/v1/queues/{queue}/archive?outcome=done").json

    assert [(entry["id"], entry["message"], entry["outcome"]) for entry in everything] == [
        (done, "done", "done"),
        (dead, "dead", "dead"),
    ]
    assert (after, only_done) == (everything[1:], everything[:1])
    assert everything[1]["reason"] == "no use"
    assert re.fullmatch(TIME, everything[0]["archived_at"])


def test_a_page_of_the_archive_that_is_not_the_last_says_where_the_next_begins(shared_server):
    queue = make(shared_server, keep="archive")
    for id in send(shared_server, queue, 0, 1, 2):
        shared_server.call("DELETE", f"/v1/queues/{queue}/messages/{id}")

    first = shared_server.call("GET", f"/v1/queues/{queue}/archive?limit=2")
    second = shared_server.call("GET", f"/v1/queues/{queue}/archive?limit=2&after={first.headers['x-sqew-after']}")

    assert first.headers["x-sqew-after"] == str(first.json[1]["id"])
    assert [entry["message"] for entry in first.json + second.json] == [0, 1, 2]
    assert "x-sqew-after" not in second.headers


def test_what_is_exported_is_taken_in_bulk(shared_server, queue):
    copy = make(shared_server)
    send(shared_server, queue, {"a": 1}, "text", None)

    exported = shared_server.call("GET", f"/v1/queues/{queue}/export")
    answer = shared_server.call("POST", f"/v1/queues/{copy}/bulk", exported.body)

    assert exported.headers["content-type"] == "application/x-ndjson"
    assert (answer.status, answer.body) == (200, b'{"imported":3,"skipped":0}')
    assert [message["message"] for message in receive(shared_server, copy, "max=10")] == [{"a": 1}, "text", None]


def test_bulk_takes_lines_that_look_as_single_messages_do(shared_server, queue):
    lines = b'{"message":1,"key":"k","headers":{"a":1}}\n{"message":2,"key":"k"}\n{"message":3,"delay":3600}\n'

    answer = shared_server.call("POST", f"/v1/queues/{queue}/bulk", lines, {"Content-Type": "application/x-ndjson"})

    assert answer.json == {"imported": 2, "skipped": 1}
    (message,) = receive(shared_server, queue, "max=10")
    assert (message["message"], message["headers"], message["key"]) == (1, {"a": 1}, "k")
    assert shared_server.call("GET", f"/v1/queues/{queue}").json["queue_length"] == 2


def test_a_bad_line_in_bulk_is_named_in_this_dialects_words(shared_server, queue):
    answer = shared_server.call("POST", f"/v1/queues/{queue}/bulk", b'{"message":1}\n{"message":\n')

    assert answer.status == 400
    assert answer.json["error"].startswith("Line 2: ")
    assert answer.json["error"].endswith("1 message was imported before that.")
