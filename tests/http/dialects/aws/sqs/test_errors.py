"""Errors of AWS.md's table, each in both protocols: by the bytes, and as the exception that boto3 raises."""

import contextlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sqs_wires import (
    NAMESPACE,
    answer_to,
    arn_of,
    handle_of_nobody,
    in_json,
    in_query,
    queue_named,
    raw,
    raw_form,
    raw_json,
    read_query,
)
from tests.support.serving import serving

PREFIX = "AWS.SimpleQueueService."
LIMIT = 1_048_576
IPV = ("InvalidParameterValueException", "InvalidParameterValue")
MISSING = ("MissingRequiredParameterException", "MissingParameter")


def same(name: str) -> tuple[str, str]:
    return name, name


def prefixed(name: str) -> tuple[str, str]:
    return name, PREFIX + name


class Row(NamedTuple):
    """A mistake, and AWS's answer to it: the type in JSON and the code in Query, the status, and the message."""

    mistake: str
    action: str
    parameters: Callable[[Any], dict[str, Any]]
    name: tuple[str, str]
    message: str | Callable[[Any], str]
    status: int = 400
    in_query: str = ""
    """The message in the Query protocol, where it differs."""


def entries(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"Id": f"id_{n}", "MessageBody": "x", **fields} for n in range(count)]


GROUP_WORDS = (
    "Value é for parameter {0} is invalid. Reason: {0} can only include alphanumeric and punctuation characters. "
    "1 to 128 in length."
)
ROWS = [
    Row(
        "unknown queue",
        "SendMessage",
        lambda at: {"QueueUrl": "http://h/000000000000/nope", "MessageBody": "x"},
        ("QueueDoesNotExist", PREFIX + "NonExistentQueue"),
        "The specified queue does not exist.",
        in_query="The specified queue does not exist for this wsdl version.",
    ),
    Row(
        "unknown queue by name",
        "GetQueueUrl",
        lambda at: {"QueueName": "nope"},
        ("QueueDoesNotExist", PREFIX + "NonExistentQueue"),
        "The specified queue does not exist.",
        in_query="The specified queue does not exist for this wsdl version.",
    ),
    Row(
        "same name, other attributes",
        "CreateQueue",
        lambda at: {"QueueName": "errors", "Attributes": {"VisibilityTimeout": "31"}},
        ("QueueNameExists", "QueueAlreadyExists"),
        "A queue already exists with the same name and a different value for attribute VisibilityTimeout",
    ),
    Row(
        "bad queue name",
        "CreateQueue",
        lambda at: {"QueueName": "no spaces"},
        IPV,
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
    ),
    Row(
        "unknown attribute",
        "SetQueueAttributes",
        lambda at: {"QueueUrl": at.queue, "Attributes": {"Colour": "red"}},
        same("InvalidAttributeName"),
        "Unknown Attribute Colour.",
    ),
    Row(
        "unknown attribute asked for",
        "GetQueueAttributes",
        lambda at: {"QueueUrl": at.queue, "AttributeNames": ["Colour"]},
        same("InvalidAttributeName"),
        "Unknown Attribute Colour.",
    ),
    Row(
        "FIFO attribute on a standard queue",
        "SetQueueAttributes",
        lambda at: {"QueueUrl": at.queue, "Attributes": {"ContentBasedDeduplication": "true"}},
        same("InvalidAttributeName"),
        "Unknown Attribute ContentBasedDeduplication.",
    ),
    Row(
        "change of queue type",
        "SetQueueAttributes",
        lambda at: {"QueueUrl": at.fifo, "Attributes": {"FifoQueue": "false"}},
        same("InvalidAttributeValue"),
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    ),
    Row(
        "empty body",
        "SendMessage",
        lambda at: {"QueueUrl": at.queue, "MessageBody": ""},
        MISSING,
        "The request must contain the parameter MessageBody.",
    ),
    Row(
        "body over the limit",
        "SendMessage",
        lambda at: {"QueueUrl": at.queue, "MessageBody": "x" * (LIMIT + 1)},
        IPV,
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
    ),
    Row(
        "body over the queue's own limit",
        "SendMessage",
        lambda at: {"QueueUrl": at.small, "MessageBody": "x" * 1025},
        IPV,
        "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.",
    ),
    Row(
        "body and attributes over the limit",
        "SendMessage",
        lambda at: {
            "QueueUrl": at.queue,
            "MessageBody": "x" * (LIMIT - 8),
            "MessageAttributes": {"a": {"DataType": "String", "StringValue": "xy"}},
        },
        IPV,
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
    ),
    Row(
        "illegal characters",
        "SendMessage",
        lambda at: {"QueueUrl": at.queue, "MessageBody": "\x08"},
        same("InvalidMessageContents"),
        "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | "
        "#xE000 to #xFFFD | #x10000 to #x10FFFF.",
    ),
    Row(
        "empty string attribute",
        "SendMessage",
        lambda at: {
            "QueueUrl": at.queue,
            "MessageBody": "x",
            "MessageAttributes": {"colour": {"DataType": "String", "StringValue": ""}},
        },
        IPV,
        "Message (user) attribute 'colour' must contain a non-empty value of type 'String'.",
    ),
    Row(
        "DelaySeconds on a FIFO message",
        "SendMessage",
        lambda at: {
            "QueueUrl": at.fifo,
            "MessageBody": "x",
            "DelaySeconds": 2,
            "MessageGroupId": "g",
            "MessageDeduplicationId": "d",
        },
        IPV,
        "Value 2 for parameter DelaySeconds is invalid. "
        "Reason: The request include parameter that is not valid for this queue type.",
    ),
    Row(
        "FIFO, no group id",
        "SendMessage",
        lambda at: {"QueueUrl": at.fifo, "MessageBody": "x", "MessageDeduplicationId": "d"},
        MISSING,
        "The request must contain the parameter MessageGroupId.",
    ),
    Row(
        "FIFO, no deduplication id",
        "SendMessage",
        lambda at: {"QueueUrl": at.fifo, "MessageBody": "x", "MessageGroupId": "g"},
        IPV,
        "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
    ),
    Row(
        "bad group id",
        "SendMessage",
        lambda at: {"QueueUrl": at.fifo, "MessageBody": "x", "MessageGroupId": "é", "MessageDeduplicationId": "d"},
        IPV,
        GROUP_WORDS.format("MessageGroupId"),
    ),
    Row(
        "bad deduplication id",
        "SendMessage",
        lambda at: {"QueueUrl": at.fifo, "MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "é"},
        IPV,
        GROUP_WORDS.format("MessageDeduplicationId"),
    ),
    Row(
        "MaxNumberOfMessages 11",
        "ReceiveMessage",
        lambda at: {"QueueUrl": at.queue, "MaxNumberOfMessages": 11},
        IPV,
        "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
    ),
    Row(
        "WaitTimeSeconds 21",
        "ReceiveMessage",
        lambda at: {"QueueUrl": at.queue, "WaitTimeSeconds": 21},
        IPV,
        "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
    ),
    Row(
        "garbage receipt handle",
        "DeleteMessage",
        lambda at: {"QueueUrl": at.queue, "ReceiptHandle": "garbage"},
        same("ReceiptHandleIsInvalid"),
        'The input receipt handle "garbage" is not a valid receipt handle.',
    ),
    Row(
        "expired FIFO handle",
        "DeleteMessage",
        lambda at: {"QueueUrl": at.fifo, "ReceiptHandle": at.expired},
        IPV,
        lambda at: (
            f"Value {at.expired} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
        ),
    ),
    Row(
        "change visibility after delete",
        "ChangeMessageVisibility",
        lambda at: {"QueueUrl": at.queue, "ReceiptHandle": at.deleted, "VisibilityTimeout": 5},
        IPV,
        lambda at: (
            f"Value {at.deleted} for parameter ReceiptHandle is invalid. "
            "Reason: Message does not exist or is not available for visibility timeout change."
        ),
    ),
    Row(
        "empty batch",
        "SendMessageBatch",
        lambda at: {"QueueUrl": at.queue, "Entries": []},
        prefixed("EmptyBatchRequest"),
        "There should be at least one SendMessageBatchRequestEntry in the request.",
    ),
    Row(
        "empty batch of deletes",
        "DeleteMessageBatch",
        lambda at: {"QueueUrl": at.queue, "Entries": []},
        prefixed("EmptyBatchRequest"),
        "There should be at least one DeleteMessageBatchRequestEntry in the request.",
    ),
    Row(
        "over 10 entries",
        "SendMessageBatch",
        lambda at: {"QueueUrl": at.queue, "Entries": entries(20)},
        prefixed("TooManyEntriesInBatchRequest"),
        "Maximum number of entries per request are 10. You have sent 20.",
    ),
    Row(
        "repeated entry ids",
        "SendMessageBatch",
        lambda at: {"QueueUrl": at.queue, "Entries": [*entries(3), *entries(3)[2:]]},
        prefixed("BatchEntryIdsNotDistinct"),
        "Id id_2 repeated.",
    ),
    Row(
        "bad entry id",
        "SendMessageBatch",
        lambda at: {"QueueUrl": at.queue, "Entries": [{"Id": "a.b", "MessageBody": "x"}]},
        prefixed("InvalidBatchEntryId"),
        "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
        "It can be at most 80 letters long.",
    ),
    Row(
        "batch too long",
        "SendMessageBatch",
        lambda at: {
            "QueueUrl": at.queue,
            "Entries": [
                {"Id": "a", "MessageBody": "x" * (LIMIT // 2)},
                {"Id": "b", "MessageBody": "x" * (LIMIT // 2 + 1)},
            ],
        },
        prefixed("BatchRequestTooLong"),
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
    ),
    Row(
        "over 7 permission actions",
        "AddPermission",
        lambda at: {
            "QueueUrl": at.queue,
            "Label": "many",
            "AWSAccountIds": ["000000000000"],
            "Actions": ["SendMessage"] * 8,
        },
        same("OverLimit"),
        "8 Actions were found, maximum allowed is 7.",
        403,
    ),
    Row(
        "duplicate permission label",
        "AddPermission",
        lambda at: {
            "QueueUrl": at.queue,
            "Label": "there",
            "AWSAccountIds": ["000000000000"],
            "Actions": ["SendMessage"],
        },
        IPV,
        "Value there for parameter Label is invalid. Reason: Already exists.",
    ),
    Row(
        "unknown permission label",
        "RemovePermission",
        lambda at: {"QueueUrl": at.queue, "Label": "nowhere"},
        IPV,
        "Value nowhere for parameter Label is invalid. Reason: can't find label.",
    ),
    Row(
        "move task, source not a dead-letter queue",
        "StartMessageMoveTask",
        lambda at: {"SourceArn": arn_of(at.queue)},
        IPV,
        "Source queue must be configured as a Dead Letter Queue.",
    ),
    Row(
        "move task, no destination",
        "StartMessageMoveTask",
        lambda at: {"SourceArn": arn_of(at.letters), "DestinationArn": arn_of(at.queue) + "-nope"},
        same("ResourceNotFoundException"),
        "The resource that you specified for the DestinationArn parameter doesn't exist.",
        404,
    ),
    Row(
        "unknown move task",
        "CancelMessageMoveTask",
        lambda at: {"TaskHandle": at.finished_task},
        same("ResourceNotFoundException"),
        "Task does not exist.",
        404,
    ),
    Row(
        "second move task",
        "StartMessageMoveTask",
        lambda at: {"SourceArn": arn_of(at.busy_letters)},
        IPV,
        "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
    ),
]


class Places(NamedTuple):
    """Queues and handles for making mistakes with."""

    queue: str
    fifo: str
    small: str
    letters: str
    busy_letters: str
    expired: str
    deleted: str
    finished_task: str


@pytest.fixture(scope="module")
def at(shared_server):
    with contextlib.ExitStack() as stack:

        def make(name, **attributes):
            return stack.enter_context(queue_named(shared_server, name, **attributes))

        def call(action, **parameters):
            answer = in_json(shared_server, action, parameters)
            assert answer.status == 200, answer.body
            return answer.json if answer.body else {}

        queue = make("errors")
        fifo = make("errors.fifo", FifoQueue="true")
        letters, busy_letters = make("errors-dead"), make("errors-busy")
        for target, source in ((letters, "errors-source"), (busy_letters, "errors-busy-source")):
            make(source, RedrivePolicy=f'{{"deadLetterTargetArn":"{arn_of(target)}","maxReceiveCount":1}}')
        call("AddPermission", QueueUrl=queue, Label="there", AWSAccountIds=["000000000000"], Actions=["SendMessage"])
        for _ in range(6):
            call("SendMessageBatch", QueueUrl=busy_letters, Entries=entries(10))
        slow = {"SourceArn": arn_of(busy_letters), "DestinationArn": arn_of(queue), "MaxNumberOfMessagesPerSecond": 1}
        call("StartMessageMoveTask", **slow)
        task = call("StartMessageMoveTask", SourceArn=arn_of(letters))["TaskHandle"]
        yield Places(
            queue,
            fifo,
            make("errors-small", MaximumMessageSize="1024"),
            letters,
            busy_letters,
            _expired(call, fifo),
            _deleted(call, queue),
            _finished(call, letters, task),
        )


def _expired(call, fifo):
    """Return the handle of a receive from a FIFO queue after which the message was received again."""
    call("SendMessage", QueueUrl=fifo, MessageBody="x", MessageGroupId="expired", MessageDeduplicationId="expired")
    first, _ = (call("ReceiveMessage", QueueUrl=fifo, VisibilityTimeout=0)["Messages"][0] for _ in range(2))
    return first["ReceiptHandle"]


def _deleted(call, queue):
    call("SendMessage", QueueUrl=queue, MessageBody="x")
    handle = call("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=5)["Messages"][0]["ReceiptHandle"]
    call("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle)
    return handle


def _finished(call, letters, task):
    deadline = time.monotonic() + 20
    while call("ListMessageMoveTasks", SourceArn=arn_of(letters))["Results"][0]["Status"] == "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return task


def each_row(test):
    return pytest.mark.parametrize("row", ROWS, ids=[row.mistake.replace(" ", "-") for row in ROWS])(test)


def message_of(row, at):
    return row.message(at) if callable(row.message) else row.message


def error_in_xml(code, message, request_id, fault="Sender"):
    escaped = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    return (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{fault}</Type><Code>{code}</Code>'
        f"<Message>{escaped}</Message><Detail/></Error><RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()


@each_row
def test_a_mistake_in_json_gets_the_type_the_code_and_the_message_of_aws(shared_server, at, row):
    answer = in_json(shared_server, row.action, row.parameters(at))

    type_, code = row.name
    assert (answer.status, answer.json) == (
        row.status,
        {"__type": f"com.amazonaws.sqs#{type_}", "message": message_of(row, at)},
    )
    # A bare name: Java's SDKs know no "com.amazonaws.sqs#QueueDoesNotExist", and would raise what they raise for
    # everything that they do not know.
    assert answer.headers["x-amzn-errortype"] == type_
    assert answer.headers["x-amzn-query-error"] == f"{code};Sender"
    assert answer.headers["content-type"] == "application/x-amz-json-1.0"


@each_row
def test_a_mistake_in_a_form_gets_xml_with_the_code_of_aws(shared_server, at, row):
    parameters = row.parameters(at)

    answer = in_query(shared_server, row.action, parameters)

    said = row.in_query or message_of(row, at)
    assert answer.status == row.status
    assert answer.body == error_in_xml(row.name[1], said, answer.headers["x-amzn-requestid"])
    assert answer.headers["content-type"] == "text/xml"
    assert read_query(row.action, answer)["Error"]["Code"] == row.name[1]


@each_row
def test_boto3_raises_the_exception_of_a_mistake(sqs, at, row):
    parameters = row.parameters(at)
    methods = {action: method for method, action in sqs.meta.method_to_api_mapping.items()}

    with pytest.raises(ClientError) as raised:
        getattr(sqs, methods[row.action])(**parameters)

    assert raised.value.response["Error"]["Code"] == row.name[1]
    assert raised.value.response["Error"]["Message"] == message_of(row, at)
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == row.status
    shapes = {shape.name for shape in sqs.meta.service_model.error_shapes}
    assert type(raised.value).__name__ == (row.name[0] if row.name[0] in shapes else "ClientError")


def test_an_unknown_action_is_said_to_be_one_in_json(shared_server):
    answer = answer_to(shared_server, raw_json("FooBar", b"{}"))

    assert answer.status == 400
    assert answer.json == {
        "__type": "com.amazonaws.sqs#InvalidAction",
        "message": "The action FooBar is not valid for this endpoint.",
    }
    assert answer.headers["x-amzn-query-error"] == "InvalidAction;Sender"


def test_an_unknown_action_is_said_to_be_one_in_a_form(shared_server):
    answer = answer_to(shared_server, raw_form(b"Action=FooBar&Version=2012-11-05"))

    said = "The action FooBar is not valid for this endpoint."
    assert answer.status == 400
    assert answer.body == error_in_xml("InvalidAction", said, answer.headers["x-amzn-requestid"])


@pytest.mark.parametrize(
    "request_",
    [
        raw_json("ListQueues", b"{}", authorization=None),
        raw_form(b"Action=ListQueues", authorization=None),
        raw("GET", "/000000000000/errors?Action=ReceiveMessage", authorization=None),
    ],
    ids=["JSON", "Query", "GET"],
)
def test_a_call_without_authorization_gets_403(shared_server, request_):
    answer = answer_to(shared_server, request_)

    assert answer.status == 403
    assert b"MissingAuthenticationToken" in answer.body


@pytest.mark.parametrize("content_type", ["application/xml", "text/plain", "application/json", ""])
def test_a_body_in_neither_protocol_is_told_of_both(shared_server, content_type):
    answer = answer_to(shared_server, raw("POST", "/", b"<Send/>", **{"Content-Type": content_type}))

    assert 400 <= answer.status < 500
    assert b"application/x-amz-json-1.0" in answer.body
    assert b"application/x-www-form-urlencoded" in answer.body


@pytest.mark.parametrize("wire", [in_json, in_query], ids=["JSON", "Query"])
def test_a_batch_names_the_entry_with_illegal_characters(shared_server, at, wire):
    bad = {"Id": "bad", "MessageBody": "\x08"}
    answer = wire(shared_server, "SendMessageBatch", {"QueueUrl": at.queue, "Entries": [*entries(1), bad]})

    result = answer.json if wire is in_json else read_query("SendMessageBatch", answer)
    assert answer.status == 200
    assert [entry["Id"] for entry in result["Successful"]] == ["id_0"]
    [failed] = result["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("bad", "InvalidMessageContents", True)


def test_a_batch_to_a_fifo_queue_names_the_entries_without_a_group(sqs, at):
    good = {"Id": "good", "MessageBody": "x", "MessageGroupId": "batch", "MessageDeduplicationId": "batch"}
    bad = {"Id": "bad", "MessageBody": "x", "MessageDeduplicationId": "other"}

    result = sqs.send_message_batch(QueueUrl=at.fifo, Entries=[bad, good])

    assert [entry["Id"] for entry in result["Successful"]] == ["good"]
    [failed] = result["Failed"]
    assert (failed["Code"], failed["Message"]) == (
        "InvalidParameterValue",
        "The request must contain the parameter MessageGroupId.",
    )


def test_a_batch_to_a_fifo_queue_names_the_entries_without_a_deduplication_id(sqs, at):
    good = {"Id": "good", "MessageBody": "x", "MessageGroupId": "b2", "MessageDeduplicationId": "b2"}
    bad = {"Id": "bad", "MessageBody": "x", "MessageGroupId": "b2"}

    result = sqs.send_message_batch(QueueUrl=at.fifo, Entries=[good, bad])

    assert [entry["Id"] for entry in result["Successful"]] == ["good"]
    assert [(entry["Id"], entry["Code"]) for entry in result["Failed"]] == [("bad", "InvalidParameterValue")]


def test_a_batch_names_the_entry_that_is_larger_than_its_queue_takes(sqs, at):
    large = {"Id": "large", "MessageBody": "x" * 1025}

    result = sqs.send_message_batch(QueueUrl=at.small, Entries=[*entries(2), large])

    assert [entry["Id"] for entry in result["Successful"]] == ["id_0", "id_1"]
    assert [(entry["Id"], entry["Code"]) for entry in result["Failed"]] == [("large", "InvalidParameterValue")]


def test_a_batch_of_deletes_names_the_garbage_and_takes_what_is_gone_for_deleted(sqs, at):
    gone = {"Id": "gone", "ReceiptHandle": at.deleted}

    result = sqs.delete_message_batch(QueueUrl=at.queue, Entries=[gone, {"Id": "bad", "ReceiptHandle": "garbage"}])

    assert [entry["Id"] for entry in result["Successful"]] == ["gone"]
    assert [(entry["Id"], entry["Code"]) for entry in result["Failed"]] == [("bad", "ReceiptHandleIsInvalid")]


def test_a_batch_of_visibility_changes_names_what_is_not_in_flight(sqs, at):
    entry = {"Id": "gone", "ReceiptHandle": handle_of_nobody("errors"), "VisibilityTimeout": 1}

    result = sqs.change_message_visibility_batch(QueueUrl=at.queue, Entries=[entry])

    assert [(entry["Id"], entry["Code"]) for entry in result["Failed"]] == [("gone", "InvalidParameterValue")]


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    with (
        serving(tmp_path_factory.mktemp("strict"), "--durability", "fast", "--aws-strict", "true") as server,
        client(server, "sqs") as pointed,
    ):
        yield pointed


def test_a_queue_is_not_made_again_within_60_seconds_of_its_deletion(strict):
    strict.delete_queue(QueueUrl=strict.create_queue(QueueName="deleted")["QueueUrl"])

    with pytest.raises(strict.exceptions.QueueDeletedRecently) as raised:
        strict.create_queue(QueueName="deleted")

    assert raised.value.response["Error"]["Code"] == PREFIX + "QueueDeletedRecently"
    assert raised.value.response["Error"]["Message"] == (
        "You must wait 60 seconds after deleting a queue before you can create another with the same name."
    )
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_a_queue_is_not_purged_twice_within_60_seconds(strict):
    url = strict.create_queue(QueueName="purged")["QueueUrl"]
    strict.purge_queue(QueueUrl=url)

    with pytest.raises(strict.exceptions.PurgeQueueInProgress) as raised:
        strict.purge_queue(QueueUrl=url)

    assert raised.value.response["Error"]["Code"] == PREFIX + "PurgeQueueInProgress"
    assert raised.value.response["Error"]["Message"] == (
        "Only one PurgeQueue operation on purged is allowed every 60 seconds."
    )
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_nobody_has_to_wait_where_it_is_not_asked_for(sqs):
    for _ in range(2):
        url = sqs.create_queue(QueueName="errors-again")["QueueUrl"]
        sqs.purge_queue(QueueUrl=url)
        sqs.purge_queue(QueueUrl=url)
        sqs.delete_queue(QueueUrl=url)
