"""Filters on arrays: the same answers as for each value alone, and few comparisons however long they are."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import TooMuchToCompare
from sqew.matching.filters import Content, Effort, compile_filter
from sqew.matching.filters.budget import LOOKS, MOST_LEVELS, PLACE

TEXTS = st.sampled_from(["", "a", "A", "ab", "Ab", "ba", "bab", "é", "É", "10.0.0.1", "10.1.0.1", "::1", "x*"])
NUMBERS = st.sampled_from([-1, 0, 0.5, 1, 2, 10**9, 10**10])
SCALARS = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())
TEXT_OPERATORS = st.sampled_from(["prefix", "suffix", "equals-ignore-case", "wildcard"])
PATTERNS = st.sampled_from(["a", "b", "A", "é", "10.", "1", "xx"])
EXPRESSIONS = st.one_of(
    SCALARS,
    st.builds(lambda operator, text: {operator: text}, TEXT_OPERATORS, PATTERNS),
    st.builds(lambda text: {"wildcard": f"*{text}*"}, PATTERNS),
    st.builds(lambda operator, texts: {"anything-but": {operator: texts}}, TEXT_OPERATORS,
              st.lists(PATTERNS, min_size=1, max_size=3)),
    st.lists(PATTERNS, min_size=1, max_size=3).map(lambda texts: {"anything-but": texts}),
    st.sampled_from([{"exists": True}, {"cidr": "10.0.0.0/16"}, {"cidr": "::/64"}, {"anything-but": [1, 2]}]),
    st.sampled_from([["=", 1], ["<", 1], [">=", 0, "<", 2], [">", 0.5]]).map(lambda range: {"numeric": range}),
)  # fmt: skip
VALUES = st.lists(EXPRESSIONS, min_size=1, max_size=3)
ARRAYS = st.recursive(st.lists(SCALARS, min_size=1, max_size=4), lambda inner: st.lists(inner, min_size=1, max_size=3))


def wanted(policy, body, effort=None):
    return compile_filter(json.dumps(policy), "MessageBody").matches(Content({}, json.dumps(body), effort))


def scalars(array):
    return [inner for value in array for inner in (scalars(value) if isinstance(value, list) else [value])]


@given(VALUES, ARRAYS)
def test_an_array_is_wanted_where_one_of_its_values_is(values, array):
    assert wanted({"a": values}, {"a": array}) == any(wanted({"a": values}, {"a": one}) for one in scalars(array))


OBJECTS = st.lists(
    st.dictionaries(
        st.sampled_from("bc"), SCALARS | ARRAYS | st.just([]) | st.just({}) | st.just([{}]) | st.just({"c": 1})
    ),
    min_size=1,
    max_size=4,
)


@given(st.lists(EXPRESSIONS | st.just({"exists": False}), min_size=1, max_size=3), OBJECTS, st.booleans())
def test_objects_are_looked_at_together_as_they_are_one_by_one(values, objects, is_deep):
    policy = {"a": {"b": {"c": values} if is_deep else values}}
    only_absent = all(value == {"exists": False} for value in values)

    found = wanted(policy, {"a": objects})

    assert found == (all if only_absent else any)(wanted(policy, {"a": one}) for one in objects)


LONG = {"a": [f"{n:05}" for n in range(30_000)], "b": [{"c": n} for n in range(10_000)]}


@pytest.mark.parametrize(
    "policy",
    [
        {"a": [{"prefix": f"p{n}"} for n in range(20)]},
        {"a": [{"suffix": f"p{n}"} for n in range(20)]},
        {"a": [{"equals-ignore-case": f"p{n}"} for n in range(20)]},
        {"a": [{"cidr": f"10.0.{n}.0/24"} for n in range(20)]},
        {"a": [f"p{n}" for n in range(20)]},
        {"b": {"c": [{"numeric": ["=", 10_000 + n]} for n in range(20)]}},
        {"b": {"c": [{"prefix": "p"}]}},
    ],
    ids=["prefix", "suffix", "equals-ignore-case", "cidr", "exact", "numeric", "prefix in objects"],
)
def test_a_hundred_filters_on_a_long_array_take_few_comparisons(policy):
    to_read = PLACE * (2 + 10_000) + 10_000 // LOOKS
    content = Content({}, json.dumps(LONG), Effort(3_000 + to_read))

    assert not any(compile_filter(json.dumps(policy), "MessageBody").matches(content) for _ in range(100))


@pytest.mark.parametrize(
    "policy",
    [
        {"a": [{"wildcard": "*x*"}]},
        {"a": [{"anything-but": {"prefix": ["0", "1", "2"]}}]},
        {"b": {"c": [{"exists": True}], "d": ["x"]}},
        {"text": [{"wildcard": "*x*"}]},
    ],
    ids=["wildcard", "anything-but", "objects with two properties", "a long text"],
)
def test_what_would_take_too_many_comparisons_is_refused(policy):
    content = Content({}, json.dumps(LONG | {"text": "y" * 500_000}), Effort(100_000))

    with pytest.raises(TooMuchToCompare, match="more than 100000 comparisons"):
        any(compile_filter(json.dumps(policy), "MessageBody").matches(content) for _ in range(100))


@pytest.mark.parametrize("value", ["a" * 250_000, "1" * 250_000], ids=["no address", "nearly one"])
@pytest.mark.parametrize("operator", [{"cidr": "10.0.0.0/8"}, {"equals-ignore-case": "A"}])
def test_a_long_text_is_refused_by_its_length(operator, value):
    assert not wanted({"a": [operator]}, {"a": value}, Effort(2))


def test_a_name_of_half_a_million_dots_took_a_second():
    name = "a." * 500_000 + "b"
    content = Content({}, json.dumps({name: 1}), Effort(10))

    assert not compile_filter('{"a": {"b": [1]}}', "MessageBody").matches(content)
    assert content.fields == {name: 1}


@pytest.mark.parametrize("levels", [2, MOST_LEVELS])
def test_a_name_with_as_many_dots_as_a_policy_may_have_levels_leads_to_its_value(levels):
    name = ".".join("a" * levels)

    assert wanted({name: [1]}, {name: 1})
    assert not wanted({name: [1]}, {f"{name}.a": 1})


@pytest.mark.parametrize(
    "body",
    [
        {"a": [[]] * 200_000},
        {"a": [[[[[]]]]] * 50_000},
        {"a": [{}] * 200_000},
        {f"{n:x}.{'.'.join('a' * 100)}": 1 for n in range(2_000)},
        [{"a.b.c": 1}] * 50_000,
    ],
    ids=["arrays", "arrays in arrays", "objects", "long names", "short names"],
)
def test_a_body_that_takes_long_to_read_was_read_for_nothing(body):
    with pytest.raises(TooMuchToCompare):
        wanted({"a": {"b": [1]}}, body if isinstance(body, dict) else {"a": body})


@pytest.mark.parametrize("one", [{"b": 1}, {"b": [1]}, {"b": {"c": 1}}], ids=json.dumps)
def test_a_quarter_of_a_megabyte_of_small_objects_is_not_too_much(one):
    body = json.dumps({"a": [one] * (256 * 1024 // (len(json.dumps(one)) + 2) - 10)})
    content = Content({}, body)

    assert 255 * 1024 < len(body) < 256 * 1024
    assert not any(compile_filter(f'{{"a": {{"b": ["{n}"]}}}}', "MessageBody").matches(content) for n in range(100))


def test_looking_for_many_names_in_many_objects_took_seconds():
    content = Content({}, json.dumps({"a": [{"b": 1}] * 30_000}))

    with pytest.raises(TooMuchToCompare):
        any(compile_filter(f'{{"a": {{"{n}": [1]}}}}', "MessageBody").matches(content) for n in range(200))


def test_reading_many_texts_as_addresses_took_long():
    array = [f"10.{n}" for n in range(80_000)]

    with pytest.raises(TooMuchToCompare):
        wanted({"a": [{"cidr": "10.0.0.0/8"}]}, {"a": array})
