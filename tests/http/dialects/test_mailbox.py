"""The mailbox dialect over a real socket."""

import re
import threading
from datetime import UTC, datetime, timedelta

import pytest

from tests.http.dialects.vocabularies import caught_up, new_name
from tests.support.postgres import new_database
from tests.support.serving import STORES, serving


@pytest.fixture
def topic():
    return new_name()


@pytest.fixture(scope="module", params=STORES)
def server(request, tmp_path_factory):
    """Yield a server of the module's own, whose mailbox no other test uses."""
    database = new_database() if request.param == "postgres" else None
    with serving(tmp_path_factory.mktemp("mailbox"), "--durability", "fast", database=database) as server:
        yield server


def post(server, body, **fields):
    answer = server.call("POST", "/v1/messages", {"body": body, **fields})
    assert answer.status == 201, answer
    return answer.json


def bodies(server, query):
    answer = server.call("GET", f"/v1/messages?{query}")
    assert answer.status == 200, answer
    return [text["body"] for text in answer.json]


def test_the_example_of_its_description_works_as_it_stands(server):
    posted = server.talk(
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b'Content-Length: 16\r\n\r\n{"body":"hello"}'
    )
    got = server.talk(b"GET /v1/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

    head, _, message = posted.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 201 Created\r\n")
    assert b"\r\ncontent-type: application/json\r\n" in head
    shape = rb'\{"id":\d+,"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","body":"hello"\}'
    assert re.fullmatch(shape, message)
    assert got.partition(b"\r\n\r\n")[2] == b"[" + message + b"]"


def test_a_message_is_taken_once_and_archived(server, topic):
    sent = post(server, "only once", topic=topic)

    first = server.call("GET", f"/v1/messages?topic={topic}").json
    second = server.call("GET", f"/v1/messages?topic={topic}").json

    assert (first, second) == ([sent], [])
    assert server.call("GET", f"/v1/stats?topic={topic}").json == {
        "topic": topic,
        "new": 0,
        "claimed": 0,
        "archived": 1,
    }


def test_one_message_is_taken_where_no_limit_is_given(server, topic):
    for n in range(3):
        post(server, f"{n}", topic=topic)

    assert bodies(server, f"topic={topic}") == ["0"]
    assert bodies(server, f"topic={topic}&limit=10") == ["1", "2"]


def test_the_usual_limit_is_a_setting(tmp_path):
    with serving(tmp_path, "--durability", "fast", env={"GET_LIMIT_DEFAULT": "2"}) as server:
        for n in range(3):
            post(server, f"{n}")

        assert bodies(server, "") == ["0", "1"]


def test_a_large_backlog_comes_in_the_order_in_which_it_was_sent(server, topic):
    ids = [post(server, f"{n}", topic=topic)["id"] for n in range(250)]

    pages = [server.call("GET", f"/v1/messages?topic={topic}&limit=100").json for _ in range(4)]

    assert [len(page) for page in pages] == [100, 100, 50, 0]
    assert [text["id"] for page in pages for text in page] == ids == sorted(ids)
    timestamps = [text["timestamp"] for page in pages for text in page]
    assert timestamps == sorted(timestamps)


def test_what_is_received_together_is_in_the_order_of_its_creation_whatever_its_priority(server):
    topic = new_name()
    post(server, "first", topic=topic)
    server.call("POST", f"/queues/{topic}/messages", {"payload": "second", "priority": 9})

    assert bodies(server, f"topic={topic}&limit=2") == ["first", '"second"']


def test_the_timestamp_is_the_time_of_the_server_in_utc(server, topic):
    before = datetime.now(UTC)

    sent = post(server, "now", topic=topic)

    at = datetime.strptime(sent["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert before - timedelta(milliseconds=1) <= at <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["", " ", "Grüße 🎈\n\t\0", '{"not": "parsed"}', "x" * 1_000_000], ids=len)
def test_text_comes_back_as_it_was_sent(server, topic, text):
    post(server, text, topic=topic)

    assert bodies(server, f"topic={topic}") == [text]


def test_topics_are_apart(server):
    one, other = new_name(), new_name()
    post(server, "one", topic=one)
    post(server, "other", topic=other)

    assert bodies(server, f"topic={other}&limit=10") == ["other"]
    assert bodies(server, f"topic={one}&limit=10") == ["one"]


def test_a_topic_that_nobody_used_is_empty(server, topic):
    assert bodies(server, f"topic={topic}") == []


def test_a_topic_that_was_deleted_is_made_again(server, topic):
    post(server, "gone", topic=topic)
    assert server.call("DELETE", f"/v1/queues/{topic}").status == 204

    post(server, "here", topic=topic)

    assert bodies(server, f"topic={topic}&limit=10") == ["here"]


def test_a_repeated_dedupe_key_answers_the_first_message(server, topic):
    first = post(server, "first", topic=topic, dedupe_key="k")

    before = post(server, "again", topic=topic, dedupe_key="k")
    taken = server.call("GET", f"/v1/messages?topic={topic}&limit=10").json
    after = post(server, "and again", topic=topic, dedupe_key="k")

    assert first == before == after
    assert taken == [first]


def test_a_receive_waits_for_the_first_message_of_a_new_topic(server, topic):
    received = []
    waiting = threading.Thread(target=lambda: received.extend(bodies(server, f"topic={topic}&wait=20")))
    waiting.start()
    caught_up(server)

    post(server, "at last", topic=topic)
    waiting.join(timeout=10)

    assert received == ["at last"]


def test_a_receive_that_waits_in_vain_is_empty(server, topic):
    assert bodies(server, f"topic={topic}&wait=0.05") == []


# Ack mode


def test_a_leased_message_is_archived_when_it_is_acked(server, topic):
    sent = post(server, "work", topic=topic)

    (leased,) = server.call("GET", f"/v1/messages?topic={topic}&ack=true&visibility_timeout=30").json
    claimed = server.call("GET", f"/v1/stats?topic={topic}").json
    acked = server.call("POST", "/v1/acks", {"id": leased["id"], "token": leased["token"], "topic": topic})

    assert leased == {**sent, "token": leased["token"]}
    assert (claimed["new"], claimed["claimed"], claimed["archived"]) == (0, 1, 0)
    assert (acked.status, acked.body) == (200, b'{"id":%d,"ok":true}' % sent["id"])
    archived = server.call("GET", f"/v1/stats?topic={topic}").json
    assert (archived["new"], archived["claimed"], archived["archived"]) == (0, 0, 1)


def test_a_leased_message_that_is_not_acked_comes_back(server, topic):
    sent = post(server, "work", topic=topic)

    first = server.call("GET", f"/v1/messages?topic={topic}&ack=true&visibility_timeout=0.05").json
    again = server.call("GET", f"/v1/messages?topic={topic}&ack=true&wait=10").json

    assert first[0]["id"] == again[0]["id"] == sent["id"]
    assert first[0]["token"] != again[0]["token"]


def test_a_batch_of_acks_is_answered_one_by_one(server, topic):
    ids = [post(server, f"{n}", topic=topic)["id"] for n in range(2)]
    other = new_name()
    elsewhere = post(server, "elsewhere", topic=other)["id"]
    first, _ = server.call("GET", f"/v1/messages?topic={topic}&ack=true&limit=2").json
    [third] = server.call("GET", f"/v1/messages?topic={other}&ack=true").json
    nowhere = new_name()

    answer = server.call(
        "POST",
        "/v1/acks",
        [
            {"id": elsewhere, "token": third["token"], "topic": other},
            {"id": first["id"], "token": first["token"], "topic": topic},
            {"id": ids[1], "token": "stale", "topic": topic},
            {"id": elsewhere, "token": third["token"], "topic": topic},
            {"id": 1, "token": "any", "topic": nowhere},
        ],
    )

    assert answer.status == 200
    results = answer.json["results"]
    assert [result["id"] for result in results] == [elsewhere, first["id"], ids[1], elsewhere, 1]
    assert [result["ok"] for result in results] == [True, True, False, False, False]
    assert [result.get("code") for result in results[2:]] == ["stale_lease", "message_not_found", "queue_not_found"]


def test_an_empty_batch_of_acks_is_answered_with_none(server):
    assert server.call("POST", "/v1/acks", []).json == {"results": []}


# Around it


def test_archived_messages_are_kept_for_as_long_as_was_chosen(server, topic):
    chosen = server.call("PUT", "/v1/retention", {"topic": topic, "seconds": 0.001})
    post(server, "short-lived", topic=topic)
    bodies(server, f"topic={topic}")

    assert (chosen.status, chosen.body) == (200, b'{"topic":"%b","seconds":0.001}' % topic.encode())
    # Compacting sweeps out what is due.
    server.call("POST", f"/queues/{topic}/compact")
    assert server.call("GET", f"/v1/stats?topic={topic}").json["archived"] == 0


def test_a_shorter_retention_covers_what_was_archived_before(server, topic):
    post(server, "long-lived", topic=topic)
    bodies(server, f"topic={topic}")
    assert server.call("GET", f"/v1/stats?topic={topic}").json["archived"] == 1

    server.call("PUT", "/v1/retention", {"topic": topic, "seconds": 0.001})

    server.call("POST", f"/queues/{topic}/compact")
    assert server.call("GET", f"/v1/stats?topic={topic}").json["archived"] == 0


def test_retention_is_a_week_unless_another_is_chosen(server, topic):
    post(server, "x", topic=topic)

    usual = server.call("GET", f"/v1/retention?topic={topic}")
    server.call("PUT", "/v1/retention", {"topic": topic, "seconds": None})
    for_ever = server.call("GET", f"/v1/retention?topic={topic}")

    assert usual.json == {"topic": topic, "seconds": 604_800}
    assert for_ever.json == {"topic": topic, "seconds": None}


def test_stats_of_a_topic_that_does_not_exist_are_not_found(server, topic):
    assert server.call("GET", f"/v1/stats?topic={topic}").status == 404


def test_stats_of_a_mailbox_that_nobody_used_are_zero(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        stats = server.call("GET", "/v1/stats")

        assert stats.json == {"topic": "mailbox", "new": 0, "claimed": 0, "archived": 0}
        assert server.call("GET", "/v1/queues").json == []


def test_health_needs_the_token_as_everything_does_here(tmp_path):
    with serving(tmp_path, "--durability", "fast", env={"AUTH_TOKEN": "secret"}) as server:
        token = {"Authorization": "Bearer secret"}

        assert server.call("GET", "/health").status == 401
        assert server.call("GET", "/v1/messages").status == 401
        assert server.call("GET", "/health", headers=token).body == b'{"status":"ok"}'
        assert server.call("GET", "/v1/messages", headers=token).body == b"[]"


def test_a_topics_key_is_good_for_that_topic_alone(tmp_path):
    with serving(tmp_path, "--durability", "fast", env={"AUTH_TOKEN": "secret"}) as server:
        token = {"Authorization": "Bearer secret"}
        for name in ("mine", "other"):
            server.call("POST", "/v1/messages", {"body": name, "topic": name}, token)
        made = server.call("POST", "/queues/mine/keys", {"scopes": ["send", "receive"]}, token)
        key = {"Authorization": f"Bearer {made.json['key']}"}

        mine = server.call("GET", "/v1/messages?topic=mine", headers=key)
        acks = [(1, "mine"), (2, "other")]
        refused = [
            server.call("GET", "/v1/messages?topic=other", headers=key),
            server.call("GET", "/v1/messages", headers=key),
            server.call("POST", "/v1/messages", {"body": "x", "topic": "other"}, key),
            server.call("POST", "/v1/acks", [{"id": n, "token": "t", "topic": t} for n, t in acks], key),
            server.call("GET", "/v1/stats?topic=other", headers=key),
            server.call("GET", "/v1/retention?topic=other", headers=key),
        ]

        assert [text["body"] for text in mine.json] == ["mine"]
        assert [answer.status for answer in refused] == [403] * len(refused)
        assert server.call("GET", "/v1/stats?topic=other", headers=token).json["new"] == 1


def test_an_ack_without_a_token_is_refused_and_archives_nothing(server, topic):
    first, second = (post(server, f"{n}", topic=topic)["id"] for n in range(2))
    [held] = server.call("GET", f"/v1/messages?topic={topic}&ack=true").json

    alone = server.call("POST", "/v1/acks", {"id": second, "topic": topic})
    among = server.call(
        "POST", "/v1/acks", [{"id": first, "token": held["token"], "topic": topic}, {"id": second, "topic": topic}]
    )

    assert [answer.status for answer in (alone, among)] == [400, 400]
    assert f"Message {second} is named by its id alone" in alone.json["error"]
    assert server.call("GET", f"/v1/stats?topic={topic}").json == {
        "topic": topic, "new": 1, "claimed": 1, "archived": 0,
    }  # fmt: skip


def test_a_batch_of_acks_with_one_that_can_not_be_archives_none(server, topic):
    """Check that a bad batch archives nothing: acks of other topics were done before it was refused."""
    id, other = post(server, "mine", topic=topic)["id"], new_name()
    [held] = server.call("GET", f"/v1/messages?topic={topic}&ack=true").json

    answer = server.call(
        "POST",
        "/v1/acks",
        [{"id": id, "token": held["token"], "topic": topic}, {"id": -1, "token": "t", "topic": other}],
    )

    assert answer.status == 400
    assert server.call("GET", f"/v1/stats?topic={topic}").json["claimed"] == 1


def test_a_text_that_is_refused_makes_no_topic(server):
    topic = new_name()

    answer = server.call("POST", "/v1/messages", {"body": "x" * 1_100_000, "topic": topic, "dedupe_key": "k"})

    assert answer.status == 413
    assert server.call("GET", f"/queues/{topic}").json is None
