"""Message move tasks: dead letters go back in the background, and clients can see how far a task is."""

import signal
import time

import pytest

from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sqs_wires import arn_of, name_of
from tests.support.serving import serving

REDRIVE = '{{"deadLetterTargetArn":"{}","maxReceiveCount":1}}'
WITHIN_S = 20


def make(sqs, name, dead_letters=None, **attributes):
    if dead_letters is not None:
        attributes["RedrivePolicy"] = REDRIVE.format(arn_of(dead_letters))
    return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]


def bury(sqs, queue, *bodies):
    """Send messages, and receive them until they are dead letters."""
    for body in bodies:
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    taken = 0
    while taken < len(bodies):
        taken += len(sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=0)["Messages"])
    # To look again is what finds them dead.
    assert "Messages" not in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)


def bodies_in(sqs, queue):
    found = []
    while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=60).get("Messages"):
        found += [message["Body"] for message in messages]
    return sorted(found)


def newest(sqs, letters):
    return sqs.list_message_move_tasks(SourceArn=arn_of(letters))["Results"][0]


def ended(sqs, letters):
    """Return the newest task, once it is over."""
    deadline = time.monotonic() + WITHIN_S
    while (task := newest(sqs, letters))["Status"] == "RUNNING":
        assert time.monotonic() < deadline, task
        time.sleep(0.01)
    return task


@pytest.fixture
def letters(sqs, request):
    """Return the URL of a dead-letter queue."""
    return make(sqs, f"{name_of(request)[:70]}-dead")


@pytest.fixture
def source(sqs, request, letters):
    """Return the URL of a queue whose dead letters go to ``letters``."""
    return make(sqs, f"{name_of(request)[:70]}-source", letters)


def test_dead_letters_go_back_to_each_origin(sqs, request, letters, source):
    other = make(sqs, f"{name_of(request)[:70]}-other", letters)
    bury(sqs, source, "a", "b")
    bury(sqs, other, "c")

    handle = sqs.start_message_move_task(SourceArn=arn_of(letters))["TaskHandle"]

    task = ended(sqs, letters)
    assert handle
    assert task["Status"] == "COMPLETED"
    assert (task["ApproximateNumberOfMessagesMoved"], task["ApproximateNumberOfMessagesToMove"]) == (3, 3)
    assert bodies_in(sqs, source) == ["a", "b"]
    assert bodies_in(sqs, other) == ["c"]


def test_dead_letters_go_to_the_destination_that_is_named(sqs, queue, letters, source):
    bury(sqs, source, "a", "b")
    sqs.send_message(QueueUrl=letters, MessageBody="sent there directly")

    sqs.start_message_move_task(SourceArn=arn_of(letters), DestinationArn=arn_of(queue))

    task = ended(sqs, letters)
    assert (task["Status"], task["DestinationArn"]) == ("COMPLETED", arn_of(queue))
    assert bodies_in(sqs, queue) == ["a", "b", "sent there directly"]
    assert bodies_in(sqs, source) == []


def test_a_message_that_came_from_nowhere_fails_the_task(sqs, letters, source):
    bury(sqs, source, "a")
    sqs.send_message(QueueUrl=letters, MessageBody="sent there directly")

    sqs.start_message_move_task(SourceArn=arn_of(letters))

    task = ended(sqs, letters)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert bodies_in(sqs, source) == ["a"]
    assert bodies_in(sqs, letters) == ["sent there directly"]


def test_a_message_whose_queue_is_gone_fails_the_task(sqs, request, letters, source):
    gone = make(sqs, f"{name_of(request)[:70]}-gone", letters)
    bury(sqs, gone, "a")
    sqs.delete_queue(QueueUrl=gone)

    sqs.start_message_move_task(SourceArn=arn_of(letters))

    task = ended(sqs, letters)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")


def test_what_dies_when_its_dead_letter_queue_is_gone_can_be_brought_back(shared_server, sqs, letters, source):
    sqs.delete_queue(QueueUrl=letters)
    bury(sqs, source, "a")
    assert bodies_in(sqs, source) == []

    back = shared_server.call("POST", f"/queues/{source.rpartition('/')[2]}/dlq/requeue", {})

    assert back.status == 200, back.body
    assert bodies_in(sqs, source) == ["a"]


def test_a_task_keeps_to_its_rate_and_shows_its_progress(sqs, queue, letters, source):
    for n in range(3):
        sqs.send_message(QueueUrl=letters, MessageBody=str(n))
    began = time.monotonic()

    sqs.start_message_move_task(SourceArn=arn_of(letters), DestinationArn=arn_of(queue), MaxNumberOfMessagesPerSecond=2)

    while (task := newest(sqs, letters))["ApproximateNumberOfMessagesMoved"] < 3:
        assert task["Status"] == "RUNNING"
        assert task["MaxNumberOfMessagesPerSecond"] == 2
        assert task["TaskHandle"]
        time.sleep(0.01)
    assert time.monotonic() - began >= 0.9


def test_a_cancelled_task_moves_nothing_more(sqs, queue, letters, source):
    for n in range(5):
        sqs.send_message(QueueUrl=letters, MessageBody=str(n))
    handle = sqs.start_message_move_task(
        SourceArn=arn_of(letters), DestinationArn=arn_of(queue), MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    while not newest(sqs, letters)["ApproximateNumberOfMessagesMoved"]:
        time.sleep(0.01)

    moved = sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"]

    task = newest(sqs, letters)
    assert 1 <= moved < 5
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("CANCELLED", moved)
    assert "TaskHandle" not in task
    assert len(bodies_in(sqs, queue)) == moved
    assert len(bodies_in(sqs, letters)) == 5 - moved


def test_a_task_that_is_over_can_not_be_cancelled(sqs, letters, source):
    handle = sqs.start_message_move_task(SourceArn=arn_of(letters))["TaskHandle"]
    ended(sqs, letters)

    with pytest.raises(sqs.exceptions.ResourceNotFoundException):
        sqs.cancel_message_move_task(TaskHandle=handle)


def test_the_newest_task_is_listed_first_and_ten_at_most(sqs, letters, source):
    started = []
    for _ in range(12):
        sqs.start_message_move_task(SourceArn=arn_of(letters))
        started.append(ended(sqs, letters)["StartedTimestamp"])

    listed = sqs.list_message_move_tasks(SourceArn=arn_of(letters), MaxResults=10)["Results"]

    assert [task["StartedTimestamp"] for task in listed] == started[:1:-1]


def test_what_dies_again_meanwhile_is_not_moved_a_second_time(sqs, letters, source):
    bury(sqs, source, "poison")
    for n in range(3):
        sqs.send_message(QueueUrl=letters, MessageBody=str(n))
    handle = sqs.start_message_move_task(SourceArn=arn_of(letters), MaxNumberOfMessagesPerSecond=1)["TaskHandle"]
    while not newest(sqs, letters)["ApproximateNumberOfMessagesMoved"]:
        time.sleep(0.01)

    sqs.receive_message(QueueUrl=source, VisibilityTimeout=0)
    sqs.receive_message(QueueUrl=source)

    task = ended(sqs, letters)
    assert task["ApproximateNumberOfMessagesMoved"] == 1
    assert handle
    assert "poison" in bodies_in(sqs, letters)


@pytest.mark.parametrize("rate", [0, 501])
def test_a_rate_is_from_1_to_500(sqs, letters, source, rate):
    with pytest.raises(sqs.exceptions.ClientError) as raised:
        sqs.start_message_move_task(SourceArn=arn_of(letters), MaxNumberOfMessagesPerSecond=rate)

    assert raised.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_a_fifo_queue_is_redriven_to_fifo_queues_only(sqs, request, queue):
    letters = make(sqs, f"{name_of(request)[:60]}-dead.fifo", FifoQueue="true")
    make(sqs, f"{name_of(request)[:60]}.fifo", letters, FifoQueue="true")

    with pytest.raises(sqs.exceptions.ClientError) as raised:
        sqs.start_message_move_task(SourceArn=arn_of(letters), DestinationArn=arn_of(queue))

    assert raised.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_a_task_goes_on_after_the_server_was_killed(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server, client(server, "sqs") as sqs:
        letters, queue = make(sqs, "dead"), make(sqs, "destination")
        make(sqs, "source", letters)
        for _ in range(2):
            sqs.send_message_batch(QueueUrl=letters, Entries=[{"Id": str(n), "MessageBody": str(n)} for n in range(10)])
        sqs.start_message_move_task(
            SourceArn=arn_of(letters), DestinationArn=arn_of(queue), MaxNumberOfMessagesPerSecond=10
        )
        while not newest(sqs, letters)["ApproximateNumberOfMessagesMoved"]:
            time.sleep(0.01)
        assert newest(sqs, letters)["Status"] == "RUNNING"
        server.stop(signal.SIGKILL)

    with serving(tmp_path, "--durability", "fast", db=server.db) as server, client(server, "sqs") as sqs:
        task = ended(sqs, letters)

        assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 20)
        queue = sqs.get_queue_url(QueueName="destination")["QueueUrl"]
        assert bodies_in(sqs, queue) == sorted(str(n) for n in range(10) for _ in range(2))
