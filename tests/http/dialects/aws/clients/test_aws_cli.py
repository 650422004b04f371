"""The AWS CLI, as a program of its own. Version 1 needs `--endpoint-url`: otherwise it looks for SQS elsewhere."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.http.dialects.aws.pointed import environment


class Done(NamedTuple):
    code: int
    output: str
    complaint: str

    @property
    def json(self):
        return json.loads(self.output)


@pytest.fixture(scope="module")
def aws(shared_server):
    """Return a function that runs `aws` with some arguments."""

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "awscli", "--endpoint-url", shared_server.url, *arguments],
            env={**os.environ, **environment(shared_server), "AWS_PAGER": ""},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def test_a_queue_from_its_creation_to_its_end(aws):
    url = aws("sqs", "create-queue", "--queue-name", "cli", "--attributes", "VisibilityTimeout=60").json["QueueUrl"]
    sent = aws(
        "sqs", "send-message", "--queue-url", url, "--message-body", "hällo",
        "--message-attributes", '{"who":{"DataType":"String","StringValue":"cli"}}',
    )  # fmt: skip
    received = aws("sqs", "receive-message", "--queue-url", url, "--message-attribute-names", "All")
    (message,) = received.json["Messages"]
    deleted = aws("sqs", "delete-message", "--queue-url", url, "--receipt-handle", message["ReceiptHandle"])
    counted = aws("sqs", "get-queue-attributes", "--queue-url", url, "--attribute-names", "All")
    ended = aws("sqs", "delete-queue", "--queue-url", url)

    assert (message["Body"], message["MessageId"]) == ("hällo", sent.json["MessageId"])
    assert message["MessageAttributes"] == {"who": {"DataType": "String", "StringValue": "cli"}}
    assert (deleted.code, ended.code) == (0, 0)
    shown = counted.json["Attributes"]
    assert (shown["VisibilityTimeout"], shown["ApproximateNumberOfMessagesNotVisible"]) == ("60", "0")


def test_a_list_is_read_page_by_page(aws, sqs):
    urls = [sqs.create_queue(QueueName=f"cli-paged-{number}")["QueueUrl"] for number in range(5)]

    listed = aws("sqs", "list-queues", "--queue-name-prefix", "cli-paged-", "--page-size", "2")

    assert listed.json["QueueUrls"] == urls


def test_a_long_poll_waits_for_a_message(aws, sqs, queue):
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(aws, "sqs", "receive-message", "--queue-url", queue, "--wait-time-seconds", "20")
        sqs.send_message(QueueUrl=queue, MessageBody="late")

        assert [message["Body"] for message in waiting.result().json["Messages"]] == ["late"]


def test_a_refusal_is_told_in_aws_words(aws, shared_server):
    refused = aws("sqs", "purge-queue", "--queue-url", f"{shared_server.url}/000000000000/nowhere")

    assert refused.code != 0
    assert "AWS.SimpleQueueService.NonExistentQueue" in refused.complaint
    assert "The specified queue does not exist" in refused.complaint


def test_a_topic_is_made_subscribed_to_and_published_to(aws, sqs, queue):
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = aws("sns", "create-topic", "--name", "cli-news").json["TopicArn"]
    aws("sns", "subscribe", "--topic-arn", topic, "--protocol", "sqs", "--notification-endpoint", arn)
    published = aws("sns", "publish", "--topic-arn", topic, "--subject", "news", "--message", "hällo")

    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]

    notice = json.loads(message["Body"])
    assert (notice["Message"], notice["Subject"]) == ("hällo", "news")
    assert notice["MessageId"] == published.json["MessageId"]
