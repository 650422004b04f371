"""A server that posts to endpoints on this machine, an endpoint, and helpers for subscriptions to topics."""

import json

import pytest

from sqew.client import EnvelopeVerifier
from tests.http.dialects.aws.pointed import client
from tests.support.endpoint import endpoint
from tests.support.serving import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield a server that posts to this machine, and tries twice."""
    flags = ("--durability", "fast", "--delivery-allow", "127.0.0.1", "--delivery-retries", "1ms")
    with serving(tmp_path_factory.mktemp("server"), *flags) as server:
        yield server


@pytest.fixture(scope="module")
def sns(server):
    with client(server, "sns") as sns:
        yield sns


@pytest.fixture(scope="module")
def sqs(server):
    with client(server, "sqs") as sqs:
        yield sqs


@pytest.fixture(scope="module")
def hook():
    with endpoint() as hook:
        yield hook


@pytest.fixture
def path(name):
    return f"/{name}"


@pytest.fixture
def verifier(server):
    return EnvelopeVerifier(cert_hosts=[f"127.0.0.1:{server.port}"], allow_http=True)


def follow(server, url):
    """Open a link of the server, without credentials."""
    return server.call("GET", url.removeprefix(server.url))


def subscribe(sns, topic, hook, path, *, returns_arn=False, **attributes):
    return sns.subscribe(
        TopicArn=topic, Protocol="http", Endpoint=hook.url(path), Attributes=attributes,
        ReturnSubscriptionArn=returns_arn,
    )["SubscriptionArn"]  # fmt: skip


def confirmed(server, sns, topic, hook, path, **attributes):
    """Return the ARN of a subscription that its endpoint has confirmed."""
    arn = subscribe(sns, topic, hook, path, returns_arn=True, **attributes)
    asked = json.loads(hook.wait_for(path)[0].body)
    assert follow(server, asked["SubscribeURL"]).status == 200
    return arn


def left(server, sns, topic, hook, path, **attributes):
    """Follow the link that ends a subscription; return its ARN, and the last request that was posted."""
    subscription = confirmed(server, sns, topic, hook, path, **attributes)
    answer = follow(server, f"{server.url}/?Action=Unsubscribe&SubscriptionArn={subscription}")
    assert (answer.status, b"<UnsubscribeResponse" in answer.body) == (200, True)
    return subscription, hook.wait_for(path, 2)[1]
