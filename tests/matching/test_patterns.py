"""Routing keys, patterns, and the trie that finds every pattern that matches."""

import pickle
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import BadPattern, BadRoutingKey
from sqew.matching.routing import LONGEST_KEY, MOST_WORDS, PatternTrie, check_pattern, check_routing_key

WORDS = st.sampled_from(["a", "b", "c", "A", "a-b", "_", "0"])
KEYS = st.lists(WORDS, min_size=1, max_size=6).map(".".join)
PATTERNS = st.lists(WORDS | st.sampled_from(["*", "#"]), min_size=1, max_size=6).map(".".join)


def trie_of(*patterns):
    """Return a trie of patterns, each with itself as its value."""
    trie = PatternTrie[str]()
    for pattern in patterns:
        trie.add(pattern, pattern)
    return trie


def matches(pattern, key):
    return trie_of(pattern).match(key) == [pattern]


def oracle(pattern, key):
    """Return True if a pattern matches, found by a regular expression in which every word ends with a dot."""
    parts = {"*": r"[^.]+\.", "#": r"(?:[^.]+\.)*"}
    expression = "".join(parts.get(word) or re.escape(word + ".") for word in pattern.split("."))
    return re.fullmatch(expression, key + ".") is not None


def lines_run(trie, key):
    """Count the lines of the matching that are run: the same on every machine."""
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        if frame.f_code.co_filename != PatternTrie.match.__code__.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        trie.match(key)
    finally:
        sys.settrace(before)
    return count


# What matches


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("orders", "orders"),
        ("orders.eu.created", "orders.eu.created"),
        ("orders.*", "orders.created"),
        ("*.created", "orders.created"),
        ("orders.*.created", "orders.eu.created"),
        ("*", "orders"),
        ("#", "orders"),
        ("#", "orders.eu.created"),
        ("orders.#", "orders"),
        ("orders.#", "orders.eu.created"),
        ("#.created", "created"),
        ("#.created", "orders.created.created"),
        ("orders.#.created", "orders.created"),
        ("orders.#.created", "orders.eu.west.created"),
        ("*.#", "orders"),
        ("#.*", "orders.eu"),
        ("#.eu.#", "orders.eu.created"),
        ("#.#", "orders"),
    ],
)
def test_a_pattern_that_matches(pattern, key):
    assert matches(pattern, key)


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("orders", "orders.created"),
        ("orders.created", "orders"),
        ("orders", "Orders"),
        ("orders", "order"),
        ("orders.*", "orders"),
        ("orders.*", "orders.eu.created"),
        ("*", "orders.created"),
        ("*.*", "orders"),
        ("#.created", "orders.created.eu"),
        ("orders.#.created", "orders.eu"),
        ("*.#.*", "orders"),
        ("#.eu.#", "orders.us.created"),
    ],
)
def test_a_pattern_that_does_not_match(pattern, key):
    assert not matches(pattern, key)


@given(st.lists(PATTERNS, max_size=8, unique=True), KEYS)
def test_the_trie_finds_what_a_regular_expression_for_each_pattern_finds(patterns, key):
    found = trie_of(*patterns).match(key)

    assert sorted(found) == sorted(pattern for pattern in patterns if oracle(pattern, key))


@given(st.lists(st.tuples(PATTERNS, st.booleans()), max_size=12), KEYS)
def test_what_was_removed_is_not_found_and_all_else_is(patterns, key):
    trie = PatternTrie[int]()
    for n, (pattern, _) in enumerate(patterns):
        trie.add(pattern, n)

    for n, (pattern, stays) in enumerate(patterns):
        if not stays:
            trie.remove(pattern, n)

    expected = [n for n, (pattern, stays) in enumerate(patterns) if stays and oracle(pattern, key)]
    assert sorted(trie.match(key)) == expected


def test_values_under_one_pattern_are_all_found_and_removed_one_by_one():
    trie = PatternTrie[str]()
    for value in ("first", "second"):
        trie.add("orders.*", value)

    trie.remove("orders.*", "first")

    assert trie.match("orders.created") == ["second"]


@pytest.mark.parametrize("pattern", ["orders", "orders.*.x", "orders.#", "payments", "*"])
def test_a_pattern_that_was_not_added_can_not_be_removed(pattern):
    trie = trie_of("orders.*")

    with pytest.raises(ValueError, match=re.escape(pattern)):
        trie.remove(pattern, pattern)
    assert trie.match("orders.created") == ["orders.*"]


@given(st.lists(PATTERNS, max_size=8))
def test_nothing_is_left_of_patterns_that_were_removed(patterns):
    trie = trie_of(*patterns)

    for pattern in patterns:
        trie.remove(pattern, pattern)

    assert pickle.dumps(trie) == pickle.dumps(PatternTrie[str]())


# How long it takes


def test_a_match_takes_no_longer_for_patterns_of_other_words():
    few = trie_of("orders.*", "#.created")
    many = trie_of("orders.*", "#.created", *(f"payments.{n}.*" for n in range(10_000)))

    assert lines_run(many, "orders.eu.created") == lines_run(few, "orders.eu.created")


def test_many_hashes_in_a_row_take_steps_by_their_number_times_the_words():
    hashes, words = 60, 60
    trie = trie_of(".".join("#" * hashes))
    key = ".".join("a" * words)

    assert trie.match(key) == [".".join("#" * hashes)]
    assert lines_run(trie, key) < 20 * hashes * words


def test_hashes_between_words_take_steps_by_their_number_times_the_words():
    trie = trie_of(".".join(["#", "a"] * 30))
    key = ".".join("a" * 59 + "b")

    assert trie.match(key) == []
    assert lines_run(trie, key) < 20 * 60 * 60


# What is allowed


@pytest.mark.parametrize("key", ["a", "orders.eu.created", "A-1._", "0", "x" * LONGEST_KEY, ".".join("a" * MOST_WORDS)])
def test_keys_that_are_allowed(key):
    check_routing_key(key)
    check_pattern(key)


@pytest.mark.parametrize("key", ["eu-west-1:orders", "eu-west-1:orders.fifo", f"eu-west-1:{'x' * LONGEST_KEY}"])
def test_a_key_may_have_the_region_of_its_topic_before_it(key):
    check_routing_key(key)
    check_pattern(key)


@pytest.mark.parametrize(
    ("key", "mistake"),
    [
        ("eu-west-1:", "there is no word at position 11"),
        (":orders", "':' at position 1 is not allowed"),
        ("EU:orders", "':' at position 3 is not allowed"),
        ("eu:us:orders", "':' at position 6 is not allowed"),
        (f"eu-west-1:{'x' * (LONGEST_KEY + 1)}", "it has 257 characters, and 256 are the most"),
    ],
)
def test_what_is_not_a_region_is_no_part_of_a_key(key, mistake):
    with pytest.raises(BadRoutingKey, match=mistake):
        check_routing_key(key)


@pytest.mark.parametrize("pattern", ["*", "#", "orders.*", "#.created", "*.*.#", "#.a.#.b.#.c.#"])
def test_patterns_that_are_allowed(pattern):
    check_pattern(pattern)


@pytest.mark.parametrize(
    ("key", "mistake"),
    [
        ("", "it is empty"),
        (".", "there is no word at position 1"),
        (".orders", "there is no word at position 1"),
        ("orders..created", "there is no word at position 8"),
        ("orders.", "there is no word at position 8"),
        ("orders.neu heit", "' ' at position 11 is not allowed"),
        ("orders.größe", "'ö' at position 10 is not allowed"),
        ("orders\n", r"'\\n' at position 7 is not allowed"),
        ("orders/created", "'/' at position 7 is not allowed"),
        ("x" * (LONGEST_KEY + 1), "it has 257 characters, and 256 are the most"),
        (".".join("a" * (MOST_WORDS + 1)), "it has 65 words, and 64 are the most"),
        (None, "it is not a text"),
        (b"orders", "it is not a text"),
    ],
)
def test_what_is_neither_a_key_nor_a_pattern_and_where_it_goes_wrong(key, mistake):
    with pytest.raises(BadRoutingKey, match=rf"can't be a routing key: {mistake}\. Use words"):
        check_routing_key(key)
    with pytest.raises(BadPattern, match=rf"can't be a pattern: {mistake}\. Use words"):
        check_pattern(key)


@pytest.mark.parametrize(("key", "character", "position"), [("*", "*", 1), ("orders.#", "#", 8), ("orders*", "*", 7)])
def test_nothing_is_published_under_a_pattern(key, character, position):
    with pytest.raises(BadRoutingKey, match=rf"'{re.escape(character)}' at position {position} is for patterns"):
        check_routing_key(key)


@pytest.mark.parametrize(
    ("pattern", "character", "position"), [("orders*", "*", 7), ("orders.#x", "#", 8), ("**", "*", 1), ("a.*#", "*", 3)]
)
def test_a_wildcard_is_a_word_of_its_own(pattern, character, position):
    with pytest.raises(BadPattern, match=rf"'{re.escape(character)}' at position {position} must be a whole word"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "mistake"),
    [
        ("#.#", "'#' at position 3 follows another"),
        ("orders.#.#.created", "'#' at position 10 follows another"),
        ("#.a.#.a.#.a.#.a.#", "'#' at position 17 is one too many: 4 are the most"),
    ],
)
def test_a_pattern_of_many_hashes_could_make_every_publish_slow(pattern, mistake):
    with pytest.raises(BadPattern, match=f"can't be a pattern: {mistake}"):
        check_pattern(pattern)


def test_a_long_key_is_shown_by_its_beginning():
    with pytest.raises(BadRoutingKey) as caught:
        check_routing_key("x" * 100_000)

    assert len(str(caught.value)) < 300
