"""Requests that are large and wrong: refusing them takes no more work than it must."""

import json
import re
import time
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import BadBody, BodyMisfit, TooLarge
from sqew.http.routes import make_router
from sqew.http.wire.duplicate_fields import check_repeats
from sqew.rules.bodies import parse_json
from sqew.rules.limits import Limits

LARGE = 15_000_000
SHORT = 2_000
"""Bytes that no error sentence needs."""
LENIENT = ("PATCH /v1/schedules/{name}", "POST /v1/schedules/{name}/runs")
"""Routes that ignore unknown fields, and need no other."""
WITH_BODY = [
    route
    for route in make_router().routes
    if route.decoder is not None and not route.reads_body and f"{route.method} {route.pattern}" not in LENIENT
]
JSON = {"Content-Type": "application/json"}


def path(route):
    return re.sub(r"{\w+}", "1", route.pattern)


@pytest.fixture(scope="module")
def queue(shared_server):
    shared_server.call("POST", "/queues", {"name": "large"})
    return "large"


@pytest.mark.parametrize("route", WITH_BODY, ids=lambda route: f"{route.method} {route.pattern}")
def test_an_unknown_field_of_15_mb_is_compared_with_nothing_and_not_sent_back(shared_server, route):
    body = b'{"%b":1}' % (b"x" * LARGE)

    answer = shared_server.call(route.method, path(route), body, JSON)

    # hq takes any JSON there is, but not so much of it; where unknown fields are ignored, others are missing.
    assert answer.status == (413 if route.pattern.endswith("/enqueue") else 422 if route.misfit is BodyMisfit else 400)
    assert len(answer.body) < SHORT


@pytest.mark.parametrize("route", LENIENT)
def test_an_unknown_field_of_15_mb_is_passed_over(shared_server, route):
    method, pattern = route.split(" ")

    answer = shared_server.call(method, pattern.format(name="nowhere"), b'{"%b":1}' % (b"x" * LARGE), JSON)

    assert answer.status == 404
    assert len(answer.body) < SHORT


@pytest.mark.parametrize("entry", [b'{"payload":1}', b'{"payload":1,"headers":{}}'])
def test_an_array_of_too_many_is_refused_at_the_first_that_is_too_many(shared_server, queue, entry):
    body = b"[" + b",".join([entry] * (LARGE // len(entry))) + b" and what comes then is not even JSON"

    answer = shared_server.call("POST", f"/queues/{queue}/messages", body, JSON)

    assert answer.status == 413
    assert "A batch may hold 1000 entries; this one holds more." in answer.json["error"]["message"]


def test_a_large_batch_that_is_not_too_many_is_taken(shared_server, queue):
    entry = b'{"payload":"%b"}' % (b"x" * 10_000)

    answer = shared_server.call("POST", f"/queues/{queue}/messages", b"[" + b",".join([entry] * 1_000) + b"]", JSON)

    assert answer.status == 201


def test_a_queue_of_100_000_lanes_is_not_made(shared_server):
    lanes = b",".join(b'"%d":1' % number for number in range(100_000))

    answer = shared_server.call("POST", "/queues", b'{"name":"lanes","lanes":{%b}}' % lanes, JSON)

    assert answer.status == 400
    assert "A queue may have 1000 lanes" in answer.json["error"]["message"]


def test_a_body_that_is_too_large_is_not_parsed():
    body = b"[" + b'{"payload":1},' * 100_000 + b" and what comes then is not even JSON"

    with pytest.raises(TooLarge):
        parse_json(body, Limits())


def test_others_are_answered_while_a_batch_of_14_mib_is_checked(shared_server, queue):
    body = b"[" + b'{"p":1},' * 130_000 + b"1]"
    begun = time.perf_counter()
    for _ in range(14):
        parse_json(body, Limits())
    takes_s = time.perf_counter() - begun
    batch = b"[" + b",".join([b'{"payload":%b}' % body] * 14) + b"]"
    gaps, answers = [], []
    sending = Thread(
        target=lambda: answers.append(shared_server.call("POST", f"/queues/{queue}/messages", batch, JSON))
    )
    sending.start()
    while sending.is_alive():
        begun = time.perf_counter()
        shared_server.call("GET", "/livez")
        gaps.append(time.perf_counter() - begun)
    sending.join()

    assert answers[0].status == 201
    assert max(gaps) < takes_s * 0.6


def test_what_is_wrong_in_a_batch_of_14_mib_is_told(shared_server, queue):
    bodies = [b"[" + b'{"p":1},' * 130_000 + b"1]"] * 13 + [b"[" * 200 + b"]" * 200]
    batch = b"[" + b",".join(b'{"payload":%b}' % body for body in bodies) + b"]"

    answer = shared_server.call("POST", f"/queues/{queue}/messages", batch, JSON)

    assert answer.status == 400
    assert "nested" in answer.json["error"]["message"]


@pytest.mark.parametrize("receive", ["/queues/{}/poll", "/queues/{}/ack"])
def test_a_queue_name_of_60_kb_is_not_sent_back(shared_server, receive):
    answer = shared_server.call("POST", receive.format("x" * 60_000), None)

    assert answer.status in (400, 404)
    assert len(answer.body) < SHORT


# Fields that stand twice

NAMES = st.sampled_from(["payload", "lane", "key"])
VALUES = st.recursive(
    st.sampled_from(["payload", '"payload":', "lane", 1, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=4)
BLANKS = st.sampled_from(["", " ", "\n\t"])


def written(pairs, blank):
    inner = ",".join(f"{blank}{json.dumps(name)}{blank}:{blank}{json.dumps(value)}{blank}" for name, value in pairs)
    return "{" + inner + "}"


@given(st.lists(OBJECTS, min_size=1, max_size=3), BLANKS, st.booleans())
def test_a_field_that_stands_twice_in_an_object_is_found_and_nothing_else(items, blank, as_array):
    items = items if as_array else items[:1]
    objects = [written(pairs, blank) for pairs in items]
    body = (f"{blank}[{','.join(objects)}]{blank}" if as_array else objects[0]).encode()
    names = [[name for name, _ in pairs] for pairs in items]
    repeated = [name for found in names for name in found if found.count(name) > 1]
    is_looked_at = body.count(b'"payload"') > len(items)

    if repeated and is_looked_at:
        with pytest.raises(BadBody) as raised:
            check_repeats(body, json.loads(body), b'"payload"')
        assert any(f"'{name}' twice" in str(raised.value) for name in repeated)
    else:
        check_repeats(body, json.loads(body), b'"payload"')


def test_the_name_of_the_field_a_million_times_in_what_is_sent_is_no_reason_to_refuse_it():
    body = b'{"payload":[%b1]}' % (b'"payload",' * 1_000_000)

    check_repeats(body, {}, b'"payload"')


def test_a_field_that_stands_there_with_an_escape_as_well_is_refused():
    with pytest.raises(BadBody, match="'payload' twice"):
        check_repeats(b'{"payload":"payload","p\\u0061yload":2}', {}, b'"payload"')


def test_150_000_ids_are_not_gone_through(shared_server, queue):
    body = b'{"ids":[%b1]}' % (b"1," * 150_000)

    answers = [
        shared_server.call("POST", f"/queues/{queue}/dlq/requeue", body, JSON),
        shared_server.call("DELETE", f"/queues/{queue}/dlq", body, JSON),
    ]

    assert [answer.status for answer in answers] == [413, 413]
    assert "100000 are allowed" in answers[0].json["error"]["message"]


def test_100_000_headers_are_refused_without_a_look_at_each(shared_server, queue):
    headers = b",".join(b'"%d":1' % number for number in range(100_000))

    answer = shared_server.call("POST", f"/queues/{queue}/messages", b'{"payload":1,"headers":{%b}}' % headers, JSON)

    assert answer.status == 413
    assert "There are 100000 headers" in answer.json["error"]["message"]


@pytest.mark.parametrize("field", [b'"format":"%b"', b'"priority":"%b"', b'"lane":"%b"', b'"idempotency_key":"%b"'])
def test_a_value_of_15_mb_that_is_not_allowed_is_not_sent_back(shared_server, queue, field):
    body = b'{"payload":1,%b}' % (field % (b"x" * LARGE))

    answer = shared_server.call("POST", f"/queues/{queue}/messages", body, JSON)

    assert answer.status == 400
    assert len(answer.body) < SHORT


@given(st.recursive(st.integers(0, 9), lambda inner: st.lists(inner) | st.dictionaries(st.just("a[{"), inner)))
def test_the_depth_of_json_is_that_of_its_brackets(value):
    def depth(one):
        if isinstance(one, dict):
            one = list(one.values())
        return 1 + max(map(depth, one), default=0) if isinstance(one, list) else 0

    body = json.dumps(value).encode()
    most = depth(value)

    parse_json(body, Limits(max_depth=max(most, 1)))
    if most > 1:
        with pytest.raises(BadBody, match=f"nested {most} levels deep"):
            parse_json(body, Limits(max_depth=most - 1))
