"""Random requests to every action of SQS in either protocol: all are answered, and none with a server error."""

import http.client
import json
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.http.dialects.aws import fuzzing
from tests.http.dialects.aws.fuzzing import Fuzz, flat
from tests.http.dialects.aws.sqs_wires import ACTIONS, AUTHORIZATION, MODEL, form, handle_of_nobody, queue_named

EXAMPLES = 25
URLS = ["http://h/000000000000/fuzz", "http://h/000000000000/fuzz.fifo", "fuzz", "http://h/1/nope", "a:b", "", "//["]
ARNS = [f"arn:aws:sqs:us-east-1:000000000000:{name}" for name in ("fuzz", "fuzz.fifo", "fuzz-dead")]
HANDLES = [handle_of_nobody("fuzz"), handle_of_nobody("fuzz.fifo")]
TEXTS = st.one_of(
    st.sampled_from(
        [
            *URLS, *ARNS, "x", "All", "true", "FifoQueue", "RedrivePolicy", "VisibilityTimeout", "String", "Binary",
            "Number", "AWSTraceHeader", "{}", "[]", "null", "1e999", '{"redrivePermission":"byQueue"}', "[" * 100_000,
            '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:0:x","maxReceiveCount":"9"}', *HANDLES, "AAAA", "=",
            "e30=", "bnVsbA==", "9" * 5_000, "-1", "\x00", "﷐", "￿", "𐀀", "\u2028", "x" * 300,
        ]
    ),
    st.text(max_size=20),
)  # fmt: skip
ATTRIBUTES = st.sampled_from(
    [
        {}, {"DataType": "String"}, {"DataType": "String", "StringValue": ""},
        {"DataType": "String", "StringValue": "x"},
        {"DataType": "Binary", "BinaryValue": "x"}, {"DataType": "Binary", "BinaryValue": "AAAA"},
        {"DataType": "Binary", "StringValue": "x"}, {"DataType": "String", "BinaryValue": "AAAA"},
        {"DataType": "Number", "StringValue": "1"}, {"DataType": "Number", "StringValue": "1e" + "9" * 30},
        {"DataType": "String.\ufffe", "StringValue": "x"}, {"DataType": 7, "StringValue": None},
    ]
)  # fmt: skip
"""Attributes, good and bad, and headers of other dialects that resemble attributes."""

RIGHT = {
    # Without these a call ends before it has begun.
    "QueueUrl": st.sampled_from(URLS[:3]),
    "QueueName": st.sampled_from(["fuzz", "fuzz.fifo", "fuzz-dead"]),
    "SourceArn": st.sampled_from(ARNS),
    "Id": st.sampled_from("abcdefghijklmnopqrstuvwxyz"),
    "MessageBody": st.sampled_from(["x", "{}", "é"]),
    "MessageGroupId": st.sampled_from(["g", "h"]),
    "ReceiptHandle": st.sampled_from(HANDLES),
    "DataType": st.sampled_from(["String", "Number", "Binary", "String.x"]),
    "MessageSystemAttributes": st.dictionaries(st.just("AWSTraceHeader"), ATTRIBUTES),
}


PARAMETERS = Fuzz(TEXTS, RIGHT)


@pytest.fixture(scope="module")
def wire(shared_server):
    """Yield one connection, on which all requests are sent."""
    connection = http.client.HTTPConnection(shared_server.host, shared_server.port, timeout=30)
    yield connection
    connection.close()


@pytest.fixture(autouse=True)
def queues(shared_server):
    """Make queues to send requests to, anew for each test."""
    with (
        queue_named(shared_server, "fuzz-dead"),
        queue_named(shared_server, "fuzz"),
        queue_named(shared_server, "fuzz.fifo", FifoQueue="true"),
    ):
        yield


def ask(connection, body, headers, path="/", method="POST"):
    return fuzzing.ask(connection, body, {"Authorization": AUTHORIZATION, **headers}, path, method)


def parameters_of(action: str) -> st.SearchStrategy[dict[str, Any]]:
    drawn = PARAMETERS.like(MODEL.operation_model(action).input_shape)
    # To wait is right, and takes long.
    return drawn.map(lambda given: {name: value for name, value in given.items() if name != "WaitTimeSeconds"})


@pytest.mark.parametrize("action", ACTIONS)
def test_no_call_in_json_fails_the_server(wire, action):
    @settings(max_examples=EXAMPLES)
    @given(parameters_of(action))
    def ask_it(parameters):
        body = json.dumps(parameters).encode()
        ask(wire, body, {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"})

    ask_it()


@pytest.mark.parametrize("action", ACTIONS)
def test_no_call_in_a_form_fails_the_server(wire, action):
    @settings(max_examples=EXAMPLES)
    @given(parameters_of(action))
    def ask_it(parameters):
        pairs = flat("", parameters) if action in MIXED else form_or_flat(action, parameters)
        body = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in [("Action", action), *pairs])
        ask(wire, body.encode(), {"Content-Type": "application/x-www-form-urlencoded"})

    ask_it()


MIXED = {"CreateQueue", "SendMessageBatch"}
"""Actions whose parameters are also written in a form that no SDK writes."""


def form_or_flat(action, parameters):
    try:
        return [(name, str(value)) for name, value in form(action, parameters).items() if name != "Action"]
    except Exception:  # noqa: BLE001 (an SDK can't write it, whatever it says)
        return flat("", parameters)


HEADERS = st.dictionaries(
    st.one_of(st.sampled_from(["a", "_n", "_aws_trace", "aws:AWSTraceHeader", "_event"]), st.text(max_size=5)),
    st.one_of(ATTRIBUTES, PARAMETERS.anything),
    max_size=12,
)


@settings(max_examples=200)
@given(HEADERS)
def test_no_headers_of_other_dialects_fail_a_receive(wire, headers):
    body = json.dumps({"payload": "x", "headers": headers}).encode()
    wire.request("POST", "/queues/fuzz/messages", body, {"Content-Type": "application/json"})
    sent = wire.getresponse()
    sent.read()
    asked = {"QueueUrl": "fuzz", "MaxNumberOfMessages": 10, "VisibilityTimeout": 43_200}
    all_of_it = {"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}
    kind = {"X-Amz-Target": "AmazonSQS.ReceiveMessage", "Content-Type": "application/x-amz-json-1.0"}

    answer = ask(wire, json.dumps(asked | all_of_it).encode(), kind)

    assert ("Messages" in json.loads(answer)) == (sent.status < 300)


ODD_BODIES = st.one_of(st.binary(max_size=60), TEXTS.map(str.encode))
FORM_PARTS = st.sampled_from(
    [b"Action=", b"SendMessage", b"&", b"=", b"%", b"%00", b"Attribute.", b"1.", b"Name", b"+", b"Entries"]
)
QUERY_PARTS = st.sampled_from(["Action=", *ACTIONS, "&", "QueueUrl=", "x", "%C3", "X-Amz-Credential=", "/"])
CREDENTIALS = st.sampled_from(
    [
        b"AWS4-HMAC-SHA256", b"AWS4-HMAC-SHA256 Credential=", b"AWS4-HMAC-SHA256 Credential=a/b/c/d/e", b"Bearer x",
        b"AWS4-HMAC-SHA256 Credential=a/20260101/../../x/sqs/aws4_request",
        b"AWS4-HMAC-SHA256 Credential=a/20260101/eu-west-1/sqs/aws4_request",
        b"AWS4-HMAC-SHA256 Credential=a/1/\xff/sqs/aws4_request",
    ]
)  # fmt: skip


@settings(max_examples=200)
@given(action=st.sampled_from([*ACTIONS, "", "Foo", "é"]), body=ODD_BODIES)
def test_no_bytes_in_json_fail_the_server(wire, action, body):
    target = f"AmazonSQS.{action}".encode()
    ask(wire, body, {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"})


@settings(max_examples=200)
@given(
    body=st.one_of(st.binary(max_size=60), st.lists(FORM_PARTS).map(b"".join)),
    kind=st.sampled_from(["application/x-www-form-urlencoded", "text/xml", "", "application/x-amz-json-1.1"]),
)
def test_no_bytes_in_a_form_fail_the_server(wire, body, kind):
    ask(wire, body, {"Content-Type": kind})


@settings(max_examples=100)
@given(query=st.lists(QUERY_PARTS).map("".join))
def test_no_query_string_fails_the_server(wire, query):
    ask(wire, None, {}, f"/000000000000/fuzz?{query}", "GET")


@settings(max_examples=100)
@given(st.one_of(st.binary(max_size=40), CREDENTIALS))
def test_no_authorization_fails_the_server(wire, authorization):
    without_breaks = bytes(byte for byte in authorization if byte not in b"\r\n\x00")
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "Content-Type": "application/x-amz-json-1.0"}

    wire.request("POST", "/", b"{}", {**headers, "Authorization": without_breaks})
    response = wire.getresponse()
    response.read()

    assert response.status < 500
