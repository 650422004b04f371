"""Commits whose outcome is unknown, because no standby has confirmed them, as every dialect reports them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sqew import Queue
from tests.http.dialects.native.schedules.nightly import NIGHTLY
from tests.http.dialects.vocabularies import ALL, SQEW, Vocabulary
from tests.http.webhooks import subscribe
from tests.support.cluster import crashing_cluster
from tests.support.postgres import fetch_column
from tests.support.serving import Answer, Serving, serving
from tests.support.standby import impatience

JSON_1_0 = "application/x-amz-json-1.0"
FORM = "application/x-www-form-urlencoded"
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/sqs/aws4_request"}
TOPIC = "arn:aws:sns:us-east-1:000000000000:news"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Yield a server whose commits wait for a standby that does not exist, and are cut short again and again."""
    folder = tmp_path_factory.mktemp("unknown")
    with crashing_cluster("unknown") as cluster, serving(folder, database=cluster.url()) as server:
        for name in ("orders", "jobs"):
            assert server.call("POST", "/queues", {"name": name}).status == 201
        assert sns(server, "Action=CreateTopic&Name=news").status == 200
        subscribe(server, "news", queue_name="orders")
        with impatience(cluster.url()):
            yield server


def sqs(server: Serving, action: str, body: dict[str, Any]) -> Answer:
    return server.call("POST", "/", body, {**SIGNED, "Content-Type": JSON_1_0, "X-Amz-Target": f"AmazonSQS.{action}"})


def sns(server: Serving, form: str) -> Answer:
    return server.call("POST", "/", form.encode(), {**SIGNED, "Content-Type": FORM})


def messages(server: Serving, queue: str) -> int:
    assert server.database is not None
    return fetch_column(
        server.database,
        f"SELECT count(*) FROM sqew_message JOIN sqew_queue q ON q.id = queue_id WHERE q.name = '{queue}'",
    )[0]


def assert_unknown(answer: Answer) -> None:
    assert (answer.status, answer.headers["x-sqew-error"]) == (503, "outcome_unknown")
    # Nobody is asked to come back: what came twice would be there twice.
    assert "retry-after" not in answer.headers
    assert b"it may have been done, or not" in answer.body
    assert b"postgresql://" not in answer.body


@pytest.mark.parametrize("dialect", ALL, ids=str)
def test_a_send_that_no_standby_had_was_answered_201(server: Serving, dialect: Vocabulary) -> None:
    before = messages(server, "orders")

    answer = dialect.try_to_send(server, "orders", b'"seven"')

    assert_unknown(answer)
    assert "it may have been done, or not" in dialect.sentence(answer.json)
    assert messages(server, "orders") == before + 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/queues", {"name": "new"}),
        ("PATCH", "/queues/orders", {"quota": 1_000_000}),
        ("POST", "/queues/orders/messages", [{"payload": 1}, {"payload": 2, "idempotency_key": "two"}]),
        ("POST", "/v1/queues/orders/messages", [{"message": 1}, {"message": 2}]),
        ("POST", "/v1/events/news", {"message": 1}),
        ("POST", "/v1/schedules", {"name": "tick", "target": "orders", **NIGHTLY}),
        ("POST", "/queues/orders/poll", None),
        ("GET", "/v1/messages?topic=orders", None),
    ],
)
def test_whatever_writes_says_so(server: Serving, method: str, path: str, body: Any) -> None:
    SQEW.try_to_send(server, "orders", b"1")

    assert_unknown(server.call(method, path, body))


def test_sqs_says_so_in_a_word_that_its_clients_know(server: Serving) -> None:
    url = f"{server.url}/000000000000/orders"

    answer = sqs(server, "SendMessage", {"QueueUrl": url, "MessageBody": "hello"})
    in_query = sns(server, f"Action=SendMessage&MessageBody=hello&QueueUrl={url}")

    assert_unknown(answer)
    assert answer.json["__type"].rpartition("#")[2] == "InternalFailure"
    assert_unknown(in_query)
    assert b"<Code>InternalFailure</Code>" in in_query.body
    assert b"<Type>Receiver</Type>" in in_query.body


def test_so_does_sns(server: Serving) -> None:
    answer = sns(server, f"Action=Publish&Message=hello&TopicArn={TOPIC}")

    assert_unknown(answer)
    assert b"<Code>InternalError</Code>" in answer.body


def test_the_sdks_of_aws_raise_it_as_what_it_is(server: Serving) -> None:
    options: dict[str, Any] = {
        "endpoint_url": server.url,
        "region_name": "us-east-1",
        "aws_access_key_id": "any",
        "aws_secret_access_key": "any",
        "config": Config(retries={"total_max_attempts": 1}),
    }
    with contextlib.closing(boto3.client("sqs", **options)) as queues, pytest.raises(ClientError) as refused:
        queues.send_message(QueueUrl=f"{server.url}/000000000000/orders", MessageBody="hello")
    with (
        contextlib.closing(boto3.client("sns", **options)) as topics,
        pytest.raises(topics.exceptions.InternalErrorException),
    ):
        topics.publish(TopicArn=TOPIC, Message="hello")

    assert refused.value.response["Error"]["Code"] == "InternalFailure"


def test_a_receiver_that_waits_goes_on_waiting(server: Serving) -> None:
    """Check that a waiting receive goes on: messages that it may have been given come back when their leases end."""
    answer = server.call("POST", "/queues/jobs/poll?wait_ms=100")

    assert (answer.status, answer.json) == (200, {"messages": []})


def test_a_server_did_not_start_where_no_standby_had_what_it_swept(tmp_path: Path) -> None:
    with crashing_cluster("starting") as cluster:
        with Queue.open(cluster.url()) as q:
            q.create("orders")
            q.enqueue("orders", 1, ttl_ms=1)
        time.sleep(0.01)

        with impatience(cluster.url()), serving(tmp_path, database=cluster.url()) as server:
            assert server.call("GET", "/livez").status == 200


def test_what_only_looks_is_answered(server: Serving) -> None:
    assert_unknown(SQEW.try_to_send(server, "orders", b"1"))

    assert server.call("GET", "/queues/orders/peek").status == 200
    assert server.figure("db_commits_unknown_total") > 0
