"""The Sqew dialect over a real socket."""

import itertools
import json
import re
import socket
import threading

import pytest

from tests.http.dialects.vocabularies import SQEW, caught_up, new_queue
from tests.http.webhooks import eventually
from tests.support.serving import STORES, serving


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


@pytest.fixture
def queue(shared_server):
    return new_queue(shared_server)


def payloads(server, queue, batch=10):
    return [m["payload"] for m in server.call("POST", f"/queues/{queue}/poll?batch={batch}").json["messages"]]


def test_a_message_goes_through_its_whole_life(shared_server, queue):
    sent = shared_server.call("POST", f"/queues/{queue}/messages", {"payload": {"sku": 7}})
    polled = shared_server.call("POST", f"/queues/{queue}/poll?batch=5")
    (message,) = polled.json["messages"]
    acked = shared_server.call("POST", f"/queues/{queue}/ack", {"id": message["id"], "token": message["token"]})

    assert (sent.status, sent.json["duplicate"]) == (201, False)
    assert (message["id"], message["payload"], message["attempts"]) == (sent.json["message_id"], {"sku": 7}, 1)
    assert (acked.status, acked.json["ok"]) == (200, True)
    assert shared_server.call("POST", f"/queues/{queue}/poll").json == {"messages": []}


def test_a_queue_is_made_with_a_dead_letter_queue_and_five_attempts(shared_server, queue):
    made = shared_server.call("GET", f"/queues/{queue}").json

    assert (made["dlq"], made["max_attempts"], made["visibility_ms"]) == (f"{queue}-dlq", 5, 30_000)
    assert shared_server.call("GET", f"/queues/{queue}-dlq").status == 200


@pytest.mark.parametrize("asked", [{}, {"priority": 3}, {"delay_ms": 60_000}, {"payload": "é\n", "format": "text"}])
def test_a_sent_message_is_answered_with_its_id_and_when_it_can_be_received(shared_server, queue, asked):
    item = {"payload": {"sku": 7}} | asked

    answer = shared_server.call("POST", f"/queues/{queue}/messages", item)

    id = answer.json["id"]
    stored = shared_server.call("GET", f"/queues/{queue}/messages/{id}").json
    expected = b'{"message_id":%d,"duplicate":false,"id":%d,"available_at":%d}' % (id, id, stored["available_at"])
    assert answer.body == expected
    assert stored["available_at"] - stored["created_at"] == asked.get("delay_ms", 0)


def test_the_messages_of_a_queue_are_listed_with_their_payloads_as_text_in_every_state(shared_server, queue):
    queue_id = shared_server.call("GET", f"/queues/{queue}").json["id"]
    sent = [
        shared_server.call("POST", f"/queues/{queue}/messages", item).json
        for item in ({"payload": {"n": 1}}, {"payload": "text", "format": "text"}, {"payload": 3, "delay_ms": 60_000})
    ]
    [held] = SQEW.receive(shared_server, queue)

    listed = shared_server.call("GET", f"/queues/{queue}/messages?limit=10").json

    assert held.id == sent[0]["id"]
    assert {one["id"]: (json.loads(one["payload"]), one["state"], one["attempts"]) for one in listed} == {
        sent[0]["id"]: ({"n": 1}, "leased", 1), sent[1]["id"]: ("text", "ready", 0), sent[2]["id"]: (3, "delayed", 0)
    }  # fmt: skip
    assert {one["queue_id"] for one in listed} == {queue_id}
    assert len(shared_server.call("GET", f"/queues/{queue}/messages").json) == 1


def test_a_list_of_large_messages_ends_early_and_begins_with_the_next_to_be_received(shared_server, queue):
    sent = [SQEW.send(shared_server, queue, "x" * 1_000_000) for _ in range(10)]

    listed = shared_server.call("GET", f"/queues/{queue}/messages?limit=1000")

    assert len(listed.body) < 10_000_000
    assert [one["id"] for one in listed.json] == sent[: len(listed.json)]


def test_all_messages_of_a_queue_are_deleted_and_counted(shared_server, queue):
    for n in range(3):
        SQEW.send(shared_server, queue, n)

    deleted = [shared_server.call("DELETE", f"/queues/{queue}/messages").json for _ in range(2)]

    assert deleted == [{"deleted": 3}, {"deleted": 0}]
    assert shared_server.call("GET", f"/queues/{queue}/messages").json == []


@pytest.mark.parametrize("line", ["GET /queues/{}/messages", "DELETE /queues/{}/messages"])
def test_messages_of_an_unknown_queue_are_neither_listed_nor_deleted(shared_server, queue, line):
    answer = shared_server.call(*line.format(f"{queue}x").split(" "))

    assert answer.status == 404
    assert f"did you mean '{queue}'?" in answer.json["error"]["message"]


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1001"])
def test_a_bad_limit_of_a_list_of_messages_is_refused(shared_server, queue, limit):
    assert shared_server.call("GET", f"/queues/{queue}/messages?limit={limit}").status == 400


def test_a_message_is_found_whichever_queue_it_is_in(shared_server, queue):
    id = SQEW.send(shared_server, queue, {"sku": 7})

    found = shared_server.call("GET", f"/messages/{id}").json

    assert found == shared_server.call("GET", f"/queues/{queue}/messages/{id}").json
    assert found["queue"] == queue
    assert shared_server.call("GET", "/messages/999999999").json["error"]["code"] == "message_not_found"
    assert shared_server.call("GET", "/messages/none").status == 400


def test_messages_of_an_array_are_answered_with_their_ids_and_when_they_can_be_received(shared_server, queue):
    items = [{"payload": n, "idempotency_key": str(n // 2), "delay_ms": n * 60_000} for n in range(3)]

    first, again, later = shared_server.call("POST", f"/queues/{queue}/messages", items).json["messages"]

    assert again == {"message_id": first["id"], "duplicate": True, "id": first["id"]}
    assert later["message_id"] == later["id"] > first["id"]
    assert later["available_at"] - first["available_at"] == 120_000


def test_a_batch_is_sent_as_a_whole_or_not_at_all(shared_server, queue):
    bad = shared_server.call("POST", f"/queues/{queue}/messages", [{"payload": 1}, {"payload": 2, "lane": "none"}])
    good = shared_server.call("POST", f"/queues/{queue}/messages", [{"payload": 1}, {"payload": 2}])

    assert bad.status == 400
    assert bad.json["error"]["code"] == "unknown_lane"
    assert (good.status, len(good.json["messages"])) == (201, 2)
    assert payloads(shared_server, queue) == [1, 2]


@pytest.mark.parametrize("by_header", [True, False])
def test_a_repeated_idempotency_key_stores_nothing(shared_server, queue, by_header):
    body = {"payload": 1} if by_header else {"payload": 1, "idempotency_key": "k"}
    headers = {"Idempotency-Key": "k"} if by_header else {}

    first, second = (shared_server.call("POST", f"/queues/{queue}/messages", body, headers).json for _ in range(2))

    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert second == {"message_id": first["message_id"], "duplicate": True, "id": first["id"]}
    assert payloads(shared_server, queue) == [1]


def test_what_is_nacked_returns_and_what_is_extended_does_not(shared_server, queue):
    ids = [SQEW.send(shared_server, queue, n) for n in range(2)]
    polled = shared_server.call("POST", f"/queues/{queue}/poll?batch=2&visibility_ms=60000&consumer=w1")
    right, name = {"token": polled.json["messages"][0]["token"]}, {"consumer": "w1"}

    nacked = shared_server.call(
        "POST", f"/queues/{queue}/nack", [{"id": ids[0], "delay_ms": 0, **right}, {"id": 999_999_999, **right}]
    )
    extended = shared_server.call("POST", f"/queues/{queue}/extend", {"id": ids[1], "ms": 90_000, **name})

    assert [(result["id"], result["ok"]) for result in nacked.json["results"]] == [(ids[0], True), (999_999_999, False)]
    assert nacked.json["results"][1]["error"]["code"] == "message_not_found"
    assert extended.json["ok"]
    assert payloads(shared_server, queue) == [0]


def test_dead_letters_are_listed_and_brought_back(shared_server, queue):
    id = SQEW.send(shared_server, queue, "poison")
    [delivery] = SQEW.receive(shared_server, queue)
    death = {"id": id, "token": delivery.token, "dead": True, "reason": "poison"}
    shared_server.call("POST", f"/queues/{queue}/nack", death)

    (dead,) = shared_server.call("GET", f"/queues/{queue}/dlq").json["messages"]
    requeued = shared_server.call("POST", f"/queues/{queue}/dlq/requeue")

    assert (dead["id"], dead["died_in"], dead["reason"]) == (id, queue, "poison")
    assert requeued.body == b'{"count":1}'
    assert [delivery.attempts for delivery in SQEW.receive(shared_server, queue)] == [1]


def test_a_page_of_large_dead_letters_ends_early_and_says_where_the_next_begins(shared_server, queue):
    sent = [SQEW.send(shared_server, queue, "x" * 1_000_000) for _ in range(10)]
    for id in sent:
        [held] = SQEW.receive(shared_server, queue)
        shared_server.call("POST", f"/queues/{queue}/nack", {"id": id, "token": held.token, "dead": True})

    first = shared_server.call("GET", f"/queues/{queue}/dlq?limit=1000")
    second = shared_server.call("GET", f"/queues/{queue}/dlq?limit=1000&after={first.json['after']}")

    assert len(first.body) < 10_000_000
    assert [one["id"] for one in first.json["messages"] + second.json["messages"]] == sent
    assert second.json["after"] is None


def test_stats_count_what_is_ready_leased_and_dead(shared_server, queue):
    for n in range(4):
        SQEW.send(shared_server, queue, n)
    shared_server.call("POST", f"/queues/{queue}/messages", {"payload": 1, "delay_ms": 3_600_000})
    (message, *_) = SQEW.receive(shared_server, queue)
    SQEW.receive(shared_server, queue)
    shared_server.call("POST", f"/queues/{queue}/nack", {"id": message.id, "token": message.token, "dead": True})

    stats = shared_server.call("GET", f"/queues/{queue}/stats").json

    counts = {name: stats[name] for name in ("ready", "leased", "delayed", "blocked", "dlq")}
    assert counts == {"ready": 2, "leased": 1, "delayed": 1, "blocked": 0, "dlq": 1}
    assert 0 <= stats["oldest_age_ms"] < 60_000


# Many at once


def lines(count, start=0):
    return b"".join(b'{"payload":%d}\n' % n for n in range(start, start + count))


def import_(server, queue, body, **headers):
    return server.call("POST", f"/queues/{queue}/import", body, {"Content-Type": "application/x-ndjson", **headers})


def test_five_thousand_messages_are_imported_in_one_request(shared_server, queue):
    answer = import_(shared_server, queue, lines(5_000))

    assert (answer.status, answer.body) == (200, b'{"imported":5000,"skipped":0}')
    received = [payloads(shared_server, queue, 1_000) for _ in range(6)]
    assert list(itertools.chain(*received)) == list(range(5_000))


def test_an_export_is_imported_as_it_was(shared_server, queue):
    copy = new_queue(shared_server)
    text = {"payload": "Grüße\n", "format": "text", "headers": {"a": 1}, "priority": 5, "idempotency_key": "k"}
    shared_server.call("POST", f"/queues/{queue}/messages", text)
    SQEW.try_to_send(shared_server, queue, b'{ "a":\n1 }')

    exported = shared_server.call("GET", f"/queues/{queue}/export")
    answer = import_(shared_server, copy, exported.body)

    assert answer.json == {"imported": 2, "skipped": 0}
    again = shared_server.call("GET", f"/queues/{copy}/export").body
    what = ("body", "raw", "format", "headers", "priority", "key", "lane")
    assert [
        [{name: json.loads(line).get(name) for name in what} for line in export.splitlines()]
        for export in (again, exported.body)
    ] == [[{name: json.loads(line).get(name) for name in what} for line in exported.body.splitlines()]] * 2


def test_lines_may_come_in_whatever_pieces(shared_server, queue):
    whole = b'{"body":{"text":"' + "é".encode() * 20_000 + b'"}}\r\n\n{"body":2}'

    with shared_server.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = f"POST /queues/{queue}/import HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        for start in range(0, len(whole), 7_001):
            piece = whole[start : start + 7_001]
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk

    assert received.endswith(b'{"imported":2,"skipped":0}')
    assert payloads(shared_server, queue) == [{"text": "é" * 20_000}, 2]


def test_lines_with_the_fields_of_single_messages_are_understood(shared_server, queue):
    body = b"".join(
        json.dumps(line).encode() + b"\n"
        for line in (
            {"payload": 1, "idempotency_key": "k", "priority": -1},
            {"payload": 2, "idempotency_key": "k"},
            {"payload": 3, "delay_ms": 3_600_000},
            {"payload": 4, "ttl_ms": 60_000},
        )
    )

    answer = import_(shared_server, queue, body)

    assert answer.json == {"imported": 3, "skipped": 1}
    assert payloads(shared_server, queue) == [4, 1]


@pytest.mark.parametrize(
    ("bad", "code", "status"),
    [
        (b"not JSON", "bad_body", 400),
        (b'{"payload":1,"priority":"high"}', "bad_body", 400),
        (b'{"headers":{}}', "bad_body", 400),
        (b'{"payload":' + b"[" * 70 + b"]" * 70 + b"}", "bad_body", 400),
        (b'{"payload":' + b"[" * 100_000 + b"}", "bad_body", 400),
        (b'{"payload":1,"lane":"none"}', "unknown_lane", 400),
        (b'{"payload":1,"delay_ms":-1}', "bad_value", 400),
        (b'{"payload":"' + b"x" * 1_100_000 + b'"}', "too_large", 413),
        (b'{"payload":"\xff"}', "bad_body", 400),
    ],
    ids=["not JSON", "type", "no body", "nesting", "endless nesting", "lane", "delay", "size", "UTF-8"],
)
def test_a_bad_line_is_named_and_those_before_it_are_sent(shared_server, queue, bad, code, status):
    answer = import_(shared_server, queue, lines(1_500) + bad + b"\n" + lines(10))

    assert answer.status == status
    error = answer.json["error"]
    assert error["code"] == code
    assert error["message"].startswith("Line 1501: ")
    assert error["message"].endswith(" 1500 messages were imported before that.")
    assert shared_server.call("GET", f"/queues/{queue}/stats").json["ready"] == 1_500


def test_a_line_without_end_is_refused_before_it_is_read_whole(tmp_path):
    with serving(tmp_path, "--durability", "fast", "--max-request-bytes", "65536") as server:
        queue = new_queue(server)

        answer = import_(server, queue, lines(3) + b'{"payload":"' + b"x" * 400_000)

        assert answer.status == 413
        assert answer.json["error"]["message"].startswith("Line 4: It has more than 65536 bytes")
        assert payloads(server, queue) == [0, 1, 2]


def test_an_import_that_meets_the_quota_says_how_far_it_came(shared_server):
    queue = new_queue(shared_server, quota=1_500)

    answer = import_(shared_server, queue, lines(3_000))

    assert answer.status == 429
    assert answer.json["error"]["code"] == "quota_exceeded"
    assert answer.json["error"]["message"].endswith(" 1400 messages were imported before that.")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_lines_of_a_type_that_a_form_can_send_are_refused(shared_server, queue, kind):
    answer = import_(shared_server, queue, lines(1), **{"Content-Type": kind})

    assert answer.status == 415
    assert "application/x-ndjson" in answer.json["error"]["message"]


def test_an_import_into_a_queue_that_is_not_there_is_refused(shared_server):
    answer = import_(shared_server, "nowhere-at-all", lines(1))

    assert (answer.status, answer.json["error"]["code"]) == (404, "queue_not_found")


def test_others_are_served_while_an_import_waits_for_its_client(shared_server, queue):
    with shared_server.connect() as connection:
        head = f"POST /queues/{queue}/import HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
        connection.sendall(head.encode() + lines(2_000))
        caught_up(shared_server)

        id = SQEW.send(shared_server, queue, "meanwhile")

        assert id > 0
    # What its client never finished stays imported as far as it was sent.
    assert eventually(lambda: shared_server.call("GET", f"/queues/{queue}/stats").json["ready"] >= 1_001)


# Around the queue


def test_the_archive_is_read_page_by_page(shared_server):
    queue = new_queue(shared_server, keep="archive")
    ids = [SQEW.send(shared_server, queue, n) for n in range(5)]
    for _ in ids:
        SQEW.settle(shared_server, queue, SQEW.receive(shared_server, queue)[0])

    pages = [
        shared_server.call("GET", f"/queues/{queue}/archive?limit=2&after={after}").json["messages"]
        for after in (0, ids[1], ids[3], ids[4])
    ]

    assert [[entry["id"] for entry in page] for page in pages] == [ids[:2], ids[2:4], ids[4:], []]
    assert {(entry["outcome"], entry["attempts"]) for page in pages for entry in page} == {("done", 1)}
    assert shared_server.call("GET", f"/queues/{queue}/archive?outcome=dead").json == {"messages": [], "after": None}


def test_compacting_gives_the_room_of_what_was_deleted_back(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        queue = new_queue(server)
        import_(server, queue, b"".join(b'{"payload":"%b"}\n' % (b"x" * 900) for _ in range(5_000)))
        server.call("POST", f"/queues/{queue}/purge")

        answer = server.call("POST", f"/queues/{queue}/compact")

        assert answer.status == 200
        assert answer.json["name"] == queue
        assert answer.json["bytes_before"] > 5_000_000
        assert answer.json["bytes_after"] < 500_000
        assert server.call("POST", "/queues/none/compact").status == 404


class Events:
    """An iterator over the events of a stream."""

    def __init__(self, server, queue):
        self._connection = server.connect(timeout=20)
        self._connection.sendall(f"GET /queues/{queue}/notify HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        self._read = b""
        self.head = self._next()

    def _next(self):
        while b"\n\n" not in self._read.replace(b"\r\n", b"\n"):
            chunk = self._connection.recv(65_536)
            if not chunk:
                return None
            self._read += chunk
        one, _, self._read = self._read.replace(b"\r\n", b"\n").partition(b"\n\n")
        return one

    def __next__(self):
        while (event := self._next()) is not None:
            if not event.startswith(b":"):
                return event
        raise StopIteration

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connection.close()


def ready(queue):
    return b'event: ready\ndata: {"queue":"%b"}' % queue.encode()


def test_notify_tells_of_each_message_that_becomes_ready(shared_server, queue):
    with Events(shared_server, queue) as events:
        SQEW.send(shared_server, queue, 1)
        first = next(events)
        assert payloads(shared_server, queue) == [1]
        SQEW.send(shared_server, queue, 2)
        second = next(events)

    assert b"content-type: text/event-stream" in events.head
    assert first == second == ready(queue)
    # It took nothing.
    assert payloads(shared_server, queue) == [2]


def test_notify_tells_of_what_is_ready_at_the_start(shared_server, queue):
    SQEW.send(shared_server, queue, 1)

    with Events(shared_server, queue) as events:
        assert next(events) == ready(queue)


def test_notify_tells_when_a_delay_and_when_a_lease_is_over(shared_server, queue):
    with Events(shared_server, queue) as events:
        shared_server.call("POST", f"/queues/{queue}/messages", {"payload": 1, "delay_ms": 100})
        assert next(events) == ready(queue)
        shared_server.call("POST", f"/queues/{queue}/poll?visibility_ms=2500")

        assert next(events) == ready(queue)

    (message,) = shared_server.call("POST", f"/queues/{queue}/poll").json["messages"]
    assert message["attempts"] == 2


def test_notify_does_not_keep_a_message_from_those_who_wait_for_it(shared_server, queue):
    received = []
    with Events(shared_server, queue) as first, Events(shared_server, queue) as second:
        waiting = threading.Thread(target=lambda: received.extend(SQEW.receive(shared_server, queue, wait=True)))
        waiting.start()
        caught_up(shared_server)

        id = SQEW.send(shared_server, queue, 1)
        waiting.join(timeout=10)

        assert [delivery.id for delivery in received] == [id]
        SQEW.send(shared_server, queue, 2)
        assert next(first) == next(second) == ready(queue)


def test_notify_ends_when_its_queue_is_deleted(shared_server, queue):
    with Events(shared_server, queue) as events:
        shared_server.call("DELETE", f"/queues/{queue}")

        with pytest.raises(StopIteration):
            next(events)


def test_notify_ends_when_its_client_leaves(shared_server, queue):
    caught_up(shared_server)
    with Events(shared_server, queue):
        assert in_flight(shared_server) == 2

    caught_up(shared_server)
    assert in_flight(shared_server) == 1


def in_flight(server):
    """Return the number of requests that are being answered, this one included."""
    (line,) = re.findall(rb"^http_connections_active (\d+)", server.call("GET", "/metrics").body, re.MULTILINE)
    return int(line)


def test_notify_ends_when_the_server_does(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server, Events(server, new_queue(server)) as events:
        assert server.stop() == 0

        with pytest.raises(StopIteration):
            next(events)


def test_notify_of_a_queue_that_is_not_there_is_refused(shared_server):
    answer = shared_server.call("GET", "/queues/nowhere-at-all/notify")

    assert (answer.status, answer.json["error"]["code"]) == (404, "queue_not_found")


def test_an_idempotency_key_for_an_array_is_refused_rather_than_ignored(shared_server, queue):
    body = [{"payload": 1}, {"payload": 2}]

    refused = shared_server.call("POST", f"/queues/{queue}/messages", body, {"Idempotency-Key": "k"})

    assert (refused.status, refused.json["error"]["code"]) == (400, "bad_value")
    assert shared_server.call("GET", f"/queues/{queue}/stats").json["ready"] == 0


def test_a_body_where_none_is_taken_is_refused_before_it_costs_a_delivery(shared_server, queue):
    shared_server.call("POST", f"/queues/{queue}/messages", {"payload": 1})

    refused = shared_server.call("POST", f"/queues/{queue}/poll", {"batch": 3})

    assert refused.status == 400
    assert "batch, wait_ms" in refused.json["error"]["message"]
    assert shared_server.call("GET", f"/queues/{queue}/stats").json["ready"] == 1


def test_a_misspelt_field_of_a_message_is_answered_with_the_nearest_name(shared_server, queue):
    refused = shared_server.call("POST", f"/queues/{queue}/messages", {"payload": 1, "priorty": 2})

    assert "did you mean 'priority'" in refused.json["error"]["message"]


def test_two_different_keys_for_one_message_are_refused(shared_server, queue):
    body = {"payload": 1, "idempotency_key": "a"}

    assert shared_server.call("POST", f"/queues/{queue}/messages", body, {"Idempotency-Key": "b"}).status == 400


def test_a_key_in_the_header_is_the_same_as_in_the_body(shared_server, queue):
    in_body = shared_server.call("POST", f"/queues/{queue}/messages", {"payload": 1, "idempotency_key": "é"})
    header = {"Idempotency-Key": "é".encode()}
    in_header = shared_server.call("POST", f"/queues/{queue}/messages", {"payload": 1}, header)

    assert (in_header.json["message_id"], in_header.json["duplicate"]) == (in_body.json["message_id"], True)


def test_a_number_of_thousands_of_digits_is_no_trouble(shared_server, queue):
    body = b'{"payload":{"payload":%b}}' % (b"9" * 5000)

    sent = shared_server.call("POST", f"/queues/{queue}/messages", body, {"Content-Type": "application/json"})

    assert sent.status in (201, 400)
    assert shared_server.call("GET", f"/queues/{queue}").status == 200


def test_a_batch_of_large_messages_ends_before_it_holds_everybody_up(shared_server, queue):
    for _ in range(12):
        assert shared_server.call("POST", f"/queues/{queue}/messages", {"payload": "x" * 1_000_000}).status == 201

    first = shared_server.call("POST", f"/queues/{queue}/poll?batch=100").json["messages"]
    second = shared_server.call("POST", f"/queues/{queue}/poll?batch=100").json["messages"]
    exported = shared_server.call("GET", f"/queues/{queue}/export").body.splitlines()

    assert len(first) < 12
    assert len(first) + len(second) == len(exported) == 12


# By what right


@pytest.mark.parametrize("act", ["ack", "nack", "extend"])
@pytest.mark.parametrize("is_held", [False, True], ids=["unreceived", "held"])
def test_an_id_alone_settles_nothing(shared_server, queue, act, is_held):
    id = SQEW.send(shared_server, queue, 1)
    if is_held:
        SQEW.receive(shared_server, queue)
    item = {"id": id, **({"ms": 0} if act == "extend" else {})}
    before = shared_server.call("GET", f"/queues/{queue}/messages/{id}").json

    alone = shared_server.call("POST", f"/queues/{queue}/{act}", item)
    among = shared_server.call("POST", f"/queues/{queue}/{act}", [{**item, "token": "0" * 32}, item])

    assert [answer.status for answer in (alone, among)] == [400, 400]
    assert alone.json["error"]["code"] == "bad_value"
    assert f"Message {id} is named by its id alone" in alone.json["error"]["message"]
    assert shared_server.call("GET", f"/queues/{queue}/messages/{id}").json == before


def test_acks_by_id_alone_that_come_together_settle_nothing(shared_server, queue):
    """Check acks of one tick, which are handled together: by id alone they settle nothing."""
    ids = [SQEW.send(shared_server, queue, n) for n in range(8)]
    bodies = [b'{"id":%d}' % id for id in ids]
    head = b"POST /queues/%b/ack HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    connections = [shared_server.connect() for _ in ids]
    for _ in range(3):
        for connection, body in zip(connections, bodies, strict=True):
            connection.sendall(head % (queue.encode(), len(body)) + body)
        answers = [connection.recv(65_536) for connection in connections]
        assert all(answer.startswith(b"HTTP/1.1 400 ") for answer in answers)
    for connection in connections:
        connection.close()

    assert shared_server.call("GET", f"/queues/{queue}/stats").json["ready"] == 8


def test_a_message_is_settled_by_the_name_of_its_consumer(shared_server, queue):
    id = SQEW.send(shared_server, queue, 1)
    shared_server.call("POST", f"/queues/{queue}/poll?consumer=w1")

    refused = shared_server.call("POST", f"/queues/{queue}/ack", {"id": id, "consumer": "w2"})
    acked = shared_server.call("POST", f"/queues/{queue}/ack", {"id": id, "consumer": "w1"})

    assert (refused.status, acked.status) == (409, 200)
