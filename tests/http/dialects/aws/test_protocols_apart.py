"""SQS's two protocols told apart, and each one's errors in its own form."""

from xml.etree import ElementTree as ET

import pytest

from tests.http.dialects.aws.sqs_wires import answer_to, raw, raw_form, read_query


@pytest.mark.parametrize("written", ["Application/X-WWW-Form-URLEncoded", "APPLICATION/X-WWW-FORM-URLENCODED; a=b"])
def test_the_type_of_a_form_may_be_written_in_capitals(shared_server, written):
    answer = answer_to(shared_server, raw("POST", "/", b"Action=ListQueues", **{"Content-Type": written}))

    assert answer.status == 200
    assert "ListQueuesResponse" in ET.fromstring(answer.body).tag


def test_the_type_of_json_may_be_written_in_capitals(shared_server):
    headers = {"Content-Type": "Application/X-AMZ-JSON-1.0"}

    answer = answer_to(shared_server, raw("POST", "/", b"{}", authorization=None, **headers))

    assert answer.status == 403
    assert answer.headers["content-type"] == "application/x-amz-json-1.0"
    assert answer.json["__type"] == "com.amazonaws.sqs#MissingAuthenticationToken"


def test_a_refusal_shows_what_was_sent_as_xml_can_hold_it(shared_server):
    answer = answer_to(shared_server, raw_form(b"Action=two%0Alines%0D%01%3C%22%26"))

    error = read_query("ListQueues", answer)["Error"]
    assert error["Message"] == 'The action two\nlines\r\ufffd<"& is not valid for this endpoint.'


def test_an_unknown_queue_is_told_of_in_the_words_of_each_protocol(shared_server):
    target = {"X-Amz-Target": "AmazonSQS.ListQueueTags", "Content-Type": "application/x-amz-json-1.0"}

    told = answer_to(shared_server, raw("POST", "/", b'{"QueueUrl":"nowhere"}', **target))
    written = answer_to(shared_server, raw_form(b"Action=ListQueueTags&QueueUrl=nowhere"))

    assert told.json["message"] == "The specified queue does not exist."
    message = "The specified queue does not exist for this wsdl version."
    assert read_query("ListQueueTags", written)["Error"]["Message"] == message


@pytest.mark.parametrize(
    ("action", "name"), [("Subscribe&TopicArn=a", "protocol"), ("ListSubscriptionsByTopic", "topicArn")]
)
def test_sns_names_the_parameter_that_is_missing(shared_server, action, name):
    answer = answer_to(shared_server, raw_form(f"Action={action}&Version=2010-03-31".encode()))

    assert f"Value null at '{name}' failed to satisfy constraint".encode() in answer.body
