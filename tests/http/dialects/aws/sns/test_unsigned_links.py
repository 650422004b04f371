"""Unsigned links in messages of SNS: they do what they say, and open nothing else."""

import pytest

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sqs_wires import answer_to, raw
from tests.support.serving import serving

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "secret-of-the-key", "the-servers-own-token"
LINKS = ["ConfirmSubscription", "Unsubscribe"]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
DELETE = b"Action=DeleteQueue&QueueUrl=victim"


@pytest.fixture(scope="module", params=["credentials", "token"])
def closed(request, tmp_path_factory):
    """Yield a server that needs credentials or a token, and a client of its owner, with a queue ``victim``."""
    if request.param == "credentials":
        key, secret, env = KEY, SECRET, {"SQEW_AWS_CREDENTIALS": f"{KEY}:{SECRET}"}
    else:
        key, secret, env = "sqew", TOKEN, {"SQEW_AUTH_TOKEN": TOKEN}
    with (
        serving(tmp_path_factory.mktemp("closed"), "--durability", "fast", env=env) as server,
        client(server, "sqs", aws_access_key_id=key, aws_secret_access_key=secret) as sqs,
    ):
        sqs.create_queue(QueueName="victim")
        yield server, sqs


def followed(server, query, body=b"", **headers):
    return answer_to(server, raw("GET", f"/?{query}", body, authorization=None, **headers))


def queues(sqs):
    return [url.rpartition("/")[2] for url in sqs.list_queues().get("QueueUrls", [])]


@pytest.mark.parametrize("action", LINKS)
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (DELETE, FORM),
        (b"%x\r\n%b\r\n0\r\n\r\n" % (len(DELETE), DELETE), {**FORM, "Transfer-Encoding": "chunked"}),
        (
            b'{"QueueUrl":"victim"}',
            {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.DeleteQueue"},
        ),
    ],
    ids=["form", "chunks", "json"],
)
def test_a_body_with_an_unsigned_link_is_not_carried_out(closed, action, body, headers):
    server, sqs = closed
    request = raw("GET", f"/?Action={action}", body, authorization=None, **headers)
    if "Transfer-Encoding" in headers:
        request = request.replace(b"Content-Length: %d\r\n" % len(body), b"")

    answer = answer_to(server, request)

    assert answer.status == 403
    assert b"MissingAuthenticationToken" in answer.body
    assert queues(sqs) == ["victim"]


@pytest.mark.parametrize("action", LINKS)
@pytest.mark.parametrize(
    "query",
    [
        "Action={}&Action=DeleteQueue&QueueUrl=victim",
        "Action=DeleteQueue&QueueUrl=victim&Action={}",
        "Action={}&%41ction=DeleteQueue&QueueUrl=victim",
    ],
)
def test_a_link_with_two_actions_is_not_carried_out_as_the_other(closed, action, query):
    server, sqs = closed

    answer = followed(server, query.format(action))

    assert answer.status in (400, 403)
    assert queues(sqs) == ["victim"]


def test_a_header_that_names_another_action_changes_nothing_about_a_link(closed):
    server, sqs = closed

    answer = followed(server, "Action=Unsubscribe&QueueUrl=victim", **{"X-Amz-Target": "AmazonSQS.DeleteQueue"})

    assert answer.status == 400
    assert queues(sqs) == ["victim"]


@pytest.mark.parametrize("action", LINKS)
def test_a_link_without_a_body_is_followed(closed, action):
    answer = followed(closed[0], f"Action={action}")

    assert answer.status == 400
    assert b"<Code>ValidationError</Code>" in answer.body


@pytest.mark.parametrize("action", ["DeleteQueue", "ListQueues", "Publish", "ListTopics", "Subscribe"])
def test_other_actions_can_not_be_linked_to(closed, action):
    answer = followed(closed[0], f"Action={action}")

    assert answer.status == 403
    assert b"<Code>MissingAuthenticationToken</Code>" in answer.body
