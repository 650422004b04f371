"""Random requests to every action of SNS in either protocol: all are answered, and none with a server error."""

import contextlib
import http.client
import json
from urllib.parse import quote, quote_plus

import boto3
import pytest
from botocore.serialize import create_serializer
from hypothesis import given, settings
from hypothesis import strategies as st

from sqew.http.dialects.aws.sns.unsupported import ACTIONS as UNSUPPORTED
from tests.http.dialects.aws.fuzzing import ODD_TEXTS, Fuzz, ask, flat

EXAMPLES = 40
SIGNED = "AWS4-HMAC-SHA256 Credential=x/20261115/us-east-1/sns/aws4_request, SignedHeaders=host, Signature=00"
JSON = {"Authorization": SIGNED, "Content-Type": "application/x-amz-json-1.0"}
FORM = {"Authorization": SIGNED, "Content-Type": "application/x-www-form-urlencoded"}
TOPICS = [f"arn:aws:sns:us-east-1:000000000000:{name}" for name in ("fuzz-sns", "fuzz-sns.fifo")]
QUEUES = [f"arn:aws:sqs:us-east-1:000000000000:{name}" for name in ("fuzz-sns", "fuzz-sns.fifo")]
SUBSCRIPTION = "arn:aws:sns:us-east-1:000000000000:fuzz-sns:00000000-0000-4000-a000-000000000000"
"""A placeholder for a subscription that exists."""
DOCUMENTS = [
    '{"a":["b"]}', '{"a":{"b":[{"prefix":"c"}]}}', '{"a":[{"numeric":[">",1]}]}', '{"a":[{"cidr":"10.0.0.0/8"}]}',
    '{"$or":[{"a":["b"]},{"c":[{"wildcard":"*d*"}]}]}', '{"a":[{"anything-but":{"suffix":"x"}}]}', '{"a":[[]]}',
    '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:fuzz-sns"}', '{"deadLetterTargetArn":1}',
    '{"Statement":["x"]}', '{"Statement":null}', '{"default":"x","sqs":"y"}', '{"default":1}', '{"a":[1e999]}',
]  # fmt: skip
NAMES = [
    "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy", "DeliveryPolicy", "Policy",
    "DisplayName", "SignatureVersion", "ContentBasedDeduplication", "FifoTopic", "ReplayPolicy", "KmsMasterKeyId",
]  # fmt: skip
VALUES = ["true", "false", "1", "2", "MessageBody", "MessageAttributes", *DOCUMENTS]
TEXTS = st.one_of(
    st.sampled_from(
        [*ODD_TEXTS, *TOPICS, *QUEUES, SUBSCRIPTION, *NAMES, *VALUES, "json", "String", "Binary", "Number"]
    ),
    st.text(max_size=20),
)
ATTRIBUTE = st.fixed_dictionaries(
    {"DataType": st.sampled_from(["String", "Number", "Binary", "String.Array", "x"])},
    optional={"StringValue": TEXTS, "BinaryValue": TEXTS},
)
RIGHT = {
    # Without these a call ends before it has begun.
    "TopicArn": st.sampled_from(TOPICS),
    "ResourceArn": st.sampled_from(TOPICS),
    "SubscriptionArn": st.just(SUBSCRIPTION),
    "Name": st.sampled_from(["fuzz-sns", "fuzz-sns.fifo"]),
    "Protocol": st.sampled_from(["sqs", "http", "https"]),
    "Endpoint": st.sampled_from(
        [*QUEUES, "http://nowhere.invalid/", "https://nowhere.invalid/x", "http://[", "http://"]
    ),
    "Id": st.sampled_from("abcdefghijklmnopqrstuvwxyz"),
    "Message": st.sampled_from(["x", "é", '{"default":"x","sqs":"y"}', '{"a":["b",{"c":1}]}', '{"a.b":[[1]],"a":2}']),
    "MessageGroupId": st.sampled_from(["g", "h"]),
    "Label": st.sampled_from(["a", "b"]),
    "AttributeName": st.sampled_from(NAMES),
    "AttributeValue": st.sampled_from(VALUES),
    "Attributes": st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=4),
    "MessageAttributes": st.dictionaries(st.sampled_from(["a", "a.b", "AWS.x", ""]), ATTRIBUTE, max_size=12),
    "AWSAccountId": st.just(["111111111111"]),
    "ActionName": st.just(["Publish"]),
}


def service_model():
    """Return boto3's model of SNS."""
    with contextlib.closing(boto3.session.Session(region_name="us-east-1").client("sns")) as client:
        return client.meta.service_model


MODEL = service_model()
ACTIONS = sorted(set(MODEL.operation_names) - set(UNSUPPORTED))
PARAMETERS = Fuzz(TEXTS, RIGHT)


@pytest.fixture(scope="module")
def wire(shared_server):
    """Yield one connection, on which all requests are sent."""
    connection = http.client.HTTPConnection(shared_server.host, shared_server.port, timeout=30)
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def subscription(sns, sqs):
    """Yield a subscription of a queue to a topic, with others beside it; delete them all after the test."""
    urls = [
        sqs.create_queue(QueueName="fuzz-sns")["QueueUrl"],
        sqs.create_queue(QueueName="fuzz-sns.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"],
    ]
    sns.create_topic(Name="fuzz-sns")
    sns.create_topic(Name="fuzz-sns.fifo", Attributes={"FifoTopic": "true", "ContentBasedDeduplication": "true"})
    wanted = {"FilterPolicy": '{"a":[{"prefix":"x"}]}', "FilterPolicyScope": "MessageBody"}
    sns.subscribe(TopicArn=TOPICS[1], Protocol="sqs", Endpoint=QUEUES[1])
    yield sns.subscribe(TopicArn=TOPICS[0], Protocol="sqs", Endpoint=QUEUES[0], Attributes=wanted)["SubscriptionArn"]
    for topic in TOPICS:
        sns.delete_topic(TopicArn=topic)
    for url in urls:
        sqs.delete_queue(QueueUrl=url)


def parameters_of(action):
    return PARAMETERS.like(MODEL.operation_model(action).input_shape)


@pytest.mark.parametrize("action", ACTIONS)
def test_no_call_in_json_fails_the_server(wire, subscription, action):
    @settings(max_examples=EXAMPLES)
    @given(parameters_of(action))
    def ask_it(parameters):
        body = json.dumps(parameters).replace(SUBSCRIPTION, subscription).encode()
        ask(wire, body, {**JSON, "X-Amz-Target": f"AmazonSNS.{action}"})

    ask_it()


@pytest.mark.parametrize("action", ACTIONS)
def test_no_call_in_a_form_fails_the_server(wire, subscription, action):
    @settings(max_examples=EXAMPLES)
    @given(parameters_of(action))
    def ask_it(parameters):
        pairs = [("Action", action), ("Version", "2010-03-31"), *form_or_flat(action, parameters)]
        body = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs)
        ask(wire, body.replace(quote_plus(SUBSCRIPTION), quote_plus(subscription)).encode(), FORM)

    ask_it()


def form_or_flat(action, parameters):
    serializer = create_serializer("query", include_validation=False)
    try:
        written = serializer.serialize_to_request(parameters, MODEL.operation_model(action))["body"]
    except Exception:  # noqa: BLE001 (an SDK can't write it, whatever it says)
        return flat("", parameters)
    return [(name, str(value)) for name, value in written.items() if name not in ("Action", "Version")]


@pytest.mark.parametrize("action", sorted(UNSUPPORTED))
def test_no_call_that_is_not_supported_fails_the_server(wire, action):
    in_json = ask(wire, b"{}", {**JSON, "X-Amz-Target": f"AmazonSNS.{action}"})
    in_a_form = ask(wire, f"Action={action}&Version=2010-03-31&x.1=y".encode(), FORM)

    assert b"UnsupportedOperation" in in_json
    assert b"<Code>UnsupportedOperation</Code>" in in_a_form


LINK_PARTS = st.sampled_from(
    ["&", "TopicArn=", "SubscriptionArn=", "Token=", *TOPICS,
     "0" * 96, "%00", "%C3", "=", "é", "\u0660" * 32, f"{TOPICS[0]}:", "00000000-0000-4000-a000-000000000000"]
)  # fmt: skip


@settings(max_examples=200)
@given(st.sampled_from(["ConfirmSubscription", "Unsubscribe"]), st.lists(LINK_PARTS).map("".join))
def test_no_link_fails_the_server(wire, action, parameters):
    wire.request("GET", f"/?Action={action}&{quote(parameters, safe='=&%:')}")
    response = wire.getresponse()
    response.read()

    assert response.status < 500
