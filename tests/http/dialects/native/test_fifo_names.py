"""FIFO queues under `/v1/queues`, where the suffix of their names may be left out."""

import asyncio
import json
import time
from types import SimpleNamespace

import pytest

from sqew.errors import StoreUnavailable
from sqew.http.dialects.native.events import _one_published, _publish
from sqew.http.dialects.native.fifo_names import bare_names
from sqew.model import Published
from tests.http.dialects.vocabularies import new_name
from tests.support.serving import STORES, serving

CLAIMING = {"epoch": 1, "after": 0}
BODIES = {
    ("patch", "/v1/queues/{name}"): {"visibility_ms": 5},
    ("post", "/v1/queues/{name}/messages"): {"message": 1, "group_id": "g"},
    ("delete", "/v1/queues/{name}/messages"): {"ids": [1]},
    ("patch", "/v1/queues/{name}/messages/{id}"): {"vt": 5},
    ("post", "/v1/queues/{name}/bulk"): {"body": 1, "group": "g"},
    ("delete", "/v1/queues/{name}/archive"): {"messages": [{"id": 1, "finished_at": 1}]},
    ("post", "/v1/queues/{name}/consumers/{consumer}/open"): {"owner": "me"},
    ("post", "/v1/queues/{name}/consumers/{consumer}/claims"): CLAIMING,
    ("post", "/v1/queues/{name}/consumers/{consumer}/renew"): {"epoch": 1},
    ("post", "/v1/queues/{name}/writers/{writer}/epochs/{epoch}/parts/{part}"): [{"message": 1, "group": "g"}],
    ("post", "/v1/queues/{name}/writers/{writer}/epochs/{epoch}/promote"): {"parts": {}},
}
PLACES = {"consumer": "c", "number": "1", "part": "0", "writer": "w", "epoch": "0", "id": "1"}


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


def made(server):
    """Make a FIFO queue, and return the name that it was made with."""
    name = new_name()
    answer = server.call("POST", "/v1/queues", {"name": name, "fifo": True})
    assert (answer.status, answer.json["name"]) == (201, name)
    return name


def test_every_route_finds_a_fifo_queue_by_the_name_that_it_was_made_with(shared_server):
    document = shared_server.call("GET", "/v1/openapi.json").json
    routes = [
        (verb, path)
        for path, verbs in document["paths"].items()
        for verb in verbs
        if path.startswith("/v1/queues/{name}")
    ]
    assert len(routes) >= 25

    for verb, path in routes:
        name = made(shared_server)
        places = {**PLACES, "name": name}
        answers = [
            shared_server.call(
                verb.upper(), path.format(**{**places, "name": either}), BODIES.get((verb, path)), timeout=10
            )
            for either in ((name, f"{name}.fifo") if verb == "get" else (name,))
        ]

        for answer in answers:
            assert answer.headers.get("x-sqew-error") != "queue_not_found", (verb, path, answer)
            assert answer.status < 400 or answer.headers["x-sqew-error"].endswith("_not_found"), (verb, path, answer)
        assert len({answer.status for answer in answers}) == 1


def test_a_message_goes_through_a_fifo_queue_by_its_short_name(shared_server):
    name = made(shared_server)
    path = f"/v1/queues/{name}/messages"

    for number in range(2):
        assert shared_server.call("POST", path, {"message": number, "group_id": "g"}).status == 201
    [first] = shared_server.call("GET", f"{path}?fifo=true").json
    assert shared_server.call("GET", path).json == []
    assert shared_server.call("DELETE", f"{path}/{first['id']}").status == 204
    [second] = shared_server.call("GET", path).json

    assert (first["message"], second["message"]) == (0, 1)
    for shown in (name, f"{name}.fifo"):
        assert shared_server.call("GET", f"/v1/queues/{shown}").json["name"] == name
    assert shared_server.call("DELETE", f"/v1/queues/{name}").status == 204
    assert shared_server.call("GET", f"/v1/queues/{name}.fifo").status == 404


def test_a_fifo_queue_is_listed_by_its_bare_name(shared_server):
    name = made(shared_server)

    listed = [queue["name"] for queue in shared_server.call("GET", f"/v1/queues?prefix={name}").json]
    whole = [queue["name"] for queue in shared_server.call("GET", f"/v1/queues?prefix={name}.fi").json]

    assert listed == whole == [name]
    assert [queue["name"] for queue in shared_server.call("GET", f"/queues?prefix={name}").json] == [f"{name}.fifo"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_of_a_list_went_on_before_a_fifo_queue_that_they_had_shown(shared_server, limit):
    name = made(shared_server)
    others = [f"{name}-a", f"{name}-b", f"{name}0"]
    for other in others:
        shared_server.call("POST", "/v1/queues", {"name": other})

    seen, after = [], ""
    while page := shared_server.call("GET", f"/v1/queues?prefix={name}&after={after}&limit={limit}").json:
        seen += [queue["name"] for queue in page]
        after = seen[-1]

    # In the order of their whole names.
    assert seen == [f"{name}-a", f"{name}-b", name, f"{name}0"]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_a_fifo_queue_beside_a_plain_one_of_its_name_is_shown_by_its_whole_name(shared_server, limit):
    name = made(shared_server)
    shared_server.call("POST", "/queues", {"name": name, "dlq": None})

    seen, after = [], ""
    while page := shared_server.call("GET", f"/v1/queues?prefix={name}&after={after}&limit={limit}").json:
        seen += [queue["name"] for queue in page]
        after = seen[-1]

    assert seen == [name, f"{name}.fifo"]
    assert shared_server.call("GET", f"/v1/queues/{name}.fifo").json["name"] == f"{name}.fifo"
    changed = shared_server.call("PATCH", f"/v1/queues/{name}.fifo", {"visibility_ms": 5_000})
    again = shared_server.call("POST", "/v1/queues", {"name": f"{name}.fifo", "visibility_ms": 5_000})
    assert changed.json == again.json
    assert changed.json["name"] == f"{name}.fifo"


def test_messages_that_name_no_group_are_one_group(shared_server):
    name = made(shared_server)
    path = f"/v1/queues/{name}/messages"

    sent = shared_server.call("POST", path, [{"message": 1}, {"message": 2}])
    [first] = shared_server.call("GET", path).json

    assert sent.status == 201
    assert (first["message"], first["group_id"]) == (1, "")
    assert shared_server.call("GET", path).json == []


def test_a_fifo_queue_is_deleted_by_its_bare_name_and_no_plain_one_with_it(shared_server):
    name = made(shared_server)
    assert shared_server.call("DELETE", f"/v1/queues/{name}").status == 204
    assert shared_server.call("GET", f"/queues/{name}.fifo").json is None

    both = made(shared_server)
    shared_server.call("POST", "/queues", {"name": both})
    assert shared_server.call("DELETE", f"/v1/queues/{both}").status == 204
    assert shared_server.call("GET", f"/queues/{both}").json is None
    assert shared_server.call("GET", f"/queues/{both}.fifo").json["fifo"]


def test_subscriptions_and_schedules_did_not_find_a_fifo_queue_by_its_short_name(shared_server):
    name = made(shared_server)
    schedule = {"name": f"{name}-hourly", "target_kind": "queue", "target": name, "every": "1 hour", "message": "m"}

    subscribed = shared_server.call("POST", f"/v1/events/{name}.x/subscriptions", {"queue_name": name})
    scheduled = shared_server.call("POST", "/v1/schedules", schedule)
    again = shared_server.call("PUT", f"/v1/schedules/{name}-hourly", {**schedule, "message": "n"})
    shared_server.call("POST", f"/v1/events/{name}.x", {"message": "event"})
    shared_server.call("POST", f"/v1/schedules/{name}-hourly/runs")

    assert (subscribed.status, subscribed.json["queue"]) == (201, f"{name}.fifo")
    assert (scheduled.status, scheduled.json["queue"]) == (201, f"{name}.fifo")
    assert (again.status, again.json["queue"]) == (200, f"{name}.fifo")
    messages = shared_server.call("GET", f"/v1/queues/{name}/messages?max=5").json
    assert [message["message"] for message in messages] == ["event", "n"]
    shared_server.call("DELETE", f"/v1/schedules/{name}-hourly")


def names_shown(server, name):
    """Return the names that answers show for a FIFO queue with this bare name, and the whole names beside them."""
    key, path = f"{name}.x", f"/v1/schedules/{name}"
    schedule = {"every": "1 hour", "target": {"queue": f"{name}.fifo", "message": "m"}}
    subscribed = server.call("POST", f"/v1/events/{key}/subscriptions", {"queue_name": f"{name}.fifo"}).json
    subscriptions = [subscribed] + [
        one
        for place in (f"queues/{name}.fifo/subscriptions", f"events/{key}/subscriptions", "subscriptions?limit=100")
        for one in server.call("GET", f"/v1/{place}").json
        if one["id"] == subscribed["id"]
    ]
    published = [
        server.call("POST", f"/v1/events/{key}", {"message": 1}).json["messages"][0],
        server.call("POST", f"/v1/events/{key}", [{"message": 2}]).json[0]["messages"][0],
    ]
    schedules = [
        server.call("PUT", path, schedule).json,
        server.call("GET", path).json,
        server.call("PATCH", path, {"priority": 1}).json,
        *server.call("GET", f"/v1/schedules?name_prefix={name}").json,
    ]
    server.call("DELETE", path)
    server.call("DELETE", f"/v1/subscriptions/{subscribed['id']}")
    assert (len(subscriptions), len(schedules)) == (4, 4)
    assert {one["endpoint"] for one in subscriptions} == {f"sqs://{subscribed['queue_name']}"}
    shown = [one["queue_name"] for one in subscriptions + published] + [one["target"]["queue"] for one in schedules]
    return set(shown), {one["queue"] for one in subscriptions + published + schedules}


def test_events_and_schedules_showed_the_whole_name_of_a_queue_that_was_made_with_its_bare_one(shared_server):
    name = made(shared_server)

    assert names_shown(shared_server, name) == ({name}, {f"{name}.fifo"})


def test_events_and_schedules_show_the_whole_name_where_the_bare_one_is_that_of_a_plain_queue(shared_server):
    name = made(shared_server)
    shared_server.call("POST", "/queues", {"name": name, "dlq": None})

    assert names_shown(shared_server, name) == ({f"{name}.fifo"}, {f"{name}.fifo"})


def test_a_schedule_for_a_fifo_queue_is_put_back_as_it_was_shown(shared_server):
    name = made(shared_server)
    path = f"/v1/schedules/{name}"
    shared_server.call("PUT", path, {"every": "1 hour", "target": {"queue": name, "message": "m"}})
    shown = shared_server.call("GET", path).json

    again = shared_server.call("PUT", path, shown)

    assert (again.status, again.json) == (200, shown)
    shared_server.call("DELETE", path)


def test_a_fifo_queue_that_is_not_there_was_shown_by_a_name_that_led_elsewhere(shared_server):
    name, gone = made(shared_server), made(shared_server)
    path, whole = f"/v1/schedules/{name}", f"{gone}.fifo"
    shared_server.call("PATCH", f"/v1/queues/{name}", {"dead_letter": gone})
    shared_server.call("DELETE", f"/v1/queues/{gone}")
    spec = {"every": "1 hour", "target": {"queue": whole, "message": "m"}}
    shown = shared_server.call("PUT", path, spec).json

    again = shared_server.call("PUT", path, shown).json

    assert (shown["queue"], again["queue"]) == (whole, whole)
    assert shared_server.call("GET", f"/v1/queues/{name}").json["policy"]["dead_letter"] == whole
    shared_server.call("DELETE", path)


def test_names_of_plain_queues_are_shown_without_a_look_at_the_store():
    assert asyncio.run(bare_names(None, ["orders", "fifo", None])) == {}


def test_what_was_published_is_answered_although_the_store_went_away_before_names_were_looked_up():
    class Away:
        async def read(self, *operations):
            raise StoreUnavailable("The database is away.")

    service = SimpleNamespace(broker=Away())
    call = _publish(service, SimpleNamespace(), [], _one_published)

    answer = asyncio.run(call.looked_up([Published([("orders.fifo", 1)], 0, [])]))

    assert answer.status == 201
    assert json.loads(answer.body)["messages"][0]["queue_name"] == "orders.fifo"


def test_a_schedule_that_was_made_before_its_fifo_queue_never_fired(shared_server):
    name = new_name()
    path, schedule = f"/v1/schedules/{name}", {"every": "1 hour", "target": {"queue": name, "message": "m"}}
    assert shared_server.call("PUT", path, schedule).json["problem"].startswith(f"Queue '{name}' does not exist")
    shared_server.call("POST", "/v1/queues", {"name": name, "fifo": True})

    shown = shared_server.call("GET", path).json
    run = shared_server.call("POST", f"{path}/runs")

    assert "problem" not in shown
    assert (run.status, len(run.json["msg_ids"])) == (202, 1)
    assert [one["message"] for one in shared_server.call("GET", f"/v1/queues/{name}/messages").json] == ["m"]
    shared_server.call("DELETE", path)


def test_putting_the_same_by_the_short_name_changed_the_schedule(shared_server):
    name = made(shared_server)
    path, schedule = f"/v1/schedules/{name}", {"every": "1 hour", "target": {"queue": name, "message": "m"}}
    first = shared_server.call("PUT", path, schedule).json

    time.sleep(0.01)
    again = shared_server.call("PUT", path, schedule)

    assert (again.status, again.json) == (200, first)
    shared_server.call("DELETE", path)


def test_a_queue_of_the_very_name_is_the_one_that_is_meant(shared_server):
    name = new_name()
    assert shared_server.call("POST", "/v1/queues", {"name": f"{name}.fifo"}).status == 201
    assert shared_server.call("POST", "/queues", {"name": name}).status == 201
    # It is there, so to make it again changes nothing.
    assert (
        shared_server.call("POST", "/v1/queues", {"name": name, "max_attempts": 5, "dead_letter": f"{name}-dlq"}).status
        == 201
    )

    shared_server.call("POST", f"/v1/queues/{name}/messages", {"message": "plain"})

    assert [message["message"] for message in shared_server.call("GET", f"/v1/queues/{name}/messages").json] == [
        "plain"
    ]


def test_a_fifo_queue_is_not_made_where_it_would_not_be_found(shared_server):
    name = new_name()
    shared_server.call("POST", "/v1/queues", {"name": name})

    refused = shared_server.call("POST", "/v1/queues", {"name": name, "fifo": True})

    assert (refused.status, refused.headers["x-sqew-error"]) == (409, "queue_exists")
    assert shared_server.call("GET", f"/queues/{name}.fifo").json is None


def test_a_plain_queue_took_the_name_of_a_fifo_queue_and_hid_its_messages(shared_server):
    name = new_name()
    shared_server.call("POST", "/v1/queues", {"name": name, "fifo": True})
    shared_server.call("POST", f"/v1/queues/{name}/messages", {"message": "first", "group_id": "g"})

    refused = shared_server.call("POST", "/v1/queues", {"name": name})

    assert (refused.status, refused.headers["x-sqew-error"]) == (409, "queue_exists")
    assert f"'{name}.fifo'" in refused.json["error"]
    assert [message["message"] for message in shared_server.call("GET", f"/v1/queues/{name}/messages").json] == [
        "first"
    ]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_dead_letter_queue_took_the_name_of_a_fifo_queue_and_hid_its_messages(shared_server, method):
    name, letters = made(shared_server), made(shared_server)
    shared_server.call("POST", f"/v1/queues/{letters}/messages", {"message": "first"})
    another = {"POST": {"name": f"{name}-2", "fifo": True}, "PATCH": {}}[method]
    path = {"POST": "/v1/queues", "PATCH": f"/v1/queues/{name}"}[method]

    answers = [shared_server.call(method, path, {**another, "dead_letter": letters}) for _ in range(2)]

    assert [answer.json["policy"]["dead_letter"] for answer in answers] == [letters] * 2
    assert shared_server.call("GET", f"/v1/queues/{answers[0].json['name']}").json["policy"]["dead_letter"] == letters
    assert shared_server.call("GET", f"/queues/{answers[0].json['name']}.fifo").json["dlq"] == f"{letters}.fifo"
    assert shared_server.call("GET", f"/queues/{letters}").json is None
    (message,) = shared_server.call("GET", f"/v1/queues/{letters}/messages").json
    assert message["message"] == "first"


@pytest.mark.parametrize(("fifo", "letters"), [(True, "{}"), (False, "{}.fifo")])
def test_a_queue_and_its_dead_letter_queue_that_differ_by_the_suffix_alone_were_made(shared_server, fifo, letters):
    name = new_name()

    refused = shared_server.call(
        "POST", "/v1/queues", {"name": name, "fifo": fifo, "dead_letter": letters.format(name)}
    )

    assert (refused.status, "its own dead-letter queue" in refused.json["error"]) == (400, True)
    assert shared_server.call("GET", f"/v1/queues?prefix={name}").json == []


def test_a_queue_that_is_not_there_is_told_under_the_name_that_was_asked_for(shared_server):
    name = new_name()

    for method, path in (("GET", ""), ("GET", "/messages"), ("POST", "/purge")):
        answer = shared_server.call(method, f"/v1/queues/{name}{path}")
        assert (answer.status, f"Queue '{name}' does not exist" in answer.json["error"]) == (404, True)


def test_no_other_dialect_leaves_the_end_of_a_name_out(shared_server):
    name = made(shared_server)

    assert shared_server.call("POST", f"/queues/{name}/poll").status == 404
    assert shared_server.call("GET", f"/queues/{name}").json is None


def test_a_key_of_a_fifo_queue_opens_it_by_its_short_name(tmp_path):
    with serving(tmp_path, "--durability", "fast", env={"AUTH_TOKEN": "secret"}) as server:
        token = {"Authorization": "Bearer secret"}
        for name in ("zz", "yy"):
            server.call("POST", "/v1/queues", {"name": name, "fifo": True}, token)
        key = server.call("POST", "/queues/zz.fifo/keys", {"scopes": ["send", "receive"]}, token).json["key"]
        bearer = {"Authorization": f"Bearer {key}"}
        # A queue of the very name is none of its business.
        server.call("POST", "/queues", {"name": "zz"}, token)

        for _ in range(3):
            sent = server.call("POST", "/v1/queues/zz/messages", {"message": 1, "group_id": "g"}, bearer)
            assert sent.status == 201
        assert server.call("GET", "/v1/queues/yy/messages", headers=bearer).status == 403
        assert server.call("GET", "/queues/zz/peek", headers=bearer).status == 403
        assert json.loads(server.call("GET", "/v1/queues/zz.fifo", headers=token).body)["queue_length"] == 3
        assert server.call("GET", "/v1/queues/zz", headers=token).json["queue_length"] == 0
