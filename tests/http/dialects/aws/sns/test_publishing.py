"""Publishing to queues, as boto3 sees it."""

import json
import re

import pytest

from sqew.client import EnvelopeVerifier
from tests.http.dialects.aws.sns.topics import bodies, envelopes, queue_arn, received, refused, subscribed

MOST = 262_144
SIGNED = "AWS4-HMAC-SHA256 Credential=x/20261115/us-east-1/sns/aws4_request, SignedHeaders=host, Signature=00"


def text(value):
    return {"DataType": "String", "StringValue": value}


def test_a_queue_gets_a_signed_envelope(shared_server, sns, sqs, topic, queue):
    subscription = subscribed(sns, topic, queue)

    published = sns.publish(TopicArn=topic, Message="größer — 好 🎉\n", Subject="News")

    [message] = received(sqs, queue)
    envelope = json.loads(message["Body"])
    assert (envelope["Type"], envelope["TopicArn"], envelope["MessageId"]) == (
        "Notification", topic, published["MessageId"],
    )  # fmt: skip
    assert (envelope["Message"], envelope["Subject"]) == ("größer — 好 🎉\n", "News")
    assert envelope["UnsubscribeURL"] == f"{shared_server.url}/?Action=Unsubscribe&SubscriptionArn={subscription}"
    assert "MessageAttributes" not in envelope
    assert "MessageAttributes" not in message
    notice = EnvelopeVerifier(cert_hosts=[f"127.0.0.1:{shared_server.port}"], allow_http=True).verify(message["Body"])
    assert (notice.message, notice.subject, notice.topic_arn) == ("größer — 好 🎉\n", "News", topic)


@pytest.mark.parametrize("subject", ["Übersicht", "好" * 100, " first a space", "🎉"])
def test_a_subject_is_any_text_of_one_line(shared_server, sns, sqs, topic, queue, subject):
    subscribed(sns, topic, queue)

    sns.publish(TopicArn=topic, Message="x", Subject=subject)

    [message] = received(sqs, queue)
    verifier = EnvelopeVerifier(cert_hosts=[f"127.0.0.1:{shared_server.port}"], allow_http=True)
    assert verifier.verify(message["Body"]).subject == subject


def test_an_envelope_holds_the_attributes_of_the_message(sns, sqs, topic, queue):
    subscribed(sns, topic, queue)

    sns.publish(
        TopicArn=topic,
        Message="x",
        MessageAttributes={
            "shop": text("eu"),
            "size": {"DataType": "Number", "StringValue": "5"},
            "colours": {"DataType": "String.Array", "StringValue": '["red"]'},
            "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        },
    )

    [envelope] = envelopes(sqs, queue)
    assert envelope["MessageAttributes"] == {
        "shop": {"Type": "String", "Value": "eu"},
        "size": {"Type": "Number", "Value": "5"},
        "colours": {"Type": "String.Array", "Value": '["red"]'},
        "raw": {"Type": "Binary", "Value": "AP8="},
    }


def test_a_raw_message_has_its_attributes_beside_it(sns, sqs, topic, queue):
    subscribed(sns, topic, queue, RawMessageDelivery="true")
    attributes = {
        "shop": text("eu"),
        "size": {"DataType": "Number.int", "StringValue": "5"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }

    sns.publish(TopicArn=topic, Message='{"sku": 7}', Subject="not seen", MessageAttributes=attributes)

    [message] = received(sqs, queue)
    assert message["Body"] == '{"sku": 7}'
    assert message["MessageAttributes"] == attributes


def test_every_subscriber_is_told_how_to_leave_by_a_link_of_its_own(shared_server, sns, sqs, topic, queue, name):
    other = sqs.create_queue(QueueName=f"{name[:70]}-b")["QueueUrl"]
    subscribed(sns, topic, queue)
    subscribed(sns, topic, other)
    sns.publish(TopicArn=topic, Message="first")
    [envelope] = envelopes(sqs, queue)
    path = envelope["UnsubscribeURL"].removeprefix(shared_server.url)

    unsigned = shared_server.call("GET", path)
    sns.publish(TopicArn=topic, Message="second")
    signed = shared_server.call("GET", path, headers={"Authorization": SIGNED})
    sns.publish(TopicArn=topic, Message="third")

    # A queue can't follow links: as in AWS, nobody ends its subscription who has not signed.
    assert (unsigned.status, signed.status) == (403, 200)
    assert [envelope["Message"] for envelope in envelopes(sqs, queue)] == ["second"]
    assert [envelope["Message"] for envelope in envelopes(sqs, other)] == ["first", "second", "third"]


def test_a_message_may_say_something_else_to_each_protocol(sns, sqs, topic, queue):
    subscribed(sns, topic, queue)

    for said in ({"default": "to all"}, {"default": "to all", "sqs": "to queues", "email": "to people"}):
        sns.publish(TopicArn=topic, Message=json.dumps(said), MessageStructure="json")

    assert [envelope["Message"] for envelope in envelopes(sqs, queue)] == ["to all", "to queues"]


def test_a_topic_may_be_named_as_the_target(sns, sqs, topic, queue):
    subscribed(sns, topic, queue, RawMessageDelivery="true")

    sns.publish(TargetArn=topic, Message="x")

    assert bodies(sqs, queue) == ["x"]


def test_nobody_need_listen(sns, topic):
    assert sns.publish(TopicArn=topic, Message="x")["MessageId"]


def test_a_message_of_the_largest_size_arrives_and_one_byte_more_is_refused(sns, sqs, topic, queue):
    subscribed(sns, topic, queue, RawMessageDelivery="true")

    sns.publish(TopicArn=topic, Message="x" * (MOST - 10), MessageAttributes={"a": text("bcd")})

    assert [len(body) for body in bodies(sqs, queue)] == [MOST - 10]
    with refused("InvalidParameter", "Invalid parameter: Message too long"):
        sns.publish(TopicArn=topic, Message="x" * (MOST - 9), MessageAttributes={"a": text("bcd")})


def test_a_queue_that_was_deleted_does_not_stop_the_others(sns, sqs, topic, queue, name):
    gone = sqs.create_queue(QueueName=f"{name[:70]}-gone")["QueueUrl"]
    subscribed(sns, topic, gone)
    subscribed(sns, topic, queue, RawMessageDelivery="true")
    sqs.delete_queue(QueueUrl=gone)

    sns.publish(TopicArn=topic, Message="x")

    assert bodies(sqs, queue) == ["x"]


def test_what_a_deleted_queue_would_have_got_goes_to_the_dead_letters_of_its_subscription(sns, sqs, topic, queue, name):
    gone = sqs.create_queue(QueueName=f"{name[:70]}-gone")["QueueUrl"]
    letters = f'{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:{queue.rpartition("/")[2]}"}}'
    subscribed(sns, topic, gone, RawMessageDelivery="true", RedrivePolicy=letters)
    sqs.delete_queue(QueueUrl=gone)

    sns.publish(TopicArn=topic, Message="x")

    assert bodies(sqs, queue) == ["x"]


def narrow(sqs, name):
    """Return the URL of a queue that takes only small messages."""
    return sqs.create_queue(QueueName=f"{name[:70]}-narrow", Attributes={"MaximumMessageSize": "1024"})["QueueUrl"]


def test_a_queue_that_refuses_does_not_stop_the_others(shared_server, sns, sqs, topic, queue, name):
    small = narrow(sqs, name)
    subscribed(sns, topic, small)
    subscribed(sns, topic, queue)
    before = refusals(shared_server)

    sns.publish(TopicArn=topic, Message="x" * 1024)

    assert [len(envelope["Message"]) for envelope in envelopes(sqs, queue)] == [1024]
    assert bodies(sqs, small) == []
    assert refusals(shared_server) == before + 1


def refusals(server):
    found = re.search(rb'http_errors_total\{code="too_large"\} (\d+)', server.call("GET", "/metrics").body)
    return int(found[1]) if found else 0


def test_what_a_queue_refuses_goes_to_the_dead_letters_of_its_subscription(sns, sqs, topic, queue, name):
    small = narrow(sqs, name)
    letters = json.dumps({"deadLetterTargetArn": queue_arn(queue)})
    subscribed(sns, topic, small, RawMessageDelivery="true", RedrivePolicy=letters)

    answer = sns.publish_batch(
        TopicArn=topic,
        PublishBatchRequestEntries=[
            {"Id": "small", "Message": "1", "MessageAttributes": {"a": text("b")}},
            {"Id": "large", "Message": "x" * 1025, "MessageAttributes": {"a": text("b")}},
        ],
    )

    [letter] = received(sqs, queue)
    told = {name: value["StringValue"] for name, value in letter["MessageAttributes"].items()}
    assert [one["Id"] for one in answer["Successful"]] == ["small", "large"]
    assert bodies(sqs, small) == ["1"]
    assert len(letter["Body"]) == 1025
    assert (told["a"], told["RequestID"], told["ErrorCode"]) == ("b", answer["Successful"][1]["MessageId"], "400")
    assert "takes 1024" in told["ErrorMessage"]


def test_a_raw_message_of_many_attributes_is_a_dead_letter_and_in_an_envelope_it_arrives(sns, sqs, topic, queue, name):
    letters, enveloped = (sqs.create_queue(QueueName=f"{name[:70]}-{n}")["QueueUrl"] for n in range(2))
    redrive = json.dumps({"deadLetterTargetArn": queue_arn(letters)})
    subscribed(sns, topic, queue, RawMessageDelivery="true", RedrivePolicy=redrive)
    subscribed(sns, topic, enveloped)
    many = {f"a{n}": text("x") for n in range(11)}

    sns.publish(TopicArn=topic, Message="ten", MessageAttributes={n: many[n] for n in list(many)[:10]})
    sns.publish(TopicArn=topic, Message="eleven", MessageAttributes=many)

    assert bodies(sqs, queue) == ["ten"]
    assert [len(one["MessageAttributes"]) for one in envelopes(sqs, enveloped)] == [10, 11]
    [letter] = received(sqs, letters)
    assert letter["Body"] == "eleven"
    assert "has 11 attributes" in letter["MessageAttributes"]["ErrorMessage"]["StringValue"]


# What is refused


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"Message": ""}, "Invalid parameter: Empty message"),
        ({"Subject": "two\nlines"}, "Invalid parameter: Subject"),
        ({"Subject": "x" * 101}, "Invalid parameter: Subject"),
        ({"Subject": ""}, "Invalid parameter: Subject"),
        ({"Subject": "bell \a"}, "Invalid parameter: Subject"),
        ({"Subject": "two\u2028lines"}, "Invalid parameter: Subject"),
        ({"TargetArn": "arn:aws:sns:us-east-1:000000000000:another"},
         "Invalid parameter: TargetArn Reason: it names another topic than TopicArn. Give one of them"),
        ({"Message": "{", "MessageStructure": "json"},
         "Invalid parameter: Message Structure - JSON message body failed to parse"),
        ({"Message": '{"sqs":"x"}', "MessageStructure": "json"},
         "Invalid parameter: Message Structure - No default entry in JSON message body"),
        ({"MessageStructure": "yaml"}, "Invalid parameter: MessageStructure"),
        ({"MessageDeduplicationId": "1"},
         ("Invalid parameter: MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter "
         "that is not valid for this topic type")),
        ({"Message": "\x00"}, "Invalid parameter: Message Reason: it holds characters that can't stand in XML"),
    ],
)  # fmt: skip
def test_what_can_not_be_published_is_refused(sns, topic, fields, message):
    with refused("InvalidParameter", message):
        sns.publish(**{"TopicArn": topic, "Message": "x", **fields})


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (text(""), "The message attribute 'a' must contain non-empty message attribute value."),
        ({"DataType": "Colour", "StringValue": "red"},
         ("The message attribute 'a' has an invalid message attribute type, "
         "the set of supported type prefixes is Binary, Number, and String.")),
        ({"DataType": "Number", "StringValue": "five"}, "Could not cast message attribute 'a' value to number."),
        ({"DataType": "Binary", "StringValue": "x"},
         "The message attribute 'a' with type 'Binary' must use field 'Binary'."),
        ({"DataType": "String", "BinaryValue": b"x"},
         "The message attribute 'a' with type 'String' must use field 'String'."),
        ({"DataType": "Number", "StringValue": "1e999"}, "Could not cast message attribute 'a' value to number."),
        (text("\x01"), "The value of the message attribute 'a' holds characters that can't stand in XML."),
    ],
)  # fmt: skip
def test_an_attribute_that_can_not_be_is_refused(sns, topic, attribute, message):
    with refused("ParameterValueInvalid", message):
        sns.publish(TopicArn=topic, Message="x", MessageAttributes={"a": attribute})


@pytest.mark.parametrize("reserved", ["AWS.a", "aws.a", "Amazon.a"])
def test_no_attribute_is_called_as_those_of_aws_are(sns, topic, reserved):
    message = f"The message attribute name '{reserved}' is not valid: AWS keeps those in AWS. and Amazon."
    with refused("ParameterValueInvalid", message):
        sns.publish(TopicArn=topic, Message="x", MessageAttributes={reserved: text("x")})


def test_nothing_is_published_to_a_topic_that_is_not_there(sns, topic):
    for publish in (
        lambda: sns.publish(TopicArn=f"{topic}-not", Message="x"),
        lambda: sns.publish_batch(TopicArn=f"{topic}-not", PublishBatchRequestEntries=[{"Id": "1", "Message": "x"}]),
    ):
        with refused("NotFound", "Topic does not exist", 404):
            publish()


def test_nothing_is_published_to_nobody_and_to_no_telephone(sns):
    with refused(
        "InvalidParameter", "Invalid parameter: TopicArn or TargetArn Reason: no value for required parameter"
    ):
        sns.publish(Message="x")
    with refused(
        "InvalidParameter", "Invalid parameter: PhoneNumber Reason: SMS is not supported here. Publish to a topic"
    ):
        sns.publish(PhoneNumber="+4930123456", Message="x")


# Batches


def test_a_batch_answers_for_each_of_its_entries(sns, sqs, topic, queue):
    subscribed(sns, topic, queue)

    answer = sns.publish_batch(
        TopicArn=topic,
        PublishBatchRequestEntries=[
            {"Id": "one", "Message": "1", "Subject": "first", "MessageAttributes": {"a": text("b")}},
            {"Id": "two", "Message": "2", "Subject": "two\nlines"},
            {"Id": "three", "Message": json.dumps({"default": "3"}), "MessageStructure": "json"},
        ],
    )

    assert [one["Id"] for one in answer["Successful"]] == ["one", "three"]
    [failed] = answer["Failed"]
    assert failed == {
        "Id": "two", "Code": "InvalidParameter", "Message": "Invalid parameter: Subject", "SenderFault": True,
    }  # fmt: skip
    got = envelopes(sqs, queue)
    assert [(one["Message"], one["MessageId"]) for one in got] == [
        ("1", answer["Successful"][0]["MessageId"]), ("3", answer["Successful"][1]["MessageId"]),
    ]  # fmt: skip
    assert got[0]["MessageAttributes"] == {"a": {"Type": "String", "Value": "b"}}


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"Message": ""}, "InvalidParameter", "Invalid parameter: Empty message"),
        ({"Message": "\x00"}, "InvalidParameter",
         "Invalid parameter: Message Reason: it holds characters that can't stand in XML"),
        ({"Message": "{}", "MessageStructure": "json"}, "InvalidParameter",
         "Invalid parameter: Message Structure - No default entry in JSON message body"),
        ({"Message": "x", "MessageStructure": "xml"}, "InvalidParameter", "Invalid parameter: MessageStructure"),
        ({"Message": "x", "MessageDeduplicationId": "d"}, "InvalidParameter",
         ("Invalid parameter: MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter "
          "that is not valid for this topic type")),
        ({"Message": "x", "MessageAttributes": {"a": {"DataType": "Number", "StringValue": "many"}}},
         "ParameterValueInvalid", "Could not cast message attribute 'a' value to number."),
    ],
    ids=["empty", "illegal", "no default", "structure", "deduplication", "attribute"],
)  # fmt: skip
def test_an_entry_that_can_not_be_fails_alone(sns, sqs, topic, queue, fields, code, message):
    subscribed(sns, topic, queue, RawMessageDelivery="true")
    good = [{"Id": id, "Message": id} for id in ("before", "after")]

    answer = sns.publish_batch(
        TopicArn=topic, PublishBatchRequestEntries=[good[0], {"Id": "bad", **fields}, good[1]]
    )  # fmt: skip

    assert [one["Id"] for one in answer["Successful"]] == ["before", "after"]
    assert answer["Failed"] == [{"Id": "bad", "Code": code, "Message": message, "SenderFault": True}]
    assert bodies(sqs, queue) == ["before", "after"]


def test_a_batch_of_nothing_but_mistakes_publishes_nothing(sns, sqs, topic, queue):
    subscribed(sns, topic, queue)

    answer = sns.publish_batch(
        TopicArn=topic, PublishBatchRequestEntries=entries("a", "b", message="")
    )  # fmt: skip

    assert (answer["Successful"], [one["Id"] for one in answer["Failed"]]) == ([], ["a", "b"])
    assert bodies(sqs, queue) == []


def entries(*ids, message="x"):
    return [{"Id": id, "Message": message} for id in ids]


@pytest.mark.parametrize(
    ("batch", "code", "message"),
    [
        ([], "EmptyBatchRequest", "The batch request doesn't contain any entries."),
        (entries(*map(str, range(11))), "TooManyEntriesInBatchRequest",
         "The batch request contains more entries than permissible."),
        (entries("a", "b", "a"), "BatchEntryIdsNotDistinct",
         "Two or more batch entries in the request have the same Id."),
        (entries("a", "b", message="x" * (MOST // 2 + 1)), "BatchRequestTooLong",
         "The length of all the batch messages put together is more than the limit."),
        ([*entries("a"), *entries("b", message="x" * (MOST + 1))], "BatchRequestTooLong",
         "The length of all the batch messages put together is more than the limit."),
        (entries("a b"), "InvalidBatchEntryId",
         ("The Id of a batch entry in a batch request doesn't abide by the specification: "
         "letters, digits, hyphens and underscores, 80 at most.")),
    ],
    ids=["empty", "eleven", "repeated", "too long", "one too long", "bad id"],
)  # fmt: skip
def test_a_batch_that_can_not_be_is_refused_whole(sns, sqs, topic, queue, batch, code, message):
    subscribed(sns, topic, queue)

    with refused(code, message):
        sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=batch)
    assert received(sqs, queue) == []
