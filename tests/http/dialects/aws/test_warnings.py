"""Warnings of a server about trouble that would go unnoticed: dialects that stay open, endpoints not posted to."""

import json
import subprocess
import sys
import time

import pytest
from botocore.exceptions import ClientError

from tests.http.dialects.aws.pointed import client
from tests.support.serving import serving

PAIR = "AKID:secret"
TOKEN = "0123456789abcdef"


def warnings(server):
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    # On a busy machine anything may be slow, and that is not what is asked here.
    return [line for line in lines if line["level"] == "warning" and not line["event"].startswith("slow ")]


def soon(server, count, within_s=30):
    """Wait for this many warnings, which the server writes a moment later, and return them."""
    deadline = time.monotonic() + within_s
    while len(found := warnings(server)) < count:
        assert time.monotonic() < deadline, server.log.read_text()
        time.sleep(0.01)
    return found


def test_credentials_were_taken_for_a_guard_of_every_dialect(tmp_path):
    with serving(tmp_path, "--aws-credentials", PAIR) as server:
        open_to_all = server.call("GET", "/queues")
        [warning] = soon(server, 1)

    assert open_to_all.status == 200
    assert warning["event"] == (
        "aws_credentials guard SQS and SNS only: without auth_token every other dialect is open"
    )


@pytest.mark.parametrize("flags", [(), ("--auth-token", TOKEN), ("--auth-token", TOKEN, "--aws-credentials", PAIR)])
def test_a_server_that_guards_every_dialect_or_none_does_not_warn(tmp_path, flags):
    with serving(tmp_path, *flags) as server:
        server.stop()

        assert warnings(server) == []


def test_beyond_this_machine_credentials_are_no_token_and_the_error_says_so(tmp_path):
    command = [sys.executable, "-m", "sqew", "serve", "--port", "0", "--host", "0.0.0.0", "--aws-credentials", PAIR]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)

    assert done.returncode == 2
    assert "aws_credentials guard SQS and SNS only" in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        (("--auth-token", TOKEN), "Use the access key 'sqew', with the server's token as its secret."),
        (("--auth-token", TOKEN, "--aws-credentials", PAIR), "Use one that aws_credentials names."),
    ],
    ids=["token", "credentials"],
)
def test_who_signs_with_a_key_that_is_not_there_was_sent_to_credentials_that_are_not_set(tmp_path, flags, advice):
    with serving(tmp_path, *flags) as server, client(server, "sqs") as sqs, pytest.raises(ClientError) as refused:
        sqs.list_queues()

    assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"
    assert refused.value.response["Error"]["Message"] == f"There is no access key 'anybody' here. {advice}"


def test_an_endpoint_that_may_not_be_posted_to_left_its_subscription_pending_without_a_word(tmp_path):
    flags = ("--durability", "fast", "--delivery-retries", "10ms 10ms")
    with serving(tmp_path, *flags) as server, client(server, "sns") as sns:
        topic = sns.create_topic(Name="news")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="http", Endpoint="http://localhost:9/hook?key=hush")
        [warning] = soon(server, 1)
        exhausted(server)

        assert warnings(server) == [warning]

    assert warning["event"] == "an endpoint could not be asked to confirm its subscription"
    assert (warning["topic"], warning["endpoint"]) == ("news", "http://localhost:9")
    assert "allow it in delivery_allow" in warning["error"]
    assert "sqew delivery list" in warning["see"]
    assert "hush" not in str(warning)


def exhausted(server, within_s=30):
    """Wait until the server has given up the endpoint."""
    deadline = time.monotonic() + within_s
    while not server.call("GET", "/v1/deliveries?state=exhausted").json:
        assert time.monotonic() < deadline, server.call("GET", "/v1/deliveries").body
        time.sleep(0.01)
