"""JavaScript: AWS's SDK, and the consumer and producer that most programs use on top of it."""

import json
import os
import shutil
import subprocess

import pytest

from tests.http.dialects.aws.clients.programs import HERE, ROOT
from tests.http.dialects.aws.pointed import environment

PACKAGES = ROOT / ".node" / "aws" / "node_modules"


@pytest.fixture(scope="module")
def ran(shared_server):
    """Return a function that runs a script of this folder in Node.js and returns its output."""
    node = shutil.which("node")
    if node is None or not (PACKAGES / "sqs-consumer").is_dir():
        pytest.fail("Node.js or its packages are missing. Run this through `python3 dev test`, once.")

    def run(script):
        done = subprocess.run(
            [node, "--unhandled-rejections=strict", HERE / script],
            env={**os.environ, **environment(shared_server), "NODE_PATH": str(PACKAGES)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_the_sdk_does_all_that_can_be_done_with_a_queue(ran):
    seen = ran("client_sqs.js")

    unknown = {"name": "QueueDoesNotExist", "code": "AWS.SimpleQueueService.NonExistentQueue"}
    garbage = {"name": "ReceiptHandleIsInvalid", "code": "ReceiptHandleIsInvalid"}
    assert seen == {
        "batch": [["good"], [["late", "InvalidParameterValue"]]],
        "body": "größer 🎉",
        "attributes": ["größer", [0, 1, 255]],
        "count": "1",
        "deleted": 2,
        "empty": None,
        "tags": {"team": "a"},
        "woken": "wake up",
        "pages": [2, 1],
        "unknown": {**unknown, "status": 400, "typed": True},
        "garbage": {**garbage, "status": 400, "typed": True},
    }


def test_a_consumer_handles_all_that_a_producer_sends_and_repeats_what_failed(ran):
    seen = ran("consumer_producer.js")

    tries = dict(seen["handled"])
    assert (seen["sent"], len(seen["handled"]), seen["left"], seen["errors"]) == (25, 25, 0, [])
    assert tries == {f"message-{number}": 2 if number % 10 == 3 else 1 for number in range(25)}
    assert seen["refused"] == "Failed to send messages: bad"


def test_a_consumer_takes_an_unknown_queue_for_trouble_with_the_connection(ran):
    seen = ran("unknown_queue.js")

    assert seen == {"code": "QueueDoesNotExist", "status": 400}


def test_the_sdk_publishes_to_a_topic_and_its_queues(ran):
    seen = ran("client_sns.js")

    assert seen == {
        "batch": [["a"], ["b"]],
        "notices": [["Notification", "größer 🎉", "news", True], ["Notification", "small", None, True]],
        "same": True,
        "raw": [["größer 🎉", "big"]],
        "subscriptions": 2,
        "tags": [{"Key": "team", "Value": "a"}],
        "unknown": ["NotFoundException", 404, True],
    }
