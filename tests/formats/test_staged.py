"""Staged messages: read, checked and packed by the thousand."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import BadBody, BadValue, StoreDamaged, TooLarge
from sqew.formats.columns import CHUNK, CHUNK_BYTES, check, columns, packed, read, unpack
from sqew.model import NewMessage, NewMessages
from sqew.rules.limits import Limits

LIMITS = Limits()
WORDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.lists(
    st.builds(
        NewMessage,
        st.integers().map(lambda number: b"%d" % number),
        st.sampled_from(["json", "text"]),
        st.none() | st.dictionaries(WORDS, st.integers(), min_size=1),
        st.integers(-2, 2),
        st.none() | WORDS,
        st.none() | WORDS,
        st.none() | WORDS,
        st.none() | st.integers(0, 3),
        st.none() | st.integers(1, 3),
    )
)


def unpacked(messages, *, in_order=False):
    return [message for _, chunk in packed(messages, in_order=in_order) for message in unpack(chunk).messages]


def written(message):
    """Return a message as a client writes it."""
    body = msgspec.Raw(message.body) if message.format == "json" else message.body.decode()
    fields = {name: getattr(message, name) for name in NewMessage.__struct_fields__ if name != "body"}
    return {"message": body, **{name: value for name, value in fields.items() if value is not None}}


@given(MESSAGES)
def test_messages_are_the_same_by_the_column(messages):
    assert list(columns(messages)) == messages


@given(MESSAGES)
def test_messages_are_read_as_they_were_written(messages):
    array = msgspec.json.encode(list(map(written, messages)))
    lines = b"\n".join(msgspec.json.encode(written(message)) for message in messages)

    assert list(read(array)) == messages
    assert list(read(lines)) == messages


@given(MESSAGES)
def test_messages_are_the_same_when_they_were_packed_in_order(messages):
    assert unpacked(columns(messages), in_order=True) == messages


@given(MESSAGES)
def test_messages_of_one_lane_and_priority_keep_their_order_when_they_were_packed(messages):
    def of_each(found):
        return {
            (one.lane, one.priority): [m for m in found if (m.lane, m.priority) == (one.lane, one.priority)]
            for one in found
        }

    assert of_each(unpacked(columns(messages * 40))) == of_each(messages * 40)


def test_messages_that_are_alike_in_all_but_few_ways_are_packed_alike():
    messages = columns(NewMessage(b"%d" % n, priority=n % 3) for n in range(600))

    chunks = [unpack(chunk).messages for _, chunk in packed(messages, in_order=False)]

    assert all(chunk.are_alike for chunk in chunks)
    assert [(len(chunk), chunk.priorities) for chunk in chunks] == [(200, 0), (200, 1), (200, 2)]


def test_a_chunk_holds_neither_too_many_messages_nor_too_many_bytes():
    many = columns([NewMessage(b"1")] * (2 * CHUNK + 1))
    large = columns([NewMessage(b"1" * (CHUNK_BYTES // 2))] * 5 + [NewMessage(b"1" * (2 * CHUNK_BYTES))])

    assert [count for count, _ in packed(many, in_order=False)] == [CHUNK, CHUNK, 1]
    assert [count for count, _ in packed(large, in_order=False)] == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("message", "error", "told"),
    [
        (NewMessage(b"{"), BadBody, "not valid JSON"),
        (NewMessage(b"\xff", "text"), BadBody, "not valid UTF-8"),
        (NewMessage(b"1", priority=1_001), BadValue, "priority can't be 1001"),
        (NewMessage(b"1", delay_ms=-1), BadValue, "delay_ms can't be -1"),
        (NewMessage(b"1", ttl_ms=0), BadValue, "ttl_ms can't be 0"),
        (NewMessage(b"1", key=""), BadValue, "key can't be ''"),
        (NewMessage(b"1", group="x" * 300), BadValue, "group can't be"),
        (NewMessage(b"1", lane=""), BadValue, "lane can't be ''"),
        (NewMessage(b"1", headers={"a": "b" * 70_000}), TooLarge, "The headers have"),
        (NewMessage(b'"%s"' % (b"x" * 2_000_000)), TooLarge, "The body has 2000002 bytes"),
    ],
)
def test_the_message_that_may_not_be_sent_is_named_by_its_number(message, error, told):
    with pytest.raises(error, match=f"^Message 3: .*{told}"):
        check(columns([NewMessage(b"1"), NewMessage(b"2"), message, NewMessage(b"3")]), LIMITS)


def test_headers_that_are_not_what_they_were_are_found_out():
    [(_, chunk)] = packed(columns([NewMessage(b"1", headers={"trace": "abc"})]), in_order=True)

    with pytest.raises(StoreDamaged, match="the headers of staged messages are lost"):
        unpack(chunk.replace(b"abc", b"abd"))


def test_nothing_is_staged_by_who_has_nothing():
    check(NewMessages([]), LIMITS)

    assert read(b"") == read(b"[]") == columns([]) == NewMessages([])
    assert unpacked(NewMessages([])) == []
