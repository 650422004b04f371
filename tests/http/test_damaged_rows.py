"""A server on a file in which single rows of events and schedules were damaged: it goes on with all the others."""

from __future__ import annotations

import contextlib

import apsw
import pytest

from tests.http.dialects.native.schedules.nightly import make
from tests.http.dialects.vocabularies import new_queue
from tests.http.webhooks import FLAGS, eventually, new_key, publish, subscribe
from tests.support.endpoint import endpoint
from tests.support.serving import serving


@pytest.fixture(scope="module")
def hook():
    with endpoint() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("damaged"), *FLAGS) as running:
        yield running


def damage(server, statement):
    with contextlib.closing(apsw.Connection(str(server.db))) as connection:
        connection.set_busy_timeout(5_000)
        connection.execute(statement)


def delayed(server, hook):
    """Return the id of a delivery that is not due yet."""
    key = new_key()
    id = subscribe(server, key, endpoint=hook.url(f"/{key}"))["id"]
    publish(server, key, 1, delay=3600)
    [delivery] = server.call("GET", f"/v1/deliveries?subscription_id={id}").json
    return delivery["id"]


@pytest.mark.parametrize("column", ["endpoint", "error"])
def test_one_delivery_that_is_not_utf8_stopped_all_deliveries(server, hook, column):
    bad = delayed(server, hook)
    damage(server, f"UPDATE sqew_delivery SET {column} = CAST(x'ff61' AS TEXT), due_at = 1 WHERE id = {bad}")

    key = new_key()
    subscribe(server, key, endpoint=hook.url(f"/{key}"))
    publish(server, key, {"sku": 7})

    eventually(lambda: any(request.path == f"/{key}" for request in hook.received()))
    assert server.call("GET", "/v1/deliveries").status == 200


def test_a_delivery_whose_event_was_lost_could_not_be_seen(server, hook):
    bad = delayed(server, hook)
    damage(server, f"DELETE FROM sqew_payload WHERE id = (SELECT payload_id FROM sqew_delivery WHERE id = {bad})")
    damage(server, f"UPDATE sqew_delivery SET due_at = 1 WHERE id = {bad}")

    def given_up():
        exhausted = server.call("GET", "/v1/deliveries?state=exhausted").json
        return [delivery for delivery in exhausted if delivery["id"] == bad]

    [delivery] = eventually(given_up)
    assert delivery["error"].startswith(f"What delivery {bad} was to post does not match its checksum")
    shown = server.call("GET", f"/v1/deliveries/{bad}")
    assert (shown.status, shown.json["error"]) == (500, delivery["error"])
    assert server.call("DELETE", f"/v1/deliveries/{bad}").status == 204


@pytest.mark.parametrize(
    "change", ["details = x'7b'", "details = replace(details, 'Europe/Berlin', 'Mars')", "is_text = 'x'"]
)
def test_one_damaged_schedule_hid_all_others(server, change):
    queue = new_queue(server)
    bad, good = (make(server, target=queue)["name"] for _ in range(2))
    damage(server, f"UPDATE sqew_schedule SET {change} WHERE name = '{bad}'")

    listed = {schedule["name"]: schedule for schedule in server.call("GET", "/v1/schedules").json}

    sentence = f"What is stored of schedule '{bad}' does not match its checksum: the file was damaged."
    assert listed[bad]["last_error"].startswith(sentence)
    assert listed[good]["last_error"] is None
    shown = server.call("GET", f"/v1/schedules/{bad}")
    assert shown.status == 500
    assert shown.json["error"].startswith(sentence)
    assert server.call("DELETE", f"/v1/schedules/{bad}").status == 204
