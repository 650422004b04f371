"""Request ids in AWS's dialects: UUIDs, whatever id the client gives."""

import re

import pytest

SIGNED = "AWS4-HMAC-SHA256 Credential=x/20261115/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=00"
UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
JSON = "application/x-amz-json-1.0"
FORM = "application/x-www-form-urlencoded"
CALLS = pytest.mark.parametrize(
    ("kind", "target", "body"),
    [
        (JSON, "AmazonSQS.ListQueues", b"{}"),
        (JSON, "AmazonSQS.GetQueueUrl", b'{"QueueName":"not-there"}'),
        (FORM, None, b"Action=ListQueues&Version=2012-11-05"),
        (FORM, None, b"Action=ListTopics&Version=2010-03-31"),
        (FORM, None, b"Action=Odd&Version=2010-03-31"),
    ],
    ids=["json", "json error", "query", "sns", "query error"],
)


def ask(server, kind, target, body, **headers):
    """Return an answer, and the request ids in it: in its header, and in its XML if it has any."""
    given = {"Authorization": SIGNED, "Content-Type": kind, **headers}
    answer = server.call("POST", "/", body, given | ({"X-Amz-Target": target} if target else {}))
    return answer, [
        answer.headers["x-amzn-requestid"],
        *re.findall("<RequestId>(.*)</RequestId>", answer.body.decode()),
    ]


@CALLS
def test_a_request_is_called_by_a_uuid_of_its_own(shared_server, kind, target, body):
    answers = [ask(shared_server, kind, target, body) for _ in range(2)]

    for answer, ids in answers:
        assert all(UUID.fullmatch(id) for id in ids)
        assert set(ids) == {answer.headers["x-request-id"]}
    assert answers[0][1] != answers[1][1]


@CALLS
def test_what_its_client_calls_it_is_something_else(shared_server, kind, target, body):
    answer, ids = ask(shared_server, kind, target, body, **{"X-Request-Id": "<mine>"})

    assert answer.headers["x-request-id"] == "<mine>"
    assert len(set(ids)) == 1
    assert UUID.fullmatch(ids[0])


def test_a_message_that_is_sent_the_short_way_has_one_too(shared_server, queue):
    body = b'{"QueueUrl":"%b","MessageBody":"x"}' % queue.encode()

    for headers in ({}, {"X-Request-Id": "mine"}):
        _, [id] = ask(shared_server, JSON, "AmazonSQS.SendMessage", body, **headers)

        assert UUID.fullmatch(id)


def test_boto3_shows_it(sqs, sns):
    for answer in (sqs.list_queues(), sns.list_topics()):
        assert UUID.fullmatch(answer["ResponseMetadata"]["RequestId"])
