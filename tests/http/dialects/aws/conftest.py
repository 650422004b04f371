"""AWS's own client for Python, pointed at a real server: see `serving` and `pointed`."""

import contextlib
import functools
import zlib

import pytest

from tests.http.dialects.aws.pointed import client
from tests.support.serving import Serving, servers, serving, shared_server

__all__ = ["Serving", "servers", "serving", "shared_server"]


@pytest.fixture(scope="session")
def pointed():
    """Yield a function that makes boto3's clients, one per server and service: some modules use a server per store."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda server, service: stack.enter_context(client(server, service)))


@pytest.fixture
def sqs(shared_server, pointed):
    """Return boto3's SQS on the shared server, in us-east-1."""
    return pointed(shared_server, "sqs")


@pytest.fixture
def sns(shared_server, pointed):
    """Return boto3's SNS on the shared server, in us-east-1."""
    return pointed(shared_server, "sns")


@pytest.fixture
def queue(sqs, request):
    """Return the URL of a queue of the test's own."""
    return sqs.create_queue(QueueName=name_of(request))["QueueUrl"]


@pytest.fixture
def fifo(sqs, request):
    """Return the URL of a FIFO queue of the test's own."""
    return sqs.create_queue(QueueName=f"{name_of(request)[:75]}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]


@pytest.fixture
def topic(sns, name):
    """Return the ARN of a topic of the test's own."""
    return sns.create_topic(Name=name)["TopicArn"]


@pytest.fixture
def name(request):
    """Return a name that no other test has."""
    return name_of(request)


def name_of(request):
    """Return a name that no other test has: tests share a server."""
    words = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in request.node.name)
    return f"{zlib.crc32(request.node.nodeid.encode()):08x}-{words}"[:80]
