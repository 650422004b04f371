"""Signed requests: altered, old and repeated ones are refused."""

import hashlib
import hmac
import json
import time

import pytest

from sqew.envelopes.request_signature import signature
from sqew.http.security.signatures import LEEWAY_S, MOST_REMEMBERED, UsedSignatures
from tests.support.serving import serving

TOKEN = "open-sesame-7e1f"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}
SEND = "/queues/orders/messages"
BODY = b'{"payload":1}'


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("signed"), "--durability", "fast", env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        assert server.call("POST", "/queues", {"name": "orders"}, ADMIN).status == 201
        yield server


@pytest.fixture(scope="module")
def key(server):
    return signing_key(server)


def signing_key(server):
    return server.call("POST", "/queues/orders/keys", {"scopes": ["admin"], "signing": True}, ADMIN).json


def soon():
    """Return a time after the start of every server, different for each call."""
    return time.time() + 2


def headers(key, signed=None):
    made = {"Authorization": f"Bearer {key['key']}", "Content-Type": "application/json"}
    return made if signed is None else {**made, "X-Sqew-Signature": signed}


def send(server, key, signed, body=BODY):
    return server.call("POST", SEND, body, headers(key, signed))


def sentence(answer):
    assert answer.status == 401
    return answer.json["error"]["message"]


def test_a_signing_key_comes_with_a_secret_that_is_shown_once(server, key):
    listed = server.call("GET", "/queues/orders/keys", None, ADMIN)

    assert key["signing"] is True
    assert key["signing_secret"] not in listed.body.decode()


def test_a_signature_is_made_as_the_page_says(server, key):
    at = int(soon())
    mac = hmac.new(key["signing_secret"].encode(), f"{at}.POST.{SEND}.".encode() + BODY, hashlib.sha256).hexdigest()

    assert signature(key["signing_secret"], at, "POST", SEND, BODY) == f"t={at},v1={mac}"
    assert send(server, key, f"t={at},v1={mac}").status == 201


def test_the_query_is_signed_with_the_path(server, key):
    target = "/queues/orders/poll?batch=2&wait_ms=0"
    signed = signature(key["signing_secret"], soon(), "POST", target)

    assert server.call("POST", target, None, headers(key, signed)).status == 200


def test_a_request_without_a_body_is_signed_too(server, key):
    signed = signature(key["signing_secret"], soon(), "GET", "/queues/orders/stats")

    assert server.call("GET", "/queues/orders/stats", None, headers(key, signed)).status == 200
    assert "must be signed" in sentence(server.call("GET", "/queues/orders/stats", None, headers(key)))


def test_a_body_in_chunks_is_checked_whole(server, key):
    signed = signature(key["signing_secret"], soon(), "POST", SEND, BODY)
    head = [f"POST {SEND} HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked", "Connection: close"]
    head += [f"{name}: {value}" for name, value in headers(key, signed).items()]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:5], BODY[5:], b""))

    assert server.talk("\r\n".join([*head, "", ""]).encode() + chunks).startswith(b"HTTP/1.1 201 ")


def test_an_unsigned_request_is_refused(server, key):
    assert "must be signed" in sentence(send(server, key, None))


@pytest.mark.parametrize(
    "signed",
    [
        "",
        "t=1",
        "v1=00",
        "nonsense",
        f"t=x,v1={'0' * 64}",
        f"t=1,v1={'g' * 64}",
        f"t=-1,v1={'0' * 64}",
        f"t=,v1={'é' * 64}",
    ],
)
def test_a_signature_that_can_not_be_read_is_refused(server, key, signed):
    assert "can't be read" in sentence(send(server, key, signed.encode().decode("latin-1")))


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("PUT", SEND, BODY),
        ("POST", SEND + "?x=1", BODY),
        ("POST", "/queues/other/messages", BODY),
        ("POST", SEND, b"2"),
    ],
)
def test_what_was_signed_for_another_request_is_refused(server, key, method, target, body):
    signed = signature(key["signing_secret"], soon(), method, target, body)

    assert "does not fit" in sentence(send(server, key, signed))


def test_the_secret_of_another_key_is_refused(server, key):
    other = signing_key(server)

    assert "does not fit" in sentence(send(server, key, signature(other["signing_secret"], soon(), "POST", SEND, BODY)))


def test_the_time_is_part_of_what_is_signed(server, key):
    at = int(soon())
    mac = signature(key["signing_secret"], at, "POST", SEND, BODY).partition(",")[2]

    assert "does not fit" in sentence(send(server, key, f"t={at}.0,{mac}"))


@pytest.mark.parametrize("seconds", [-LEEWAY_S - 2, LEEWAY_S + 5])
def test_a_time_that_is_far_from_the_servers_is_refused(server, key, seconds):
    signed = signature(key["signing_secret"], int(time.time()) + seconds, "POST", SEND, BODY)

    assert "by this server's clock" in sentence(send(server, key, signed))


def test_what_was_signed_before_the_server_started_is_refused(tmp_path):
    at = int(time.time())
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        server.call("POST", "/queues", {"name": "orders"}, ADMIN)
        key = signing_key(server)

        answer = send(server, key, signature(key["signing_secret"], at, "POST", SEND, BODY))

    assert "before this server started" in sentence(answer)


@pytest.mark.parametrize("again", [str, str.upper, lambda mac: mac + ",more=1"])
def test_a_request_is_accepted_once(server, key, again):
    body = json.dumps({"payload": time.time_ns()}).encode()
    at, _, mac = signature(key["signing_secret"], soon(), "POST", SEND, body).partition(",v1=")

    assert send(server, key, f"{at},v1={mac}", body).status == 201
    assert "used before" in sentence(send(server, key, f"{at},v1={again(mac)}", body))


def test_two_requests_that_are_alike_are_told_apart_by_a_fraction_of_their_second(server, key):
    at = int(soon())
    first, second = (signature(key["signing_secret"], at + part, "POST", SEND, BODY) for part in (0.25, 0.75))

    assert [send(server, key, signed).status for signed in (first, second)] == [201, 201]


def test_the_servers_token_needs_no_signature(server):
    assert server.call("POST", SEND, {"payload": 1}, ADMIN).status == 201


def test_a_key_without_signing_needs_no_signature(server):
    plain = server.call("POST", "/queues/orders/keys", {"scopes": ["send"]}, ADMIN).json

    assert send(server, plain, None).status == 201
    assert "signing_secret" not in plain


def test_a_streamed_body_can_not_be_signed(server, key):
    target = "/v1/queues/orders/bulk"
    signed = signature(key["signing_secret"], soon(), "POST", target, BODY)

    answer = server.call("POST", target, BODY, headers(key, signed) | {"Content-Type": "application/x-ndjson"})

    assert answer.status == 403
    assert "a body that is streamed can't be" in answer.body.decode()


def test_a_signature_is_remembered_while_it_could_be_used_again():
    used = UsedSignatures()

    assert used.add(1_000, b"a", now=1_000)
    assert not used.add(1_000, b"a", now=1_000 + LEEWAY_S)
    assert used.add(1_000, b"b", now=1_000 + LEEWAY_S)


def test_memory_for_signatures_is_bounded_and_what_it_forgets_is_refused():
    used = UsedSignatures()
    for number in range(MOST_REMEMBERED):
        used.add(1_000 + number // 1_000, number.to_bytes(4, "big"), now=1_060)

    assert used.add(1_066, b"one too many", now=1_066)

    assert not used.add(1_000, b"never seen", now=1_066)
    assert not used.add(1_001, (1_500).to_bytes(4, "big"), now=1_066)
    assert used.add(1_001, b"never seen", now=1_066)
