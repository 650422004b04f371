"""Events that are plain text, in queues and at endpoints."""

import pytest

from tests.http.dialects.vocabularies import new_queue
from tests.http.webhooks import FLAGS, new_key, publish, subscribe
from tests.support.endpoint import endpoint
from tests.support.serving import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("texts"), *FLAGS) as running:
        yield running


def test_a_text_reaches_a_queue_as_text(server):
    queue, key = new_queue(server), new_key()
    subscribe(server, key, queue_name=queue)

    publish(server, key, "two\nlines", format="text")

    (message,) = server.call("POST", f"/queues/{queue}/poll").json["messages"]
    assert (message["payload"], message["format"]) == ("two\nlines", "text")


def test_a_text_is_posted_as_text(server):
    key = new_key()
    with endpoint() as hook:
        subscribe(server, key, endpoint=hook.url("/hook"))

        publish(server, key, "hällo", format="text")

        (posted,) = hook.wait_for("/hook")
    assert posted.body == "hällo".encode()
    assert posted.headers["content-type"] == "text/plain; charset=utf-8"


def test_a_delivery_of_a_text_says_that_it_is_one(server):
    key = new_key()
    subscription = subscribe(server, key, endpoint="http://127.0.0.1:9/")
    publish(server, key, "hi", format="text", delay=3600)
    (listed,) = server.call("GET", f"/v1/deliveries?subscription_id={subscription['id']}").json

    shown = server.call("GET", f"/v1/deliveries/{listed['id']}").json

    assert (shown["message"], shown["format"]) == ("hi", "text")


@pytest.mark.parametrize("message", [1, None, {"a": 1}])
def test_what_is_no_string_is_no_text(server, message):
    answer = server.call("POST", f"/v1/events/{new_key()}", [{"message": "a"}, {"message": message, "format": "text"}])

    assert answer.status == 400
    assert "A text body must be a JSON string" in answer.json["error"]
