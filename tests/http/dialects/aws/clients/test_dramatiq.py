"""dramatiq with dramatiq-sqs: actors run in a worker, are retried, and end in a dead-letter queue."""

import json
import time
from base64 import b64decode

import pytest

from tests.http.dialects.aws.clients.programs import program, python, receive_one
from tests.http.dialects.aws.pointed import client, environment
from tests.support.serving import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("dramatiq"), "--durability", "fast") as server:
        yield server


@pytest.fixture(scope="module")
def sqs(server):
    with client(server, "sqs") as pointed:
        yield pointed


@pytest.fixture(scope="module")
def actors(server):
    """Yield the actors, for a program that sends them messages."""
    from tests.http.dialects.aws.clients import dramatiq_actors

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(server).items():
            patch.setenv(name, value)
        dramatiq_actors.connect()
        yield dramatiq_actors
        dramatiq_actors.broker.sqs.meta.client.close()


@pytest.fixture(scope="module")
def reports(sqs):
    """Return a function that waits for the next actor's report."""
    queue = sqs.create_queue(QueueName="dramatiq-reports")["QueueUrl"]
    return lambda: receive_one(sqs, queue)


@pytest.fixture(scope="module")
def worker(server, reports, tmp_path_factory):
    command = python(
        "dramatiq", "tests.http.dialects.aws.clients.dramatiq_actors:connect", "--processes", "1", "--threads", "2"
    )
    log = tmp_path_factory.mktemp("worker") / "dramatiq.log"
    with program(server, log, *command) as process:
        yield process


def test_an_actor_runs_in_a_worker(worker, actors, reports):
    actors.add.send(2, 3)

    assert reports() == "2 + 3 = 5"


def test_a_message_with_a_delay_waits_for_it(worker, actors, reports):
    asked = time.monotonic()

    actors.add.send_with_options(args=(4, 5), delay=1500)

    assert reports() == "4 + 5 = 9"
    assert time.monotonic() - asked >= 1


def test_an_actor_that_fails_is_tried_again_and_then_dead(worker, actors, reports, sqs):
    sent = actors.fails_always.send()

    tries = [reports() for _ in range(3)]
    dead = sqs.get_queue_url(QueueName="dramatiq_default_dlq")["QueueUrl"]
    message = json.loads(b64decode(receive_one(sqs, dead)))

    assert tries == ["try 1", "try 2", "try 3"]
    assert (message["message_id"], message["actor_name"]) == (sent.message_id, "fails_always")


def test_join_returns_once_the_queue_is_empty(worker, actors, reports):
    for number in range(20):
        actors.add.send(number, 0)

    actors.broker.join("default", timeout=20)

    assert len({reports() for _ in range(20)}) == 20
