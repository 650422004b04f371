"""Requests of millions of small values: these are counted before any is decoded, so that no other request waits."""

import json
from urllib.parse import unquote_to_bytes

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import TooLarge
from sqew.formats.entry_limits import Crowd
from sqew.http.dialects.aws.query import parse
from sqew.http.dialects.aws.refusals import AwsError

LARGE = 4_000_000
JSON = {"Content-Type": "application/json"}
EPOCH = "/v1/queues/many/writers/w/epochs/1"
CALLER = "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/{}/aws4_request, SignedHeaders=host, Signature=0"
TOO_MANY = "have too many entries"


def many(entry, between=b","):
    return between.join([entry] * (LARGE // (len(entry) + 1)))


OBJECTS = b"[" + many(b"{}") + b"]"
LISTS = b"[" + many(b"[]") + b"]"
PAIRS = b"{" + b",".join(b'"%d":1' % number for number in range(400_000)) + b"}"
CROWDS = {"objects": OBJECTS, "lists": LISTS, "pairs": PAIRS}
"""Large bodies by name, which keeps them out of pytest's reports."""


@pytest.fixture(scope="module")
def server(shared_server):
    shared_server.call("POST", "/queues", {"name": "many"})
    return shared_server


def aws(server, target, body, service="sqs"):
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": target,
        "Authorization": CALLER.format(service),
    }
    return server.call("POST", "/", body, headers)


@pytest.mark.parametrize(
    ("entry", "between", "end"), [(b"{}", b",", b"]"), (b'{"message":1}', b",", b" and no JSON"), (b"{}", b"\n", b"")]
)
def test_no_more_messages_are_staged_at_once_than_may_be_and_the_others_are_not_read(server, entry, between, end):
    begin = b"" if between == b"\n" else b"["

    answer = server.call("POST", f"{EPOCH}/parts/p", begin + many(entry, between) + end, JSON)

    assert answer.status == 413
    assert b"10000 messages may be sent at once" in answer.body[:300]


def test_a_million_parts_are_not_promoted(server):
    answer = server.call("POST", f"{EPOCH}/promote", b'{"parts":%b}' % PAIRS, JSON)

    assert answer.status == 413
    assert TOO_MANY.encode() in answer.body[:300]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/queues", b'{"name":"x","lanes":%b}'),
        ("POST", "/queues/many/messages", b'{"payload":1,"headers":%b}'),
        ("POST", "/queues/many/messages", b'[{"payload":1,"headers":%b}]'),
        ("POST", "/v1/queues/many/messages", b'{"message":1,"headers":{"a":%b}}'),
        ("POST", "/v1/events/a.b", b'{"message":1,"headers":%b}'),
        ("PUT", "/v1/schedules/s", b'{"target":{"queue":"many","message":1,"headers":%b}}'),
        ("POST", "/queues/many/keys", b'{"scopes":%b}'),
        ("DELETE", "/v1/queues/many/archive", b'{"messages":%b}'),
        ("POST", "/queues/many/import", b'{"body":1,"headers":%b}'),
    ],
)
@pytest.mark.parametrize("crowd", CROWDS)
def test_lists_and_maps_in_bodies_are_not_made_where_they_are_too_many(server, method, path, body, crowd):
    kind = "application/x-ndjson" if path.endswith("import") else "application/json"

    answer = server.call(method, path, body % CROWDS[crowd], {"Content-Type": kind})

    assert answer.status == 413
    assert TOO_MANY.encode() in answer.body[:300]


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("AmazonSQS.SendMessage", b'{"QueueUrl":"many","MessageBody":"x","MessageAttributes":%b}'),
        ("AmazonSQS.SendMessageBatch", b'{"QueueUrl":"many","Entries":[{"Id":"a","MessageAttributes":%b}]}'),
        ("AmazonSQS.CreateQueue", b'{"QueueName":"many","Attributes":%b}'),
        ("AmazonSQS.ReceiveMessage", b'{"QueueUrl":"many","MessageAttributeNames":%b}'),
    ],
)
@pytest.mark.parametrize("crowd", CROWDS)
def test_what_clients_of_aws_send_is_not_made_where_it_is_too_many(server, target, body, crowd):
    answer = aws(server, target, body % CROWDS[crowd])

    assert answer.status == 400
    assert TOO_MANY.encode() in answer.body[:300]


@pytest.mark.parametrize("action", ["SendMessageBatch", "DeleteMessageBatch"])
def test_a_million_entries_are_not_made(server, action):
    answer = aws(server, f"AmazonSQS.{action}", b'{"QueueUrl":"many","Entries":%b}' % OBJECTS)

    assert answer.status == 400
    assert TOO_MANY.encode() in answer.body[:300]


def test_a_message_of_a_million_commas_is_no_crowd(server):
    body = b"[" + b"1," * 500_000 + b"1]"
    text = json.dumps({"QueueUrl": "many", "MessageBody": ("," * 99 + "\n") * 9_000}).encode()

    assert server.call("POST", "/queues/many/messages", b'{"payload":%b}' % body, JSON).status == 201
    batch = b"[" + b",".join([b'{"payload":%b}' % body] * 3) + b"]"
    assert server.call("POST", "/queues/many/messages", batch, JSON).status == 201
    assert aws(server, "AmazonSQS.SendMessage", text).status == 200


def test_what_a_million_escapes_name_is_no_queue(server):
    url = b'{"QueueUrl":"http://localhost/0/%b"}' % (b"%41" * 4_000_000)

    answer = aws(server, "AmazonSQS.PurgeQueue", url)

    assert answer.json["__type"] == "com.amazonaws.sqs#QueueDoesNotExist"


# How it is decoded


class Item(msgspec.Struct, forbid_unknown_fields=True):
    n: int = 0
    names: list[str] = []
    inner: dict[str, object] | None = None


KIND = Item | list[Item]
decode = msgspec.json.Decoder(KIND).decode
FILL = " " * 300_000
"""Padding that makes a body count as large."""
VALUES = st.one_of(st.integers(-3, 3), st.none(), st.text(max_size=3), st.lists(st.text(max_size=2), max_size=3))
ITEMS = st.dictionaries(st.sampled_from(["n", "names", "inner", "other"]), VALUES, max_size=4)
BODIES = st.one_of(ITEMS, st.lists(ITEMS | VALUES, max_size=5), VALUES)


def outcome(read, body):
    try:
        return read(body)
    except msgspec.MsgspecError as error:
        return str(error)


@given(BODIES)
def test_a_large_body_is_read_as_a_small_one_is(value):
    body = (json.dumps(value) + FILL).encode()

    assert outcome(Crowd(KIND, decode, 5).decode, body) == outcome(decode, body)


def test_one_entry_more_than_there_may_be_is_too_many():
    crowd = Crowd(KIND, decode, 5)

    assert crowd.decode(("[" + ",".join(["{}"] * 5) + "]" + FILL).encode()) == [Item()] * 5
    with pytest.raises(TooLarge, match="A batch may hold 5 entries"):
        crowd.decode(("[" + ",".join(["{}"] * 6) + "]" + FILL).encode())


def test_lists_in_lists_that_are_too_long_say_so():
    with pytest.raises(TooLarge, match=TOO_MANY):
        Crowd(KIND, decode, 5).decode(b'[{"names":[%b]}]' % (b'"",' * 400_000 + b'""'))


# Forms


@given(
    st.lists(
        st.sampled_from(
            [
                b"%",
                b"%4",
                b"%41",
                b"%C3%A9",
                b"%zz",
                b"+",
                b"=",
                b"\r\n",
                b"\n",
                b"\r",
                b"_",
                b"a",
                b" ",
                b"%0A",
                b"%3d",
                b".",
            ]
        )
    )
)
def test_a_form_is_unescaped_as_the_library_does_it(pieces):
    text = b"".join(pieces)
    unescaped = unquote_to_bytes(text.replace(b"+", b" "))
    try:
        expected = unescaped.decode()
    except UnicodeDecodeError:
        with pytest.raises(AwsError, match="UTF-8"):
            parse(b"x=" + text)
    else:
        assert parse(b"x=" + text) == {"x": expected}


def test_a_form_of_a_million_bare_percent_signs_is_refused():
    with pytest.raises(AwsError, match="percent-encoded"):
        parse(b"x=" + b"%" * 1_000_000)
