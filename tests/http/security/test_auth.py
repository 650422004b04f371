"""Permissions: the server's token, the keys of queues, web pages, and addresses beyond this machine."""

import contextlib
import re
import subprocess
import sys
import time

import apsw
import pytest

from sqew.http.routes import make_router
from sqew.stores.sql.migrations import migrations
from tests.support.serving import serving

TOKEN = "open-sesame-7e1f"
QUEUE, OTHER = "orders", "invoices"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


ADMIN = bearer(TOKEN)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Yield a server with a token and two queues."""
    with serving(tmp_path_factory.mktemp("guarded"), "--durability", "fast", env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        for name in (QUEUE, OTHER):
            assert server.call("POST", "/queues", {"name": name}, ADMIN).status == 201
        yield server


def add_key(server, *scopes, queue=QUEUE, **fields):
    answer = server.call("POST", f"/queues/{queue}/keys", {"scopes": scopes, **fields}, ADMIN)
    assert answer.status == 201, answer.body
    return answer.json


def key_for(server, *scopes, queue=QUEUE):
    """Return the headers of a request with a new key."""
    return bearer(add_key(server, *scopes, queue=queue)["key"])


def send(server, headers, queue=QUEUE):
    return server.call("POST", f"/queues/{queue}/messages", {"payload": 1}, headers)


def poll(server, headers, queue=QUEUE):
    return server.call("POST", f"/queues/{queue}/poll", None, headers)


# The server's token


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": TOKEN},
        bearer(TOKEN[:-1]),
        bearer(TOKEN + "x"),
        bearer("sqew_0123_" + "A" * 43),
        {"X-Api-Key": "wrong"},
        {"X-Api-Key": ""},
        {"Authorization": "Bearer wrong", "X-Api-Key": TOKEN},
    ],
)
def test_without_the_right_token_nothing_is_done(guarded, headers):
    answer = send(guarded, headers)

    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json["error"]["code"] == "unauthorized"
    assert TOKEN not in answer.body.decode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Basic anon"}, 401),
        (bearer("anon"), 401),
        ({"X-Api-Key": "anon"}, 401),
        (ADMIN, 200),
    ],
)
def test_who_brings_no_credentials_to_v1_is_told_so_by_another_status(guarded, headers, status):
    answer = guarded.call("GET", "/v1/queues", None, headers)

    assert answer.status == status
    assert status == 200 or answer.headers["x-sqew-error"] == answer.json["code"] == "unauthorized"


@pytest.mark.parametrize("headers", [ADMIN, {"Authorization": f"bearer   {TOKEN}"}, {"X-Api-Key": TOKEN}])
def test_the_token_allows_everything(guarded, headers):
    assert send(guarded, headers).status == 201
    assert guarded.call("GET", "/queues", None, headers).status == 200


def test_what_is_open_needs_no_token(guarded):
    assert guarded.call("GET", "/v1/openapi.json").status == 200


def test_two_authorization_headers_are_one_too_many(guarded):
    head = (
        f"GET /queues HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\nAuthorization: Bearer x\r\n\r\n"
    )

    assert guarded.talk(head.encode(), timeout=5).startswith(b"HTTP/1.1 400 ")


def test_the_token_is_nowhere_in_the_log(tmp_path):
    environment = {"SQEW_AUTH_TOKEN": TOKEN, "SQEW_LOG_LEVEL": "debug"}
    with serving(tmp_path, env=environment) as server:
        server.call("POST", "/queues", {"name": QUEUE}, ADMIN)
        key = add_key(server, "send", signing=True)
        send(server, bearer(key["key"]))
        send(server, bearer(TOKEN + "x"))
        server.stop()

        log = server.log.read_text()

    assert TOKEN not in log
    assert key["key"] not in log
    assert key["signing_secret"] not in log


@pytest.mark.parametrize("token", ["   ", "two\nlines"])
def test_a_token_that_no_client_could_send_is_refused_at_the_start(tmp_path, token):
    done = run_server(tmp_path, "--auth-token", token)

    assert done.returncode == 2
    assert "auth_token is blank or holds control characters" in done.stderr


# Keys


def test_a_new_key_is_shown_once(guarded):
    made = add_key(guarded, "send", "receive", label="the shop")
    listed = guarded.call("GET", f"/queues/{QUEUE}/keys", None, ADMIN)

    assert made["key"].startswith(f"sqew_{made['id']}_")
    (shown,) = [key for key in listed.json["keys"] if key["id"] == made["id"]]
    assert shown == {name: value for name, value in made.items() if name != "key"}
    assert (shown["scopes"], shown["label"], shown["queue"]) == (["send", "receive"], "the shop", QUEUE)
    assert made["key"] not in listed.body.decode()


def test_a_key_is_not_in_the_file(guarded):
    made = add_key(guarded, "send")
    secret = made["key"].removeprefix(f"sqew_{made['id']}_").encode()

    files = [file.read_bytes() for file in guarded.db.parent.glob("queue.db*")]

    assert any(made["id"].encode() in content for content in files)
    assert not any(secret in content for content in files)


def test_the_answer_with_a_key_is_not_to_be_cached(guarded):
    answer = guarded.call("POST", f"/queues/{QUEUE}/keys", {"scopes": ["send"]}, ADMIN)

    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("scope", "statuses"),
    [("send", (201, 403, 403)), ("receive", (403, 200, 403)), ("admin", (201, 200, 200))],
)
def test_a_key_allows_what_its_scopes_say(guarded, scope, statuses):
    key = key_for(guarded, scope)

    answers = (send(guarded, key), poll(guarded, key), guarded.call("POST", f"/queues/{QUEUE}/purge", None, key))

    assert tuple(answer.status for answer in answers) == statuses


def test_a_refusal_says_what_the_key_allows_and_what_is_needed(guarded):
    answer = poll(guarded, key_for(guarded, "send"))

    assert answer.json["error"]["code"] == "forbidden"
    assert "allows send, and this needs receive" in answer.json["error"]["message"]


def test_a_key_is_good_for_its_own_queue_only(guarded):
    key = key_for(guarded, "admin")

    assert send(guarded, key, OTHER).status == 403
    assert guarded.call("GET", f"/queues/{OTHER}/keys", None, key).status == 403
    assert guarded.call("DELETE", f"/queues/{OTHER}", None, key).status == 403
    assert send(guarded, key, "no-such-queue").status == 403


def test_a_name_that_is_written_another_way_is_still_another_queue(guarded):
    key = key_for(guarded, "send")

    assert send(guarded, key, "%6Frders").status == 201
    assert send(guarded, key, "%69nvoices").status == 403


@pytest.mark.parametrize(("method", "path"), [("GET", "/queues"), ("POST", "/queues?name=another")])
def test_what_is_about_no_single_queue_needs_the_servers_token(guarded, method, path):
    answer = guarded.call(method, path, None, key_for(guarded, "admin"))

    assert answer.status == 403
    assert "Use the server's token" in answer.body.decode()


@pytest.mark.parametrize(("act", "other_act"), [("complete", "fail"), ("fail", "complete")])
@pytest.mark.parametrize(("queue", "is_open"), [(QUEUE, True), (OTHER, False)])
def test_by_id_alone_a_key_reaches_the_messages_of_its_own_queue_only(guarded, queue, is_open, act, other_act):
    sent = guarded.call("POST", f"/queues/{queue}/enqueue", {"n": 1}, ADMIN).json["message_id"]
    received = [guarded.call("GET", f"/queues/{queue}/receive", None, ADMIN).json]
    while received[-1]["id"] != sent:
        received.append(guarded.call("GET", f"/queues/{queue}/receive", None, ADMIN).json)

    by_key = guarded.call("PUT", f"/messages/{sent}/{act}", None, key_for(guarded, "receive"))
    left = guarded.call("PUT", f"/messages/{sent}/{other_act}", None, ADMIN)

    dead = guarded.call("GET", f"/queues/{queue}/dlq", None, ADMIN).json["messages"]
    assert (by_key.status, left.status) == (200, 200)
    # The first of the two that reached it decided.
    is_dead = guarded.uuids.id_in(sent) in [message["id"] for message in dead]
    assert is_dead is ((act if is_open else other_act) == "fail")


@pytest.mark.parametrize(("queue", "status"), [(QUEUE, 200), (OTHER, 404)])
def test_by_id_alone_a_key_finds_the_messages_of_its_own_queue_only(guarded, queue, status):
    id = guarded.call("POST", f"/queues/{queue}/messages", {"payload": 1}, ADMIN).json["id"]

    assert guarded.call("GET", f"/messages/{id}", None, key_for(guarded, "receive")).status == status


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize(("scope", "queue"), [("send", QUEUE), ("receive", OTHER)])
def test_messages_are_listed_and_deleted_only_by_who_may(guarded, method, scope, queue):
    assert guarded.call(method, f"/queues/{queue}/messages", None, key_for(guarded, scope)).status == 403


@pytest.mark.parametrize(("topic", "status"), [(QUEUE, 201), (OTHER, 403)])
def test_a_mailbox_key_is_good_for_its_own_topic_only(guarded, topic, status):
    key = key_for(guarded, "send")

    assert guarded.call("POST", "/v1/messages", {"body": "hello", "topic": topic}, key).status == status


@pytest.mark.parametrize(("queue", "status"), [(QUEUE, 200), (OTHER, 403)])
def test_a_key_is_good_for_its_queue_in_the_native_dialect_too(guarded, queue, status):
    assert guarded.call("GET", f"/v1/queues/{queue}", None, key_for(guarded, "receive")).status == status


def test_a_deleted_key_opens_nothing_from_then_on(guarded):
    made = add_key(guarded, "send")
    key = bearer(made["key"])
    assert send(guarded, key).status == 201

    deleted = guarded.call("DELETE", f"/queues/{QUEUE}/keys/{made['id']}", None, ADMIN)

    assert (deleted.status, deleted.body) == (204, b"")
    assert send(guarded, key).status == 401
    assert guarded.call("DELETE", f"/queues/{QUEUE}/keys/{made['id']}", None, ADMIN).status == 404


def test_a_key_of_a_deleted_queue_does_not_open_the_next_one_of_its_name(guarded):
    guarded.call("POST", "/queues", {"name": "brief", "dlq": None}, ADMIN)
    key = key_for(guarded, "admin", queue="brief")

    guarded.call("DELETE", "/queues/brief", None, ADMIN)
    guarded.call("POST", "/queues", {"name": "brief", "dlq": None}, ADMIN)

    assert send(guarded, key, "brief").status == 401


def test_an_admin_key_makes_and_deletes_keys_of_its_queue(guarded):
    admin = key_for(guarded, "admin")

    made = guarded.call("POST", f"/queues/{QUEUE}/keys", {"scopes": ["send"]}, admin)

    assert made.status == 201
    assert guarded.call("DELETE", f"/queues/{QUEUE}/keys/{made.json['id']}", None, admin).status == 204


@pytest.mark.parametrize(
    "body", [{}, {"scopes": []}, {"scopes": ["send", "send"]}, {"scopes": ["all"]}, {"scopes": ["send"], "x": 1}]
)
def test_a_key_that_makes_no_sense_is_refused(guarded, body):
    assert guarded.call("POST", f"/queues/{QUEUE}/keys", body, ADMIN).status == 400


def test_a_key_for_a_queue_that_does_not_exist_is_refused(guarded):
    assert guarded.call("POST", "/queues/nowhere/keys", {"scopes": ["send"]}, ADMIN).status == 404


def test_without_a_token_a_key_is_refused_because_it_would_protect_nothing(shared_server):
    shared_server.call("POST", "/queues", {"name": "keyless"})

    answer = shared_server.call("POST", "/queues/keyless/keys", {"scopes": ["send"]})

    assert answer.status == 409
    assert "SQEW_AUTH_TOKEN" in answer.json["error"]["message"]


def test_keys_are_known_again_after_a_restart(tmp_path):
    environment = {"SQEW_AUTH_TOKEN": TOKEN}
    with serving(tmp_path, env=environment) as server:
        server.call("POST", "/queues", {"name": QUEUE}, ADMIN)
        key = key_for(server, "send")
        server.stop()

    with serving(tmp_path, env=environment) as server:
        assert send(server, key).status == 201


def sqew_key(server, *words):
    command = [sys.executable, "-m", "sqew", "--db", str(server.db), "key", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def status_becomes(server, headers, status, within_s=30):
    """Return True once a send with these headers is answered with this status, or False if it never is."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if send(server, headers).status == status:
            return True
    return False


def test_what_another_process_does_to_keys_counts_before_long(guarded):
    words = sqew_key(guarded, "add", "--queue", QUEUE, "--scope", "send").split()
    id, key = words[1], bearer(words[words.index("key") + 1])

    assert status_becomes(guarded, key, 201)
    sqew_key(guarded, "rm", "--queue", QUEUE, "--id", id, "--yes")
    assert status_becomes(guarded, key, 401)


def test_a_file_from_before_there_were_keys_gets_room_for_them(tmp_path):
    first, *_ = migrations("sqew.stores.sqlite")
    with contextlib.closing(apsw.Connection(str(tmp_path / "queue.db"))) as old:
        old.execute("CREATE TABLE sqew_migration (version INTEGER PRIMARY KEY, name TEXT, applied_at INTEGER)")
        old.execute(first.sql)
        old.execute("INSERT INTO sqew_migration VALUES (?, ?, 0)", (first.version, first.name))

    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        assert server.call("POST", "/queues", {"name": QUEUE}, ADMIN).status == 201
        assert send(server, key_for(server, "send")).status == 201


# Web pages


PAGE = "https://shop.example"


@pytest.fixture(scope="module")
def with_pages(tmp_path_factory):
    """Yield a server that pages of two origins may call."""
    origins = f"{PAGE}, http://localhost:3000"
    with serving(tmp_path_factory.mktemp("pages"), "--durability", "fast", "--cors-origins", origins) as server:
        server.call("POST", "/queues", {"name": QUEUE})
        yield server


def preflight(server, origin, path=f"/queues/{QUEUE}/messages"):
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    return server.call("OPTIONS", path, None, headers)


def test_pages_may_not_call_unless_they_are_allowed(shared_server):
    answer = shared_server.call("GET", "/queues", None, {"Origin": PAGE})

    assert answer.status == 403
    assert "cors_origins" in answer.json["error"]["message"]
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert preflight(shared_server, PAGE).status == 403


@pytest.mark.parametrize(
    "written",
    ["https://shop.example:443", "HTTPS://Shop.Example", "https://shop.example."],
    ids=["port", "case", "dot"],
)
def test_a_page_is_allowed_however_its_origin_is_written(tmp_path, written):
    with serving(tmp_path, "--cors-origins", written) as server:
        assert server.call("GET", "/queues", None, {"Origin": PAGE}).status == 200


@pytest.mark.parametrize("origin", ["null", "", "https://shop.example.evil.example", "http://shop.example", "*"])
def test_an_origin_that_is_nearly_the_allowed_one_is_another(with_pages, origin):
    assert with_pages.call("GET", "/queues", None, {"Origin": origin}).status == 403


def test_a_page_of_the_server_itself_may_call(shared_server):
    origin = f"http://{shared_server.host}:{shared_server.port}"

    assert shared_server.call("GET", "/queues", None, {"Origin": origin}).status == 200


def test_an_allowed_page_sees_the_answer(with_pages):
    answer = with_pages.call("GET", "/queues", None, {"Origin": PAGE})

    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert answer.headers["vary"] == "origin"


def test_an_allowed_page_sees_refusals_too(with_pages):
    answer = with_pages.call("GET", "/queues/nowhere/peek", None, {"Origin": PAGE})

    assert (answer.status, answer.headers["access-control-allow-origin"]) == (404, PAGE)


def test_an_allowed_page_sees_what_is_streamed(with_pages):
    answer = with_pages.call("GET", f"/queues/{QUEUE}/export", None, {"Origin": PAGE})

    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, PAGE)


def test_an_answer_without_an_origin_says_that_it_depends_on_it(with_pages):
    answer = with_pages.call("GET", "/queues")

    assert answer.headers["vary"] == "origin"
    assert "access-control-allow-origin" not in answer.headers


def test_a_preflight_says_what_may_be_sent(with_pages):
    answer = preflight(with_pages, "http://localhost:3000")

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "authorization, content-type"


def test_a_preflight_needs_no_token(tmp_path):
    with serving(tmp_path, "--cors-origins", PAGE, env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        assert preflight(server, PAGE).status == 204
        refused = server.call("GET", "/queues", None, {"Origin": PAGE})

    assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, PAGE)


def test_every_page_may_call_without_credentials_where_all_are_allowed(tmp_path):
    with serving(tmp_path, "--cors-origins", "*") as server:
        answer = server.call("GET", "/queues", None, {"Origin": PAGE})

    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origins", ["shop.example", "https://shop.example/path", f"{PAGE},*", "https://*.example"])
def test_origins_that_are_none_are_refused_at_the_start(tmp_path, origins):
    done = run_server(tmp_path, "--cors-origins", origins)

    assert done.returncode == 2
    assert "cors_origins can't hold" in done.stderr


def test_options_says_what_a_path_takes(shared_server):
    answer = shared_server.call("OPTIONS", "/v1/queues")

    assert (answer.status, answer.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    assert shared_server.call("OPTIONS", "/nothing/to/see/here").status == 404


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8888",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "10.0.0.1",
        "[::2]",
        "[::1].evil.example",
        "[::1]evil.example",
        "[127.0.0.1]",
        "localhost:x@evil.example",
        "localhost:8888@evil.example",
        "localhost:8888:evil.example",
        "localhost:99999",
        "localhost, evil.example",
        "127.0.0.1/evil.example",
        "",
    ],
)
def test_a_name_that_was_made_to_mean_this_machine_is_refused(shared_server, host):
    answer = shared_server.call("GET", "/queues", None, {"Host": host, "Origin": f"http://{host}"})

    assert answer.status == 403
    assert "Call it as localhost" in answer.json["error"]["message"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.8.9.1:80", "[::1]:8888", "localhost."])
def test_this_machines_own_names_are_fine(shared_server, host):
    assert shared_server.call("GET", "/queues", None, {"Host": host}).status == 200


def test_with_a_token_any_name_will_do(guarded):
    assert guarded.call("GET", "/queues", None, {**ADMIN, "Host": "queue.example"}).status == 200


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_a_picture_on_another_site_takes_no_messages(shared_server, site, status):
    shared_server.call("POST", "/queues", {"name": "pictures"})

    answer = shared_server.call("GET", "/queues/pictures/receive", None, {"Sec-Fetch-Site": site})

    assert answer.status == status


def filled(route):
    """Return a path of a route, about the queue ``pictures`` if the route names one."""
    values = {"queue": "pictures", "name": "pictures", "account": "000000000000"}
    return re.sub(r"{(\w+)}", lambda found: values.get(found[1], "1"), route.pattern)


ROUTES = make_router().routes
EMBEDDED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
FOLLOWED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
FRAMED = {**FOLLOWED, "Sec-Fetch-Dest": "iframe"}
TYPED = {**FOLLOWED, "Sec-Fetch-Site": "none"}
AHEAD = {**TYPED, "Sec-Purpose": "prefetch;prerender"}


@pytest.mark.parametrize("headers", [EMBEDDED, FRAMED, AHEAD], ids=["embedded", "framed", "fetched ahead"])
def test_no_route_lets_in_what_is_part_of_a_page_of_another_site(shared_server, headers):
    statuses = {
        (route.method, route.pattern): shared_server.call(route.method, filled(route), None, headers).status
        for route in ROUTES
    }

    assert statuses == dict.fromkeys(statuses, 403)


def test_a_link_of_another_site_leads_to_nothing_that_changes_anything(shared_server):
    shared_server.call("POST", "/queues", {"name": "pictures"})
    shared_server.call("POST", "/queues/pictures/messages", {"payload": 1})
    before = shared_server.call("GET", "/queues/pictures/stats").json["totals"]

    statuses = {}
    for route in ROUTES:
        path = filled(route) + ("?topic=pictures" if route.pattern.startswith("/v1/messages") else "")
        if route.pattern.endswith("/notify"):
            continue  # it goes on for ever
        statuses[route.method, route.pattern] = shared_server.call(route.method, path, None, FOLLOWED).status

    assert shared_server.call("GET", "/queues/pictures/stats").json["totals"] == before
    assert {key for key, status in statuses.items() if status == 403 and key[0] == "GET"} == {
        ("GET", "/queues/{queue}/receive"),
        ("GET", "/v1/messages"),
        ("GET", "/v1/queues/{name}/messages"),
        ("GET", "/{account}/{queue}"),
    }
    assert {status for key, status in statuses.items() if key[0] != "GET"} == {403}


@pytest.mark.parametrize("path", ["/?{}&QueueUrl=pictures", "/000000000000/pictures?{}"])
def test_an_address_that_a_browser_was_redirected_to_calls_nothing_of_awss(shared_server, path):
    shared_server.call("POST", "/queues", {"name": "pictures"})
    action = "Action=DeleteQueue&X-Amz-Credential=anybody/20260101/us-east-1/sqs/aws4_request"

    typed = shared_server.call("GET", path.format(action), None, TYPED)
    sent = shared_server.call("GET", path.format(action.replace("DeleteQueue", "GetQueueAttributes")))

    assert [typed.status, sent.status] == [403, 200]


# Addresses beyond this machine


def run_server(folder, *flags):
    """Run `sqew serve`, which is expected to end by itself."""
    command = [sys.executable, "-m", "sqew", "--db", "queue.db", "serve", "--port", "0", *flags]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "queue.example"])
def test_beyond_this_machine_it_does_not_listen_without_a_token(tmp_path, host):
    done = run_server(tmp_path, "--host", host)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "SQEW_AUTH_TOKEN" in done.stderr
    assert "--insecure" in done.stderr


@pytest.mark.parametrize("flags", [("--insecure",), ("--auth-token", TOKEN)])
def test_beyond_this_machine_it_listens_with_a_token_or_when_told_to(tmp_path, flags):
    with serving(tmp_path, "--host", "0.0.0.0", *flags) as server:
        answer = server.call("GET", "/queues", None, {**ADMIN, "Host": "queue.example"})

    assert answer.status == 200


def test_at_a_unix_socket_it_listens_without_a_token(tmp_path):
    path = tmp_path / "sqew.sock"
    command = [sys.executable, "-m", "sqew", "serve", "--host", "0.0.0.0", "--unix-socket", str(path)]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert f"unix:{path}" in process.stderr.readline()
    finally:
        process.terminate()
        assert process.wait(20) == 0
        process.stderr.close()


def test_a_key_can_not_reach_another_queue_by_naming_it_as_a_dead_letter_queue(guarded):
    key = key_for(guarded, "admin")

    refused = [
        guarded.call("PATCH", f"/queues/{QUEUE}", {"dlq": OTHER}, key),
        guarded.call("PATCH", f"/v1/queues/{QUEUE}", {"dead_letter": OTHER}, key),
    ]

    assert [answer.status for answer in refused] == [403, 403]
    assert guarded.call("PATCH", f"/queues/{QUEUE}", {"dlq": f"{QUEUE}-dlq"}, key).status == 200


def test_a_deleted_key_ends_what_was_begun_with_it(guarded):
    assert guarded.call("POST", "/queues", {"name": "awaited"}, ADMIN).status == 201
    made = add_key(guarded, "receive", queue="awaited")
    key = f"X-Api-Key: {made['key']}"
    with guarded.connect() as waiting:
        waiting.sendall(
            f"POST /queues/awaited/poll?wait_ms=60000 HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n".encode()
        )
        guarded.call("GET", "/queues/awaited", None, ADMIN)

        assert guarded.call("DELETE", f"/queues/awaited/keys/{made['id']}", None, ADMIN).status == 204

        assert waiting.recv(65_536) == b""


def test_a_key_is_told_of_its_queue_before_it_is_told_of_its_scope(guarded):
    key = key_for(guarded, "send")

    assert f"is for queue '{QUEUE}'" in poll(guarded, key, OTHER).body.decode()
