"""Concurrent creation of queues under one name, on two servers: one call decides their attributes, others see them."""

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.http.dialects.aws.sqs_wires import in_json, in_query
from tests.support.postgres import new_database
from tests.support.serving import STORES, serving

MANY = 12
ROUNDS = 8


@pytest.fixture(scope="module", params=STORES)
def pair(request, tmp_path_factory):
    """Yield two servers on one file or database."""
    folder = tmp_path_factory.mktemp("at-once")
    database = new_database() if request.param == "postgres" else None
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(serving(folder, "--durability", "fast", database=database)) for _ in range(2)]


def at_once(pair, make):
    """Return the servers' answers to calls that are made at the same time, each with a number of its own."""
    ready = Barrier(MANY)

    def call(number):
        ready.wait()
        return make(pair[number % 2], number)

    with ThreadPoolExecutor(MANY) as threads:
        return list(threads.map(call, range(MANY)))


def visibility(server, name):
    """Return a queue's visibility timeout as SQS shows it."""
    asked = {"QueueUrl": f"/000000000000/{name}", "AttributeNames": ["VisibilityTimeout"]}
    return int(in_json(server, "GetQueueAttributes", asked).json["Attributes"]["VisibilityTimeout"])


@pytest.mark.parametrize(("wire", "code"), [(in_json, "QueueNameExists"), (in_query, "QueueAlreadyExists")])
def test_one_set_of_attributes_wins_where_many_differ(pair, wire, code):
    for turn in range(ROUNDS):
        name = f"differ-{wire.__name__}-{turn}"

        answers = at_once(
            pair,
            lambda server, number, name=name: wire(
                server, "CreateQueue", {"QueueName": name, "Attributes": {"VisibilityTimeout": str(100 + number)}}
            ),
        )

        [winner] = [number for number, answer in enumerate(answers) if answer.status == 200]
        assert visibility(pair[0], name) == 100 + winner
        refused = [answer for answer in answers if answer.status != 200]
        assert {answer.status for answer in refused} == {400}
        assert all(code.encode() in answer.body for answer in refused)


def test_all_succeed_where_all_say_the_same(pair):
    attributes = {"VisibilityTimeout": "77", "DelaySeconds": "3"}

    answers = at_once(
        pair,
        lambda server, _: in_json(server, "CreateQueue", {"QueueName": "alike", "Attributes": attributes}),
    )

    assert [answer.status for answer in answers] == [200] * MANY
    assert len({answer.body.rpartition(b"/")[2] for answer in answers}) == 1


@pytest.mark.parametrize("path", ["/queues", "/v1/queues"])
def test_one_policy_wins_where_many_differ(pair, path):
    for turn in range(ROUNDS):
        name = f"policies-{path.count('/')}-{turn}"

        answers = at_once(
            pair,
            lambda server, number, name=name: server.call(
                "POST", path, {"name": name, "visibility_ms": 100_000 + number * 1000}
            ),
        )

        [winner] = [number for number, answer in enumerate(answers) if answer.status == 201]
        assert visibility(pair[0], name) == 100 + winner
        assert sorted({answer.status for answer in answers}) == [201, 409]


def test_one_makes_a_queue_of_hqs(pair):
    answers = at_once(
        pair,
        lambda server, _: server.call("POST", "/queues?name=hq-once&max_attempts=5&visibility_timeout_seconds=30"),
    )

    assert sorted(answer.status for answer in answers) == [200] + [409] * (MANY - 1)


def test_one_set_of_attributes_of_a_topic_wins(pair):
    def make(server, number):
        named = {"Name": "topic-once", "Attributes.entry.1.key": "DisplayName"}
        return call_sns(server, {**named, "Attributes.entry.1.value": f"number {number}"})

    answers = at_once(pair, make)

    assert sorted(answer.status for answer in answers) == [200] + [400] * (MANY - 1)
    assert all(b"different attributes" in answer.body for answer in answers if answer.status == 400)


def call_sns(server, parameters):
    credential = "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sns/aws4_request"
    body = "&".join(f"{name}={json.dumps(value)[1:-1]}" for name, value in parameters.items()).replace(" ", "%20")
    headers = {"Authorization": credential, "Content-Type": "application/x-www-form-urlencoded"}
    return server.call("POST", "/", f"Action=CreateTopic&{body}".encode(), headers)
