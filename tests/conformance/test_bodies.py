"""Bodies and headers: kept byte for byte on every path that a message can take."""

import hashlib

import pytest

from sqew.model import NewMessage, Ref
from sqew.operations import Ack, ListArchive, Send

KIB = 1024
SIZES = [0, 1, 2 * KIB - 1, 2 * KIB, 2 * KIB + 1, 64 * KIB, 1024 * KIB]

BODIES = {
    "JSON with odd white space": (b'\t{ "a" :\r\n [1 ,2 ] }  \n', "json"),
    "JSON with keys out of order and repeated": (b'{"b":1,"a":2,"b":3}', "json"),
    "JSON numbers that floats can't hold": (b"[1.0,1e400,12345678901234567890123,-0.0]", "json"),
    "JSON escapes": (rb'"\u00e9\ud83d\ude00\/"', "json"),
    "a lone surrogate in JSON": (rb'"\ud800"', "json"),
    "text with every kind of sign": ("é e\u0301 \u202e \U0001f469\u200d\U0001f4bb \ufeff \uffff".encode(), "text"),
    "text with control characters": (bytes(range(1, 32)), "text"),
    "a zero byte": (b"a\x00b", "text"),
    "bytes that are not UTF-8": (bytes(range(256)), "text"),
    "what looks like SQL": (b"'); DROP TABLE sqew_message; --", "text"),
    "nothing at all": (b"", "text"),
}


@pytest.mark.parametrize(("body", "format"), BODIES.values(), ids=BODIES)
def test_a_body_is_kept_byte_for_byte_and_so_is_its_format(store, body, format):
    store.create()
    id = store.send(body, format=format)
    store.reopen()

    for message in (store.get(id), *store.peek(), store.take(lease_ms=0), *store.receive(5)):
        assert (message.body, message.format, message.damaged) == (body, format, False)


def large(size):
    return (hashlib.sha512(str(size).encode()).digest() * (size // 64 + 1))[:size]


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_is_the_same_on_every_path(store, size):
    store.create("dead")
    store.create(keep="archive", dead_letter="dead", max_attempts=1)
    body, headers = large(size), {"size": size}
    id = store.send(body, format="text", headers=headers)

    def same(message):
        assert (message.id, message.body, message.headers) == (id, body, headers)
        assert not message.damaged
        return message

    same(store.get(id))
    same(store.peek()[0])
    store.nack(same(store.take()))
    same(store.dead()[0])
    same(store.receive(5, "dead", lease_ms=0)[0])
    store.requeue()
    store.ack(same(store.receive(5)[0]))
    [entry] = store.run(ListArchive("jobs")).messages
    same(entry.message)


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_dies_into_the_archive_and_comes_back_whole(store, size):
    store.create(max_attempts=1)
    body = large(size)
    id = store.send(body, format="text")
    store.nack(store.take())

    assert store.dead()[0].body == body
    store.requeue()

    message = store.take()
    assert (message.id, message.body, message.damaged) == (id, body, False)


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_is_finished_by_its_receive(store, size):
    store.create(keep="archive")
    body = large(size)
    store.send(body, format="text")

    assert store.receive(finish=True)[0].body == body
    assert store.run(ListArchive("jobs")).messages[0].message.body == body


def test_large_and_small_bodies_in_one_batch_keep_to_their_messages(store):
    store.create()
    bodies = [large(size) for size in SIZES] * 2

    sent = store.run(Send("jobs", [NewMessage(body, "text") for body in bodies]))

    received = {message.id: message.body for message in store.receive(100)}
    assert received == {entry.id: body for entry, body in zip(sent, bodies, strict=True)}


def test_large_bodies_in_a_fifo_group_keep_to_their_messages(store):
    store.create(fifo=True)
    bodies = [large(size) for size in SIZES]
    store.run(Send("jobs", [NewMessage(body, "text", group="g") for body in bodies]))

    assert [message.body for message in store.receive(100)] == bodies


def test_an_acked_large_body_leaves_the_others_alone(store):
    store.create()
    first = store.send(large(5000), format="text")
    second = store.send(large(6000), format="text")

    store.run(Ack("jobs", [Ref(first)]))

    assert store.get(second).body == large(6000)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"a": "b"},
        {"é\U0001f600": ["x", 1, 2.5, None, True, {"nested": {}}]},
        {"empty": "", "": "empty", "quote": "\"'\\", "zero": "\x00"},
        {"_schedule": {"id": 1}, "big": 2**60},
        {"long": "x" * 50_000},
    ],
)
def test_headers_are_kept(store, headers):
    store.create()
    id = store.send(headers=headers)
    store.reopen()

    assert store.get(id).headers == headers
    assert store.take().headers == headers


def test_without_headers_there_are_none(store):
    store.create()
    store.send()

    assert store.take().headers == {}


@pytest.mark.parametrize("odd", ["", "é\U0001f600", "a'b\"c", "x" * 256, "%_", " "])
def test_keys_groups_and_holders_are_taken_literally(store, odd):
    store.create(fifo=True)
    id = store.send(key=odd, group=odd or None)
    store.send(group=odd or None)

    [again] = store.run(Send("jobs", [NewMessage(b"1", key=odd)]))
    message = store.take(by=odd)

    assert (again.id, again.duplicate) == (id, True)
    assert message.key == odd
    assert store.receive(5) == []
    [settled] = store.run(Ack("jobs", [Ref(id, by=odd)]))
    assert settled.id == id


@pytest.mark.parametrize("priority", [-1000, 1000])
def test_extreme_priorities_are_kept(store, priority):
    store.create()
    middle, extreme = store.send(), store.send(priority=priority)

    assert store.receive_ids(2) == ([extreme, middle] if priority > 0 else [middle, extreme])
