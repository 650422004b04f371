"""boto3, as its users use it: both of its interfaces, its paginators, and its typed errors."""

import json
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from tests.http.dialects.aws.pointed import KEYS, REGION, client
from tests.support.serving import STORES, serving


@pytest.fixture(scope="session", params=STORES)
def shared_server(request, servers):
    """Return the shared server, on each store in turn."""
    return servers(request.param)


@pytest.fixture
def resource(shared_server):
    """Yield boto3's resource: queues and messages with methods."""
    session = boto3.session.Session(**KEYS, region_name=REGION)
    made = session.resource("sqs", endpoint_url=shared_server.url)
    yield made
    made.meta.client.close()


def receive(sqs, queue, **options):
    """Return all messages of one call, with all attributes."""
    asked = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"], "MaxNumberOfMessages": 10}
    return sqs.receive_message(QueueUrl=queue, **{**asked, **options}).get("Messages", [])


def attributes(sqs, queue):
    return sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]


def arn(sqs, queue):
    return attributes(sqs, queue)["QueueArn"]


def test_a_message_is_sent_received_and_deleted(sqs, queue):
    sent = sqs.send_message(QueueUrl=queue, MessageBody="größer — 好 🎉")

    (message,) = receive(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "größer — 好 🎉")
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert attributes(sqs, queue)["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_attributes_of_every_type_come_back_as_they_were_given(sqs, queue):
    given = {
        "name": {"DataType": "String", "StringValue": "Ada"},
        "price": {"DataType": "Number.float", "StringValue": "12.50"},
        "photo": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
    }
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}

    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=given, MessageSystemAttributes=trace)
    (message,) = receive(sqs, queue)

    assert message["MessageAttributes"] == given
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["AWSTraceHeader"] == trace["AWSTraceHeader"]["StringValue"]


def test_objects_do_what_calls_do(resource):
    queue = resource.create_queue(QueueName="objects", Attributes={"VisibilityTimeout": "60"}, tags={"team": "a"})
    queue.send_messages(Entries=[{"Id": str(number), "MessageBody": f"m{number}"} for number in range(3)])

    messages = queue.receive_messages(MaxNumberOfMessages=10, AttributeNames=["All"])
    messages[0].change_visibility(VisibilityTimeout=0)
    messages[1].delete()
    queue.delete_messages(Entries=[{"Id": "last", "ReceiptHandle": messages[2].receipt_handle}])
    (again,) = queue.receive_messages(AttributeNames=["ApproximateReceiveCount"])

    assert sorted(message.body for message in messages) == ["m0", "m1", "m2"]
    assert (again.message_id, again.attributes) == (messages[0].message_id, {"ApproximateReceiveCount": "2"})
    assert queue.attributes["VisibilityTimeout"] == "60"
    assert resource.get_queue_by_name(QueueName="objects").url == queue.url
    assert [found.url for found in resource.queues.filter(QueueNamePrefix="object")] == [queue.url]


def test_objects_find_the_sources_of_a_dead_letter_queue(resource):
    dead = resource.create_queue(QueueName="objects-dead")
    redrive = json.dumps({"deadLetterTargetArn": dead.attributes["QueueArn"], "maxReceiveCount": "3"})
    sources = [
        resource.create_queue(QueueName=f"objects-source-{number}", Attributes={"RedrivePolicy": redrive})
        for number in range(2)
    ]

    found = dead.dead_letter_source_queues.all()

    assert sorted(queue.url for queue in found) == sorted(queue.url for queue in sources)


def test_paginators_reach_every_queue(sqs):
    made = {sqs.create_queue(QueueName=f"paged-{number}")["QueueUrl"] for number in range(7)}

    pages = list(sqs.get_paginator("list_queues").paginate(QueueNamePrefix="paged-", PaginationConfig={"PageSize": 3}))

    assert [len(page["QueueUrls"]) for page in pages] == [3, 3, 1]
    assert {url for page in pages for url in page["QueueUrls"]} == made


def test_a_paginator_reaches_every_source_of_a_dead_letter_queue(sqs, queue):
    redrive = json.dumps({"deadLetterTargetArn": arn(sqs, queue), "maxReceiveCount": 1})
    made = {
        sqs.create_queue(QueueName=f"paged-source-{number}", Attributes={"RedrivePolicy": redrive})["QueueUrl"]
        for number in range(3)
    }

    paginator = sqs.get_paginator("list_dead_letter_source_queues")
    pages = list(paginator.paginate(QueueUrl=queue, PaginationConfig={"PageSize": 2}))

    assert [len(page["queueUrls"]) for page in pages] == [2, 1]
    assert {url for page in pages for url in page["queueUrls"]} == made


def test_long_polls_are_woken_by_sends(sqs, queue):
    began = time.monotonic()

    bodies = []
    with ThreadPoolExecutor(1) as pool:
        for number in range(10):
            waiting = pool.submit(receive, sqs, queue, WaitTimeSeconds=20)
            # A round trip more, so that most of the polls are there before the message is.
            attributes(sqs, queue)
            sqs.send_message(QueueUrl=queue, MessageBody=f"m{number}")
            bodies += [message["Body"] for message in waiting.result(timeout=30)]

    assert bodies == [f"m{number}" for number in range(10)]
    assert time.monotonic() - began < 15


def test_a_long_poll_of_the_queue_ends_empty_after_its_time(sqs, queue):
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"ReceiveMessageWaitTimeSeconds": "1"})

    began = time.monotonic()
    answer = sqs.receive_message(QueueUrl=queue)

    assert "Messages" not in answer
    assert 0.9 < time.monotonic() - began < 10


def test_a_batch_says_which_entries_failed(sqs, fifo):
    entries = [
        {"Id": "good", "MessageBody": "x", "MessageGroupId": "a", "MessageDeduplicationId": "1"},
        {"Id": "no-key", "MessageBody": "x", "MessageGroupId": "a"},
    ]

    answer = sqs.send_message_batch(QueueUrl=fifo, Entries=entries)

    assert [entry["Id"] for entry in answer["Successful"]] == ["good"]
    assert [(entry["Id"], entry["SenderFault"], entry["Code"]) for entry in answer["Failed"]] == [
        ("no-key", True, "InvalidParameterValue")
    ]


def test_a_fifo_queue_keeps_the_order_of_a_group_and_drops_what_it_has_seen(sqs, fifo):
    for body, key in [("first", "1"), ("second", "2"), ("first again", "1")]:
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=key)
    sqs.send_message(QueueUrl=fifo, MessageBody="other", MessageGroupId="h", MessageDeduplicationId="3")

    messages = receive(sqs, fifo)

    by_group = {
        group: [one["Body"] for one in messages if one["Attributes"]["MessageGroupId"] == group] for group in "gh"
    }
    assert by_group == {"g": ["first", "second"], "h": ["other"]}
    numbers = [int(one["Attributes"]["SequenceNumber"]) for one in messages]
    assert numbers == sorted(numbers)


def test_a_message_that_is_received_too_often_moves_to_the_dead_letter_queue(sqs, queue):
    redrive = json.dumps({"deadLetterTargetArn": arn(sqs, queue), "maxReceiveCount": "2"})
    source = sqs.create_queue(QueueName="fails-twice", Attributes={"RedrivePolicy": redrive, "VisibilityTimeout": "0"})[
        "QueueUrl"
    ]
    sent = sqs.send_message(QueueUrl=source, MessageBody="poison")

    tries = [len(receive(sqs, source)) for _ in range(3)]
    (dead,) = receive(sqs, queue)

    assert tries == [1, 1, 0]
    assert dead["MessageId"] == sent["MessageId"]
    assert dead["Attributes"]["DeadLetterQueueSourceArn"] == arn(sqs, source)


def test_dead_letters_are_moved_back_to_where_they_came_from(sqs, queue):
    redrive = json.dumps({"deadLetterTargetArn": arn(sqs, queue), "maxReceiveCount": "1"})
    attempts = {"RedrivePolicy": redrive, "VisibilityTimeout": "0"}
    source = sqs.create_queue(QueueName="fails-once", Attributes=attempts)["QueueUrl"]
    sent = sqs.send_message(QueueUrl=source, MessageBody="mended since")
    tries = [len(receive(sqs, source)) for _ in range(2)]

    task = sqs.start_message_move_task(SourceArn=arn(sqs, queue))["TaskHandle"]
    (again,) = receive(sqs, source, WaitTimeSeconds=10)

    assert tries == [1, 0]
    assert task
    assert (again["MessageId"], again["Body"]) == (sent["MessageId"], "mended since")
    (told,) = sqs.list_message_move_tasks(SourceArn=arn(sqs, queue))["Results"]
    assert told["Status"] in ("RUNNING", "COMPLETED")


def test_each_mistake_raises_the_exception_that_boto3_has_for_it(sqs, queue):
    errors = sqs.exceptions

    with pytest.raises(errors.QueueDoesNotExist) as unknown:
        sqs.get_queue_url(QueueName="nowhere")
    with pytest.raises(errors.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=queue, ReceiptHandle="garbage")
    with pytest.raises(errors.EmptyBatchRequest):
        sqs.send_message_batch(QueueUrl=queue, Entries=[])
    with pytest.raises(errors.BatchEntryIdsNotDistinct):
        sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "a", "MessageBody": "x"}] * 2)

    assert unknown.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert unknown.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_two_regions_are_two_sets_of_queues(shared_server, sqs):
    here = sqs.create_queue(QueueName="in-both")["QueueUrl"]
    sqs.send_message(QueueUrl=here, MessageBody="for us-east-1")

    with client(shared_server, "sqs", "eu-central-1") as elsewhere:
        there = elsewhere.create_queue(QueueName="in-both")["QueueUrl"]

        assert receive(elsewhere, there) == []
        assert arn(elsewhere, there) == "arn:aws:sqs:eu-central-1:000000000000:in-both"
    assert len(receive(sqs, here)) == 1


def test_credentials_that_the_server_knows_are_let_in_and_others_are_not(tmp_path):
    with serving(tmp_path, "--aws-credentials", "AKIDEXAMPLE:of-the-server") as server:
        known = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "of-the-server"}
        with client(server, "sqs", **known) as sqs, client(server, "sqs") as anybody:
            url = sqs.create_queue(QueueName="guarded")["QueueUrl"]
            with pytest.raises(ClientError) as refused:
                anybody.list_queues()
            presigned = AWSRequest("GET", f"{url}?Action=SendMessage&MessageBody=by+link")
            SigV4QueryAuth(Credentials(*known.values()), "sqs", REGION, expires=60).add_auth(presigned)
            with urllib.request.urlopen(presigned.prepare().url, timeout=10) as answer:
                assert answer.status == 200

            assert [message["Body"] for message in receive(sqs, url)] == ["by link"]
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_sixteen_threads_lose_and_double_nothing(sqs, queue):
    bodies = {f"{thread}-{number}" for thread in range(16) for number in range(10)}
    taken, lock = [], threading.Lock()

    def send(thread):
        entries = [{"Id": str(number), "MessageBody": f"{thread}-{number}"} for number in range(10)]
        assert len(sqs.send_message_batch(QueueUrl=queue, Entries=entries)["Successful"]) == 10

    def take(_):
        while messages := receive(sqs, queue):
            handles = [{"Id": str(at), "ReceiptHandle": one["ReceiptHandle"]} for at, one in enumerate(messages)]
            sqs.delete_message_batch(QueueUrl=queue, Entries=handles)
            with lock:
                taken.extend(one["Body"] for one in messages)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(send, range(16)))
        list(pool.map(take, range(16)))

    assert len(taken) == len(bodies)
    assert set(taken) == bodies
