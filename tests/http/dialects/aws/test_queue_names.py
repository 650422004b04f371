"""Names of queues as clients give them: by name, by URL and by path, and never those of another region."""

import json
import tracemalloc

import pytest

from sqew.http.dialects.aws.names import AwsNames
from sqew.http.dialects.aws.refusals import AwsError
from tests.http.dialects.aws.pointed import client
from tests.http.dialects.aws.sqs_wires import answer_to, in_json, in_query, queue_named, raw_json, read_query

PREFIX = "AWS.SimpleQueueService."
NOWHERE = "com.amazonaws.sqs#QueueDoesNotExist"


@pytest.fixture
def names():
    return AwsNames("http://localhost:8888", "000000000000", "us-east-1")


@pytest.fixture(scope="module")
def elsewhere(shared_server):
    """Make a queue in eu-west-1, and return its whole name."""
    with client(shared_server, "sqs", "eu-west-1") as sqs:
        sqs.create_queue(QueueName="secretq")
    return "eu-west-1:secretq"


@pytest.mark.parametrize(
    "url",
    [
        "orders",
        "/000000000000/orders",
        "http://localhost:8888/000000000000/orders",
        "https://sqs.us-east-1.amazonaws.com/1/orders/",
        "http://[::1]:8888/000000000000/orders",
        "http://localhost/000000000000/%6frders?Action=SendMessage#top",
    ],
)
def test_a_queue_is_found_by_its_url_whatever_the_host(names, url):
    assert [names.queue_of_url(url) for _ in range(2)] == ["orders", "orders"]


UNREADABLE = ["http://[", "http://]/q[", "http://\u2100/a/b c", "http://orders", "http://", "://", "?", "http://x/a/"]


@pytest.mark.parametrize("url", UNREADABLE)
def test_a_queue_url_that_can_not_be_read_names_no_queue(shared_server, url):
    told = in_json(shared_server, "SendMessage", {"QueueUrl": url, "MessageBody": "x"})
    written = in_query(shared_server, "SendMessage", {"QueueUrl": url, "MessageBody": "x"})

    assert (told.status, told.json["__type"]) == (400, NOWHERE)
    assert written.status == 400
    assert read_query("SendMessage", written)["Error"]["Code"] == PREFIX + "NonExistentQueue"


def test_queue_urls_that_somebody_makes_up_do_not_fill_the_memory(names):
    tracemalloc.start()
    try:
        for number in range(40):
            names.queue_of_url(f"http://{'x' * 1_000_000}{number}/000000000000/orders")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1_000_000


def test_the_name_of_a_queue_in_another_region_is_not_a_name_here(shared_server, elsewhere):
    told = in_json(shared_server, "GetQueueUrl", {"QueueName": elsewhere})
    written = in_query(shared_server, "GetQueueUrl", {"QueueName": elsewhere})

    assert (told.status, told.json["__type"]) == (400, NOWHERE)
    assert b"NonExistentQueue" in written.body


@pytest.mark.parametrize("action", ["ListQueueTags", "ReceiveMessage", "DeleteQueue", "GetQueueAttributes"])
@pytest.mark.parametrize("colon", [":", "%3A"])
def test_a_path_does_not_lead_into_another_region(shared_server, elsewhere, action, colon):
    path = "/000000000000/" + elsewhere.replace(":", colon)

    told = answer_to(shared_server, raw_json(action, b"{}", path))
    written = in_query(shared_server, action, {}, path)

    assert (told.status, told.json["__type"]) == (400, NOWHERE)
    assert b"NonExistentQueue" in written.body


@pytest.mark.parametrize("name", ["eu-west-1:orders", "a b", "", "x" * 81, "orders.fifo.fifo", "ordérs"])
def test_what_can_not_be_a_name_is_not_looked_for(names, name):
    with pytest.raises(AwsError) as raised:
        names.queue(name)

    assert raised.value.type == "QueueDoesNotExist"


@pytest.mark.parametrize("region", ["", "EU", "eu west", "e", "a:b"])
def test_the_arn_of_a_queue_needs_a_region_that_can_be_one(shared_server, region):
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:{region}:000000000000:dead", "maxReceiveCount": 3}
    with queue_named(shared_server, "in-no-region") as url:
        answer = in_json(
            shared_server,
            "SetQueueAttributes",
            {"QueueUrl": url, "Attributes": {"RedrivePolicy": json.dumps(policy)}},
        )

    assert answer.status == 400
    assert "it must be the ARN of a queue" in answer.json["message"]
