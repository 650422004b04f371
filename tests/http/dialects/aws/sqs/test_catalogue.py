"""Queues in the catalogue: concurrent changes, creating one again, refused attributes, and lists."""

import base64
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from botocore.exceptions import ClientError

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sqs_wires import arn_of, in_json, name_of, queue_named
from tests.support.serving import serving

MANY = 30
ACCOUNT = "111111111111"


def attribute(sqs, url, name):
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name]).get("Attributes", {}).get(name)


def labels(sqs, url):
    return sorted(statement["Sid"] for statement in json.loads(attribute(sqs, url, "Policy"))["Statement"])


def at_once(*calls):
    """Make calls at the same time. The first error is raised."""
    with ThreadPoolExecutor(len(calls)) as threads:
        for future in [threads.submit(call) for call in calls]:
            future.result()


def add_permission(sqs, url, label="l", actions=("SendMessage",), accounts=(ACCOUNT,)):
    sqs.add_permission(QueueUrl=url, Label=label, AWSAccountIds=list(accounts), Actions=list(actions))


def refused(call, *args, **parameters):
    """Return the code and the message with which a call is refused."""
    with pytest.raises(ClientError) as raised:
        call(*args, **parameters)
    error = raised.value.response["Error"]
    return error["Code"], error["Message"]


class TestAtTheSameTime:
    """Concurrent changes to a queue: none is lost."""

    def test_all_tags_are_kept(self, sqs, queue):
        at_once(*(lambda n=n: sqs.tag_queue(QueueUrl=queue, Tags={f"t{n}": ""}) for n in range(MANY)))

        assert len(sqs.list_queue_tags(QueueUrl=queue)["Tags"]) == MANY

    def test_all_tags_are_taken_away(self, sqs, queue):
        sqs.tag_queue(QueueUrl=queue, Tags={f"t{n}": "" for n in range(MANY)})

        at_once(*(lambda n=n: sqs.untag_queue(QueueUrl=queue, TagKeys=[f"t{n}"]) for n in range(MANY)))

        assert "Tags" not in sqs.list_queue_tags(QueueUrl=queue)

    def test_no_more_than_50_tags_get_in(self, sqs, queue):
        sqs.tag_queue(QueueUrl=queue, Tags={str(n): "" for n in range(45)})
        refusals = []

        def tag(n):
            try:
                sqs.tag_queue(QueueUrl=queue, Tags={f"more {n}": ""})
            except ClientError as error:
                refusals.append(error)

        at_once(*(lambda n=n: tag(n) for n in range(MANY)))

        assert len(sqs.list_queue_tags(QueueUrl=queue)["Tags"]) == 50
        assert len(refusals) == MANY - 5

    def test_all_permissions_are_kept_and_all_are_taken_away(self, sqs, queue):
        expected = sorted(f"l{n}" for n in range(MANY))

        at_once(*(lambda label=label: add_permission(sqs, queue, label) for label in expected))

        assert labels(sqs, queue) == expected
        at_once(*(lambda one=one: sqs.remove_permission(QueueUrl=queue, Label=one) for one in expected[1:]))
        assert labels(sqs, queue) == expected[:1]

    def test_all_attributes_are_kept(self, sqs, queue):
        wanted = {
            "KmsMasterKeyId": "alias/x",
            "KmsDataKeyReusePeriodSeconds": "60",
            "Policy": '{"Version":"2012-10-17"}',
            "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
            "VisibilityTimeout": "7",
        }

        def set_one(name, value):
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={name: value})

        at_once(
            *(lambda name=name, value=value: set_one(name, value) for name, value in wanted.items()),
            *(lambda n=n: sqs.tag_queue(QueueUrl=queue, Tags={f"t{n}": ""}) for n in range(20)),
        )

        assert {name: attribute(sqs, queue, name) for name in wanted} == wanted
        assert len(sqs.list_queue_tags(QueueUrl=queue)["Tags"]) == 20

    def test_two_servers_at_one_file_lose_nothing_either(self, tmp_path):
        with (
            serving(tmp_path, "--durability", "fast") as one,
            serving(tmp_path, "--durability", "fast", db=one.db) as other,
            client(one, "sqs") as here,
            client(other, "sqs") as there,
        ):
            url = here.create_queue(QueueName="shared")["QueueUrl"]

            def tag(sqs, n):
                sqs.tag_queue(QueueUrl="shared", Tags={f"t{n}": ""})

            at_once(*(lambda n=n: tag((here, there)[n % 2], n) for n in range(40)))

            assert len(here.list_queue_tags(QueueUrl=url)["Tags"]) == 40


class TestMakingItAgain:
    @pytest.mark.parametrize(
        ("name", "first", "second"),
        [
            ("Policy", '{"Statement":[]}', '{"Version":"2012-10-17"}'),
            ("Policy", "", '{"Version":"2012-10-17"}'),
            ("KmsMasterKeyId", "alias/a", "alias/b"),
            ("RedriveAllowPolicy", '{"redrivePermission":"allowAll"}', '{"redrivePermission":"denyAll"}'),
            ("SqsManagedSseEnabled", "true", "false"),
        ],
    )
    def test_a_queue_with_another_attribute_that_is_only_kept_is_another_queue(self, sqs, name, first, second, request):
        queue = name_of(request)
        url = sqs.create_queue(QueueName=queue, Attributes={name: first})["QueueUrl"]

        code, message = refused(sqs.create_queue, QueueName=queue, Attributes={name: second})

        assert code == "QueueAlreadyExists"
        assert message == f"A queue already exists with the same name and a different value for attribute {name}"
        assert sqs.create_queue(QueueName=queue, Attributes={name: first})["QueueUrl"] == url

    def test_a_policy_is_the_same_in_whatever_order_it_is_written(self, sqs, request):
        first = '{"Version":"2012-10-17","Statement":[{"Sid":"a","Effect":"Allow"}]}'
        again = '{"Statement": [{"Effect": "Allow", "Sid": "a"}], "Version": "2012-10-17"}'
        made = [
            sqs.create_queue(QueueName=name_of(request), Attributes={"Policy": policy}) for policy in (first, again)
        ]

        assert made[0]["QueueUrl"] == made[1]["QueueUrl"]

    def test_other_tags_do_not_make_another_queue(self, sqs, request):
        for tags in ({"a": "1"}, {"b": "2"}):
            url = sqs.create_queue(QueueName=name_of(request), tags=tags)["QueueUrl"]

        assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"a": "1"}


class TestOnTheWayIn:
    @pytest.mark.parametrize("statement", ['["x"]', "null", "1", '[{"Sid":"a"},[]]', '"x"'])
    def test_a_policy_whose_statements_are_none_is_refused(self, sqs, queue, statement):
        policy = f'{{"Statement":{statement}}}'

        code, _ = refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"Policy": policy})

        assert code == "InvalidAttributeValue"
        add_permission(sqs, queue)
        assert labels(sqs, queue) == ["l"]

    def test_a_policy_of_one_statement_takes_another(self, sqs, queue):
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": '{"Statement":{"Sid":"first"}}'})

        add_permission(sqs, queue, "second")

        assert labels(sqs, queue) == ["first", "second"]

    @pytest.mark.parametrize("action", ["DeleteQueue", "SendMessageBatch", "sendmessage", ""])
    def test_what_only_the_owner_may_do_can_not_be_permitted(self, sqs, queue, action):
        code, message = refused(add_permission, sqs, queue, actions=["SendMessage", action])

        assert code == "InvalidParameterValue"
        assert message == (
            f"Value SQS:{action} for parameter ActionName is invalid. "
            "Reason: Only the queue owner is allowed to invoke this action."
        )

    def test_all_that_others_may_do_can_be(self, sqs, queue):
        actions = [
            "*", "SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes",
            "GetQueueUrl",
        ]  # fmt: skip

        add_permission(sqs, queue, actions=actions)

        [statement] = json.loads(attribute(sqs, queue, "Policy"))["Statement"]
        assert statement["Action"] == [f"SQS:{action}" for action in actions]

    @pytest.mark.parametrize("account", ["", "123", "1234567890123", "١" * 12, "root"])
    def test_an_account_has_12_digits(self, sqs, queue, account):
        assert refused(add_permission, sqs, queue, accounts=[ACCOUNT, account]) == (
            "InvalidParameterValue",
            f"Value [{account}] for parameter PrincipalId is invalid. Reason: Unable to verify.",
        )

    def test_dead_letters_stay_in_their_region(self, shared_server, sqs, queue):
        with client(shared_server, "sqs", "eu-central-1") as elsewhere:
            there = elsewhere.create_queue(QueueName="letters-elsewhere")["QueueUrl"]
        policy = json.dumps({"deadLetterTargetArn": arn_of(there, "eu-central-1"), "maxReceiveCount": 1})

        code, message = refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": policy})

        assert code == "InvalidParameterValue"
        assert "same region" in message

    def test_dead_letters_stay_in_their_account(self, sqs, queue, fifo):
        policy = json.dumps({"deadLetterTargetArn": arn_of(queue).replace("0" * 12, ACCOUNT), "maxReceiveCount": 1})

        code, message = refused(sqs.create_queue, QueueName="foreign", Attributes={"RedrivePolicy": policy})

        assert code == "InvalidParameterValue"
        assert "owner" in message

    @pytest.mark.parametrize("count", ["1_0", " 1", "+1", "1.0", "١", 1.5, None, True])
    def test_a_count_of_receives_is_written_in_digits(self, sqs, queue, fifo, count):
        letters = sqs.create_queue(QueueName="counted-letters")["QueueUrl"]
        policy = json.dumps({"deadLetterTargetArn": arn_of(letters), "maxReceiveCount": count})

        code, _ = refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"RedrivePolicy": policy})

        assert code == "InvalidParameterValue"

    @pytest.mark.parametrize("value", ["false", "FALSE", "perhaps"])
    def test_a_standard_queue_is_not_told_either_that_it_is_no_fifo_queue(self, sqs, queue, value):
        assert refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"FifoQueue": value}) == (
            "InvalidAttributeName",
            "Unknown Attribute FifoQueue.",
        )

    def test_a_standard_queue_does_not_become_a_fifo_queue(self, sqs, queue):
        code, _ = refused(sqs.set_queue_attributes, QueueUrl=queue, Attributes={"FifoQueue": "true"})

        assert code == "InvalidAttributeValue"

    def test_a_flag_is_shown_as_aws_writes_it(self, sqs, queue):
        for given, shown in (("FALSE", "false"), ("True", "true")):
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"SqsManagedSseEnabled": given})

            assert attribute(sqs, queue, "SqsManagedSseEnabled") == shown

    @pytest.mark.parametrize("key", ["aws:x", "AWS:x", "aws:"])
    def test_tags_that_are_awss_own_are_refused(self, sqs, queue, key):
        for call, named in ((sqs.tag_queue, {"QueueUrl": queue, "Tags": {key: ""}}),
                            (sqs.create_queue, {"QueueName": "tagged-by-aws", "tags": {key: ""}})):  # fmt: skip
            assert refused(call, **named)[0] == "InvalidParameterValue"

    def test_a_handle_that_nests_without_end_is_refused(self, shared_server):
        handle = base64.b64encode(b'{"other":' + b"[" * 100_000).decode()

        answer = in_json(shared_server, "CancelMessageMoveTask", {"TaskHandle": handle})

        assert answer.status == 400
        assert answer.json["__type"].endswith("#InvalidParameterValueException")


class TestLists:
    @pytest.mark.parametrize("token", ["garbage", "AAAA", "YWJj", "!", "é", base64.b64encode(b"\xff" * 9).decode()])
    def test_a_token_that_is_none_is_refused(self, sqs, queue, token):
        expected = ("InvalidParameterValue", "Invalid or expired next token.")

        assert refused(sqs.list_queues, NextToken=token, MaxResults=5) == expected
        assert refused(sqs.list_dead_letter_source_queues, QueueUrl=queue, NextToken=token, MaxResults=5) == expected

    def test_only_sources_that_can_be_named_are_listed(self, shared_server, sqs, request):
        letters = f"{name_of(request)[:60]}-dead"
        near, far, too_long = f"{letters[:8]}-near", f"eu-west-1:{letters[:8]}-far", f"{letters[:8]}{'x' * 72}.fifo"
        for name, dlq in ((letters, None), (far, letters), (near, letters), (too_long, letters)):
            made = shared_server.call("POST", "/queues", {"name": name, "dlq": dlq})
            assert made.status == 201, made.body
        url = sqs.get_queue_url(QueueName=letters)["QueueUrl"]

        pages = sqs.get_paginator("list_dead_letter_source_queues").paginate(
            QueueUrl=url, PaginationConfig={"PageSize": 1}
        )

        urls = [found for page in pages for found in page["queueUrls"]]
        assert [found.rpartition("/")[2] for found in urls] == [near]
        sqs.send_message(QueueUrl=urls[0], MessageBody="x")


def test_who_counts_does_not_wait_for_who_writes_if_nothing_is_over(tmp_path):
    with (
        serving(tmp_path, "--durability", "fast", "--busy-timeout-ms", "50") as server,
        queue_named(server, "counted") as url,
        closing(sqlite3.connect(server.db)) as writer,
    ):
        writer.execute("BEGIN IMMEDIATE")

        answer = in_json(server, "GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["All"]})

        writer.rollback()
        assert answer.status == 200
        assert answer.json["Attributes"]["ApproximateNumberOfMessages"] == "0"
