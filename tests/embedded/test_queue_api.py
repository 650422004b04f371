"""The embedded API: SPEC 6 as it is written there, the sketch of seed 001 section 10, batches and bodies."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sqew import Message, MessageNotFound, NewMessage, NewMessages, Queue, QueueExists, QueueNotFound, StaleLease
from sqew.clock import ManualClock
from sqew.errors import BadBody, BadName, BadValue, SqewError, TooLarge, UnknownLane
from sqew.observe.eventlog import read


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def q(tmp_path, clock):
    with Queue.open(tmp_path / "queue.db", durability="fast", clock=clock) as q:
        q.create("orders", backoff={"base_ms": 0, "jitter_ms": 0})
        yield q


def values(messages):
    return [message.value for message in messages]


# As it is written


def test_the_example_of_the_specification_works_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    q = Queue.open("queue.db")
    q.create("orders", lanes={"priority": 3, "normal": 1}, max_attempts=5)
    id = q.enqueue("orders", {"sku": 7}, lane="priority", priority=1)
    m = q.claim("orders", lease_seconds=30, consumer="w1")
    q.extend_lease(m, 30)
    q.ack(m)
    stats = q.stats("orders")
    q.close()

    assert (m.id, m.value, m.lane, m.priority, m.attempts) == (id, {"sku": 7}, "priority", 1, 1)
    assert list(stats.depths.lanes) == ["priority", "normal"]
    assert stats.depths.total() == 0
    assert stats.totals["acked"] == 1
    assert stats.rates["acked"] > 0
    assert {"p50_ms", "p95_ms", "p99_ms"} <= set(stats.work["priority"].__struct_fields__)


def test_nacking_gives_the_message_back(q):
    q.enqueue("orders", 1)

    q.nack(q.claim("orders"))

    assert q.claim("orders").attempts == 2


def test_a_queue_is_made_from_a_list_of_lanes_and_a_base_backoff(q):
    info = q.create("topic", lanes=["priority", "normal"], max_attempts=3, base_backoff_ms=750)

    assert info.policy.lanes == {"priority": 1, "normal": 1}
    assert info.policy.max_attempts == 3
    assert info.policy.backoff.base_ms == 750


def test_the_base_backoff_is_what_a_nacked_message_waits(q, clock):
    q.create("topic", base_backoff_ms=750)
    q.enqueue("topic", "work")

    q.nack(q.claim("topic"))

    clock.advance(749)
    assert q.claim("topic") is None
    clock.advance(1 + 250)  # the jitter
    assert q.claim("topic").attempts == 2


def test_a_base_backoff_does_not_silently_replace_the_backoff_given_beside_it(q):
    """Check that the two, which name the same setting, are either combined or refused."""
    try:
        info = q.create("topic", backoff={"kind": "fixed"}, base_backoff_ms=750)
    except BadValue:
        return

    assert (info.policy.backoff.kind, info.policy.backoff.base_ms) == ("fixed", 750)


def test_claiming_by_lane_leaves_the_other_lanes_alone(q):
    q.create("topic", lanes=["a", "b"])
    q.enqueue("topic", 1, lane="a")

    assert q.claim("topic", lane="b", consumer="w1") is None
    assert q.claim("topic", lane="a", consumer="w1").value == 1


def test_the_holder_acks_by_id_and_consumer(q):
    q.enqueue("orders", 1)
    m = q.claim("orders", consumer="w1")

    q.ack(m.id, "w1")

    with pytest.raises(MessageNotFound):
        q.get("orders", m.id)


def test_the_holder_nacks_by_id_and_consumer(q):
    q.enqueue("orders", 1)
    m = q.claim("orders", consumer="w1")

    q.nack(m.id, "w1")

    assert q.get("orders", m.id).state == "ready"


def test_the_holder_extends_by_id_and_consumer(q, clock):
    q.enqueue("orders", 1)
    m = q.claim("orders", consumer="w1", lease_seconds=10)

    q.extend_lease(m.id, 60, "w1")

    clock.advance(59_000)
    assert q.claim("orders") is None


@pytest.mark.parametrize(
    "settle",
    [
        lambda q, id: q.ack(id, "w2"),
        lambda q, id: q.nack(id, "w2"),
        lambda q, id: q.extend_lease(id, 60, "w2"),
        lambda q, id: q.dead_letter(id, "w2"),
    ],
    ids=["ack", "nack", "extend_lease", "dead_letter"],
)
def test_another_consumer_is_refused_and_nothing_changes(q, settle):
    q.enqueue("orders", 1)
    m = q.claim("orders", consumer="w1")
    before = q.get("orders", m.id)

    with pytest.raises(StaleLease, match="no longer yours"):
        settle(q, m.id)

    assert q.get("orders", m.id) == before


def test_a_message_that_was_only_looked_at_can_not_be_settled_by_it(q):
    q.enqueue("orders", 1)
    q.claim("orders")
    (seen,) = q.peek("orders")

    with pytest.raises(BadValue, match="looked at, not claimed"):
        q.ack(seen)


def test_the_token_of_an_earlier_delivery_is_refused(q, clock):
    q.enqueue("orders", 1)
    first = q.claim("orders", lease_seconds=1)
    clock.advance(1_001)
    second = q.claim("orders")

    with pytest.raises(StaleLease):
        q.ack(first)
    q.ack(second)


# Batches


def test_a_batch_is_sent_in_order(q):
    ids = q.enqueue_many("orders", [1, "two", {"three": 3}])

    assert ids == sorted(ids)
    assert values(q.claim_many("orders", 10)) == [1, "two", {"three": 3}]


def test_a_batch_may_say_more_of_each_message(q):
    q.enqueue_many("orders", [NewMessage(b'"low"'), NewMessage(b'"high"', priority=9, headers={"a": 1})])

    first, second = q.claim_many("orders", 10)

    assert (first.value, first.headers, second.value) == ("high", {"a": 1}, "low")


def test_an_empty_batch_sends_nothing(q):
    assert q.enqueue_many("orders", []) == []


def test_a_batch_may_be_given_in_columns(q):
    ids = q.enqueue_many(
        "orders", NewMessages([b"1", b"2", b"3"], priorities=[0, 5, 0], headers=[None, {"a": 1}, None])
    )

    received = q.claim_many("orders", 3)

    assert [message.id for message in received] == [ids[1], ids[0], ids[2]]
    assert (received[0].value, received[0].headers) == (2, {"a": 1})


@pytest.mark.parametrize("keys", [["a", "b"], ["a", "b", "c", "d"]], ids=["too short", "too long"])
def test_columns_of_different_lengths_are_refused(q, keys):
    with pytest.raises(BadValue, match=f"keys has {len(keys)} values for 3 messages"):
        q.enqueue_many("orders", NewMessages([b"1", b"2", b"3"], keys=keys))

    assert q.peek("orders") == []


@pytest.mark.parametrize(
    "columns",
    [
        NewMessages([b"1", b"{not json"]),
        NewMessages([b"1", b"\xff"], "text"),
        NewMessages([b"1", b"2"], priorities=[0, 1_001]),
        NewMessages([b"1", b"x" * 2_000_000], "text"),
        NewMessages([b"1"] * 1_001),
    ],
    ids=["not JSON", "not UTF-8", "a priority out of range", "too large", "too many"],
)
def test_columns_are_checked_as_messages_are(q, columns):
    with pytest.raises(SqewError):
        q.enqueue_many("orders", columns)

    assert q.peek("orders") == []


def test_a_batch_may_hold_bodies_and_messages_side_by_side(q):
    ids = q.enqueue_many("orders", [1, NewMessage(b"2", headers={"a": 1}), "three"])

    assert [q.get("orders", id).value for id in ids] == [1, 2, "three"]


def test_a_batch_over_the_limit_is_refused_whole(q):
    with pytest.raises(TooLarge, match="Split it"):
        q.enqueue_many("orders", range(1_001))

    assert q.peek("orders") == []


def test_one_bad_message_keeps_the_whole_batch_out(q):
    with pytest.raises(BadBody):
        q.enqueue_many("orders", [1, float("nan"), 3])

    assert q.peek("orders") == []


@pytest.mark.parametrize("settle", ["ack_many", "nack_many", "extend_many"])
def test_a_batch_answers_for_each_entry(q, settle):
    q.enqueue_many("orders", range(3))
    messages = q.claim_many("orders", 3)
    q.ack(messages[1])

    arguments = (messages, 10) if settle == "extend_many" else (messages,)
    answers = getattr(q, settle)(*arguments)

    assert answers[0] is None
    assert isinstance(answers[1], MessageNotFound)
    assert answers[2] is None


def test_a_batch_is_nacked_for_a_reason(q):
    q.create("brief", max_attempts=1)
    q.enqueue_many("brief", range(2))

    assert q.nack_many(q.claim_many("brief", 2), reason="no stock") == [None, None]

    assert [message.death.reason for message in q.dead_letters("brief")] == ["no stock"] * 2


def test_a_batch_may_settle_messages_of_several_queues(q):
    q.create("other")
    q.enqueue("orders", 1)
    q.enqueue("other", 2)

    assert q.ack_many([q.claim("orders"), q.claim("other")]) == [None, None]
    assert q.peek("orders") == q.peek("other") == []


def test_an_empty_batch_settles_nothing(q):
    assert q.ack_many([]) == []


def test_removing_says_of_each_id_whether_it_was_there(q):
    id = q.enqueue("orders", 1)

    assert q.remove("orders", [id, id + 1]) == [True, False]


def test_purging_takes_leased_and_delayed_messages_too(q):
    q.enqueue_many("orders", range(3))
    q.enqueue("orders", 1, delay_seconds=60)
    q.claim("orders")

    assert q.purge("orders") == 4
    assert q.peek("orders") == []


def test_dead_letters_are_listed_and_brought_back(q):
    q.enqueue("orders", "fix me")
    q.dead_letter(q.claim("orders"), reason="no such sku")

    (letter,) = q.dead_letters("orders")
    assert (letter.value, letter.death.queue, letter.death.reason) == ("fix me", "orders", "no such sku")
    assert q.requeue("orders") == 1
    assert q.claim("orders").attempts == 1


def test_more_dead_letters_than_one_step_takes_are_all_brought_back_by_id(q):
    ids = [id for _ in range(2) for id in q.enqueue_many("orders", range(600))]
    q.update("orders", max_attempts=1)
    while messages := q.claim_many("orders", 1_000):
        q.nack_many(messages)

    assert q.requeue("orders", ids) == 1_200


def test_more_dead_letters_than_one_step_takes_are_all_purged_by_id(q):
    ids = [id for _ in range(2) for id in q.enqueue_many("orders", range(600))]
    q.update("orders", max_attempts=1)
    while messages := q.claim_many("orders", 1_000):
        q.nack_many(messages)

    assert q.purge_dead("orders", ids) == 1_200


def test_finished_messages_are_kept_where_the_policy_says_so(q):
    q.create("kept", keep="archive")
    id = q.enqueue("kept", "done")

    q.ack(q.claim("kept"))

    (archived,) = q.archive("kept")
    assert (archived.message.id, archived.message.value, archived.outcome) == (id, "done", "done")


def test_queues_are_listed_by_name_and_prefix(q):
    q.create("apples", dead_letter=None)

    assert [info.name for info in q.queues()] == ["apples", "orders", "orders-dlq"]
    assert [info.name for info in q.queues("or")] == ["orders", "orders-dlq"]


def test_a_deleted_queue_is_gone_and_its_dead_letter_queue_stays(q):
    q.delete("orders")

    with pytest.raises(QueueNotFound):
        q.info("orders")
    assert q.info("orders-dlq")


def test_a_queue_that_was_deleted_and_made_again_is_empty(q):
    q.enqueue("orders", "old")
    q.delete("orders")
    q.create("orders")

    assert q.claim("orders") is None
    assert q.stats("orders").totals["sent"] == 0


def test_making_the_same_queue_twice_is_fine(q):
    assert q.create("twice") == q.create("twice")


def test_making_a_queue_again_with_another_policy_is_refused(q):
    q.create("twice")

    with pytest.raises(QueueExists, match="visibility_ms"):
        q.create("twice", visibility_ms=5)
    assert q.create("twice", visibility_ms=5, exist_ok=True).policy.visibility_ms == 30_000


def test_a_changed_setting_refused_every_program_that_makes_its_queue_at_start(tmp_path):
    with Queue.open(tmp_path / "queue.db") as q:
        first = q.create("orders")

    with Queue.open(tmp_path / "queue.db", visibility_ms=7_000, max_attempts=9, archive_retention_ms=5) as q:
        assert q.create("orders") == first
        with pytest.raises(QueueExists, match="visibility_ms"):
            q.create("orders", visibility_ms=7_000)
        with pytest.raises(QueueExists, match="max_attempts"):
            q.create("orders", max_attempts=9)
        with pytest.raises(QueueExists, match="dead_letter"):
            q.create("orders", dead_letter=None)


def test_a_repeated_key_answers_the_first_id(q):
    assert q.enqueue("orders", 1, key="k") == q.enqueue("orders", 2, key="k")
    assert values(q.peek("orders")) == [1]


# Bodies


@pytest.mark.parametrize(
    "body",
    [
        None,
        True,
        0,
        -1,
        1.5,
        1e300,
        2**63,
        2**64 - 1,
        -(2**63),
        [],
        {},
        [[]],
        {"": None},
        {"ü": ["\x00", "\u2028", "😀"]},
    ],
    ids=repr,
)
def test_what_is_not_text_is_sent_as_json_and_comes_back_equal(q, body):
    q.enqueue("orders", body)

    m = q.claim("orders")

    assert m.format == "json"
    assert m.value == body
    assert type(m.value) is type(body)
    assert json.loads(m.body) == body


def test_an_integer_too_large_for_a_machine_word_comes_back_as_it_was_or_is_refused(q):
    try:
        q.enqueue("orders", {"n": 2**70})
    except BadBody:
        return

    assert q.claim("orders").value == {"n": 2**70}


@pytest.mark.parametrize("text", ["", "plain", "é\n\r\t\0", "😀", '{"looks": "like json"}', "\ufeffbom", "x" * 5_000])
def test_a_string_is_sent_as_text_byte_for_byte(q, text):
    q.enqueue("orders", text)

    m = q.claim("orders")

    assert (m.format, m.value, m.body) == ("text", text, text.encode())


def test_json_bytes_are_kept_as_they_are(q):
    body = b' {"b": 1.0,\n "a" : [1e2, "\\u00e9"]} '
    q.enqueue_many("orders", [NewMessage(body)])

    assert q.claim("orders").body == body


@pytest.mark.parametrize(
    "body", [float("nan"), float("inf"), [float("-inf")], {"a": {"b": float("nan")}}, (1, float("nan"))]
)
def test_nan_and_infinity_are_refused(q, body):
    with pytest.raises(BadBody, match="NaN or infinity"):
        q.enqueue("orders", body)


@pytest.mark.parametrize("body", [b"bytes", bytearray(b"bytes"), memoryview(b"bytes")])
def test_bytes_are_refused_with_what_to_do(q, body):
    with pytest.raises(BadBody, match="base64"):
        q.enqueue("orders", body)


@pytest.mark.parametrize(
    "body", [object(), {1, object()}, lambda: 1, 1j, {(1, 2): 3}, Exception("x")], ids=lambda body: type(body).__name__
)
def test_what_json_can_not_say_is_refused(q, body):
    with pytest.raises(BadBody):
        q.enqueue("orders", body)


@pytest.mark.parametrize("body", ["\ud800", ["\udfff"], {"\ud800": 1}], ids=ascii)
def test_half_a_surrogate_pair_is_refused(q, body):
    with pytest.raises(BadBody):
        q.enqueue("orders", body)


def nested(depth, innermost=1):
    for _ in range(depth):
        innermost = [innermost]
    return innermost


def test_a_body_may_nest_as_deep_as_allowed_and_no_deeper(q):
    q.enqueue("orders", nested(64))

    with pytest.raises(BadBody, match="65 levels deep"):
        q.enqueue("orders", nested(65))


@pytest.mark.parametrize("innermost", [None, 1, float("nan")])
def test_nesting_beyond_any_stack_is_refused_as_well(q, innermost):
    for depth in (300, 700, 900, 950, 980, 1_000, 5_000, 50_000):
        with pytest.raises(BadBody):
            q.enqueue("orders", nested(depth, innermost))


def test_a_body_that_contains_itself_is_refused(q):
    body = []
    body.append(body)

    with pytest.raises(BadBody):
        q.enqueue("orders", body)


def test_brackets_in_strings_are_not_nesting(q):
    q.enqueue("orders", {"text": '[{"\\' * 100})

    assert q.claim("orders").value == {"text": '[{"\\' * 100}


@pytest.mark.parametrize("limit", [1, 100, 1_048_576])
def test_a_body_may_be_as_large_as_allowed_and_no_larger(tmp_path, limit):
    with Queue.open(tmp_path / "limited.db", max_body_bytes=limit, durability="fast") as q:
        q.create("orders")
        q.enqueue("orders", "x" * limit)

        with pytest.raises(TooLarge, match=rf"{limit + 1} bytes; {limit} are allowed"):
            q.enqueue("orders", "x" * (limit + 1))
        assert len(q.claim("orders").value) == limit


def test_headers_are_kept_and_their_size_is_limited(q):
    q.enqueue("orders", 1, headers={"trace": "é", "deep": {"a": [1, None]}})

    assert q.claim("orders").headers == {"trace": "é", "deep": {"a": [1, None]}}
    with pytest.raises(TooLarge, match="headers"):
        q.enqueue("orders", 1, headers={"x": "y" * 65_536})


def test_non_json_bytes_sent_as_json_are_refused(q):
    with pytest.raises(BadBody, match="not valid JSON"):
        q.enqueue_many("orders", [NewMessage(b"{not json")])


def test_non_utf8_bytes_sent_as_text_are_refused(q):
    with pytest.raises(BadBody):
        q.enqueue_many("orders", [NewMessage(b"\xff\xfe", "text")])


def test_a_new_message_given_to_enqueue_is_not_stored_as_a_json_picture_of_itself(q):
    """Check that the call is refused or sends the body in the NewMessage: it is an easy slip from enqueue_many."""
    try:
        q.enqueue("orders", NewMessage(b'{"sku":7}'))
    except SqewError:
        return

    assert q.claim("orders").value == {"sku": 7}


# Names and numbers out of range


@pytest.mark.parametrize("name", ["", "a b", "a/b", "é", "x" * 81, ".fifo", "a.fifo.fifo", "a\n", "a.FIFO"])
def test_bad_queue_names_are_refused(q, name):
    with pytest.raises(BadName, match="Use 1 to 80 letters"):
        q.create(name)


def test_a_name_too_long_for_its_dead_letter_queue_says_what_to_do(q):
    with pytest.raises(BadName, match="Name its dead-letter queue, or none"):
        q.create("x" * 80)
    assert q.create("x" * 80, dead_letter=None)


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), float("inf"), 1e12])
@pytest.mark.parametrize("name", ["delay_seconds", "ttl_seconds"])
def test_impossible_times_of_a_message_are_refused(q, name, seconds):
    with pytest.raises(BadValue, match=name):
        q.enqueue("orders", 1, **{name: seconds})


@pytest.mark.parametrize("seconds", [0, 0.0009])
def test_a_life_of_no_millisecond_is_refused_in_seconds(q, seconds):
    sentence = rf"^ttl_seconds can't be {seconds}: it must be a number of seconds from 0\.001 to \d+\.$"

    with pytest.raises(BadValue, match=sentence):
        q.enqueue("orders", 1, ttl_seconds=seconds)
    with pytest.raises(BadValue, match=sentence):
        q.events.publish("order.made", 1, ttl_seconds=seconds)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e12])
@pytest.mark.parametrize("name", ["lease_seconds", "wait_seconds"])
def test_impossible_times_of_a_claim_are_refused(q, name, seconds):
    with pytest.raises(BadValue, match=name):
        q.claim("orders", **{name: seconds})


@pytest.mark.parametrize("priority", [-1_001, 1_001, 2**70, 1.0, "1", True, None])
def test_impossible_priorities_are_refused(q, priority):
    with pytest.raises(BadValue, match="priority"):
        q.enqueue("orders", 1, priority=priority)


@pytest.mark.parametrize("limit", [0, -1, 1_001, 1.0, "1", True, None])
def test_impossible_limits_are_refused(q, limit):
    with pytest.raises(BadValue, match="limit"):
        q.claim_many("orders", limit)
    with pytest.raises(BadValue, match="limit"):
        q.peek("orders", limit)


def test_an_unknown_lane_is_refused_with_the_nearest_name(q):
    q.create("topic", lanes=["priority", "normal"])

    for call in (
        lambda: q.enqueue("topic", 1, lane="prioritty"),
        lambda: q.claim("topic", lane="prioritty"),
        lambda: q.peek("topic", lane="prioritty"),
    ):
        with pytest.raises(UnknownLane, match=r"did you mean 'priority'\?.*Its lanes are: priority, normal"):
            call()


def test_an_unknown_queue_is_refused_with_the_nearest_name(q):
    with pytest.raises(QueueNotFound, match=r"'ordres' does not exist \(did you mean 'orders'\?\)"):
        q.enqueue("ordres", 1)


def test_an_unknown_policy_field_is_refused_with_the_nearest_name(q):
    with pytest.raises(BadValue, match=r"no 'max_attempt' \(did you mean 'max_attempts'\?\)"):
        q.create("topic", max_attempt=3)
    with pytest.raises(BadValue, match=r"no 'visibility' \(did you mean 'visibility_ms'\?\)"):
        q.update("orders", visibility=3)


def test_a_refused_queue_is_not_half_made(q):
    with pytest.raises(SqewError):
        q.create("half", lanes={"a": 0})

    assert [info.name for info in q.queues("half")] == []


def test_what_is_claimed_is_a_message(q):
    q.enqueue("orders", 1)

    assert isinstance(q.claim("orders"), Message)


def test_a_redrive_of_a_queue_to_itself_ends(q):
    """Check that a redrive to the same queue ends: it found its own messages again, for ever."""
    q.enqueue("orders-dlq", 1)

    script = f"from sqew import Queue; Queue.open({q._executor.store.path!r}).redrive('orders-dlq', to='orders-dlq')"
    _run_or_fail(script)


def _run_or_fail(script):
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        pytest.fail("It was still running after 30 seconds.")
    assert done.returncode == 0 or "sqew.errors" in done.stderr


def test_a_name_that_is_more_than_a_string_is_logged_as_the_string(tmp_path):
    """Check that a subclass of str is logged as a string.

    The log could write neither it nor anything after it, and closing the queue failed.
    """

    class Name(str):
        __slots__ = ()

    log = str(tmp_path / "events.jsonl")
    with Queue.open(tmp_path / "queue.db", durability="fast", event_log=log) as q:
        q.create("orders")
        ids = [q.enqueue(Name("orders"), n) for n in range(9)]
        ids += q.enqueue_many(Name("orders"), [9])
        q.ack(q.claim("orders", consumer=Name("w1")))

    *sent, received, acked = read(log)
    assert [(event.queue, event.id) for event in sent] == [("orders", id) for id in ids]
    assert received.worker == acked.worker == "w1"


def test_the_path_may_be_a_path_or_a_string(tmp_path):
    for path in (tmp_path / "a.db", str(tmp_path / "b.db")):
        with Queue.open(path) as q:
            q.create("orders")

        assert Path(path).exists()
