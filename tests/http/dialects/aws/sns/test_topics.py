"""Topics, their attributes, tags and permissions, as boto3 sees them."""

import json

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from sqew.http.dialects.aws.sns import SNS
from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sns.topics import received, refused, subscribed
from tests.support.serving import serving

NOWHERE = "arn:aws:sns:us-east-1:000000000000:nowhere"
WRONG_NAME = "Invalid parameter: Topic Name"
NO_NAME = "1 validation error detected: Value null at 'name' failed to satisfy constraint: Member must not be null"


def listed(sns):
    return {topic["TopicArn"] for page in sns.get_paginator("list_topics").paginate() for topic in page["Topics"]}


def attributes(sns, topic):
    return sns.get_topic_attributes(TopicArn=topic)["Attributes"]


def test_an_empty_topic_is_listed(sns, topic):
    assert topic in listed(sns)
    assert topic.startswith("arn:aws:sns:us-east-1:000000000000:")


def test_a_topic_that_is_made_again_is_the_same(sns, topic):
    assert sns.create_topic(Name=topic.rpartition(":")[2])["TopicArn"] == topic


def test_a_topic_outlives_the_server(tmp_path):
    with serving(tmp_path) as server, client(server, "sns") as sns:
        topic = sns.create_topic(Name="orders", Tags=[{"Key": "team", "Value": "shop"}])["TopicArn"]
        server.stop()

    with serving(tmp_path) as server, client(server, "sns") as sns:
        assert listed(sns) == {topic}
        assert sns.list_tags_for_resource(ResourceArn=topic)["Tags"] == [{"Key": "team", "Value": "shop"}]


def test_a_deleted_topic_is_gone_with_its_subscriptions_and_may_be_deleted_again(sns, topic, queue):
    subscription = subscribed(sns, topic, queue)

    sns.delete_topic(TopicArn=topic)
    sns.delete_topic(TopicArn=topic)

    assert topic not in listed(sns)
    with refused("NotFound", "Topic does not exist", 404):
        sns.get_topic_attributes(TopicArn=topic)
    with refused("NotFound", "Subscription does not exist", 404):
        sns.get_subscription_attributes(SubscriptionArn=subscription)


def test_topics_come_in_pages_of_a_hundred(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server, client(server, "sns") as sns:
        made = {sns.create_topic(Name=f"topic-{n}")["TopicArn"] for n in range(205)}
        first = sns.list_topics()

        assert len(first["Topics"]) == 100
        assert len(sns.list_topics(NextToken=first["NextToken"])["Topics"]) == 100
        assert listed(sns) == made


def test_topics_of_two_regions_are_two_topics(shared_server, sns, topic):
    name = topic.rpartition(":")[2]

    with client(shared_server, "sns", "eu-west-1") as elsewhere:
        assert topic not in listed(elsewhere)
        made = elsewhere.create_topic(Name=name)["TopicArn"]

        assert made == f"arn:aws:sns:eu-west-1:000000000000:{name}"
        assert made in listed(elsewhere)
        assert made not in listed(sns)


def test_a_new_topic_has_the_attributes_that_aws_shows(sns, topic):
    shown = attributes(sns, topic)

    assert shown["TopicArn"] == topic
    assert (shown["Owner"], shown["DisplayName"], shown["SignatureVersion"]) == ("000000000000", "", "2")
    assert [shown[f"Subscriptions{state}"] for state in ("Confirmed", "Pending", "Deleted")] == ["0", "0", "0"]
    assert json.loads(shown["Policy"])["Id"] == "__default_policy_ID"
    assert json.loads(shown["EffectiveDeliveryPolicy"])["http"]["defaultHealthyRetryPolicy"]["numRetries"] == 4
    assert "FifoTopic" not in shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DisplayName", "News of the shop"),
        ("Policy", '{"Version":"2012-10-17","Statement":[]}'),
        ("DeliveryPolicy", '{"http":{"disableSubscriptionOverrides":true}}'),
        ("KmsMasterKeyId", "alias/aws/sns"),
        ("TracingConfig", "Active"),
        ("SignatureVersion", "1"),
        ("HTTPSuccessFeedbackSampleRate", "50"),
    ],
)
def test_an_attribute_that_was_set_is_shown(sns, topic, name, value):
    sns.set_topic_attributes(TopicArn=topic, AttributeName=name, AttributeValue=value)

    assert attributes(sns, topic)[name] == value


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("Colour", "red", "Invalid parameter: AttributeName"),
        ("FifoTopic", "true", "Invalid parameter: AttributeName"),
        ("SignatureVersion", "3", "Invalid parameter: SignatureVersion Reason: it must be 1 or 2"),
        ("TracingConfig", "On", "Invalid parameter: TracingConfig Reason: it must be PassThrough or Active"),
        ("Policy", "[", "Invalid parameter: Policy Reason: it is not a JSON object"),
        ("DisplayName", "x" * 101, "Invalid parameter: DisplayName Reason: it has more than 100 characters"),
        ("ContentBasedDeduplication", "true",
         "Invalid parameter: ContentBasedDeduplication Reason: it is for FIFO topics only"),
    ],
)  # fmt: skip
def test_an_attribute_that_can_not_be_is_refused(sns, topic, name, value, message):
    with refused("InvalidParameter", message):
        sns.set_topic_attributes(TopicArn=topic, AttributeName=name, AttributeValue=value)


def test_attributes_of_a_topic_that_is_not_there_are_refused(sns):
    with refused("NotFound", "Topic does not exist", 404):
        sns.set_topic_attributes(TopicArn=NOWHERE, AttributeName="DisplayName", AttributeValue="x")


@pytest.mark.parametrize("name", ["", "a b", "a..b", "a.b.fifo", "orders*", "größe", "x" * 257, "orders.fifo"])
def test_a_name_that_no_topic_can_have_is_refused(shared_server, name):
    with (
        client(shared_server, "sns", config=Config(parameter_validation=False)) as sns,
        refused("ValidationError" if not name else "InvalidParameter", NO_NAME if not name else WRONG_NAME),
    ):
        sns.create_topic(Name=name)


def test_a_topic_is_not_made_again_with_other_attributes(sns, topic):
    with refused(
        "InvalidParameter", "Invalid parameter: Attributes Reason: Topic already exists with different attributes"
    ):
        sns.create_topic(Name=topic.rpartition(":")[2], Attributes={"DisplayName": "other"})


def test_a_topic_is_made_again_with_the_same_attributes(sns, name):
    wanted = {"DisplayName": "News", "FifoTopic": "false", "Policy": '{"Version": "2012-10-17", "Statement": []}'}
    again = {**wanted, "Policy": '{"Statement":[],"Version":"2012-10-17"}'}

    first = sns.create_topic(Name=name, Attributes=wanted)

    assert sns.create_topic(Name=name, Attributes=again)["TopicArn"] == first["TopicArn"]


# Tags


def tags(sns, topic):
    return {tag["Key"]: tag["Value"] for tag in sns.list_tags_for_resource(ResourceArn=topic)["Tags"]}


def test_tags_are_added_changed_and_removed(sns, topic):
    sns.tag_resource(ResourceArn=topic, Tags=[{"Key": "team", "Value": "shop"}, {"Key": "env", "Value": "test"}])
    sns.tag_resource(ResourceArn=topic, Tags=[{"Key": "env", "Value": "live"}])
    sns.untag_resource(ResourceArn=topic, TagKeys=["team", "never"])

    assert tags(sns, topic) == {"env": "live"}


def test_a_topic_is_not_made_again_with_other_tags(sns, name):
    first = sns.create_topic(Name=name, Tags=[{"Key": "a", "Value": "1"}])["TopicArn"]

    with refused("InvalidParameter", "Invalid parameter: Tags Reason: Topic already exists with different tags"):
        sns.create_topic(Name=name, Tags=[{"Key": "a", "Value": "2"}])
    assert sns.create_topic(Name=name)["TopicArn"] == first


def test_a_tag_twice_in_one_request_is_refused(sns, topic):
    with refused("InvalidParameter", "Invalid parameter: Duplicated keys are not allowed."):
        sns.tag_resource(ResourceArn=topic, Tags=[{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}])


def test_more_than_fifty_tags_are_refused(sns, topic):
    sns.tag_resource(ResourceArn=topic, Tags=[{"Key": str(n), "Value": ""} for n in range(50)])

    with refused("TagLimitExceeded", "Could not complete request: tag quota of per resource exceeded"):
        sns.tag_resource(ResourceArn=topic, Tags=[{"Key": "one more", "Value": ""}])


def test_tags_of_a_topic_that_is_not_there_are_refused(sns):
    with refused("ResourceNotFound", "Resource does not exist", 404):
        sns.list_tags_for_resource(ResourceArn=NOWHERE)


# Permissions


def labels(sns, topic):
    return [statement["Sid"] for statement in json.loads(attributes(sns, topic)["Policy"])["Statement"]]


def test_a_permission_is_a_statement_of_the_policy_until_it_is_removed(sns, topic):
    sns.add_permission(TopicArn=topic, Label="friends", AWSAccountId=["111111111111"], ActionName=["Publish"])

    assert labels(sns, topic) == ["__default_statement_ID", "friends"]
    added = json.loads(attributes(sns, topic)["Policy"])["Statement"][1]
    assert (added["Action"], added["Principal"]) == ("SNS:Publish", {"AWS": "arn:aws:iam::111111111111:root"})

    sns.remove_permission(TopicArn=topic, Label="friends")

    assert labels(sns, topic) == ["__default_statement_ID"]


def test_a_label_can_be_given_once(sns, topic):
    permission = {"TopicArn": topic, "Label": "friends", "AWSAccountId": ["111111111111"], "ActionName": ["Publish"]}
    sns.add_permission(**permission)

    with refused("InvalidParameter", "Invalid parameter: Statement already exists"):
        sns.add_permission(**permission)


def test_an_action_that_sns_does_not_have_can_not_be_permitted(sns, topic):
    with refused("InvalidParameter", "Invalid parameter: Policy statement action out of service scope!"):
        sns.add_permission(TopicArn=topic, Label="x", AWSAccountId=["111111111111"], ActionName=["SendMessage"])


# ARNs and actions


@pytest.mark.parametrize(
    ("arn", "message"),
    [
        ("orders", "Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements, not 1"),
        ("arn:aws:sqs:us-east-1:000000000000:orders",
         "Invalid parameter: TopicArn Reason: arn:aws:sqs:us-east-1:000000000000:orders is not an ARN of SNS"),
        ("arn:aws:sns:us-east-1:000000000000:a b",
         "Invalid parameter: TopicArn Reason: arn:aws:sns:us-east-1:000000000000:a b is not the ARN of a topic"),
    ],
)  # fmt: skip
def test_what_is_not_the_arn_of_a_topic_is_refused(sns, arn, message):
    with refused("InvalidParameter", message):
        sns.get_topic_attributes(TopicArn=arn)


@pytest.mark.parametrize(
    "call",
    [
        lambda sns: sns.get_sms_attributes(),
        lambda sns: sns.check_if_phone_number_is_opted_out(phoneNumber="+4930123456"),
        lambda sns: sns.create_platform_application(Name="app", Platform="GCM", Attributes={"a": "b"}),
        lambda sns: sns.put_data_protection_policy(ResourceArn=NOWHERE, DataProtectionPolicy="{}"),
    ],
)
def test_what_is_about_telephones_is_refused_by_name(sns, call):
    with pytest.raises(ClientError, match=r"The action \w+ is not supported here") as caught:
        call(sns)
    assert caught.value.response["Error"]["Code"] == "UnsupportedOperation"


def test_every_action_of_the_model_is_answered(sns):
    assert set(SNS.actions) == set(sns.meta.service_model.operation_names)


def test_a_topic_may_be_named_twice_in_a_publish(sns, sqs, topic, queue):
    subscribed(sns, topic, queue)

    sns.publish(TopicArn=topic, TargetArn=topic, Message="x")

    assert len(received(sqs, queue)) == 1
