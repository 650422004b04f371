"""hq's own answers, step by step: its server's answer to each request, restated as a status and a shape.

Our own fields may stand beside those of a shape. Where Sqew answers differently on purpose, the step says why.
"""

import gzip
import time
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from tests.support.postgres import new_database
from tests.support.serving import STORES, Answer, serving

EMPTY, NULL, TEXT, PAGE = "no body", "null", "a sentence", "a page"
QUEUE = {
    "name": str, "max_attempts": int, "visibility_timeout_seconds": int, "inserted_at": "time", "updated_at": "time",
}  # fmt: skip
QUEUES = [QUEUE]
SENT = {"message_id": "uuid"}
JOB = {"id": "uuid", "args": Any, "queue": str, "attempts": int}
BUG = "hq answers 500 where it is the request that is wrong, or nothing is wrong at all"
UNKNOWN = "7aab413c-d164-468e-ab3b-14a4ee1ece3d"
TYPED = {"Content-Type": "application/json"}


class Step(NamedTuple):
    """A request and its answer. ``keep``: the name by which later steps know the id in the answer."""

    what: str
    request: str
    status: int
    shape: Any
    body: bytes | None = None
    headers: dict[str, str] | None = None
    keep: str = ""
    holds: Any = None
    """Fields of the answer that must have these values."""
    instead_of: int | None = None
    """hq's own status, where it differs: see `BUG`."""


class Until(NamedTuple):
    """A wait until a lease has run out: hq looks once a second, and was given 3.5 s."""

    queue: str
    state: str


def create(name, max_attempts="5", visibility="30", status=200, shape=EMPTY, more=""):
    given = {"name": name, "max_attempts": max_attempts, "visibility_timeout_seconds": visibility}
    query = "&".join(f"{key}={value}" for key, value in given.items() if value is not None)
    return Step(f"create {name} {max_attempts} {visibility}", f"POST /queues?{query}{more}", status, shape)


def enqueue(queue, body, status=200, shape: Any = SENT, headers=TYPED, keep="", instead_of=None):
    what = f"enqueue {body[:40]!r} as {headers.get('Content-Type')}"
    return Step(what, f"POST /queues/{queue}/enqueue", status, shape, body, headers, keep, instead_of=instead_of)


def receive(queue, shape: Any = JOB, keep="", holds=None):
    return Step(f"receive {holds or shape}", f"GET /queues/{queue}/receive", 200, shape, keep=keep, holds=holds)


def settle(act, id, status=200, shape=EMPTY, method="PUT"):
    return Step(f"{act} {id} by {method}", f"{method} /messages/{id}/{act}", status, shape)


def short_leases(queue):
    """Return a step that makes leases shorter than hq's second. (No step of hq's.)"""
    return Step("short leases", f"PATCH /queues/{queue}", 200, QUEUE, b'{"visibility_ms": 300}', TYPED)


STEPS = [
    Step("list none", "GET /queues", 200, []),
    Step("show an unknown queue", "GET /queues/nope", 200, NULL),
    create("q1"),
    create("q1", status=409, shape=TEXT),
    create("q1", "6", status=409, shape=TEXT),
    Step("no name", "POST /queues?max_attempts=5&visibility_timeout_seconds=30", 400, TEXT),
    create("q2", None, status=400, shape=TEXT),
    create("q3", visibility=None, status=400, shape=TEXT),
    create("q4", "0", status=422, shape=TEXT),
    create("q4", "-1", status=422, shape=TEXT),
    create("q5", visibility="0", status=422, shape=TEXT),
    create("q6", "abc", status=400, shape=TEXT),
    create("q7", visibility="1.5", status=400, shape=TEXT),
    create("q8", more="&foo=1"),
    create("q9", "100000"),
    create("q10", visibility="1000000"),
    *map(create, ("my%20queue", "a%2Fb", "%C3%BCber", "a.b:c-d_e", "", "Q1", "x" * 200, "w.fifo")),
    enqueue("w.fifo", b'{"a":1}'),
    Step("list", "GET /queues", 200, QUEUES),
    Step("list with a slash", "GET /queues/", 404, TEXT),
    Step("show", "GET /queues/q1", 200, QUEUE, holds={"max_attempts": 5, "visibility_timeout_seconds": 30}),
    Step("update max_attempts", "PUT /queues/q1?max_attempts=6", 200, EMPTY),
    Step("update visibility", "PUT /queues/q1?visibility_timeout_seconds=2", 200, EMPTY),
    Step("show updated", "GET /queues/q1", 200, QUEUE, holds={"max_attempts": 6, "visibility_timeout_seconds": 2}),
    Step("update both", "PUT /queues/q1?max_attempts=5&visibility_timeout_seconds=30", 200, EMPTY, instead_of=500),
    Step("show both", "GET /queues/q1", 200, QUEUE, holds={"max_attempts": 5, "visibility_timeout_seconds": 30}),
    Step("update nothing", "PUT /queues/q1", 200, EMPTY),
    Step("update an unknown queue", "PUT /queues/nope?max_attempts=6", 200, EMPTY),
    Step("update to none", "PUT /queues/q1?max_attempts=0", 422, TEXT),
    enqueue("q1", b'{"a":1, "b":[1,2,{"c":null}]}'),
    enqueue("q1", b'{"a":2}', headers={}),
    enqueue("q1", b'{"a":3}', headers={"Content-Type": "text/plain"}),
    enqueue("q1", b'{"a":4}', headers={"Content-Type": "application/x-www-form-urlencoded"}),
    enqueue("q1", b"42"),
    enqueue("q1", b'"hello \\u00e9"'),
    enqueue("q1", b"null"),
    enqueue("q1", b"", 400, TEXT, instead_of=500),
    enqueue("q1", b'{"a":', 400, TEXT, instead_of=500),
    enqueue("q1", b'"\xff\xfe"', 400, TEXT),
    enqueue("q1", b'{"a":1,"a":2,"n":123456789012345678901234567890,"f":1.0}'),
    enqueue("q1", b' { "z" : 1 } \n'),
    enqueue("nope", b'{"a":1}', 404, TEXT, instead_of=500),
    enqueue("q1", b'"' + b"x" * 1_500_000 + b'"'),
    enqueue("q1", b'"' + b"x" * 3_000_000 + b'"', 413, TEXT),
    enqueue("q1", b"NaN", 400, TEXT, instead_of=500),
    enqueue("q1", b"[" * 100 + b"]" * 100),
    receive("q1", keep="r1", holds={"args": {"a": 1, "b": [1, 2, {"c": None}]}, "queue": "q1", "attempts": 1}),
    receive("q1", keep="r2", holds={"args": {"a": 2}}),
    receive("nope", NULL),
    Step("receive by POST", "POST /queues/q1/receive", 405, TEXT),
    settle("complete", "{r1}"),
    settle("complete", "{r1}"),
    settle("fail", "{r1}"),
    settle("complete", UNKNOWN),
    settle("complete", "123", 400, TEXT),
    settle("complete", UNKNOWN.replace("-", "")),
    settle("fail", UNKNOWN),
    settle("complete", "{r2}", 405, TEXT, "POST"),
    settle("fail", "{r2}"),
    settle("fail", "{r2}"),
    settle("complete", "{r2}"),
    receive("q1", keep="r3", holds={"args": {"a": 3}, "attempts": 1}),
    Step("delete with messages", "DELETE /queues/q1", 200, EMPTY),
    receive("q1", NULL),
    settle("complete", "{r3}"),
    Step("delete again", "DELETE /queues/q1", 200, EMPTY),
    Step("list the rest", "GET /queues", 200, QUEUES),
    create("f1", "2", "1"),
    short_leases("f1"),
    enqueue("f1", b'{"n":1}', keep="e1"),
    settle("complete", "{e1}"),
    receive("f1", holds={"args": {"n": 1}, "attempts": 1}),
    settle("complete", "{e1}"),
    enqueue("f1", b'{"n":2}', keep="e2"),
    settle("fail", "{e2}"),
    receive("f1", holds={"args": {"n": 2}, "attempts": 1}),
    settle("complete", "{e2}"),
    enqueue("f1", b'{"n":3}', keep="e3"),
    receive("f1", holds={"args": {"n": 3}, "attempts": 1}),
    receive("f1", NULL),
    Until("f1", "ready"),
    receive("f1", holds={"args": {"n": 3}, "attempts": 2}),
    Until("f1", "dead"),
    receive("f1", NULL),
    settle("complete", "{e3}"),
    enqueue("f1", b'{"n":4}', keep="e4"),
    receive("f1", holds={"args": {"n": 4}, "attempts": 1}),
    Until("f1", "ready"),
    settle("complete", "{e4}"),
    receive("f1", holds={"args": {"n": 4}, "attempts": 2}),
    Step("allow more attempts", "PUT /queues/f1?max_attempts=9", 200, EMPTY),
    receive("f1", holds={"args": {"n": 3}, "attempts": 3}),
    create("o1", "3", "1"),
    short_leases("o1"),
    enqueue("o1", b'"A"'),
    enqueue("o1", b'"B"'),
    receive("o1", holds={"args": "A"}),
    Until("o1", "ready"),
    receive("o1", holds={"args": "B", "attempts": 1}),
    receive("o1", holds={"args": "A", "attempts": 2}),
    Step("patch", "PATCH /queues/o1", 405, TEXT),
    Step("nowhere", "GET /foo", 404, TEXT),
    Step("head", "HEAD /queues", 200, EMPTY),
    Step("options", "OPTIONS /queues", 405, TEXT),
    Step("look at the page", "GET /web", 200, PAGE),
    Step("list compressed", "GET /queues", 200, QUEUES, None, {"Accept-Encoding": "gzip"}),
    enqueue("o%31", b"1"),
    Step("delete", "DELETE /queues/o1", 200, EMPTY),
]
LEFT = ["", "Q1", "a.b:c-d_e", "a/b", "f1", "my queue", "q10", "q8", "q9", "w.fifo", "x" * 200, "über"]


def fits(value: Any, shape: Any) -> bool:
    """Return True if a value has the keys of a shape, and of their types: no null for a number, and no 1.0 for a 1."""
    if shape is Any:
        return True
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(key in value and fits(value[key], shape[key]) for key in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(one, shape[0]) for one in value) and bool(value) == bool(shape)
    if shape == "uuid":
        return isinstance(value, str) and str(UUID(value)) == value
    if shape == "time":
        return isinstance(value, str) and len(value) == len("2026-11-18 21:42:27.948") and value[10] == " "
    return type(value) is shape


def is_as_recorded(answer, shape):
    if shape == EMPTY:
        return answer.body == b""
    if shape == NULL:
        return answer.body == b"null"
    if shape == TEXT:
        error = answer.json["error"]
        return (error["message"] if isinstance(error, dict) else error).endswith(".")
    if shape == PAGE:
        return answer.headers["content-type"] == "text/html; charset=utf-8" and answer.body.startswith(
            b"<!doctype html>"
        )
    if answer.headers.get("content-encoding") == "gzip":
        answer = answer._replace(body=gzip.decompress(answer.body))
    return answer.headers["content-type"] == "application/json" and fits(answer.json, shape)


def wait_for(server, until):
    """Wait until no message of the queue is leased, and one is in that state."""
    for _ in range(500):
        if until.state == "dead":
            if server.call("GET", f"/queues/{until.queue}/dlq").json["messages"]:
                return
        else:
            states = [one["state"] for one in server.call("GET", f"/queues/{until.queue}/peek").json["messages"]]
            if until.state in states and "leased" not in states:
                return
        time.sleep(0.02)
    raise AssertionError(f"nothing in {until.queue} became {until.state}")


ASKED = [(number, step) for number, step in enumerate(STEPS) if isinstance(step, Step)]


@pytest.fixture(scope="module", params=STORES)
def answers(request, tmp_path_factory):
    """Yield the answers to all steps in their order, by number; and at the end, the list of queues.

    The server starts empty: a list must hold only what was made.
    """
    database = new_database() if request.param == "postgres" else None
    folder = tmp_path_factory.mktemp("recorded")
    with serving(folder, "--durability", "fast", database=database) as server:
        yield walked(server)


def walked(server):
    ids: dict[str, str] = {}
    answers: dict[int, Answer] = {}
    for number, step in enumerate(STEPS):
        if isinstance(step, Until):
            wait_for(server, step)
            continue
        method, path = step.request.format(**ids).split(" ")
        answer = answers[number] = server.call(method, path, step.body, step.headers)
        if step.keep:
            ids[step.keep] = answer.json["id" if step.shape is JOB else "message_id"]
    answers[len(STEPS)] = server.call("GET", "/queues")
    return answers


@pytest.mark.parametrize(("number", "step"), ASKED, ids=[f"{number}-{step.what}" for number, step in ASKED])
def test_a_recorded_step_is_answered_as_hq_answers_it(answers, number, step):
    answer = answers[number]

    assert answer.status == step.status, answer
    assert is_as_recorded(answer, step.shape), answer
    if step.holds is not None:
        assert step.holds.items() <= answer.json.items(), answer


def test_the_steps_leave_the_queues_that_they_made(answers):
    assert [queue["name"] for queue in answers[len(STEPS)].json] == LEFT


def test_five_steps_are_answered_otherwise_on_purpose():
    assert len([step for _, step in ASKED if step.instead_of is not None]) == 5, BUG
