"""Attributes of queues: their defaults, the values they may have, and the combinations that are allowed."""

import json
import time

import pytest
from botocore.exceptions import ClientError

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sqs_wires import arn_of, name_of


def attributes_of(sqs, url, *names):
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names) or ["All"]).get("Attributes", {})


def code_of(raised):
    return raised.value.response["Error"]["Code"]


def redrive_to(url, count=3):
    return json.dumps({"deadLetterTargetArn": arn_of(url), "maxReceiveCount": count})


@pytest.fixture
def make(sqs, request):
    """Return a function that makes queues of the test's own."""

    def make_queue(suffix, **attributes):
        name = f"{name_of(request)[:55]}-{suffix}"
        return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    return make_queue


def test_a_queue_has_the_attributes_that_aws_gives_it(sqs, queue):
    shown = attributes_of(sqs, queue)

    created = int(shown.pop("CreatedTimestamp"))
    assert abs(created - time.time()) < 60
    assert int(shown.pop("LastModifiedTimestamp")) >= created
    assert shown == {
        "QueueArn": arn_of(queue),
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
        "VisibilityTimeout": "30",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "DelaySeconds": "0",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
    }


def test_a_fifo_queue_has_some_more(sqs, fifo):
    shown = attributes_of(
        sqs, fifo, "FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"
    )

    assert shown == {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": "queue",
        "FifoThroughputLimit": "perQueue",
    }


def test_another_retention_holds_for_the_messages_that_are_there_already(sqs, queue, shared_server):
    sqs.send_message(QueueUrl=queue, MessageBody="x")

    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"MessageRetentionPeriod": "60"})

    name = queue.rsplit("/", 1)[1]
    shared_server.call("POST", f"/queues/{name}/compact")
    [message] = shared_server.call("GET", f"/queues/{name}/peek").json["messages"]
    assert message["expires_at"] - message["created_at"] == 60_000


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VisibilityTimeout", "0"),
        ("VisibilityTimeout", "43200"),
        ("DelaySeconds", "900"),
        ("MessageRetentionPeriod", "60"),
        ("MessageRetentionPeriod", "1209600"),
        ("ReceiveMessageWaitTimeSeconds", "20"),
        ("MaximumMessageSize", "1024"),
        ("MaximumMessageSize", "1048576"),
        ("SqsManagedSseEnabled", "false"),
    ],
)
def test_an_attribute_is_what_it_was_set_to(sqs, queue, name, value):
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: value})

    assert attributes_of(sqs, queue, name) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VisibilityTimeout", "43201"),
        ("VisibilityTimeout", "-1"),
        ("VisibilityTimeout", "1.5"),
        ("VisibilityTimeout", ""),
        ("DelaySeconds", "901"),
        ("MessageRetentionPeriod", "59"),
        ("MessageRetentionPeriod", "1209601"),
        ("ReceiveMessageWaitTimeSeconds", "21"),
        ("MaximumMessageSize", "1023"),
        ("MaximumMessageSize", "1048577"),
        ("SqsManagedSseEnabled", "yes"),
        ("KmsDataKeyReusePeriodSeconds", "59"),
        ("Policy", "not JSON"),
        ("RedriveAllowPolicy", '{"redrivePermission":"perhaps"}'),
        ("RedriveAllowPolicy", '{"redrivePermission":"byQueue"}'),
        ("RedriveAllowPolicy", '{"redrivePermission":"denyAll","sourceQueueArns":["x"]}'),
    ],
)
def test_an_attribute_out_of_its_range_is_refused(sqs, queue, name, value):
    before = attributes_of(sqs, queue)

    with pytest.raises(sqs.exceptions.ClientError) as raised:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: value})

    assert code_of(raised) == "InvalidAttributeValue"
    assert attributes_of(sqs, queue) == before


def test_the_queues_delay_holds_for_messages_that_name_none(sqs, make):
    url = make("late", DelaySeconds="900")
    sqs.send_message(QueueUrl=url, MessageBody="late")
    sqs.send_message(QueueUrl=url, MessageBody="now", DelaySeconds=0)

    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]

    assert [message["Body"] for message in messages] == ["now"]
    assert attributes_of(sqs, url, "ApproximateNumberOfMessagesDelayed") == {"ApproximateNumberOfMessagesDelayed": "1"}


def test_the_queues_wait_holds_for_receives_that_name_none(sqs, make):
    url = make("patient", ReceiveMessageWaitTimeSeconds="1")
    began = time.monotonic()

    nothing = sqs.receive_message(QueueUrl=url)
    waited_s = time.monotonic() - began
    began = time.monotonic()
    sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0)
    at_once_s = time.monotonic() - began

    assert "Messages" not in nothing
    assert waited_s >= 0.9
    assert at_once_s < waited_s


class TestEncryption:
    def test_a_key_is_shown_and_ends_the_encryption_by_sqs(self, sqs, make):
        url = make("kms", KmsMasterKeyId="alias/aws/sqs")

        shown = attributes_of(sqs, url, "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled")

        assert shown == {
            "KmsMasterKeyId": "alias/aws/sqs",
            "KmsDataKeyReusePeriodSeconds": "300",
            "SqsManagedSseEnabled": "false",
        }

    def test_encryption_by_sqs_ends_that_by_a_key(self, sqs, make):
        url = make("sse", KmsMasterKeyId="alias/aws/sqs")

        sqs.set_queue_attributes(QueueUrl=url, Attributes={"SqsManagedSseEnabled": "true"})

        assert attributes_of(sqs, url, "KmsMasterKeyId", "SqsManagedSseEnabled") == {"SqsManagedSseEnabled": "true"}

    def test_both_at_once_are_refused(self, sqs, queue):
        with pytest.raises(ClientError) as raised:
            sqs.set_queue_attributes(
                QueueUrl=queue, Attributes={"KmsMasterKeyId": "alias/x", "SqsManagedSseEnabled": "true"}
            )

        assert code_of(raised) == "InvalidAttributeValue"


BOTH = {"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "messageGroup"}


class TestHighThroughput:
    def test_both_attributes_together_are_taken(self, sqs, fifo):
        sqs.set_queue_attributes(QueueUrl=fifo, Attributes=BOTH)

        assert attributes_of(sqs, fifo, *BOTH) == BOTH

    def test_a_limit_for_each_group_needs_deduplication_within_each(self, sqs, fifo):
        with pytest.raises(ClientError) as raised:
            sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"FifoThroughputLimit": "perMessageGroupId"})

        assert code_of(raised) == "InvalidAttributeValue"

    def test_deduplication_within_groups_can_not_be_taken_away_from_under_the_limit(self, sqs, fifo):
        sqs.set_queue_attributes(QueueUrl=fifo, Attributes=BOTH)

        with pytest.raises(ClientError) as raised:
            sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"DeduplicationScope": "queue"})

        assert code_of(raised) == "InvalidAttributeValue"

    def test_within_groups_the_same_id_is_another_message_in_another_group(self, sqs, fifo):
        sqs.set_queue_attributes(QueueUrl=fifo, Attributes=BOTH)
        for group in "aab":
            sqs.send_message(QueueUrl=fifo, MessageBody=group, MessageGroupId=group, MessageDeduplicationId="same")

        messages = sqs.receive_message(QueueUrl=fifo, MaxNumberOfMessages=10)["Messages"]

        assert sorted(message["Body"] for message in messages) == ["a", "b"]


class TestRedrive:
    def test_the_policy_is_shown_as_it_was_set(self, sqs, make):
        letters = make("dead")

        url = make("source", RedrivePolicy=redrive_to(letters))

        shown = attributes_of(sqs, url, "RedrivePolicy")["RedrivePolicy"]
        assert json.loads(shown) == {"deadLetterTargetArn": arn_of(letters), "maxReceiveCount": 3}

    def test_an_empty_policy_takes_it_away(self, sqs, make):
        url = make("source", RedrivePolicy=redrive_to(make("dead")))

        sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})

        assert attributes_of(sqs, url, "RedrivePolicy") == {}

    @pytest.mark.parametrize(
        "policy",
        [
            "x", "[]", "{}", '{"maxReceiveCount":1}', '{"deadLetterTargetArn":"x","maxReceiveCount":1}',
            '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:nobody","maxReceiveCount":1}',
        ],
    )  # fmt: skip
    def test_a_policy_that_makes_no_sense_is_refused(self, sqs, queue, policy):
        with pytest.raises(ClientError) as raised:
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})

        assert code_of(raised) == "InvalidParameterValue"

    @pytest.mark.parametrize("count", [0, 1001, "x"])
    def test_the_count_is_from_1_to_1000(self, sqs, queue, make, count):
        with pytest.raises(ClientError) as raised:
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive_to(make("dead"), count)})

        assert code_of(raised) == "InvalidParameterValue"

    def test_dead_letters_stay_with_queues_of_their_type(self, sqs, queue, fifo):
        for source, target in ((queue, fifo), (fifo, queue)):
            with pytest.raises(ClientError) as raised:
                sqs.set_queue_attributes(QueueUrl=source, Attributes={"RedrivePolicy": redrive_to(target)})

            assert "same type" in raised.value.response["Error"]["Message"]

    @pytest.mark.parametrize(
        ("permission", "allowed"),
        [
            ({"redrivePermission": "allowAll"}, True),
            ({"redrivePermission": "denyAll"}, False),
            ({"redrivePermission": "byQueue", "sourceQueueArns": ["{queue}"]}, True),
            ({"redrivePermission": "byQueue", "sourceQueueArns": ["arn:aws:sqs:us-east-1:000000000000:x"]}, False),
        ],
    )
    def test_a_queue_says_whose_dead_letters_it_takes(self, sqs, queue, make, permission, allowed):
        policy = json.dumps(permission).replace("{queue}", arn_of(queue))
        letters = make("dead", RedriveAllowPolicy=policy)

        def redrive():
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive_to(letters)})

        if allowed:
            redrive()
        else:
            with pytest.raises(ClientError) as raised:
                redrive()
            assert code_of(raised) == "InvalidParameterValue"
        assert bool(attributes_of(sqs, queue, "RedrivePolicy")) == allowed
        assert json.loads(attributes_of(sqs, letters, "RedriveAllowPolicy")["RedriveAllowPolicy"]) == json.loads(policy)

    def test_a_message_is_received_as_often_as_the_policy_says_and_then_lies_in_the_dead_letter_queue(self, sqs, make):
        letters = make("dead")
        url = make("source", RedrivePolicy=redrive_to(letters, 2))
        sqs.send_message(QueueUrl=url, MessageBody="x")

        received = [sqs.receive_message(QueueUrl=url, VisibilityTimeout=0).get("Messages") for _ in range(3)]

        [dead] = sqs.receive_message(QueueUrl=letters, AttributeNames=["All"], WaitTimeSeconds=5)["Messages"]
        assert [bool(messages) for messages in received] == [True, True, False]
        assert dead["Attributes"]["DeadLetterQueueSourceArn"] == arn_of(url)
        assert dead["MessageId"] == received[0][0]["MessageId"]

    def test_the_sources_of_a_dead_letter_queue_are_listed_in_pages(self, sqs, make):
        letters = make("dead")
        sources = sorted(make(f"source{n}", RedrivePolicy=redrive_to(letters)) for n in range(5))

        pages = sqs.get_paginator("list_dead_letter_source_queues").paginate(
            QueueUrl=letters, PaginationConfig={"PageSize": 2}
        )

        assert [page["queueUrls"] for page in pages] == [sources[:2], sources[2:4], sources[4:]]


def test_a_queue_that_is_made_again_with_what_it_has_is_the_same_queue(sqs, make):
    letters = make("dead")
    given = {"VisibilityTimeout": "7", "RedrivePolicy": redrive_to(letters)}
    first = make("source", **given)

    assert make("source", **given) == first
    assert make("source") == first
    assert make("source", RedrivePolicy=redrive_to(letters).replace(" ", "")) == first


def test_what_other_dialects_made_has_attributes_too(shared_server, sqs, request):
    name = name_of(request)
    shared_server.call("POST", "/queues", {"name": name, "visibility_ms": 5_000})

    shown = attributes_of(sqs, sqs.get_queue_url(QueueName=name)["QueueUrl"])

    assert shown["VisibilityTimeout"] == "5"
    assert json.loads(shown["RedrivePolicy"])["deadLetterTargetArn"].endswith(f"{name}-dlq")


def test_a_standard_queue_knows_no_attribute_fifo_queue(sqs):
    with pytest.raises(sqs.exceptions.InvalidAttributeName):
        sqs.create_queue(QueueName="standard", Attributes={"FifoQueue": "false"})


@pytest.mark.parametrize(("name", "fifo"), [("x.fifo", None), ("x", "true"), ("x.fifo", "false")])
def test_the_name_and_the_type_of_a_queue_agree(sqs, name, fifo):
    with pytest.raises(ClientError) as raised:
        sqs.create_queue(QueueName=name, Attributes={} if fifo is None else {"FifoQueue": fifo})

    assert code_of(raised) == "InvalidParameterValue"


def test_tags_are_added_changed_and_taken_away(sqs, queue):
    sqs.tag_queue(QueueUrl=queue, Tags={"a": "1", "b": "2"})
    sqs.tag_queue(QueueUrl=queue, Tags={"b": "3", "c": ""})
    sqs.untag_queue(QueueUrl=queue, TagKeys=["a", "unknown"])

    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"b": "3", "c": ""}


def test_a_queue_has_at_most_50_tags(sqs, queue):
    sqs.tag_queue(QueueUrl=queue, Tags={str(n): "" for n in range(50)})

    with pytest.raises(ClientError) as raised:
        sqs.tag_queue(QueueUrl=queue, Tags={"one more": ""})

    assert code_of(raised) == "InvalidParameterValue"
    assert len(sqs.list_queue_tags(QueueUrl=queue)["Tags"]) == 50


def test_a_permission_is_a_statement_in_the_policy(sqs, queue):
    sqs.add_permission(QueueUrl=queue, Label="l", AWSAccountIds=["111111111111"], Actions=["SendMessage"])

    policy = json.loads(attributes_of(sqs, queue, "Policy")["Policy"])

    assert policy["Statement"] == [
        {
            "Sid": "l",
            "Effect": "Allow",
            "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
            "Action": "SQS:SendMessage",
            "Resource": arn_of(queue),
        }
    ]


def test_queues_are_listed_in_pages(sqs, make):
    made = sorted(make(f"page{n}") for n in range(5))
    prefix = made[0].rpartition("/")[2][:-1]

    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2})

    assert [page["QueueUrls"] for page in pages] == [made[:2], made[2:4], made[4:]]


def test_a_queue_is_named_by_any_host_and_by_its_bare_name(sqs, queue):
    name = queue.rpartition("/")[2]
    for url in (queue, f"https://sqs.us-east-1.amazonaws.com/123/{name}", f"http://other:1/{name}", name):
        sqs.send_message(QueueUrl=url, MessageBody="x")

    counts = attributes_of(sqs, queue, "ApproximateNumberOfMessages")
    assert counts == {"ApproximateNumberOfMessages": "4"}


def test_queues_in_two_regions_are_two_queues(shared_server, sqs, request):
    name = name_of(request)
    with client(shared_server, "sqs", "eu-central-1") as other:
        here, there = (one.create_queue(QueueName=name)["QueueUrl"] for one in (sqs, other))
        sqs.send_message(QueueUrl=here, MessageBody="here")

        assert "Messages" not in other.receive_message(QueueUrl=there)
        assert attributes_of(other, there, "QueueArn") == {"QueueArn": arn_of(there, "eu-central-1")}
        assert attributes_of(sqs, here, "QueueArn") == {"QueueArn": arn_of(here)}
