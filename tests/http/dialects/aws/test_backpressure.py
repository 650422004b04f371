"""Backpressure in SQS and SNS: senders are asked to come back later."""

import contextlib
import json
import time

import apsw
import pytest

from tests.http.dialects.aws.sqs_wires import answer_to, in_json, in_query, raw, raw_form
from tests.support.serving import serving

SNS_VERSION = b"&Version=2010-03-31"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Yield a server whose write-ahead log is too large, and stays so."""
    with serving(tmp_path_factory.mktemp("full"), "--durability", "fast", "--max-wal-bytes", "1MiB") as server:
        in_json(server, "CreateQueue", {"QueueName": "orders"})
        assert answer_to(server, raw_form(b"Action=CreateTopic&Name=orders" + SNS_VERSION)).status == 200
        # Whoever reads from a moment keeps the log from being cut off after it.
        with contextlib.closing(apsw.Connection(str(server.db))) as reader:
            reader.execute("BEGIN; SELECT count(*) FROM sqew_message").fetchall()
            deadline = time.monotonic() + 20
            while server.call("POST", "/queues/orders/messages", {"payload": "x" * 200_000}).status != 429:
                assert time.monotonic() < deadline
            yield server


ENTRIES = [{"Id": "a", "MessageBody": "x"}]
SENDS = [
    ("SendMessage", {"QueueUrl": "orders", "MessageBody": "x"}),
    ("SendMessageBatch", {"QueueUrl": "orders", "Entries": ENTRIES}),
]
ARN = "arn:aws:sns:us-east-1:000000000000:orders"
PUBLISHES = [
    ("Publish", {"TopicArn": ARN, "Message": "x"}, f"TopicArn={ARN}&Message=x"),
    (
        "PublishBatch",
        {"TopicArn": ARN, "PublishBatchRequestEntries": [{"Id": "a", "Message": "x"}]},
        f"TopicArn={ARN}&PublishBatchRequestEntries.member.1.Id=a&PublishBatchRequestEntries.member.1.Message=x",
    ),
]


@pytest.mark.parametrize(("action", "parameters"), SENDS, ids=lambda given: given if isinstance(given, str) else "")
def test_sends_are_throttled_while_the_log_is_too_large(full, action, parameters):
    told, written = in_json(full, action, parameters), in_query(full, action, parameters)

    assert told.status == written.status == 403
    assert told.json["__type"] == "com.amazonaws.sqs#RequestThrottled"
    assert told.headers["x-amzn-query-error"] == "RequestThrottled;Sender"
    assert b"<Code>RequestThrottled</Code>" in written.body
    assert told.headers["retry-after"] == written.headers["retry-after"] == "1"


@pytest.mark.parametrize(("action", "parameters", "form"), PUBLISHES, ids=["one", "batch"])
def test_publishes_are_throttled_while_the_log_is_too_large(full, action, parameters, form):
    target = {"X-Amz-Target": f"AmazonSNS.{action}", "Content-Type": "application/x-amz-json-1.0"}

    told = answer_to(full, raw("POST", "/", json.dumps(parameters).encode(), **target))
    written = answer_to(full, raw_form(f"Action={action}&{form}".encode() + SNS_VERSION))

    assert told.status == written.status == 429
    assert told.json["__type"] == "com.amazonaws.sns#ThrottledException"
    assert b"<Code>Throttled</Code>" in written.body
    assert told.headers["retry-after"] == written.headers["retry-after"] == "1"


def test_whoever_takes_and_deletes_goes_on(full):
    [message] = in_json(full, "ReceiveMessage", {"QueueUrl": "orders"}).json["Messages"]

    deleted = in_json(full, "DeleteMessage", {"QueueUrl": "orders", "ReceiptHandle": message["ReceiptHandle"]})

    assert deleted.status == 200
