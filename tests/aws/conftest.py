"""AWS's own client for Python, pointed at a real server: see `serving` and `pointed`."""

import zlib

import pytest
from pointed import client

from serving import Serving, servers, serving, shared_server

__all__ = ["Serving", "servers", "serving", "shared_server"]


@pytest.fixture(scope="session")
def sqs(shared_server):
    """boto3's SQS on the shared server, in us-east-1."""
    with client(shared_server, "sqs") as pointed:
        yield pointed


@pytest.fixture(scope="session")
def sns(shared_server):
    """boto3's SNS on the shared server, in us-east-1."""
    with client(shared_server, "sns") as pointed:
        yield pointed


@pytest.fixture
def queue(sqs, request):
    """The URL of a queue of the test's own."""
    return sqs.create_queue(QueueName=name_of(request))["QueueUrl"]


@pytest.fixture
def fifo(sqs, request):
    """The URL of a FIFO queue of the test's own."""
    return sqs.create_queue(QueueName=f"{name_of(request)[:75]}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]


@pytest.fixture
def topic(sns, name):
    """The ARN of a topic of the test's own."""
    return sns.create_topic(Name=name)["TopicArn"]


@pytest.fixture
def name(request):
    """A name that no other test has."""
    return name_of(request)


def name_of(request):
    """A name that no other test has: they share a server."""
    words = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in request.node.name)
    return f"{zlib.crc32(request.node.nodeid.encode()):08x}-{words}"[:80]
