"""Messages as lines of JSON: an export can be imported again."""

import contextlib
import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqew import NewMessage, Queue
from sqew.clock import ManualClock
from sqew.errors import BadBody, BadValue, Invalid, SqewError, TooLarge
from sqew.formats.ndjson import batches, parse
from sqew.rules.limits import Limits

NOW = 1_700_000_000_000
LIMITS = Limits()

WHITESPACE = st.text(" \t\n\r", max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@st.composite
def json_bodies(draw):
    """Draw JSON as people write it: indented, escaped or not, with space around it."""
    value = draw(JSON)
    text = json.dumps(value, indent=draw(st.sampled_from([None, 1])), ensure_ascii=draw(st.booleans()))
    return (draw(WHITESPACE) + text + draw(WHITESPACE)).encode()


MESSAGES = st.builds(
    lambda body, **rest: NewMessage(body[0], body[1], **rest),
    st.tuples(json_bodies(), st.just("json")) | st.tuples(st.text().map(str.encode), st.just("text")),
    headers=st.none() | st.dictionaries(st.text(), JSON, min_size=1, max_size=3),
    priority=st.integers(-1_000, 1_000),
    lane=st.sampled_from([None, "a", "b"]),
    group=st.none() | st.text(min_size=1, max_size=20),
    delay_ms=st.none() | st.integers(0, 10**9),
    ttl_ms=st.none() | st.integers(10, 10**9),
)


@pytest.fixture
def q(tmp_path):
    with Queue.open(tmp_path / "queue.db", durability="fast", clock=ManualClock(NOW), random=Random(1)) as q:
        q.create("orders", lanes=["a", "b"])
        q.create("copy", lanes=["a", "b"])
        yield q


def carry(q, source="orders", to="copy"):
    return sum(q.import_lines(to, list(q.export(source))))


def told(message):
    """Return all that must survive: everything but the id, and the attempts that start anew."""
    return (
        message.body, message.format, message.headers, message.priority, message.lane, message.group, message.key,
        message.available_at, message.expires_at,
    )  # fmt: skip


def contents(q, queue):
    return sorted((told(message) for message in q.peek(queue, 1_000)), key=repr)


# Round trips


def test_any_messages_survive_the_way_out_and_in(tmp_path):
    with Queue.open(tmp_path / "queue.db", durability="fast", clock=ManualClock(NOW)) as q:
        q.create("orders", lanes=["a", "b"])
        q.create("copy", lanes=["a", "b"])

        @settings(max_examples=50)
        @given(st.lists(MESSAGES, max_size=6))
        def there_and_back(messages):
            q.purge("orders")
            q.purge("copy")
            q.enqueue_many("orders", messages)

            assert carry(q) == len(messages)

            assert contents(q, "copy") == contents(q, "orders")

        there_and_back()


def test_any_keys_survive_the_way_out_and_in(q):
    keys = ["k", "ключ", "a\nb", '"', "\\", "😀", " "]
    q.enqueue_many("orders", [NewMessage(b"1", key=key) for key in keys])

    carry(q)

    assert contents(q, "copy") == contents(q, "orders")


@pytest.mark.parametrize(
    "body",
    [
        b"1",
        b' {"a": 1}',
        b'{"a": 1} ',
        b"\t[1]\t",
        b'{\n  "a": 1\n}',
        b'{"a":\r\n1}',
        b'"\\ud83d\\ude00"',
        b"1.0",
        b"1e5",
        b"-0",
        b"0.10",
        b"123456789012345678901234567890",
        b'{"a":1,"a":2}',
        '"\u2028\u2029\x7f\x85"'.encode(),
        b"null",
    ],
)
def test_a_json_body_survives_byte_for_byte(q, body):
    q.enqueue_many("orders", [NewMessage(body)])

    carry(q)

    (message,) = q.peek("copy")
    assert (message.body, message.format) == (body, "json")


@pytest.mark.parametrize(
    "text", ["", "plain", "a\nb\r\n", '{"looks":"like json"}', "\u2028\x85\x0b\x0c\0", "😀", "null"]
)
def test_a_text_survives_byte_for_byte(q, text):
    q.enqueue("orders", text)

    carry(q)

    (message,) = q.peek("copy")
    assert (message.value, message.format) == (text, "text")


def test_every_message_is_one_line(q):
    q.enqueue_many("orders", ["a\nb\rc\u2028", {"x": "\n"}, NewMessage(b"[\n1\r\n]")])

    lines = list(q.export("orders"))

    assert len(lines) == len(b"".join(lines).split(b"\n")) - 1 == 3
    assert all(json.loads(line) for line in lines)


def test_a_second_export_gives_the_same_lines_but_for_ids_and_times(q):
    q.enqueue_many("orders", [NewMessage(b'{"a":1}', headers={"h": [1]}, priority=3, lane="b", group="g"), "text"])
    first = [json.loads(line) for line in q.export("orders")]

    carry(q)

    second = [json.loads(line) for line in q.export("copy")]
    for line in first + second:
        del line["id"]
    assert sorted(map(str, first)) == sorted(map(str, second))


def test_messages_in_every_state_are_exported(q):
    q.create("orders.fifo")
    q.enqueue_many(
        "orders.fifo", [NewMessage(b"1", group="g"), NewMessage(b"2", group="g"), NewMessage(b"3", group="h")]
    )
    q.claim("orders.fifo")
    q.enqueue("orders.fifo", 4, group="i", delay_seconds=60)

    states = sorted(json.loads(line)["state"] for line in q.export("orders.fifo"))

    assert states == ["blocked", "delayed", "leased", "ready"]


def test_the_order_within_a_group_survives(q):
    q.create("orders.fifo", dead_letter=None)
    q.create("copy.fifo", dead_letter=None)
    q.enqueue_many("orders.fifo", [NewMessage(str(n).encode(), group=f"g{n % 3}") for n in range(12)])

    carry(q, "orders.fifo", "copy.fifo")

    received = [message.value for message in q.claim_many("copy.fifo", 100)]
    for group in range(3):
        assert [n for n in received if n % 3 == group] == [n for n in range(12) if n % 3 == group]


def test_the_archive_is_exported_with_how_each_ended(q):
    q.create("kept", keep="archive", dead_letter=None)
    q.enqueue("kept", "done")
    q.ack(q.claim("kept"))
    q.enqueue("kept", "dead")
    q.dead_letter(q.claim("kept"), reason="broken")

    lines = [json.loads(line) for line in q.export("kept", archive=True)]

    assert {(line["body"], line["outcome"], line.get("reason")) for line in lines} == {
        ("done", "done", None),
        ("dead", "dead", "broken"),
    }


def test_an_export_sees_one_moment_and_holds_nobody_up(q):
    q.enqueue_many("orders", range(3))
    lines = q.export("orders")
    first = next(lines)

    q.enqueue("orders", "later")
    q.purge("orders")

    assert len([first, *lines]) == 3


def test_a_queue_in_memory_can_be_carried_to_another_line_by_line():
    """Check this in memory, where the export reads on the same connection: each line that was sent broke it off."""
    with Queue.open(":memory:") as q:
        q.create("orders")
        q.create("copy")
        q.enqueue_many("orders", range(3))

        assert sum(q.import_lines("copy", q.export("orders"))) == 3


# Importing


def test_only_a_body_is_needed(q):
    assert list(q.import_lines("orders", [b'{"body":{"sku":7}}', b"", b"  \n", b'{"raw":"[\\n1]"}\n'])) == [2]
    assert [message.value for message in q.peek("orders")] == [{"sku": 7}, [1]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"payload":1}', NewMessage(b"1")),
        (b'{"message":{"a": 1}}', NewMessage(b'{"a": 1}')),
        (b'{"payload":"t","format":"text"}', NewMessage(b"t", "text")),
        (b'{"payload":1,"idempotency_key":"k","group_id":"g"}', NewMessage(b"1", key="k", group="g")),
        (b'{"payload":1,"delay_ms":5,"ttl_ms":7}', NewMessage(b"1", delay_ms=5, ttl_ms=7)),
        (b'{"message":1,"delay":1.5,"ttl":60}', NewMessage(b"1", delay_ms=1_500, ttl_ms=60_000)),
    ],
)
def test_a_line_may_use_the_names_of_any_dialect(line, message):
    assert parse(line, NOW, LIMITS) == message


def test_lines_are_sent_in_batches(q):
    assert list(q.import_lines("orders", (b'{"body":1}' for _ in range(2_500)))) == [1_000, 1_000, 500]


def test_messages_that_outlived_their_time_are_left_out(q):
    lines = [b'{"body":1,"expires_at":%d}' % (NOW + d) for d in (-1, 0, 1)]

    assert sum(q.import_lines("orders", lines)) == 1


def test_what_is_left_of_a_delay_and_a_life_comes_along(q):
    line = b'{"body":1,"available_at":%d,"expires_at":%d}' % (NOW + 500, NOW + 900)

    list(q.import_lines("orders", [line]))

    (message,) = q.peek("orders")
    assert (message.available_at, message.expires_at) == (NOW + 500, NOW + 900)


def test_importing_into_a_queue_that_does_not_exist_reads_nothing(q):
    def lines():
        raise AssertionError("read")
        yield

    with pytest.raises(SqewError, match="'missing' does not exist"):
        list(q.import_lines("missing", lines()))


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"not json",
        b"[]",
        b"5",
        b"null",
        b"{}",
        b'{"body":1,"format":"xml"}',
        b'{"body":1,"format":"text"}',
        b'{"body":{"a":1},"format":"text"}',
        b'{"body":1,"priority":"high"}',
        b'{"body":1,"priority":5000}',
        b'{"body":1,"headers":[]}',
        b'{"body":1,"key":""}',
        b'{"body":1,"key":5}',
        b'{"body":1,"lane":5}',
        b'{"body":1,"expires_at":"soon"}',
        b'{"body":1,"available_at":99999999999999999}',
        b'{"body":"\xff","format":"text"}',
        b'{"raw":"{"}',
        b'{"raw":5}',
        b'{"body":' + b"[" * 100 + b"]" * 100 + b"}",
        b'{"body":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"body":"\\ud800","format":"text"}',
        b'{"body":1,"headers":{"a":' + b"[" * 100 + b"]" * 100 + b"}}",
        b'{"body":"' + b"x" * 1_048_577 + b'"}',
    ],
    ids=lambda line: ascii(line)[2:50],
)
def test_a_bad_line_is_refused_by_its_number_and_the_batches_before_it_are_sent(q, line):
    lines = [b'{"body":1}'] * 1_000 + [b'{"body":2}', line]

    with pytest.raises(SqewError, match="Line 1002: "):
        list(q.import_lines("orders", lines))

    assert q.stats("orders").depths.total() == 1_000


@pytest.mark.parametrize(
    ("line", "error"),
    [(b"{", BadBody), (b'{"body":1,"priority":5000}', BadValue), (b'{"body":"' + b"x" * 1_048_577 + b'"}', TooLarge)],
    ids=["no json", "priority", "size"],
)
def test_a_bad_line_keeps_the_kind_of_its_error(line, error):
    with pytest.raises(error, match=r"^Line 2: "):
        list(batches([b"", line], NOW, LIMITS))


@pytest.mark.parametrize("lines", [None, 5, [5], [None], b"{}"], ids=repr)
def test_what_are_no_lines_is_refused(lines):
    with pytest.raises(Invalid):
        list(batches(lines, NOW, LIMITS))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_line_raises_anything_but_our_own_errors(line):
    with contextlib.suppress(SqewError):
        parse(line, NOW, LIMITS)


def test_a_message_that_was_damaged_is_left_out_and_not_invented(q):
    """Check the import: a single damaged message kept a whole export from being imported."""
    lines = [b'{"id":7,"damaged":true}', b'{"body":1}']

    assert list(q.import_lines("orders", lines)) == [1]
    assert q.claim("orders").value == 1
