"""pyqs: functions that run in a worker, which finds their queues by a prefix."""

import time

import pytest

from tests.http.dialects.aws.clients.programs import program, receive_one, script
from tests.http.dialects.aws.pointed import client, environment
from tests.support.serving import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("pyqs"), "--durability", "fast") as server:
        yield server


@pytest.fixture(scope="module")
def sqs(server):
    with client(server, "sqs") as pointed:
        yield pointed


@pytest.fixture
def tasks(server, monkeypatch):
    """Return the tasks, for a program that has a worker run them."""
    for name, value in environment(server).items():
        monkeypatch.setenv(name, value)
    from tests.http.dialects.aws.clients import pyqs_tasks

    return pyqs_tasks


@pytest.fixture(params=[[], ["--simple-worker"]], ids=["reader and workers", "simple worker"])
def worker(server, sqs, tmp_path, request):
    # It looks for its queues once, when it starts.
    sqs.create_queue(QueueName="pyqs-work")
    command = script("pyqs", "pyqs-*", "--concurrency", "1", *request.param)
    with program(server, tmp_path / "pyqs.log", *command) as process:
        yield process


@pytest.fixture
def report(sqs):
    """Return a function that waits for the next task's report."""
    queue = sqs.create_queue(QueueName="reports-of-pyqs")["QueueUrl"]
    return lambda: receive_one(sqs, queue)


def test_a_task_runs_in_a_worker(worker, tasks, report):
    tasks.add.delay(2, other=3)

    assert report() == "2 + 3 = 5"


def test_a_task_with_a_delay_waits_for_it(worker, tasks, report):
    asked = time.monotonic()

    tasks.add.delay(4, 5, _delay_seconds=1)

    assert report() == "4 + 5 = 9"
    assert time.monotonic() - asked >= 1
