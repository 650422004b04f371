"""Message sizes: attributes, as in SQS and SNS, count as much as bodies."""

import pytest

from sqew.errors import BodyTooLarge, TooLarge
from sqew.model import NewMessage
from sqew.rules.limits import Limits
from sqew.rules.messages import attribute_bytes, check_message

LIMITS = Limits(max_body_bytes=1_000, max_headers_bytes=100)
MIB = 1_048_576


def text(size):
    return {"DataType": "String", "StringValue": "x" * size}


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        ({"a": text(10)}, 17),
        ({"é": text(10), "b": text(0)}, 18 + 7),
        ({"a": {"DataType": "Binary", "BinaryValue": "AAAA"}}, 10),
        ({"a": {"DataType": "Binary", "BinaryValue": "AAA="}}, 9),
        ({"a": {"DataType": "Binary", "BinaryValue": "AA=="}}, 8),
        ({"a": "x", "b": {"c": 1}, "_event": {"routing_key": "x"}}, 0),
        ({"a": {**text(10), "more": 1}}, 0),
    ],
)
def test_attributes_have_the_bytes_of_their_names_types_and_values(headers, size):
    assert attribute_bytes(headers) == size


@pytest.mark.parametrize("headers", [{"a": text(900)}, {"a": text(900), "b": "x" * 80}])
def test_attributes_have_more_room_than_other_headers(headers):
    check_message(NewMessage(b"1", headers=headers), LIMITS)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"a": "x" * 100}, "The headers have 108 bytes; 100 are allowed."),
        ({"a": text(10), "b": "x" * 100}, "The headers have 108 bytes; 100 are allowed."),
        ({"a": {**text(10), "more": "x" * 100}}, "The headers have 1.. bytes; 100 are allowed."),
        ({"a": text(993)}, r"The body has 1001 bytes with its attributes; 1000 are allowed"),
    ],
)
def test_what_is_no_attribute_or_too_large_is_refused(headers, message):
    with pytest.raises(TooLarge, match=message):
        check_message(NewMessage(b"1", headers=headers), LIMITS)


def test_the_limit_of_a_queue_counts_attributes(store):
    store.create(max_body_bytes=100)
    store.send(b"1" * 83, headers={"a": text(10)})

    with pytest.raises(BodyTooLarge, match="bytes with its attributes"):
        store.send(b"1" * 84, headers={"a": text(10)})

    assert store.total() == 1


@pytest.mark.parametrize(
    ("queue", "policy"),
    [("jobs", {}), ("jobs", {"lanes": {"normal": 1, "other": 1}}), ("jobs.fifo", {"fifo": True})],
    ids=["standard", "lanes", "FIFO"],
)
def test_an_answer_ended_only_at_8_mib_of_bodies_however_large_the_attributes(store, queue, policy):
    store.create(queue, **policy)
    for _ in range(10):
        store.send(queue=queue, headers={"a": text(MIB)})

    assert len(store.receive(100, queue)) == 8
