"""Deliveries over a real socket: retries, and routes for those that could not be posted."""

import re

import pytest

from tests.http.webhooks import FLAGS, eventually, new_key, publish, subscribe
from tests.support.endpoint import endpoint, stalls, status
from tests.support.serving import serving

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
RETRIES = ("--delivery-retries", "10ms 20ms")
ATTEMPTS = 3


@pytest.fixture(scope="module")
def hook():
    with endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield a server that retries soon."""
    with serving(tmp_path_factory.mktemp("deliveries"), *FLAGS, *RETRIES) as running:
        yield running


def listed(server, query=""):
    answer = server.call("GET", f"/v1/deliveries?{query}")
    assert answer.status == 200, answer
    return answer.json


def exhausted(server, hook, **fields):
    """Return a delivery that could not be posted, to an endpoint that accepts posts from now on."""
    key = new_key()
    hook.does(f"/{key}", *[status(500)] * ATTEMPTS, status(200))
    subscription = subscribe(server, key, endpoint=hook.url(f"/{key}"), **fields)
    publish(server, key, {"sku": 7})
    query = f"state=exhausted&subscription_id={subscription['id']}"
    return eventually(lambda: listed(server, query))[0]


def waiting(server, hook):
    """Return a delivery that is not due yet."""
    key = new_key()
    subscription = subscribe(server, key, endpoint=hook.url(f"/{key}"))
    publish(server, key, 1, delay=3600)
    return listed(server, f"subscription_id={subscription['id']}")[0]


def is_gone(server, delivery):
    return server.call("GET", f"/v1/deliveries/{delivery['id']}").status == 404


# Retries


def test_a_delivery_that_fails_is_tried_again(server, hook):
    key = new_key()
    hook.does(f"/{key}", status(503), status(302, location="/elsewhere"), status(204))
    subscription = subscribe(server, key, endpoint=hook.url(f"/{key}"))

    publish(server, key, 1)
    posted = hook.wait_for(f"/{key}", 3)

    assert [request.headers["x-sqew-attempt"] for request in posted] == ["1", "2", "3"]
    assert len({request.headers["x-sqew-delivery"] for request in posted}) == 1
    assert eventually(lambda: not listed(server, f"subscription_id={subscription['id']}"))
    assert hook.received("/elsewhere") == []


def test_a_delivery_is_exhausted_when_its_retries_are_used_up(server, hook):
    delivery = exhausted(server, hook)

    posted = hook.received(f"/{delivery['routing_key']}")

    assert len(posted) == ATTEMPTS
    assert re.fullmatch(UUID, delivery["message_id"])
    assert re.fullmatch(TIME, delivery["created_at"])
    assert re.fullmatch(TIME, delivery["tried_at"])
    assert delivery == {
        "id": int(posted[0].headers["x-sqew-delivery"]),
        "subscription_id": delivery["subscription_id"],
        "endpoint": hook.url(f"/{delivery['routing_key']}"),
        "routing_key": delivery["routing_key"],
        "message_id": posted[0].headers["x-amz-sns-message-id"],
        "envelope": False,
        "state": "exhausted",
        "attempts": ATTEMPTS,
        "created_at": delivery["created_at"],
        "due_at": None,
        "tried_at": delivery["tried_at"],
        "status": 500,
        "error": "The endpoint answered 500.",
    }


def test_an_endpoint_that_nobody_listens_at_is_told_with_the_error(server):
    key = new_key()
    with endpoint() as gone:
        url = gone.url("/")
    subscription = subscribe(server, key, endpoint=url)

    publish(server, key, 1)
    (delivery,) = eventually(lambda: listed(server, f"state=exhausted&subscription_id={subscription['id']}"))

    assert delivery["status"] is None
    assert "refused" in delivery["error"]


# Looking


def test_a_delivery_waits_until_its_time(server, hook):
    delivery = waiting(server, hook)

    assert (delivery["state"], delivery["attempts"], delivery["tried_at"]) == ("pending", 0, None)
    assert (delivery["status"], delivery["error"]) == (None, None)
    assert delivery["due_at"] > delivery["created_at"]
    assert hook.received(f"/{delivery['routing_key']}") == []


def test_a_delivery_under_way_is_shown_as_such(server, hook):
    key = new_key()
    hook.does(f"/{key}", stalls)
    subscription = subscribe(server, key, endpoint=hook.url(f"/{key}"))

    publish(server, key, 1)
    hook.wait_for(f"/{key}")
    (delivery,) = listed(server, f"subscription_id={subscription['id']}")

    assert (delivery["state"], delivery["attempts"]) == ("delivering", 0)
    assert server.call("DELETE", f"/v1/deliveries/{delivery['id']}").status == 204


def test_one_delivery_is_shown_with_what_is_posted(server, hook):
    delivery = exhausted(server, hook)

    shown = server.call("GET", f"/v1/deliveries/{delivery['id']}")

    assert (shown.status, shown.json) == (200, {**delivery, "message": {"sku": 7}, "format": "json"})


def test_one_delivery_is_shown_with_its_envelope(server, hook):
    delivery = exhausted(server, hook, envelope=True)

    shown = server.call("GET", f"/v1/deliveries/{delivery['id']}").json

    assert (delivery["envelope"], delivery["signature_version"]) == (True, 2)
    assert shown["message"]["Message"] == '{"sku": 7}'
    assert shown["message"]["MessageId"] == delivery["message_id"]


def test_deliveries_are_listed_by_state_and_in_pages(server, hook):
    late, dead = waiting(server, hook), exhausted(server, hook)
    after = late["id"] - 1

    everything = listed(server, f"after={after}")
    first, second = listed(server, f"after={after}&limit=1"), listed(server, f"after={late['id']}&limit=1")

    assert everything == [late, dead] == first + second
    assert listed(server, f"after={after}&state=pending") == [late]
    assert listed(server, f"after={after}&state=exhausted") == [dead]


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("state=lost", "state can't be 'lost': it must be one of pending, delivering, exhausted."),
        ("subscription_id=x", "Expected `int | null`, got `str` - at `$.subscription_id`"),
        ("limit=0", "limit can't be 0"),
        ("after=-1", "after can't be -1"),
        ("status=500", "there is no 'status'"),
    ],
)
def test_a_list_that_is_asked_for_wrongly_is_refused(server, query, wrong):
    answer = server.call("GET", f"/v1/deliveries?{query}")

    assert answer.status == 400
    assert wrong in answer.json["error"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("POST", "/retry"), ("DELETE", "")], ids=["show", "retry", "drop"]
)
def test_an_unknown_delivery_is_not_found(server, method, path):
    unknown = server.call(method, f"/v1/deliveries/999999{path}")
    no_id = server.call(method, f"/v1/deliveries/x{path}")

    assert unknown.status == 404
    assert unknown.json["error"].startswith("There is no delivery 999999: it was delivered, dropped or never made.")
    assert no_id.status == 400
    assert no_id.json["error"] == "A delivery's id can't be 'x': it must be a whole number."


# Retrying and dropping


def test_an_exhausted_delivery_is_tried_again_on_request(server, hook):
    delivery = exhausted(server, hook)

    retried = server.call("POST", f"/v1/deliveries/{delivery['id']}/retry")

    assert retried.status == 202
    assert (retried.json["id"], retried.json["state"], retried.json["attempts"]) == (delivery["id"], "pending", 0)
    assert hook.wait_for(f"/{delivery['routing_key']}", ATTEMPTS + 1)[-1].body == b'{"sku": 7}'
    assert eventually(lambda: is_gone(server, delivery))


def test_a_delivery_that_waits_by_itself_is_not_retried(server, hook):
    delivery = waiting(server, hook)

    answer = server.call("POST", f"/v1/deliveries/{delivery['id']}/retry")

    assert answer.status == 409
    assert answer.json["error"] == (
        f"Delivery {delivery['id']} is pending: it will be tried by itself. Retry only exhausted ones."
    )


def test_a_delivery_whose_subscription_is_gone_is_kept_and_not_retried(server, hook):
    delivery = exhausted(server, hook)
    server.call("DELETE", f"/v1/subscriptions/{delivery['subscription_id']}")

    answer = server.call("POST", f"/v1/deliveries/{delivery['id']}/retry")

    assert answer.status == 409
    assert f"belongs to subscription {delivery['subscription_id']}, which was deleted" in answer.json["error"]
    assert not is_gone(server, delivery)


def test_a_delivery_is_dropped(server, hook):
    delivery = exhausted(server, hook)

    dropped = server.call("DELETE", f"/v1/deliveries/{delivery['id']}")

    assert (dropped.status, dropped.body) == (204, b"")
    assert is_gone(server, delivery)


def test_all_exhausted_deliveries_of_a_subscription_are_tried_again(server, hook):
    delivery, other = exhausted(server, hook), exhausted(server, hook)

    retried = server.call("POST", f"/v1/deliveries/retry?subscription_id={delivery['subscription_id']}")

    assert (retried.status, retried.json) == (200, {"retried": 1, "left": 0})
    assert eventually(lambda: is_gone(server, delivery))
    assert not is_gone(server, other)


def test_of_a_subscription_that_is_gone_nothing_can_be_tried_again(server, hook):
    delivery = exhausted(server, hook)
    server.call("DELETE", f"/v1/subscriptions/{delivery['subscription_id']}")

    answer = server.call("POST", f"/v1/deliveries/retry?subscription_id={delivery['subscription_id']}")

    assert answer.status == 404
    assert server.call("POST", "/v1/deliveries/retry").json["left"] >= 1


def test_a_delivery_that_was_retried_still_showed_what_was_wrong_before(server, hook):
    delivery = exhausted(server, hook)

    retried = server.call("POST", f"/v1/deliveries/{delivery['id']}/retry").json

    assert (retried["status"], retried["error"]) == (None, None)


def test_all_exhausted_deliveries_of_a_subscription_are_dropped(server, hook):
    delivery, other = exhausted(server, hook), exhausted(server, hook)

    dropped = server.call("DELETE", f"/v1/deliveries?subscription_id={delivery['subscription_id']}")

    assert (dropped.status, dropped.json) == (200, {"dropped": 1})
    assert is_gone(server, delivery)
    assert not is_gone(server, other)


def test_all_exhausted_deliveries_are_dropped_and_no_others(server, hook):
    late, dead = waiting(server, hook), exhausted(server, hook)
    count = len(listed(server, "state=exhausted"))

    dropped = server.call("DELETE", "/v1/deliveries")

    assert dropped.json == {"dropped": count}
    assert is_gone(server, dead)
    assert not is_gone(server, late)


def test_all_exhausted_deliveries_are_tried_again_and_no_others(server, hook):
    server.call("DELETE", "/v1/deliveries")
    late, first, second = waiting(server, hook), exhausted(server, hook), exhausted(server, hook)

    retried = server.call("POST", "/v1/deliveries/retry")

    assert retried.json == {"retried": 2, "left": 0}
    assert eventually(lambda: is_gone(server, first) and is_gone(server, second))
    assert hook.received(f"/{late['routing_key']}") == []


# Across a restart


def test_what_was_not_posted_before_a_restart_is_posted_after_it(tmp_path, hook):
    key = new_key()
    with serving(tmp_path, *FLAGS, env={"SQEW_DELIVERY_ENABLED": "false"}) as server:
        subscribe(server, key, endpoint=hook.url(f"/{key}"))
        publish(server, key, 1)
        server.stop()
    assert hook.received(f"/{key}") == []

    with serving(tmp_path, *FLAGS):
        posted = hook.wait_for(f"/{key}")

    assert [request.body for request in posted] == [b"1"]


def test_attempts_are_counted_in_the_metrics(tmp_path, hook):
    with serving(tmp_path, *FLAGS, *RETRIES) as server:
        exhausted(server, hook)

        told = server.call("GET", "/metrics").body.decode()

    assert f'queue_delivery_attempts_total{{outcome="failure"}} {ATTEMPTS}' in told
    assert 'queue_delivery_attempts_total{outcome="success"} 0' in told
    assert "queue_delivery_exhausted_total 1" in told
    assert f'queue_delivery_attempt_duration_seconds_count{{outcome="failure"}} {ATTEMPTS}' in told
