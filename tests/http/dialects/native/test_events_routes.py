"""Events over a real socket: subscriptions, and the queues and endpoints that a published event reaches."""

import json
import re

import pytest

from tests.http.dialects.vocabularies import ALL, MAILBOX, new_name, new_queue
from tests.http.webhooks import FLAGS, new_key, publish, subscribe, try_to_subscribe
from tests.support.endpoint import endpoint
from tests.support.serving import serving

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(scope="module")
def hook():
    with endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("events"), *FLAGS) as running:
        yield running


def messages(server, queue):
    return server.call("GET", f"/v1/queues/{queue}/messages?max=100").json


# Publishing


@pytest.mark.parametrize("dialect", ALL, ids=str)
def test_an_event_reaches_a_queue_whatever_dialect_receives_from_it(server, dialect):
    queue, key = new_queue(server), new_key()
    subscribe(server, key, queue_name=queue)

    published = publish(server, key, {"sku": 7})
    (delivery,) = dialect.receive(server, queue)

    sent = {"queue": queue, "id": delivery.id, "queue_name": queue, "msg_id": delivery.id}
    assert published == {"queues_matched": 1, "messages": [sent], "deliveries": 0}
    assert delivery.body == ('{"sku": 7}' if dialect is MAILBOX else {"sku": 7})


def test_an_event_reaches_every_queue_and_endpoint_whose_pattern_matches(server, hook):
    first, second, other, key = new_queue(server), new_queue(server), new_queue(server), new_key()
    subscribe(server, f"{key}.*", queue_name=first)
    subscribe(server, f"{key}.#", queue_name=second)
    subscribe(server, f"{key}.*.*", queue_name=other)
    subscribe(server, f"#.{key}.#", endpoint=hook.url(f"/{key}"))

    published = publish(server, f"{key}.created", 1)

    assert [message["queue"] for message in published["messages"]] == [first, second]
    assert (published["queues_matched"], published["deliveries"]) == (2, 1)
    assert hook.wait_for(f"/{key}")[0].body == b"1"
    assert messages(server, other) == []


def test_an_event_that_nobody_wants_goes_nowhere(server):
    assert publish(server, new_key(), 1) == {"queues_matched": 0, "messages": [], "deliveries": 0}


def test_an_array_of_events_is_answered_by_an_array(server):
    queue, key = new_queue(server), new_key()
    subscribe(server, key, queue_name=queue)

    answer = server.call("POST", f"/v1/events/{key}", [{"message": "a"}, {"message": "b"}])

    assert answer.status == 201
    assert [one["queues_matched"] for one in answer.json] == [1, 1]
    assert [message["message"] for message in messages(server, queue)] == ["a", "b"]


def test_of_an_array_with_a_bad_event_none_is_published(server):
    queue, key = new_queue(server), new_key()
    subscribe(server, key, queue_name=queue)

    answer = server.call("POST", f"/v1/events/{key}", [{"message": 1}, {"message": 2, "priority": 10**9}])

    assert answer.status == 400
    assert messages(server, queue) == []


def test_what_is_said_besides_the_message_comes_with_it(server):
    queue, key = new_queue(server), new_key()
    subscribe(server, key, queue_name=queue)

    publish(server, key, 1, headers={"trace": "a1"}, priority=3, ttl=60)
    publish(server, key, 2, delay=60)
    (message,) = messages(server, queue)

    assert message["headers"] == {"trace": "a1", "_event": {"routing_key": key}}
    assert message["priority"] == 3
    assert re.fullmatch(TIME, message["expires_at"])
    assert server.call("GET", f"/v1/queues/{queue}").json["queue_length"] == 2


def test_events_of_one_group_stay_in_order_in_a_fifo_queue(server):
    queue, key = f"{new_name()}.fifo", new_key()
    server.call("POST", "/v1/queues", {"name": queue})
    subscribe(server, key, queue_name=queue)

    publish(server, key, 1, group_id="a")
    publish(server, key, 2, group_id="a")
    publish(server, key, 3, group_id="b")

    assert [(message["message"], message["group_id"]) for message in messages(server, queue)] == [
        (1, "a"),
        (2, "a"),
        (3, "b"),
    ]


def test_an_array_of_no_events_was_published(server):
    answer = server.call("POST", f"/v1/events/{new_key()}", [])

    assert (answer.status, answer.json["error"]) == (400, "There is no event in the array. Publish one or more.")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("orders..eu", "there is no word at position 8"),
        (".orders", "there is no word at position 1"),
        ("orders.eu%20west", "' ' at position 10 is not allowed"),
        ("orders.*", "'*' at position 8 is for patterns"),
        ("orders.%23", "'#' at position 8 is for patterns"),
        ("a." * 64 + "a", "it has 65 words, and 64 are the most"),
        ("a" * 257, "it has 257 characters, and 256 are the most"),
    ],
)
@pytest.mark.parametrize("body", [{"message": 1}, []], ids=["one", "none"])
def test_a_bad_routing_key_is_refused_with_the_position(server, key, wrong, body):
    answer = server.call("POST", f"/v1/events/{key}", body)

    assert answer.status == 400
    assert wrong in answer.json["error"]
    assert "as in 'orders.eu.created'" in answer.json["error"]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, "missing required field `message`"),
        ({"message": 1, "delay": -1}, "delay can't be -1"),
        ({"message": 1, "delay": "soon"}, "Expected `float | null`, got `str` - at `$.delay`"),
        ({"message": 1, "ttl": 0}, "ttl can't be 0"),
        ([{"message": 1}, {"message": 2, "priority": "x"}], "at `$[1].priority`"),
    ],
)
def test_a_bad_event_is_refused(server, body, wrong):
    answer = server.call("POST", f"/v1/events/{new_key()}", body)

    assert answer.status == 400
    assert wrong in answer.json["error"]


def test_an_event_that_is_too_large_is_refused(server):
    answer = server.call("POST", f"/v1/events/{new_key()}", {"message": "x" * 1_048_577})

    assert answer.status == 413


def test_a_queue_without_room_refuses_the_event_for_all(server):
    full, other, key = new_queue(server, quota=0), new_queue(server), new_key()
    subscribe(server, key, queue_name=full)
    subscribe(server, key, queue_name=other)

    answer = server.call("POST", f"/v1/events/{key}", {"message": 1})

    assert answer.status == 429
    assert f"Queue '{full}' already holds its quota" in answer.json["error"]
    assert messages(server, other) == []


# Forms


def test_an_endpoint_gets_the_event_as_it_is(server, hook):
    key = new_key()
    subscribe(server, key, endpoint=hook.url(f"/{key}"))

    publish(server, key, {"sku": 7})
    (posted,) = hook.wait_for(f"/{key}")

    assert (posted.method, posted.body) == ("POST", b'{"sku": 7}')
    assert posted.headers["content-type"] == "application/json"
    assert posted.headers["x-sqew-routing-key"] == key


def test_a_queue_gets_an_envelope_too_where_it_wants_one(server):
    queue, plain, key = new_queue(server), new_queue(server), new_key()
    subscribe(server, key, queue_name=queue, envelope=True)
    subscribe(server, key, queue_name=plain)

    published = publish(server, key, {"sku": 7})

    assert published["queues_matched"] == 2
    assert messages(server, queue)[0]["message"]["Message"] == '{"sku": 7}'
    assert messages(server, plain)[0]["message"] == {"sku": 7}


def test_an_envelope_is_posted_as_the_json_that_it_is(server, hook):
    key = new_key()
    subscribe(server, key, endpoint=hook.url(f"/{key}"), envelope=True)

    publish(server, key, {"sku": 7})
    (posted,) = hook.wait_for(f"/{key}")

    assert posted.headers["content-type"] == "application/json"
    envelope = json.loads(posted.body)
    assert (envelope["Type"], envelope["Message"]) == ("Notification", '{"sku": 7}')


# Subscriptions


def test_a_queue_subscribes(server):
    queue, key = new_queue(server), new_key()

    made = subscribe(server, f"{key}.#", queue_name=queue)

    assert re.fullmatch(TIME, made["created_at"])
    assert made == {
        "id": made["id"],
        "pattern": f"{key}.#",
        "protocol": "sqs",
        "queue_name": queue,
        "queue": queue,
        "endpoint": f"sqs://{queue}",
        "envelope": False,
        "raw_delivery": True,
        "created_at": made["created_at"],
        "bound_at": made["created_at"],
    }


def test_an_endpoint_subscribes(server):
    key = new_key()

    made = subscribe(server, key, protocol="https", endpoint="https://example.com/hook", envelope=True)

    assert re.fullmatch(TIME, made["created_at"])
    assert made == {
        "id": made["id"],
        "pattern": key,
        "protocol": "https",
        "endpoint": "https://example.com/hook",
        "envelope": True,
        "raw_delivery": False,
        "signature_version": 2,
        "created_at": made["created_at"],
        "bound_at": made["created_at"],
    }


@pytest.mark.parametrize("protocol", ["sqs", "queue"])
def test_a_queue_may_be_called_what_others_call_it(server, protocol):
    made = subscribe(server, new_key(), protocol=protocol, queue_name=new_queue(server))

    assert made["protocol"] == "sqs"


@pytest.mark.parametrize("named", [False, True])
def test_a_queue_subscribes_as_the_endpoint_that_is_shown_of_it(server, named):
    queue, key = new_queue(server), new_key()
    more = {"queue_name": queue} if named else {}

    made = subscribe(server, key, protocol="sqs", endpoint=f"sqs://{queue}", **more)

    assert (made["queue_name"], made["endpoint"]) == (queue, f"sqs://{queue}")
    assert publish(server, key, 1)["queues_matched"] == 1


def test_the_scheme_of_an_endpoint_counts_whatever_the_protocol_says(server):
    made = subscribe(server, new_key(), protocol="https", endpoint="http://example.com/hook")

    assert (made["protocol"], made["endpoint"]) == ("http", "http://example.com/hook")


def test_fields_that_nobody_knows_are_ignored_as_beyond_queue_ignores_them(server):
    queue, key = new_queue(server), new_key()

    subscribe(server, key, queue_name=queue, color="red")
    published = publish(server, key, 1, headers=None, color="red")

    assert published["queues_matched"] == 1
    assert server.call("GET", f"/v1/events/{key}/subscriptions?color=red").status == 200


def test_to_subscribe_again_changes_nothing(server):
    queue, key = new_queue(server), new_key()
    made = subscribe(server, key, queue_name=queue)

    again = try_to_subscribe(server, key, queue_name=queue)

    assert (again.status, again.json) == (200, made)


def test_to_subscribe_again_in_another_form_is_a_conflict(server):
    queue, key = new_queue(server), new_key()
    made = subscribe(server, key, queue_name=queue)

    again = try_to_subscribe(server, key, queue_name=queue, envelope=True)

    assert again.status == 409
    assert again.json["error"] == (
        f"Subscription {made['id']} already takes '{key}' to queue '{queue}', in another form. "
        "Delete it first if the form is to change."
    )


def test_an_unknown_queue_is_not_found(server):
    queue = new_queue(server)

    answer = try_to_subscribe(server, new_key(), queue_name=f"{queue}x")

    assert (answer.status, answer.headers["x-sqew-error"]) == (404, "queue_not_found")
    assert f"Queue '{queue}x' does not exist (did you mean '{queue}'?)" in answer.json["error"]


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("orders..eu", "there is no word at position 8"),
        ("orders.e*", "'*' at position 9 must be a whole word"),
        ("orders.#x", "'#' at position 8 must be a whole word"),
        ("orders.é", "'é' at position 8 is not allowed"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_bad_pattern_is_refused_with_the_position(server, method, pattern, wrong):
    path = f"/v1/events/{pattern.replace('#', '%23').replace('é', '%C3%A9')}/subscriptions"

    answer = server.call(method, path, {"queue_name": "any"} if method == "POST" else None)

    assert answer.status == 400
    assert wrong in answer.json["error"]


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({}, "neither queue_name nor endpoint"),
        ({"queue_name": "a", "endpoint": "https://example.com"}, "both queue_name and endpoint"),
        ({"queue_name": "a", "protocol": "https"}, "protocol can't be 'https' for a queue"),
        ({"endpoint": "http://example.com", "protocol": "smtp"}, "the endpoint's URL says http"),
        ({"queue_name": "a", "endpoint": "sqs://b"}, "both queue_name and endpoint"),
        ({"endpoint": "https://example.com", "protocol": "sqs"}, "the endpoint's URL says https"),
        ({"endpoint": "ftp://example.com"}, "wrong at character 1: it must begin with http:// or https://"),
        ({"endpoint": "http://10.0.0.1/hook"}, "wrong at character 8: 10.0.0.1 is a private address"),
        ({"endpoint": "http://[::1]/"}, "wrong at character 8: ::1 is"),
        ({"endpoint": "http://169.254.169.254/latest"}, "169.254.169.254 is"),
        ({"endpoint": "http://example.com/a b"}, "wrong at character 21"),
        ({"queue_name": "a", "envelope": "yes"}, "Expected `bool`, got `str` - at `$.envelope`"),
        ({"queue_name": "a", "envelope": True, "signature_version": 3}, "signature_version can't be 3"),
        ({"queue_name": "a", "signature_version": 2}, "signature_version is for events in an envelope"),
        ({"queue": "a"}, "neither queue_name nor endpoint"),
    ],
)
def test_a_bad_subscription_is_refused(server, body, wrong):
    answer = server.call("POST", f"/v1/events/{new_key()}/subscriptions", body)

    assert answer.status == 400
    assert wrong in answer.json["error"]


def test_subscriptions_are_listed_by_pattern_by_queue_and_all(server):
    queue, key = new_queue(server), new_key()
    first = subscribe(server, key, queue_name=queue)
    second = subscribe(server, f"{key}.*", queue_name=queue)
    third = subscribe(server, key, endpoint="https://example.com/hook")

    by_pattern = server.call("GET", f"/v1/events/{key}/subscriptions").json
    by_queue = server.call("GET", f"/v1/queues/{queue}/subscriptions").json
    everything = server.call("GET", f"/v1/subscriptions?after={first['id'] - 1}").json

    assert by_pattern == [first, third]
    assert by_queue == [first, second]
    assert everything == [first, second, third]


def test_a_list_of_subscriptions_has_pages(server):
    queue, key = new_queue(server), new_key()
    made = [subscribe(server, f"{key}.{number}", queue_name=queue) for number in range(3)]

    first = server.call("GET", f"/v1/queues/{queue}/subscriptions?limit=2").json
    second = server.call("GET", f"/v1/queues/{queue}/subscriptions?limit=2&after={first[-1]['id']}").json

    assert first + second == made


def test_the_subscriptions_of_an_unknown_queue_are_not_found(server):
    assert server.call("GET", f"/v1/queues/{new_name()}/subscriptions").status == 404


def test_a_subscription_whose_queue_is_gone_says_so_and_publishing_names_the_queue(server):
    queue, key = new_queue(server), new_key()
    subscribe(server, key, queue_name=queue)
    server.call("DELETE", f"/v1/queues/{queue}")

    (listed,) = server.call("GET", f"/v1/queues/{queue}/subscriptions").json
    published = publish(server, key, 1)

    assert listed["problem"].startswith(f"Queue '{queue}' does not exist")
    assert published == {"queues_matched": 0, "messages": [], "deliveries": 0, "missing": [queue]}


@pytest.mark.parametrize("pattern", [None, "_", "another.pattern", "no..pattern"])
def test_a_subscription_is_deleted_by_its_id_whatever_stands_for_the_pattern(server, pattern):
    queue, key = new_queue(server), new_key()
    made = subscribe(server, key, queue_name=queue)

    deleted = server.call("DELETE", f"/v1/events/{pattern or key}/subscriptions/{made['id']}")
    again = server.call("DELETE", f"/v1/events/{pattern or key}/subscriptions/{made['id']}")

    assert (deleted.status, again.status) == (204, 404)
    assert publish(server, key, 1)["queues_matched"] == 0


def test_a_subscription_is_deleted_by_its_id_alone(server):
    made = subscribe(server, new_key(), queue_name=new_queue(server))

    deleted = server.call("DELETE", f"/v1/subscriptions/{made['id']}")
    again = server.call("DELETE", f"/v1/subscriptions/{made['id']}")

    assert (deleted.status, again.status) == (204, 404)
    assert again.json["error"] == f"There is no subscription {made['id']} here. List the subscriptions."


@pytest.mark.parametrize("id", ["x", "-1", "0", "1.5", "9" * 20])
def test_what_is_no_id_is_refused(server, id):
    answer = server.call("DELETE", f"/v1/subscriptions/{id}")

    assert answer.status == 400
    assert "A subscription's id can't be" in answer.json["error"]
