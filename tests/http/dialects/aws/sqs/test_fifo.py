"""FIFO queues as SQS has them: deduplication, order, and receives that are repeated because the answer was lost."""

import pytest
from botocore.exceptions import ClientError

from tests.http.dialects.aws.sqs_wires import in_json


def send(sqs, url, body, group="g", **parameters):
    return sqs.send_message(
        QueueUrl=url, MessageBody=body, MessageGroupId=group, **{"MessageDeduplicationId": body, **parameters}
    )


def receive(sqs, url, **parameters):
    given = {"MaxNumberOfMessages": 10, "AttributeNames": ["All"], **parameters}
    return sqs.receive_message(QueueUrl=url, **given).get("Messages", [])


def handles(messages):
    return [(message["MessageId"], message["ReceiptHandle"]) for message in messages]


def test_a_repeated_id_sends_nothing_and_gets_the_first_answer(sqs, fifo):
    first = send(sqs, fifo, "a", MessageDeduplicationId="same")
    second = send(sqs, fifo, "b", MessageDeduplicationId="same")

    assert [message["Body"] for message in receive(sqs, fifo)] == ["a"]
    assert (second["MessageId"], second["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])


def test_a_deleted_message_is_still_remembered_by_its_id(sqs, fifo):
    send(sqs, fifo, "a")
    [message] = receive(sqs, fifo)
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=message["ReceiptHandle"])

    send(sqs, fifo, "a")

    assert receive(sqs, fifo) == []


def test_a_purge_that_kept_the_ids_swallowed_the_next_send(sqs, fifo):
    for body in ("deleted", "waiting"):
        send(sqs, fifo, body)
    first, _ = receive(sqs, fifo)
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"])

    sqs.purge_queue(QueueUrl=fifo)

    for body in ("deleted", "waiting"):
        send(sqs, fifo, body)
    assert [message["Body"] for message in receive(sqs, fifo)] == ["deleted", "waiting"]


def test_content_is_its_own_id_where_the_queue_says_so(sqs, fifo):
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"ContentBasedDeduplication": "true"})
    for body in ("a", "a", "b"):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g")

    messages = receive(sqs, fifo)

    assert [message["Body"] for message in messages] == ["a", "b"]
    assert messages[0]["Attributes"]["MessageDeduplicationId"] == (
        "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    )


def test_sequence_numbers_grow(sqs, fifo):
    sent = [send(sqs, fifo, body)["SequenceNumber"] for body in "abc"]

    received = [message["Attributes"]["SequenceNumber"] for message in receive(sqs, fifo)]

    assert sent == received == sorted(sent)
    assert all(len(number) == 20 and number.isdigit() for number in sent)


def test_a_group_in_flight_holds_back_the_rest_of_it_and_no_other(sqs, fifo):
    for body in ("a1", "a2", "b1"):
        send(sqs, fifo, body, group=body[0])

    first = receive(sqs, fifo, MaxNumberOfMessages=1)
    second = receive(sqs, fifo)

    assert [message["Body"] for message in first] == ["a1"]
    assert [message["Body"] for message in second] == ["b1"]


@pytest.mark.parametrize(
    ("method", "parameter", "others"),
    [
        ("send_message", "MessageDeduplicationId", {"MessageBody": "x"}),
        ("receive_message", "ReceiveRequestAttemptId", {}),
    ],
)
def test_a_standard_queue_takes_no_parameter_of_fifo_queues(sqs, queue, method, parameter, others):
    with pytest.raises(ClientError) as raised:
        getattr(sqs, method)(QueueUrl=queue, **{parameter: "d"}, **others)

    assert raised.value.response["Error"]["Message"] == (
        f"Value d for parameter {parameter} is invalid. "
        "Reason: The request include parameter that is not valid for this queue type."
    )


def test_a_standard_queue_shows_the_group_of_a_message_and_no_more(sqs, queue):
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", MessageGroupId="tenant")
    sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "a", "MessageBody": "x", "MessageGroupId": "tenant"}])

    messages = receive(sqs, queue)

    assert "SequenceNumber" not in sent
    assert [message["Attributes"]["MessageGroupId"] for message in messages] == ["tenant", "tenant"]
    assert not {"SequenceNumber", "MessageDeduplicationId"}.intersection(messages[0]["Attributes"])


def test_a_repeated_receive_gets_the_same_messages_and_handles(sqs, fifo):
    for body in "abc":
        send(sqs, fifo, body)

    first = receive(sqs, fifo, ReceiveRequestAttemptId="once", MaxNumberOfMessages=2)
    second = receive(sqs, fifo, ReceiveRequestAttemptId="once", MaxNumberOfMessages=2)

    assert [message["Body"] for message in first] == ["a", "b"]
    assert second == first
    assert receive(sqs, fifo, ReceiveRequestAttemptId="another") == []


def test_a_handle_of_a_repeated_receive_deletes(sqs, fifo):
    send(sqs, fifo, "a")
    receive(sqs, fifo, ReceiveRequestAttemptId="once")
    [message] = receive(sqs, fifo, ReceiveRequestAttemptId="once")

    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=message["ReceiptHandle"])

    assert receive(sqs, fifo, ReceiveRequestAttemptId="once") == []


def test_a_receive_is_not_repeated_once_a_message_of_it_is_deleted(sqs, fifo):
    for body in "ab":
        send(sqs, fifo, body)
    first, _ = receive(sqs, fifo, ReceiveRequestAttemptId="once")
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"])

    assert receive(sqs, fifo, ReceiveRequestAttemptId="once") == []


def test_a_receive_is_not_repeated_once_the_visibility_of_a_message_is_changed(sqs, fifo):
    send(sqs, fifo, "a")
    [first] = receive(sqs, fifo, ReceiveRequestAttemptId="once")
    sqs.change_message_visibility(QueueUrl=fifo, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)

    [second] = receive(sqs, fifo, ReceiveRequestAttemptId="once")

    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"


def test_an_attempt_of_one_queue_is_none_of_another(shared_server, sqs, fifo):
    send(sqs, fifo, "a")
    receive(sqs, fifo, ReceiveRequestAttemptId="once")
    other = sqs.create_queue(QueueName="another-attempt.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]

    assert receive(sqs, other, ReceiveRequestAttemptId="once") == []


@pytest.mark.parametrize("id", ["", "é", "x" * 129])
def test_an_attempt_has_a_name_of_1_to_128_letters(shared_server, fifo, id):
    answer = in_json(shared_server, "ReceiveMessage", {"QueueUrl": fifo, "ReceiveRequestAttemptId": id})

    assert answer.status == 400
    assert answer.json["__type"] == "com.amazonaws.sqs#InvalidParameterValueException"
