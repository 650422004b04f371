"""A walk through the routes of queues and messages, recorded from beyond-queue: the status and shape of each answer.

Three steps differ by choice. That server answers 500 if a queue to look at, receive from or purge does not exist,
although its own description says 404, which is our answer here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.http.dialects.native.beyond_types import (
    Deleted,
    Health,
    Message,
    Purged,
    QueueFigures,
    Refusal,
    SentMany,
    SentOne,
    decoded,
)
from tests.http.dialects.vocabularies import new_name
from tests.support.serving import STORES, Answer, Serving

ANYTHING, NOTHING = "anything", "nothing"
"""Bodies of answers: one that the clients do not read, and none at all."""
JSON = {"Content-Type": "application/json"}
CLIENT = {"Authorization": "Bearer anon"}


class Step(NamedTuple):
    """A request and its answer. ``{q}`` is a queue, ``{f}`` a FIFO queue, ``{sent}`` the id in an earlier answer."""

    name: str
    request: str
    body: Any
    status: int
    shape: Any
    code: str = ""


STEPS = [
    Step("make", "POST /v1/queues", {"name": "{q}"}, 201, ANYTHING),
    Step("make it again", "POST /v1/queues", {"name": "{q}"}, 201, ANYTHING),
    Step("make one of a bad name", "POST /v1/queues", {"name": "a b!"}, 400, Refusal, "bad_request"),
    Step("make one of no name", "POST /v1/queues", {}, 422, Refusal, "bad_request"),
    Step("make one with an unknown field", "POST /v1/queues", {"name": "{q}", "colour": "red"}, 201, ANYTHING),
    Step("make one as a form", "POST /v1/queues", b"name={q}", 415, Refusal, "wrong_content_type"),
    Step("make a FIFO queue", "POST /v1/queues", {"name": "{f}", "fifo": True}, 201, ANYTHING),
    Step("look", "GET /v1/queues/{q}", None, 200, QueueFigures),
    Step("look at none", "GET /v1/queues/nowhere", None, 404, Refusal, "queue_not_found"),
    Step("send", "POST /v1/queues/{q}/messages", {"message": {"a": 1}}, 201, SentOne),
    Step("send headers", "POST /v1/queues/{q}/messages", {"message": 2, "headers": {"h": "v"}}, 201, SentOne),
    Step("send for later", "POST /v1/queues/{q}/messages", {"message": 3, "delay": 60}, 201, SentOne),
    Step("send several", "POST /v1/queues/{q}/messages", [{"message": 4}, {"message": "five"}], 201, SentMany),
    Step("send an empty array", "POST /v1/queues/{q}/messages", [], 400, Refusal, "bad_request"),
    Step("send no message", "POST /v1/queues/{q}/messages", {"delay": 1}, 422, Refusal, "bad_request"),
    Step("send in haste", "POST /v1/queues/{q}/messages?async_commit=true", {"message": 6}, 201, SentOne),
    Step("send an unknown field", "POST /v1/queues/{q}/messages", {"message": 7, "colour": "red"}, 201, SentOne),
    Step("send half a body", "POST /v1/queues/{q}/messages", b'{"mess', 400, Refusal, "bad_request"),
    Step("send to none", "POST /v1/queues/nowhere/messages", {"message": 1}, 404, Refusal, "queue_not_found"),
    Step("send to a group", "POST /v1/queues/{f}/messages", {"message": 1, "group_id": "g"}, 201, SentOne),
    Step("receive from a group", "GET /v1/queues/{f}/messages?fifo=true&vt=30&max=1", None, 200, list[Message]),
    Step("receive", "GET /v1/queues/{q}/messages?max=1&vt=30", None, 200, list[Message]),
    Step("receive none", "GET /v1/queues/{q}/messages?max=0", None, 200, list[Message]),
    Step("receive all", "GET /v1/queues/{q}/messages?max=1000&vt=30", None, 200, list[Message]),
    Step("receive more than there can be", "GET /v1/queues/{q}/messages?max=5000&vt=30", None, 200, list[Message]),
    Step("receive for less than no time", "GET /v1/queues/{q}/messages?vt=-1", None, 200, list[Message]),
    Step("receive with an unknown word", "GET /v1/queues/{q}/messages?colour=1", None, 200, list[Message]),
    Step("receive from none", "GET /v1/queues/nowhere/messages", None, 404, Refusal, "queue_not_found"),
    Step("delete none", "DELETE /v1/queues/{q}/messages/99999999", None, 404, Refusal, "message_not_found"),
    Step("delete several", "DELETE /v1/queues/{q}/messages", {"ids": ["{sent}", 99999999]}, 200, Deleted),
    Step("hide one that is gone", "PATCH /v1/queues/{q}/messages/{sent}", {"vt": 5}, 404, Refusal, "message_not_found"),
    Step("hide none", "PATCH /v1/queues/{q}/messages/99999999", {"vt": 5}, 404, Refusal, "message_not_found"),
    Step("purge with a body", "POST /v1/queues/{q}/purge", {}, 200, Purged),
    Step("purge again", "POST /v1/queues/{q}/purge", None, 200, Purged),
    Step("purge none", "POST /v1/queues/nowhere/purge", None, 404, Refusal, "queue_not_found"),
    Step("delete the queue", "DELETE /v1/queues/{q}", None, 204, NOTHING),
    Step("delete it again", "DELETE /v1/queues/{q}", None, 204, NOTHING),
    Step("does it live", "GET /livez", None, 200, Health),
    Step("is it ready", "GET /readyz", None, 200, Health),
]


@pytest.fixture(scope="module", params=STORES)
def answers(request: pytest.FixtureRequest, servers: Any) -> dict[str, Answer]:
    """Return the answers to all steps, requested in their order."""
    return walked(servers(request.param))


def walked(server: Serving) -> dict[str, Answer]:
    names: dict[str, Any] = {"q": new_name(), "f": new_name(), "sent": None}
    answers: dict[str, Answer] = {}
    for step in STEPS:
        method, path = filled(step.request, names).split(" ")
        form = {"Content-Type": "application/x-www-form-urlencoded"} if step.body == b"name={q}" else JSON
        answers[step.name] = server.call(method, path, filled(step.body, names), {**CLIENT, **form})
        if step.name == "send":
            names["sent"] = answers[step.name].json["id"]
    return answers


def filled(said: Any, names: dict[str, Any]) -> Any:
    """Return a step's path or body, with names and the id in their places."""
    match said:
        case str() if said == "{sent}":
            return names["sent"]
        case str():
            return said.format(**names) if "{" in said else said
        case dict():
            return {key: filled(value, names) for key, value in said.items()}
        case list():
            return [filled(one, names) for one in said]
        case _:
            return said


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_is_answered_as_there(answers, step):
    answer = answers[step.name]

    assert answer.status == step.status, answer
    if step.shape == NOTHING:
        assert answer.body == b""
    elif step.shape is Refusal:
        refusal = decoded(answer, Refusal)
        assert (refusal.code, refusal.message) == (step.code, refusal.error)
    elif step.shape != ANYTHING:
        decoded(answer, step.shape)


def test_the_walk_left_what_it_should(answers):
    first, *_ = decoded(answers["receive"], list[Message])
    rest = decoded(answers["receive all"], list[Message])

    assert (first.message, first.headers, first.read_count) == ({"a": 1}, None, 1)
    assert [message.message for message in rest] == [2, 4, "five", 6, 7]
    assert rest[0].headers == {"h": "v"}
    assert all(message.enqueued_at < message.visible_at for message in rest)
    for nothing in (
        "receive none",
        "receive more than there can be",
        "receive for less than no time",
        "receive with an unknown word",
    ):
        assert decoded(answers[nothing], list[Message]) == []
    assert decoded(answers["delete several"], Deleted).deleted == [first.id]
    assert [decoded(answers[name], Purged).deleted for name in ("purge with a body", "purge again")] == [6, 0]
    assert decoded(answers["is it ready"], Health).status == "ok"
