"""SNS by the bytes: the Query protocol as SDKs write it, JSON 1.0, and authentication."""

import json
import re
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from sqew.http.dialects.aws.sns import SNS
from tests.http.dialects.aws.pointed import client
from tests.support.serving import serving

SIGNED = "AWS4-HMAC-SHA256 Credential=x/20261115/us-east-1/sns/aws4_request, SignedHeaders=host, Signature=00"
FUZZ = "arn:aws:sns:us-east-1:000000000000:fuzz"
NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"


def query(server, **fields):
    """Make a call in the Query protocol. ``__`` stands for a dot."""
    form = {name.replace("__", "."): value for name, value in fields.items()}
    headers = {"Authorization": SIGNED, "Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    return server.call("POST", "/", urlencode(form).encode(), headers)


def json_call(server, action, body):
    headers = {
        "Authorization": SIGNED,
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSNS.{action}",
    }
    return server.call("POST", "/", json.dumps(body).encode(), headers)


def read(answer):
    """Return the name of an answer's root element, and its strings by the names of their elements."""
    root = ET.fromstring(answer.body)
    assert root.tag.startswith(f"{{{NAMESPACE}}}")
    texts = {element.tag.partition("}")[2]: element.text for element in root.iter() if not len(element)}
    return root.tag.partition("}")[2], texts


def test_create_topic_by_the_bytes(shared_server, name):
    answer = query(
        shared_server, Action="CreateTopic", Version="2010-03-31", Name=name, Attributes__entry__1__key="DisplayName",
        Attributes__entry__1__value="a < b & c", Tags__member__1__Key="k", Tags__member__1__Value="v",
    )  # fmt: skip

    id = answer.headers["x-amzn-requestid"]
    assert (answer.status, answer.headers["content-type"]) == (200, "text/xml")
    assert answer.body.decode() == (
        f'<?xml version="1.0"?><CreateTopicResponse xmlns="{NAMESPACE}"><CreateTopicResult>'
        f"<TopicArn>arn:aws:sns:us-east-1:000000000000:{name}</TopicArn></CreateTopicResult>"
        f"<ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></CreateTopicResponse>"
    )


def test_maps_and_lists_by_the_bytes(shared_server, sns, topic):
    sns.set_topic_attributes(TopicArn=topic, AttributeName="DisplayName", AttributeValue="a < b & c")
    sns.tag_resource(ResourceArn=topic, Tags=[{"Key": "k", "Value": "v"}])

    attributes = query(shared_server, Action="GetTopicAttributes", TopicArn=topic).body
    tags = query(shared_server, Action="ListTagsForResource", ResourceArn=topic).body

    assert b"<Attributes><entry><key>TopicArn</key><value>" in attributes
    assert b"<entry><key>DisplayName</key><value>a &lt; b &amp; c</value></entry>" in attributes
    assert b"<Tags><member><Key>k</Key><Value>v</Value></member></Tags>" in tags


def test_publish_by_the_bytes(shared_server, topic):
    answer = query(
        shared_server, Action="Publish", TopicArn=topic, Message="hello", MessageAttributes__entry__1__Name="shop",
        MessageAttributes__entry__1__Value__DataType="String", MessageAttributes__entry__1__Value__StringValue="eu",
    )  # fmt: skip

    root, texts = read(answer)
    assert root == "PublishResponse"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", texts["MessageId"])


def test_an_error_by_the_bytes(shared_server):
    answer = query(shared_server, Action="GetTopicAttributes", TopicArn="arn:aws:sns:us-east-1:000000000000:nowhere")

    id = answer.headers["x-amzn-requestid"]
    assert answer.status == 404
    assert answer.body.decode() == (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}"><Error><Type>Sender</Type><Code>NotFound</Code>'
        f"<Message>Topic does not exist</Message><Detail/></Error><RequestId>{id}</RequestId></ErrorResponse>"
    )


def test_a_parameter_that_is_missing_is_named(shared_server):
    root, texts = read(query(shared_server, Action="Subscribe", Protocol="sqs"))

    assert root == "ErrorResponse"
    assert (texts["Code"], texts["Message"]) == (
        "ValidationError",
        "1 validation error detected: Value null at 'topicArn' failed to satisfy constraint: Member must not be null",
    )


def test_an_action_that_both_services_have_goes_to_the_one_that_is_meant(shared_server, sns, sqs, topic, queue):
    fields = {"Action": "AddPermission", "Label": "friends"}

    of_topic = query(
        shared_server, **fields, Version="2010-03-31", TopicArn=topic, AWSAccountId__member__1="111111111111",
        ActionName__member__1="Publish",
    )  # fmt: skip
    of_queue = query(
        shared_server, **fields, Version="2012-11-05", QueueUrl=queue, AWSAccountId__1="111111111111",
        ActionName__1="SendMessage",
    )  # fmt: skip

    assert (of_topic.status, of_queue.status) == (200, 200)
    assert '"friends"' in sns.get_topic_attributes(TopicArn=topic)["Attributes"]["Policy"]
    policy = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])["Attributes"]["Policy"]
    assert '"friends"' in policy


def test_json_is_spoken_too(shared_server, topic):
    published = json_call(shared_server, "Publish", {"TopicArn": topic, "Message": "hello"})
    shown = json_call(shared_server, "GetTopicAttributes", {"TopicArn": topic})
    failed = json_call(shared_server, "GetTopicAttributes", {"TopicArn": f"{topic}-not"})

    assert published.status == 200
    assert set(published.json) == {"MessageId"}
    assert shown.json["Attributes"]["TopicArn"] == topic
    assert (failed.status, failed.json["__type"]) == (404, "com.amazonaws.sns#NotFoundException")
    assert failed.headers["x-amzn-query-error"] == "NotFound;Sender"


def test_who_has_not_signed_is_refused(shared_server):
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    answer = shared_server.call("POST", "/", b"Action=ListTopics&Version=2010-03-31", form)

    assert answer.status == 403
    assert b"<Code>MissingAuthenticationToken</Code>" in answer.body


def test_credentials_are_checked_where_there_are_some(tmp_path):
    with serving(tmp_path, "--aws-credentials", "friend:secret") as server:
        with client(server, "sns", aws_access_key_id="friend", aws_secret_access_key="secret") as sns:
            topic = sns.create_topic(Name="orders")["TopicArn"]
        with (
            client(server, "sns", aws_access_key_id="friend", aws_secret_access_key="guessed") as sns,
            pytest.raises(ClientError) as caught,
        ):
            sns.delete_topic(TopicArn=topic)

        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
        assert server.call("GET", f"/?Action=Unsubscribe&SubscriptionArn={topic}:x").status == 400
        assert server.call("GET", f"/?Action=DeleteTopic&TopicArn={topic}").status == 403


def test_a_presigned_url_does_what_it_was_made_for_and_nothing_else(tmp_path):
    with serving(tmp_path, "--aws-credentials", "friend:secret") as server:
        with client(server, "sns", aws_access_key_id="friend", aws_secret_access_key="secret") as sns:
            topic = sns.create_topic(Name="orders")["TopicArn"]
            url = sns.generate_presigned_url("get_topic_attributes", {"TopicArn": topic}, HttpMethod="GET")
        path = url.removeprefix(server.url)

        assert read(server.call("GET", path))[0] == "GetTopicAttributesResponse"
        assert server.call("GET", path.replace("orders", "others")).status == 403
        assert server.call("GET", path.replace("GetTopicAttributes", "DeleteTopic")).status == 403


def test_the_bare_address_leads_to_the_documentation(shared_server):
    answer = shared_server.call("GET", "/")

    assert (answer.status, answer.headers["location"]) == (307, "/docs")


TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["true", "null", "{}", "[", '{"a":["b"]}', "sqs", "http", "json", "http://127.0.0.1/", "FilterPolicy", "All",
         FUZZ, "arn:aws:sns:us-east-1:000000000000:fuzz.fifo",
         "arn:aws:sqs:us-east-1:000000000000:fuzz", f"{FUZZ}:x"]
    ),
)  # fmt: skip
PARAMETERS = st.sampled_from(
    sorted({field for action in SNS.actions.values() for field in action.shape.__struct_fields__} | {"X"})
)
SUFFIXES = st.sampled_from(
    ["", "", "", ".1", ".member.1", ".entry.1.key", ".entry.1.value", ".entry.1.Name", ".entry.1.Value.DataType",
     ".entry.1.Value.StringValue", ".member.1.Id", ".member.1.Message", ".member.1.Key", ".member.x", ".entry", "."]
)  # fmt: skip
ACTIONS = st.sampled_from(sorted(SNS.actions))


@settings(max_examples=200)
@given(ACTIONS, st.dictionaries(st.tuples(PARAMETERS, SUFFIXES).map("".join), TEXTS, max_size=6))
def test_no_form_is_too_odd_to_be_answered(shared_server, action, fields):
    query(shared_server, Action="CreateTopic", Name="fuzz")

    answer = query(shared_server, **{"TopicArn": FUZZ, **fields, "Action": action, "Version": "2010-03-31"})

    assert answer.status < 500, answer.body
    read(answer)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(PARAMETERS | TEXTS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200)
@given(ACTIONS, st.dictionaries(PARAMETERS, VALUES, max_size=6) | VALUES)
def test_no_json_is_too_odd_to_be_answered(shared_server, action, body):
    query(shared_server, Action="CreateTopic", Name="fuzz")

    answer = json_call(shared_server, action, {"TopicArn": FUZZ, **body} if isinstance(body, dict) else body)

    assert answer.status < 500, answer.body
    assert answer.body == b"" or isinstance(answer.json, dict)
