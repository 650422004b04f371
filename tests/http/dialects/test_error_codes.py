"""Error codes in a header, the same in every dialect, whatever the form of the body."""

import pytest

from sqew.errors import SqewError
from tests.http.dialects.vocabularies import new_name, new_queue
from tests.http.webhooks import new_key, subscribe
from tests.support.serving import serving

HEADER = "x-sqew-error"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("codes"), "--durability", "fast") as running:
        yield running


def known(kind=SqewError):
    return {kind.code}.union(*map(known, kind.__subclasses__()))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/queues/nowhere/peek", None, 404, "queue_not_found"),
        ("POST", "/queues/nowhere/messages", {"payload": 1}, 404, "queue_not_found"),
        ("GET", "/v1/queues/nowhere", None, 404, "queue_not_found"),
        ("DELETE", "/v1/queues/nowhere/messages/1", None, 404, "queue_not_found"),
        ("POST", "/v1/events/a..b", {"message": 1}, 400, "bad_routing_key"),
        ("POST", "/v1/previews", {"cron": "61 * * * *"}, 400, "bad_expression"),
        ("POST", "/v1/previews", {"every": "5m", "timezone": "Mars/Base"}, 400, "bad_zone"),
        ("GET", "/v1/schedules/nowhere", None, 404, "schedule_not_found"),
        ("GET", "/v1/deliveries/7", None, 404, "delivery_not_found"),
        ("DELETE", "/v1/subscriptions/7", None, 404, "subscription_not_found"),
        ("GET", "/nowhere", None, 404, "route_not_found"),
        ("PUT", "/queues", None, 405, "method_not_allowed"),
    ],
)
def test_a_refusal_names_its_error(server, method, path, body, status, code):
    answer = server.call(method, path, body)

    assert (answer.status, answer.headers[HEADER]) == (status, code)
    assert code in known()


def test_a_full_queue_names_its_error_through_a_topic(server):
    queue, key = new_queue(server), new_key()
    server.call("PATCH", f"/queues/{queue}", {"quota": 0})
    subscribe(server, key, queue_name=queue)

    answer = server.call("POST", f"/v1/events/{key}", {"message": 1})

    assert (answer.status, answer.headers[HEADER]) == (429, "quota_exceeded")
    assert answer.headers["retry-after"] == "1"


def test_what_went_well_has_no_such_header(server):
    answer = server.call("POST", "/queues", {"name": new_name()})

    assert answer.status == 201
    assert HEADER not in answer.headers
