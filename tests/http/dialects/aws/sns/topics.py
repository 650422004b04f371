"""Helpers for tests of topics."""

import contextlib
import json

import pytest
from botocore.exceptions import ClientError

ACCOUNT = "000000000000"


def queue_arn(url, region="us-east-1"):
    return f"arn:aws:sqs:{region}:{ACCOUNT}:{url.rpartition('/')[2]}"


def subscribed(sns, topic, url, **attributes):
    """Return the ARN of a new subscription of a queue."""
    answer = sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(url), Attributes=attributes)
    return answer["SubscriptionArn"]


def received(sqs, url):
    """Return all messages of a queue, and delete them."""
    found = []
    while True:
        messages = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
        ).get("Messages", [])
        if not messages:
            return found
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        found += messages


def bodies(sqs, url):
    return [message["Body"] for message in received(sqs, url)]


def envelopes(sqs, url):
    return [json.loads(body) for body in bodies(sqs, url)]


@contextlib.contextmanager
def refused(code, message, status=400):
    """Check that the block is refused with this code, message and status."""
    with pytest.raises(ClientError) as caught:
        yield
    error = caught.value.response["Error"]
    assert (error["Code"], error["Message"]) == (code, message)
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
