"""Rules for names, policies, bodies and limits."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import BadBody, BadName, BadValue, Invalid, TooLarge
from sqew.model import Backoff, NewMessage
from sqew.observe.labels import BY_ID, OTHERS
from sqew.rules.bodies import encode_body, parse_json
from sqew.rules.limits import Limits, check_batch
from sqew.rules.messages import check_message
from sqew.rules.names import RESERVED_NAMES, check_new_queue_name, check_queue_name, dead_letter_name
from sqew.rules.policies import checked_changes, default_policy, make_policy
from sqew.rules.throttle import Throttle
from sqew.rules.values import LONGEST_MS, check_int, check_text, reason_of, seconds_as_ms

LIMITS = Limits()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


# Names


@pytest.mark.parametrize("name", ["a", "A-1_z", "x" * 80, "a.fifo", "x" * 80 + ".fifo", "-", "_"])
def test_queue_names_that_are_allowed(name):
    check_new_queue_name(name)
    check_queue_name(name)


@pytest.mark.parametrize("name", ["", "x" * 81, "a.b", "a ", "a\n", "é", "٣", "a.fifo\n", ".fifo", None, 5, b"a"])
def test_queue_names_that_are_not(name):
    with pytest.raises(BadName, match="can't be a queue's name"):
        check_new_queue_name(name)


@pytest.mark.parametrize("name", ["", "x" * 256, "a.b", "a b", "a/b", "é", "٣", "a.fifo ", "🐟", "null", '"'])
def test_queue_names_that_hq_may_give(name):
    check_queue_name(name)


@pytest.mark.parametrize("name", ["x" * 257, "a\n", "\0", "\x7f", "\x9b", "\ud800", "\u2028", "(other)", None, 5, b"a"])
def test_names_that_no_queue_has(name):
    with pytest.raises(BadName, match="can't be a queue's name"):
        check_queue_name(name)


def test_the_reserved_names_are_those_of_metrics():
    assert {BY_ID, OTHERS} == RESERVED_NAMES


@pytest.mark.parametrize(("name", "expected"), [("orders", "orders-dlq"), ("orders.fifo", "orders-dlq.fifo")])
def test_the_name_of_the_dead_letter_queue(name, expected):
    assert dead_letter_name(name) == expected


@pytest.mark.parametrize("name", ["x" * 77, "x" * 80, "x" * 77 + ".fifo"])
def test_a_name_with_no_room_for_it_is_refused(name):
    with pytest.raises(BadName, match="too long"):
        dead_letter_name(name)


@pytest.mark.parametrize("text", ["", "x" * 257, 5, None, b"k", "\ud800", "a\udfff", "\0", "a\0b"])
def test_texts_that_are_not_allowed(text):
    with pytest.raises(BadValue, match="key can't be"):
        check_text("key", text)


@pytest.mark.parametrize("text", ["k", "x" * 256, "é", "😀" * 256, "a\nb", "\1"])
def test_texts_that_are(text):
    check_text("key", text)


@pytest.mark.parametrize("number", [True, 1.0, "1", None, -1, 11, pytest.param(10**5000, id="huge")])
def test_numbers_that_are_not_allowed(number):
    with pytest.raises(BadValue, match="count can't be"):
        check_int("count", number, 0, 10)


class Unspeakable:
    def __repr__(self):
        raise RuntimeError("it has no name")

    __str__ = __repr__


@pytest.mark.parametrize(
    "value",
    [
        10**5000,
        [10**5000],
        Unspeakable(),
        [Unspeakable()],
        object(),
        float("nan"),
        1j,
        {"a": []},
        b"\xff",
        "\ud800" * 300,
    ],
    ids=[
        "huge",
        "huge inside",
        "unspeakable",
        "unspeakable inside",
        "object",
        "nan",
        "complex",
        "dict",
        "bytes",
        "\\ud800",
    ],
)
@pytest.mark.parametrize(
    "check",
    [
        check_queue_name,
        lambda value: check_text("key", value),
        lambda value: check_int("count", value, 0, 10),
        lambda value: seconds_as_ms("wait", value),
        lambda value: make_policy("orders", {"lanes": value}),
        lambda value: make_policy("orders", {"max_attempts": value, "quota": value}),
        lambda value: make_policy("orders", {"backoff": value}),
        lambda value: check_message(NewMessage(b"1", value), LIMITS),
        lambda value: check_message(NewMessage(b"1", lane=value), LIMITS),
        lambda value: check_message(NewMessage(b"1", group=value), LIMITS),
        lambda value: check_message(NewMessage(b"1", headers=[value]), LIMITS),
    ],
    ids=["name", "text", "int", "seconds", "lanes", "attempts", "backoff", "format", "lane", "group", "headers"],
)
def test_whatever_is_refused_is_refused_with_our_error(check, value):
    """Check long integers too: more than 4,300 digits can't be written out, so that the refusal itself failed."""
    with pytest.raises(Invalid) as raised:
        check(value)

    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("seconds", [-1, -0.001, float("nan"), float("inf"), "1", None, True, 1e300, LONGEST_MS])
def test_times_that_are_not_allowed(seconds):
    with pytest.raises(BadValue, match="wait can't be"):
        seconds_as_ms("wait", seconds)


def test_seconds_are_rounded_to_milliseconds():
    assert [seconds_as_ms("wait", seconds) for seconds in (0, 1, 1.5, 0.0006)] == [0, 1_000, 1_500, 1]


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (None, ""),
        (404, "404"),
        ("no such sku", "no such sku"),
        (LookupError("no such sku"), "LookupError: no such sku"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        ("\ud800", "\\ud800"),
        ("a\0b", "a\\x00b"),
        ("\ud800" * 256, ("\\ud800" * 256)[:256]),
        ("x" * 257, "x" * 256),
        (Unspeakable(), ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_can_be_told_as_a_reason(cause, reason):
    assert reason_of(cause) == reason


# Policies


def test_a_queue_gets_five_attempts_and_a_dead_letter_queue():
    policy = default_policy("orders", {})

    assert (policy.max_attempts, policy.dead_letter, policy.fifo) == (5, "orders-dlq", False)


def test_a_name_that_ends_in_fifo_makes_a_fifo_queue():
    policy = default_policy("orders.fifo", {})

    assert (policy.fifo, policy.dead_letter) == (True, "orders-dlq.fifo")


def test_a_queue_that_never_gives_up_needs_no_dead_letter_queue():
    assert default_policy("orders", {"max_attempts": None}).dead_letter is None


def test_a_queue_may_do_without_a_dead_letter_queue():
    policy = default_policy("orders", {"dead_letter": None})

    assert (policy.max_attempts, policy.dead_letter) == (5, None)


@pytest.mark.parametrize(("name", "fifo"), [("orders", True), ("orders.fifo", False)])
def test_the_name_and_the_policy_must_agree_on_fifo(name, fifo):
    with pytest.raises(BadValue, match=r"ends in '\.fifo'"):
        make_policy(name, {"fifo": fifo})


def test_a_queue_can_not_be_its_own_dead_letter_queue():
    with pytest.raises(BadValue, match="its own dead-letter queue"):
        make_policy("orders", {"dead_letter": "orders"})


@pytest.mark.parametrize("lanes", [["a", "b"], ("a", "b"), {"a": 1, "b": 1}])
def test_lanes_may_be_names_or_weights(lanes):
    assert make_policy("orders", {"lanes": lanes}).lanes == {"a": 1, "b": 1}


@pytest.mark.parametrize("backoff", [Backoff(base_ms=5), {"base_ms": 5}])
def test_a_backoff_may_be_an_object_or_plain_data(backoff):
    assert make_policy("orders", {"backoff": backoff}).backoff == Backoff(base_ms=5)


@pytest.mark.parametrize(
    "fields",
    [
        {"visibility_ms": -1},
        {"visibility_ms": LONGEST_MS + 1},
        {"visibility_ms": 1.5},
        {"visibility_ms": None},
        {"delay_ms": -1},
        {"ttl_ms": 0},
        {"max_attempts": 0},
        {"max_attempts": 1.0},
        {"quota": -1},
        {"rate_limit": 0},
        {"rate_limit": 5e-324},
        {"rate_limit": float("nan")},
        {"rate_limit": float("inf")},
        {"dead_letter": "a\nb"},
        {"lanes": {}},
        {"lanes": []},
        {"lanes": {"a": 0}},
        {"lanes": {"a": -1}},
        {"lanes": {"a": 1.5}},
        {"lanes": {"a b": 1}},
        {"lanes": {"": 1}},
        {"lanes": ["a", "a b"]},
        {"lanes": "abc"},
        {"lanes": [["a"]]},
        {"lanes": [{"name": "a", "weight": 3}]},
        {"lanes": [1]},
        {"backoff": {"base_ms": -1}},
        {"backoff": {"kind": "linear"}},
        {"backoff": {"base": 1}},
        {"backoff": "fixed"},
        {"keep": "for ever"},
        {"deduplicate": "body"},
        {"archive_retention_ms": -1},
        {"key_retention_ms": -1},
    ],
    ids=repr,
)
def test_a_field_out_of_its_range_is_refused(fields):
    with pytest.raises(Invalid):
        make_policy("orders", fields)
    with pytest.raises(Invalid):
        checked_changes(fields)


LANES = "a list of names, or a mapping from names to weights that are whole numbers"


@pytest.mark.parametrize("lanes", [["a", "b", "a"], ("a", "a")])
def test_a_lane_named_twice_is_refused(lanes):
    with pytest.raises(BadValue, match=r"^lanes can't be .*: a lane is named twice\. Name each once\.$"):
        make_policy("orders", {"lanes": lanes})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"keep": "no"}, "keep can't be 'no': it must be 'delete' or 'archive'."),
        ({"lanes": ["a"], "keep": None}, "keep can't be None: it must be 'delete' or 'archive'."),
        ({"backoff": {"kind": "linear"}}, "backoff.kind can't be 'linear': it must be 'exponential' or 'fixed'."),
        ({"backoff": {"base_ms": "1"}}, "backoff.base_ms can't be '1': it must be a whole number."),
        (
            {"backoff": {"bse_ms": 1}},
            "A backoff has no 'bse_ms' (did you mean 'base_ms'?). It has: kind, base_ms, cap_ms, jitter_ms.",
        ),
        (
            {"backoff": "fixed"},
            "backoff can't be 'fixed': it must be a mapping with any of kind, base_ms, cap_ms, jitter_ms.",
        ),
        (
            {"backoff": {1: 2}},
            "backoff can't be {1: 2}: it must be a mapping with any of kind, base_ms, cap_ms, jitter_ms.",
        ),
        *(
            (
                {"lanes": lanes},
                f"lanes can't be {lanes!r}: it must be {LANES}.",
            )
            for lanes in ("abc", b"aa", 5, [1], [["a"]], {"a": "heavy"})
        ),
        ({"max_attempts": "3"}, "max_attempts can't be '3': it must be a whole number, or none."),
        ({"rate_limit": "1"}, "rate_limit can't be '1': it must be a number, or none."),
        ({"dead_letter": 5}, "dead_letter can't be 5: it must be a text, or none."),
        ({"fifo": "yes"}, "fifo can't be 'yes': it must be true or false."),
    ],
    ids=repr,
)
def test_a_field_of_another_kind_is_told_with_what_it_must_be(fields, sentence):
    with pytest.raises(BadValue) as refused:
        make_policy("orders", fields)

    assert str(refused.value) == sentence


def test_changes_name_only_what_was_given():
    assert checked_changes({"max_attempts": 3}) == {"max_attempts": 3}


def test_a_field_may_be_taken_back():
    assert checked_changes({"max_attempts": None, "ttl_ms": None}) == {"max_attempts": None, "ttl_ms": None}


@pytest.mark.parametrize(
    ("backoff", "attempts", "expected"),
    [
        (Backoff(base_ms=100, cap_ms=1_000, jitter_ms=0), 1, 100),
        (Backoff(base_ms=100, cap_ms=1_000, jitter_ms=0), 4, 800),
        (Backoff(base_ms=100, cap_ms=1_000, jitter_ms=0), 5, 1_000),
        (Backoff(base_ms=100, cap_ms=1_000, jitter_ms=0), 1_000_000, 1_000),
        (Backoff(kind="fixed", base_ms=100, jitter_ms=0), 9, 100),
        (Backoff(base_ms=100, jitter_ms=50), 1, 125),
    ],
)
def test_how_long_a_nacked_message_waits(backoff, attempts, expected):
    assert backoff.delay_ms(attempts, 0.5) == expected


# Bodies


@given(JSON)
def test_any_json_value_comes_back_equal(value):
    body, format = encode_body(value, LIMITS)

    if isinstance(value, str):
        assert (format, body.decode()) == ("text", value)
    else:
        assert (format, json.loads(body)) == ("json", value)
        parse_json(body, LIMITS)


@given(st.binary())
def test_bytes_are_valid_json_or_refused_with_our_error(body):
    try:
        parse_json(body, LIMITS)
    except BadBody:
        return
    json.loads(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"NaN",
        b"Infinity",
        b"[1,]",
        b"{'a':1}",
        b'"\xff"',
        b"1 2",
        b'"\n"',
        b"\xef\xbb\xbf1",
        b"01",
        b"[" * 64,
    ],
)
def test_what_is_not_strict_json_is_refused(body):
    with pytest.raises(BadBody, match="not valid JSON"):
        parse_json(body, LIMITS)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("depth", [65, 1_000, 100_000])
def test_nesting_far_beyond_the_limit_is_refused(opening, closing, depth):
    with pytest.raises(BadBody, match="nested"):
        parse_json(opening * depth + b"1" + closing * depth, LIMITS)


def test_nesting_as_deep_as_allowed_is_fine():
    parse_json(b"[" * 64 + b"]" * 64, LIMITS)


def test_brackets_in_strings_are_not_nesting():
    parse_json(json.dumps(['[{"' * 200, "\\" * 31, '\\"[' * 100]).encode(), LIMITS)


@dataclasses.dataclass
class Reading:
    celsius: float | None


def test_nan_is_refused_wherever_the_encoder_would_find_it():
    """Check other types than lists and mappings: NaN was looked for in those only, and stored as null in others."""
    with pytest.raises(BadBody, match="NaN"):
        encode_body([Reading(float("nan"))], LIMITS)
    assert encode_body([Reading(None)], LIMITS) == (b'[{"celsius":null}]', "json")


@pytest.mark.parametrize("depth", [65, 400, 900, 5_000])
@pytest.mark.parametrize("innermost", [None, float("nan"), "null"])
def test_a_value_nested_too_deep_is_refused_whatever_is_in_it(depth, innermost):
    """Check that it is refused in time: looking for NaN in it exhausted Python's stack."""
    value = innermost
    for _ in range(depth):
        value = [value]

    with pytest.raises(BadBody):
        encode_body(value, LIMITS)


def test_nan_is_found_as_deep_as_bodies_may_be():
    value = float("nan")
    for _ in range(500):
        value = [value]

    with pytest.raises(BadBody, match="NaN"):
        encode_body(value, Limits(max_depth=500))


@pytest.mark.parametrize(
    "body", [{"a": 1}, {"a": "x" * 500}, {"a": "x" * 500, "b": None}], ids=["short", "long", "null"]
)
@pytest.mark.parametrize("nan", [float("nan"), [float("nan")], {"c": float("inf")}, (1, {2: -float("inf")})], ids=repr)
def test_nan_is_found_beside_anything(body, nan):
    """Check dicts with plain values as well: those are not searched for NaN."""
    for mixed in ({**body, "z": nan}, {"z": nan, **body}):
        with pytest.raises(BadBody, match="NaN"):
            encode_body(mixed, LIMITS)


def test_nesting_is_counted_beside_anything():
    value = 1
    for _ in range(64):
        value = [value]

    with pytest.raises(BadBody, match="nested 65 levels"):
        encode_body({"a": "x" * 500, "b": value}, LIMITS)


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")], ids=lambda body: type(body).__name__)
def test_bytes_are_no_body(body):
    with pytest.raises(BadBody, match="base64"):
        encode_body(body, LIMITS)


def test_bytes_in_a_body_are_written_in_base64():
    assert encode_body({"image": b"\xff\x00"}, LIMITS)[0] == b'{"image":"/wA="}'


def test_null_is_not_mistaken_for_nan():
    assert encode_body({"a": None, "b": [None, 1.5, "null"]}, LIMITS)[0] == b'{"a":null,"b":[null,1.5,"null"]}'


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (NewMessage(b"x" * 1_048_577), TooLarge),
        (NewMessage(b"1", priority=1_001), BadValue),
        (NewMessage(b"1", priority=-1_001), BadValue),
        (NewMessage(b"1", delay_ms=-1), BadValue),
        (NewMessage(b"1", ttl_ms=0), BadValue),
        (NewMessage(b"1", key=""), BadValue),
        (NewMessage(b"1", group="x" * 257), BadValue),
        (NewMessage(b"1", headers={"a": "x" * 70_000}), TooLarge),
        (NewMessage(b"1", headers={"a": float("nan")}), BadBody),
        (NewMessage(b"1", headers={1: 2}), BadValue),
    ],
)
def test_messages_that_may_not_be_sent(message, error):
    with pytest.raises(error):
        check_message(message, LIMITS)


def test_messages_at_the_limits_may_be_sent():
    check_message(NewMessage(b"x" * 1_048_576, priority=1_000, delay_ms=LONGEST_MS, ttl_ms=1, key="k" * 256), LIMITS)


def test_a_batch_at_the_limit_may_be_sent_and_one_more_not():
    check_batch(1_000, LIMITS)
    with pytest.raises(TooLarge, match="1000 entries; this one holds 1001"):
        check_batch(1_001, LIMITS)


# The rate limit


def test_a_throttle_lets_a_second_of_messages_through_and_then_as_many_as_come_due():
    throttle = Throttle()

    assert [throttle.take(1, 2.0, 0) for _ in range(3)] == [0, 0, 500]
    assert throttle.take(1, 2.0, 490) in (10, 11)
    assert throttle.take(1, 2.0, 500) == 0


def test_a_batch_larger_than_the_burst_goes_through_and_is_paid_for_afterwards():
    throttle = Throttle()

    assert throttle.take(10, 2.0, 0) == 0
    assert throttle.take(1, 2.0, 1_000) == 3_500


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 20)), max_size=40), st.floats(0.1, 100))
def test_a_throttle_never_lets_more_through_than_its_rate_and_one_burst(takes, rate):
    throttle, now, taken, last = Throttle(), 0, 0, 0
    for pause, count in takes:
        now += pause
        if throttle.take(count, rate, now) == 0:
            taken += count
            last = count
    assert taken <= rate * now / 1_000 + max(rate, 1) + last + 1e-6


def test_the_wait_that_a_throttle_tells_is_long_enough():
    throttle = Throttle()
    throttle.take(5, 3.0, 0)

    wait = throttle.take(2, 3.0, 10)

    assert wait > 0
    assert throttle.take(2, 3.0, 10 + wait) == 0
