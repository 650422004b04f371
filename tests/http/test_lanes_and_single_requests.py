"""Requests of one tick and the same requests one by one, with any bodies: the answers are the same."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from sqew.http.dialects.aws.sqs.receipt_handles import handle_of, mark_of
from sqew.model import Policy
from sqew.operations import Purge
from tests.http.one_tick import (
    ACK,
    AWS_DELETE,
    AWS_SEND,
    CREDENTIAL,
    QUEUE_URL,
    Place,
    Sent,
    aws,
    aws_bytes,
    held,
    left_behind,
    native_delete,
    place,
    sizes,
)  # fmt: skip

NO_TOKEN = "0" * 32


@pytest.fixture
def pair(tmp_path):
    """Yield two servers in one loop: requests go to the first in one tick, to the second one by one."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, contextlib.ExitStack() as stack:

        def start(name: str, policy: Policy) -> Place:
            manager = place(tmp_path / f"{name}.db", policy)
            stack.callback(lambda: runner.run(manager.__aexit__(None, None, None)))
            return runner.run(manager.__aenter__())

        policy = Policy(deduplicate="content", max_body_bytes=60)
        yield Pair(runner, start("together", policy), start("alone", policy))


class Pair:
    def __init__(self, runner: asyncio.Runner, together: Place, alone: Place) -> None:
        self.runner, self.together, self.alone = runner, together, alone
        self.batches = 0

    def compare(self, requests: Sequence[Sent], again: Sequence[Sent] | None = None) -> None:
        """Send requests to both servers and compare; ``again`` has those for the second server, where they differ."""
        answers = self.runner.run(self.together.at_once(requests))
        self.batches += any(size > 1 for _, size in sizes(self.together))
        expected = self.runner.run(self.alone.one_by_one(requests if again is None else again))
        assert [answer.alike for answer in answers] == [answer.alike for answer in expected]
        assert self.runner.run(self.together.stored()) == self.runner.run(self.alone.stored())

    def compare_counts(self) -> None:
        assert self.batches > 10, "they went one by one anyway"
        assert self.runner.run(left_behind(self.together)) == self.runner.run(left_behind(self.alone))


PAYLOADS = [
    b"1", b'"text"', b"null", b"", b"NaN", b"-Infinity", b"1e999", b"9" * 40, b'"\xff"', b'"\\ud800"', b'"\\u0000"',
    b'{"payload":1}', b"[" * 70 + b"]" * 70, b"[[[[]]]]", b" 1 ", b"{", b'{"a":1,"a":2}', b'"' + b"x" * 80 + b'"',
]  # fmt: skip
WHOLE = [
    b"", b"null", b"[]", b"{}", b'[{"payload":1}]', b'"payload"', b'{"payload":1}{"payload":2}', b'{"payload":1}\0',
    b'\xef\xbb\xbf{"payload":1}', b'{"payload":1,"payload":2}', b'{"p\\u0061yload":3}', b'{"payload":1,"payloads":2}',
    b'{"p\\u0061yload":3,"payload":4}', b'{"payload":1,"priority":3}', b'{"payload":1,"idempotency_key":"k"}',
    b'{"payload":"a","format":"text"}', b'{"payload":1,"lane":"none"}', b'{"payload":1,"headers":{"a":"b"}}',
]  # fmt: skip
BODIES = st.one_of(
    st.integers(0, 40).map(b'{"payload":%d}'.__mod__),
    st.sampled_from(PAYLOADS).map(b'{"payload":%b}'.__mod__),
    st.sampled_from(WHOLE),
)


def test_whatever_the_bodies_are_sends_are_answered_as_one_by_one(pair):
    @settings(max_examples=150)
    @given(st.lists(BODIES, min_size=2, max_size=8), st.sampled_from(["orders", "orders", "orders", "missing"]))
    def compare(bodies: list[bytes], queue: str) -> None:
        pair.compare([Sent(f"/queues/{queue}/messages", body) for body in bodies])

    compare()
    pair.compare_counts()


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "MessageBody": st.sampled_from(["a", "b", "\u00e9\U0001f600", "", "\x01", "\ufffe", "x" * 80, 1, None]),
        "QueueUrl": st.sampled_from(
            [
                "http://localhost/000000000000/orders",
                "http://elsewhere/123456789012/orders",
                "orders",
                "http://localhost/000000000000/missing",
                "http://localhost/000000000000/orders.fifo",
                "",
                None,
                7,
            ]
        ),
        "DelaySeconds": st.sampled_from([0, 901, None]),
        "MessageGroupId": st.just("g"),
        "MessageDeduplicationId": st.just("d"),
        "MessageAttributes": st.just({"a": {"DataType": "String", "StringValue": "x"}}),
        "Unknown": st.just(1),
    },
)
GOOD_FIELDS = st.integers(0, 40).map(lambda number: {"MessageBody": f"{number}", "QueueUrl": QUEUE_URL})
AWS_BODIES = st.one_of(
    GOOD_FIELDS.map(lambda fields: json.dumps(fields).encode()),
    FIELDS.map(lambda fields: json.dumps(fields).encode()),
    st.sampled_from([b"", b"[]", b"null", b'{"MessageBody":"\xff"}', b'{"MessageBody":"a","MessageBody":"b"}', b"{}x"]),
)


def test_whatever_the_bodies_are_sqs_answers_sends_as_one_by_one(pair):
    @settings(max_examples=150)
    @given(
        st.lists(AWS_BODIES, min_size=2, max_size=8),
        st.sampled_from(["/", "/000000000000/orders", "/000000000000/missing"]),
        st.sampled_from([CREDENTIAL, CREDENTIAL.replace("us-east-1", "eu-west-1"), "not a signature"]),
    )
    def compare(bodies: list[bytes], path: str, authorization: str) -> None:
        pair.compare([aws_bytes(AWS_SEND, body, path, authorization) for body in bodies])

    compare()
    pair.compare_counts()


ACKS = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from(["held", "held", "stale", "by id", "elsewhere", "unknown", "bad", "twice"])
    ),
    min_size=2,
    max_size=8,
)


def acks(mine: Sequence[tuple[int, str]], chosen: Sequence[tuple[int, str]]) -> list[Sent]:
    """Return acks of the messages of one server, some of them wrong."""
    bodies = []
    for number, kind in chosen:
        id, token = mine[number]
        said = {
            "held": {"id": id, "token": token},
            "stale": {"id": id, "token": NO_TOKEN},
            "by id": {"id": id},
            "elsewhere": {"id": mine[-1][0], "token": mine[-1][1]},
            "unknown": {"id": 1 << 40},
            "bad": {"id": -1 if number % 2 else 1 << 63},
        }.get(kind)
        bodies.append(b'{"id":%d,"id":%d}' % (id, id) if said is None else json.dumps(said).encode())
    return [Sent(ACK, body) for body in bodies]


def deletes(mine: Sequence[tuple[int, str]], chosen: Sequence[tuple[int, str]]) -> list[Sent]:
    requests = []
    for number, kind in chosen:
        id, token = mine[number]
        handle = {
            "held": handle_of(id, token, mark_of("orders")),
            "stale": handle_of(id, NO_TOKEN, mark_of("orders")),
            "by id": "",
            "elsewhere": handle_of(mine[-1][0], NO_TOKEN, mark_of("others")),
            "unknown": handle_of(1 << 40, NO_TOKEN, mark_of("orders")),
            "bad": "\u00e9",
        }.get(kind)
        requests.append(aws(AWS_DELETE, QueueUrl=QUEUE_URL, **({} if handle is None else {"ReceiptHandle": handle})))
    return requests


def native_deletes(mine: Sequence[tuple[int, str]], chosen: Sequence[tuple[int, str]]) -> list[Sent]:
    requests = []
    for number, kind in chosen:
        id, token = mine[number]
        requests.append(
            {
                "held": native_delete(id, f"?token={token}"),
                "stale": native_delete(id, f"?token={NO_TOKEN}"),
                "elsewhere": native_delete(mine[-1][0]),
                "unknown": native_delete(1 << 40),
                "bad": native_delete(-1 if number % 2 else 1 << 63),
            }.get(kind, native_delete(id))
        )
    return requests


@pytest.mark.parametrize("settle", [acks, deletes, native_deletes])
def test_acks_of_what_is_held_lost_or_not_there_are_answered_as_one_by_one(pair, settle):
    async def hold(here: Place) -> list[tuple[int, str]]:
        await here.broker.run(Purge("orders", 1 << 62, 1_000))
        return [*await held(here, 6), *await held(here, 1, "others")]

    @settings(max_examples=100)
    @given(ACKS)
    def compare(chosen: list[tuple[int, str]]) -> None:
        mine, theirs = pair.runner.run(hold(pair.together)), pair.runner.run(hold(pair.alone))
        pair.compare(settle(mine, chosen), settle(theirs, chosen))

    compare()
    pair.compare_counts()
