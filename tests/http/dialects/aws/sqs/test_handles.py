"""Receipt handles: the queue they belong to, and the time for which one may hold a message."""

import base64
import contextlib
import json
import sqlite3

import pytest
from botocore.exceptions import ClientError

from sqew.http.dialects.aws.pages import last_of, token_of
from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sqs_wires import arn_of, handle_of_nobody, in_json


def received(sqs, url, **parameters):
    return sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, **parameters).get("Messages", [])


def refused(call, **parameters):
    with pytest.raises(ClientError) as raised:
        call(**parameters)
    error = raised.value.response["Error"]
    return error["Code"], error["Message"]


@pytest.mark.parametrize("suffix", ["", ".fifo"], ids=["standard", "FIFO"])
def test_a_handle_of_another_queue_was_taken_for_that_of_a_deleted_message(sqs, name, suffix):
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if suffix else {}
    url, other = (
        sqs.create_queue(QueueName=f"{name[:70]}{letter}{suffix}", Attributes=attributes)["QueueUrl"] for letter in "ab"
    )
    sqs.send_message(QueueUrl=url, MessageBody="x", **({"MessageGroupId": "g"} if suffix else {}))
    [message] = received(sqs, url)
    handle = message["ReceiptHandle"]
    said = ("ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not a valid receipt handle.')

    assert refused(sqs.delete_message, QueueUrl=other, ReceiptHandle=handle) == said
    assert refused(sqs.change_message_visibility, QueueUrl=other, ReceiptHandle=handle, VisibilityTimeout=0) == said
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    assert [message["Body"] for message in received(sqs, url)] == ["x"]


def test_a_batch_names_the_handles_of_another_queue(sqs, queue):
    entries = [
        {"Id": "here", "ReceiptHandle": handle_of_nobody(queue.rpartition("/")[2])},
        {"Id": "elsewhere", "ReceiptHandle": handle_of_nobody("elsewhere")},
    ]

    result = sqs.delete_message_batch(QueueUrl=queue, Entries=entries)

    assert [entry["Id"] for entry in result["Successful"]] == ["here"]
    assert [(entry["Id"], entry["Code"]) for entry in result["Failed"]] == [("elsewhere", "ReceiptHandleIsInvalid")]


def test_a_queue_of_the_same_name_in_another_region_is_another(shared_server, sqs, queue):
    with client(shared_server, "sqs", region="eu-west-1") as abroad:
        other = abroad.create_queue(QueueName=queue.rpartition("/")[2])["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="x")
        [message] = received(sqs, queue)

        code, _ = refused(abroad.delete_message, QueueUrl=other, ReceiptHandle=message["ReceiptHandle"])

    assert code == "ReceiptHandleIsInvalid"


def test_handles_are_short_and_can_be_written_anywhere_base64_can(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="x")

    [message] = received(sqs, queue)

    handle = message["ReceiptHandle"]
    assert base64.b64encode(base64.b64decode(handle, validate=True)).decode() == handle
    assert len(handle) == 36
    assert "=" not in handle


def receive_long_ago(server, sqs, url, hours):
    """Receive a message that has been held for hours, and return its handle."""
    sqs.send_message(QueueUrl=url, MessageBody="x")
    [message] = received(sqs, url, VisibilityTimeout=43_200)
    id = int.from_bytes(base64.b64decode(message["ReceiptHandle"])[:8], "big")
    with contextlib.closing(sqlite3.connect(server.db, timeout=30)) as file, file:
        file.execute("UPDATE sqew_message SET received_at = received_at - ? WHERE id = ?", (hours * 3_600_000, id))
    return message["ReceiptHandle"]


def test_a_message_could_be_held_for_more_than_12_hours_in_all(shared_server, sqs, queue):
    handle = receive_long_ago(shared_server, sqs, queue, 11)

    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=3_500)
    code, message = refused(
        sqs.change_message_visibility, QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=3_700
    )

    assert code == "InvalidParameterValue"
    assert message == (
        "Value 3700 for parameter VisibilityTimeout is invalid. "
        "Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds]."
    )


def test_a_batch_names_the_message_that_would_be_held_for_more_than_12_hours(shared_server, sqs, queue):
    held = receive_long_ago(shared_server, sqs, queue, 1)
    sqs.send_message(QueueUrl=queue, MessageBody="new")
    [new] = received(sqs, queue)
    entries = [
        {"Id": "held", "ReceiptHandle": held, "VisibilityTimeout": 43_200},
        {"Id": "new", "ReceiptHandle": new["ReceiptHandle"], "VisibilityTimeout": 43_000},
    ]

    result = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=entries)

    assert [entry["Id"] for entry in result["Successful"]] == ["new"]
    [failed] = result["Failed"]
    assert (failed["Id"], failed["Code"]) == ("held", "InvalidParameterValue")
    assert failed["Message"].endswith("beyond the limit [43200 seconds].")


def test_a_message_may_be_held_for_12_hours_from_its_receive(sqs, queue):
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    [message] = received(sqs, queue)

    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=43_200)

    assert received(sqs, queue) == []


@pytest.mark.parametrize("more", ["=", "====", "A===", "\n"])
def test_a_handle_with_something_behind_it_passed_for_one(sqs, queue, more):
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    [message] = received(sqs, queue)

    code, _ = refused(sqs.delete_message, QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"] + more)

    assert code == "ReceiptHandleIsInvalid"


def test_a_token_of_a_page_with_something_behind_it_passed_for_one():
    token = token_of("orders")

    assert last_of(token) == "orders"
    assert [last_of(token + more) for more in ("=", "====", "\n")] == [None] * 3


def sent_binary(server, queue, value):
    """Send a message with a binary attribute, whose Base64 goes over the wire as it is; return the answer."""
    attributes = {"a": {"DataType": "Binary", "BinaryValue": value}}
    return in_json(server, "SendMessage", {"QueueUrl": queue, "MessageBody": "x", "MessageAttributes": attributes})


@pytest.mark.parametrize("value", ["eHh4=", "eHh4====", "eA===", "eA=", "eA", "eA==eA==", "=eA="])
def test_a_binary_value_with_padding_that_is_not_due_passed_for_base64(shared_server, queue, value):
    assert sent_binary(shared_server, queue, value).status == 400


def test_a_binary_value_is_kept_as_base64_is_usually_written(shared_server, sqs, queue):
    answer = sent_binary(shared_server, queue, "eB==")

    got = in_json(shared_server, "ReceiveMessage", {"QueueUrl": queue, "MessageAttributeNames": ["All"]})
    assert answer.status == 200
    assert got.json["Messages"][0]["MessageAttributes"]["a"]["BinaryValue"] == "eA=="


def test_the_handle_of_a_task_with_something_behind_it_passed_for_one(shared_server, queue):
    handle = base64.b64encode(json.dumps({"taskId": "none", "sourceArn": arn_of(queue)}).encode()).decode()

    answers = [
        in_json(shared_server, "CancelMessageMoveTask", {"TaskHandle": handle + more}).json["__type"]
        for more in ("", "=", "====")
    ]

    assert [answer.partition("#")[2] for answer in answers] == [
        "ResourceNotFoundException", "InvalidParameterValueException", "InvalidParameterValueException",
    ]  # fmt: skip
