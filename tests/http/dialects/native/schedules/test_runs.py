"""Schedules over a real socket: fired by the clock, and by hand."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.http.dialects.native.schedules.nightly import make, patch, show
from tests.http.dialects.vocabularies import new_name, new_queue
from tests.http.webhooks import eventually, new_key, subscribe
from tests.support.serving import serving

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("runs"), "--durability", "fast") as running:
        yield running


@pytest.fixture
def queue(server):
    return new_queue(server)


def receive(server, queue, wait=20):
    return server.call("GET", f"/v1/queues/{queue}/messages?wait={wait}").json


def soon():
    return (datetime.now(UTC) + timedelta(seconds=1)).isoformat()


# By the clock


def test_a_schedule_fires_by_the_clock(server, queue):
    name = make(server, target=queue, cron="* * * * * *", headers={"trace": "a1"}, priority=2)["name"]

    (message,) = receive(server, queue)
    server.call("DELETE", f"/v1/schedules/{name}")

    mark = message["headers"]["_schedule"]
    assert (message["message"], message["priority"], message["headers"]["trace"]) == ({"job": "report"}, 2, "a1")
    assert (mark["name"], mark["out_of_band"]) == (name, False)
    assert mark["scheduled_for"].endswith(".000Z")


def test_what_fires_once_is_gone_when_it_has(server, queue):
    name, at = new_name(), soon()
    spec = {"name": name, "target_kind": "queue", "target": queue, "fire_at": at, "message": "now"}
    assert server.call("POST", "/v1/schedules", spec).status == 201

    (message,) = receive(server, queue)

    assert message["message"] == "now"
    assert message["headers"]["_schedule"]["scheduled_for"][:19] == at[:19]
    assert server.call("GET", f"/v1/schedules/{name}").status == 404


def test_a_schedule_publishes_under_a_routing_key(server, queue):
    key = new_key()
    subscribe(server, f"{key}.*", queue_name=queue)
    name = make(server, target_kind="topic", target=f"{key}.tick", cron="* * * * * *")["name"]

    (message,) = receive(server, queue)
    server.call("DELETE", f"/v1/schedules/{name}")

    assert message["headers"]["_event"] == {"routing_key": f"{key}.tick"}
    assert message["headers"]["_schedule"]["name"] == name


def test_a_schedule_whose_queue_is_gone_pauses_at_its_threshold(server, queue):
    name = make(server, target=queue, cron="* * * * * *", failure_threshold=1, status="paused")["name"]
    server.call("DELETE", f"/v1/queues/{queue}")

    patch(server, name, status="active")
    paused = eventually(lambda: (seen := show(server, name))["status"] == "paused" and seen)

    assert (paused["consecutive_failures"], paused["next_fires"]) == (1, [])
    assert paused["last_error"].startswith(f"Queue '{queue}' does not exist")
    assert paused["paused_reason"].startswith(f"It failed once: Queue '{queue}'")


def test_fires_are_counted_in_the_schedule_and_in_the_metrics(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        queue = new_queue(server)
        name = make(server, target=queue, cron="* * * * * *")["name"]

        receive(server, queue)
        shown = show(server, name)
        told = server.call("GET", "/metrics").body.decode()

    assert shown["fired"] >= 1
    assert re.fullmatch(TIME, shown["last_fired_at"])
    assert shown["last_fired_at"] < shown["next_fire_at"]
    assert re.search(r'queue_schedule_fires_total\{outcome="success"\} [1-9]', told)
    assert 'queue_schedule_fires_total{outcome="failure"} 0' in told


# By hand


def test_a_run_fires_now_is_counted_and_leaves_the_slots_as_they_are(server, queue):
    made = make(server, target=queue)

    run = server.call("POST", f"/v1/schedules/{made['name']}/runs")
    (message,) = receive(server, queue, wait=0)

    assert run.status == 202
    assert re.fullmatch(TIME, run.json["scheduled_for"])
    assert run.json == {
        "schedule": made["name"],
        "schedule_name": made["name"],
        "fired_at": run.json["scheduled_for"],
        "scheduled_for": run.json["scheduled_for"],
        "out_of_band": True,
        "msg_ids": [message["id"]],
        "deliveries": 0,
    }
    assert message["headers"]["_schedule"] == {
        "name": made["name"],
        "scheduled_for": run.json["scheduled_for"],
        "out_of_band": True,
    }
    seen = show(server, made["name"])
    assert seen["last_fired_at"] >= run.json["fired_at"]
    assert seen == {**made, "fired": 1, "fire_count": 1, "last_fired_at": seen["last_fired_at"]}


@pytest.mark.parametrize("body", [None, {}, {"color": "red"}])
def test_a_run_has_no_settings(server, queue, body):
    name = make(server, target=queue)["name"]

    assert server.call("POST", f"/v1/schedules/{name}/runs", body).status == 202


def test_a_paused_schedule_can_be_run(server, queue):
    name = make(server, target=queue, status="paused")["name"]

    assert server.call("POST", f"/v1/schedules/{name}/runs").status == 202
    assert len(receive(server, queue, wait=0)) == 1


def test_a_run_reaches_whoever_subscribes(server, queue):
    key = new_key()
    subscribe(server, key, queue_name=queue, envelope=True)
    name = make(server, target_kind="topic", target=key)["name"]

    run = server.call("POST", f"/v1/schedules/{name}/runs").json
    (message,) = receive(server, queue, wait=0)

    assert run["msg_ids"] == [message["id"]]
    assert message["message"]["Message"] == '{"job": "report"}'


def test_many_at_once_were_told_that_somebody_else_had_changed_the_schedule(server, queue):
    name = make(server, target=queue)["name"]
    path = f"/v1/schedules/{name}"

    with ThreadPoolExecutor(24) as threads:
        runs = list(threads.map(lambda _: server.call("POST", f"{path}/runs").status, range(24)))
        changed = list(threads.map(lambda n: patch(server, name, every=f"{n} hours")["every"], range(1, 25)))

    assert runs == [202] * 24
    assert changed == [f"{n} hours" for n in range(1, 25)]
    assert show(server, name)["fired"] == 24
    assert server.call("GET", f"/v1/queues/{queue}").json["queue_length"] == 24


def test_a_run_of_a_schedule_whose_queue_is_gone_finds_no_queue(server, queue):
    name = make(server, target=queue)["name"]
    server.call("DELETE", f"/v1/queues/{queue}")

    run = server.call("POST", f"/v1/schedules/{name}/runs")

    assert (run.status, run.json["code"]) == (404, "queue_not_found")
    assert run.headers["x-sqew-error"] == "target_missing"
    assert run.json["error"].startswith(f"Schedule '{name}' can't fire. Queue '{queue}' does not exist")
