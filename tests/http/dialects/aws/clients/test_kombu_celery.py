"""Celery and its kombu: tasks that run in a worker, are retried, wait for their time, and outlive a worker."""

import json
import signal
import time

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.common import Broadcast

from tests.http.dialects.aws.clients.programs import program, python, receive_one
from tests.http.dialects.aws.pointed import KEYS, client
from tests.support.serving import serving

TASKS = "tests.http.dialects.aws.clients.celery_tasks"
CELERY = ("celery", "-A", TASKS, "worker", "--pool", "solo", "--loglevel", "INFO", "--without-heartbeat")


def broker_of(server):
    """Return the broker's URL as Celery's users write it."""
    return f"sqs://{KEYS['aws_access_key_id']}:{KEYS['aws_secret_access_key']}@{server.host}:{server.port}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("celery"), "--durability", "fast") as server:
        yield server


@pytest.fixture(scope="module")
def sqs(server):
    with client(server, "sqs") as pointed:
        yield pointed


@pytest.fixture(scope="module")
def reports(sqs):
    """Return a function that waits for the next task's report."""
    queue = sqs.create_queue(QueueName="celery-reports")["QueueUrl"]
    return lambda: json.loads(receive_one(sqs, queue))


@pytest.fixture(scope="module")
def tasks(server):
    """Yield the tasks, for a program that sends them."""
    from tests.http.dialects.aws.clients import celery_tasks

    celery_tasks.app.conf.broker_url = broker_of(server)
    yield celery_tasks
    celery_tasks.app.close()


@pytest.fixture(scope="module")
def worker(server, reports, tmp_path_factory):
    log = tmp_path_factory.mktemp("worker") / "celery.log"
    with program(server, log, *python(*CELERY), CELERY_BROKER=broker_of(server), CELERY_WORKER="steady") as process:
        yield process


def test_a_task_runs_in_a_worker(worker, tasks, reports):
    tasks.add.delay(2, 3)

    assert reports() == {"sum": 5}


def test_a_task_that_fails_is_tried_again_after_its_delay(worker, tasks, reports):
    tasks.fails_twice.delay()

    assert [reports() for _ in range(3)] == [{"retries": 0}, {"retries": 1}, {"retries": 2}]


def test_a_task_with_an_eta_waits_for_it(worker, tasks, reports):
    asked = time.time() + 2

    tasks.say_when.apply_async(countdown=2)

    assert 0 <= reports()["at"] - asked < 5


def test_a_task_whose_worker_is_killed_runs_in_the_next_one(server, tasks, reports, tmp_path):
    def start(name):
        command = python(*CELERY, "--queues", "celery-fragile")
        return program(server, tmp_path / f"{name}.log", *command, CELERY_BROKER=broker_of(server), CELERY_WORKER=name)

    tasks.outlive.apply_async(["first"], queue="celery-fragile")
    with start("first") as first:
        ran_in = [reports()["worker"]]
        first.send_signal(signal.SIGKILL)
        first.wait()
    with start("second"):
        ran_in.append(reports()["worker"])

    assert ran_in[0] == first.pid
    assert ran_in[1] != first.pid


def test_a_task_for_everybody_runs_in_every_worker(server, tasks, reports, tmp_path):
    def start(name):
        return program(
            server, tmp_path / f"{name}.log", *python(*CELERY), CELERY_BROKER=broker_of(server), CELERY_BROADCAST="1"
        )

    everybody = Broadcast("everybody")
    with start("first") as first, start("second") as second:
        assert {reports()["ready"] for _ in range(2)} == {first.pid, second.pid}
        # kombu keeps the types of exchanges to itself, so who only sends must say it.
        tasks.greet.apply_async(["Ada"], queue=everybody, declare=[everybody.exchange])
        greetings = [reports() for _ in range(2)]

    assert {one["greeted"] for one in greetings} == {"Ada"}
    assert {one["worker"] for one in greetings} == {first.pid, second.pid}


def test_kombu_puts_and_gets_without_celery(server):
    options = {"region": "us-east-1", "wait_time_seconds": 1}

    with (
        Connection(broker_of(server), transport_options=options) as connection,
        connection.SimpleQueue("kombu-simple") as queue,
    ):
        for number in range(12):
            queue.put({"number": number})
        size = queue.qsize()
        found = [queue.get(timeout=10) for _ in range(12)]
        for message in found:
            message.ack()
        left = queue.qsize()

    assert (size, left) == (12, 0)
    assert sorted(message.payload["number"] for message in found) == list(range(12))


def test_a_fanout_exchange_copies_a_message_to_each_queue(server):
    options = {"region": "us-east-1", "wait_time_seconds": 1, "supports_fanout": True}
    news = Exchange("news", type="fanout")
    got = []

    def take(body, message):
        got.append((message.delivery_info["sqs_queue"].rpartition("/")[2], body))
        message.ack()

    with (
        Connection(broker_of(server), transport_options=options) as connection,
        connection.channel() as channel,
        Consumer(channel, [Queue("news-a", news), Queue("news-b", news)], callbacks=[take]),
    ):
        Producer(channel, news).publish({"hello": 1})
        while len(got) < 2:
            connection.drain_events(timeout=20)

    assert sorted(got) == [("news-a", {"hello": 1}), ("news-b", {"hello": 1})]
