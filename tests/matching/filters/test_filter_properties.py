"""Properties of filters, whatever the policy and the message."""

import json
import re
from contextlib import suppress
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from sqew.errors import BadFilterPolicy
from sqew.matching.filters import Content, compile_filter

WORDS = st.sampled_from(["a", "b", "a.b", "ab", "x*", "*", "10.0.0.1", "10.0.0.0/8", "", "é"]) | st.text(max_size=4)
NUMBERS = st.integers(-(10**10), 10**10) | st.floats(-1e10, 1e10, allow_nan=False)
SCALARS = WORDS | NUMBERS | st.booleans() | st.none()
OPERATORS = st.sampled_from(
    ["prefix", "suffix", "wildcard", "equals-ignore-case", "anything-but", "numeric", "exists", "cidr", "=", ">", "<"]
)
NAMES = WORDS | OPERATORS | st.just("$or")
JSON = st.recursive(
    SCALARS | OPERATORS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
OPERANDS = SCALARS | st.lists(SCALARS | OPERATORS, max_size=4) | st.builds(lambda *pair: dict([pair]), OPERATORS, WORDS)
EXPRESSIONS = st.builds(lambda *pair: dict([pair]), OPERATORS, OPERANDS)
POLICIES = st.recursive(
    st.dictionaries(WORDS, st.lists(SCALARS | EXPRESSIONS, min_size=1, max_size=3), min_size=1, max_size=3),
    lambda inner: (
        st.dictionaries(WORDS, inner, min_size=1, max_size=2)
        | st.lists(inner, min_size=1, max_size=3).map(lambda options: {"$or": options})
    ),
    max_leaves=4,
)
SCOPES = st.sampled_from(["MessageAttributes", "MessageBody"])
ATTRIBUTES = st.dictionaries(
    st.sampled_from("abcde"),
    st.tuples(st.just("String"), WORDS) | NUMBERS.map(lambda number: ("Number", repr(number))),
    min_size=1,
    max_size=5,
)

TEXT_OPERATORS = st.sampled_from(["prefix", "suffix", "equals-ignore-case"])
PATTERNS = (
    WORDS.map(lambda text: [text])
    | st.integers(-9, 9).map(lambda number: [number])
    | st.builds(lambda operator, text: [{operator: text}], TEXT_OPERATORS, st.text("abAB", min_size=1, max_size=3))
)


def wanted(policy: object, content: Content, scope: str = "MessageAttributes") -> bool:
    return compile_filter(json.dumps(policy), scope).matches(content)


def of(value: object) -> Content:
    return Content({}, json.dumps({"a": value}))


@given(JSON, SCOPES)
def test_any_json_is_a_policy_or_refused(policy, scope):
    with suppress(BadFilterPolicy):
        compile_filter(json.dumps(policy), scope)


@given(POLICIES, SCOPES, ATTRIBUTES, JSON)
def test_a_policy_is_refused_or_answers_every_message(policy, scope, attributes, body):
    with suppress(BadFilterPolicy):
        compiled = compile_filter(json.dumps(policy), scope)

        assert isinstance(compiled.matches(Content(attributes, json.dumps(body))), bool)


@given(st.text() | st.text('{}[]":,$or1e-\\u', max_size=30), SCOPES)
def test_any_text_is_a_policy_or_refused(text, scope):
    with suppress(BadFilterPolicy):
        compile_filter(text, scope)


@given(st.binary(max_size=40), st.sampled_from(["String.Array", "Number", "Binary", "?"]), st.text(max_size=20))
def test_anything_can_be_published(body, data_type, value):
    content = Content({"a": (data_type, value)}, body)

    assert not wanted({"a": ["nothing of the kind"]}, content)
    assert not wanted({"a": ["nothing of the kind"]}, content, "MessageBody")


def value_of(attribute: tuple[str, str]) -> object:
    kind, value = attribute
    return value if kind == "String" else json.loads(value)


@given(ATTRIBUTES)
def test_a_policy_made_of_a_message_lets_it_through(attributes):
    policy = {name: [value_of(attribute)] for name, attribute in attributes.items()}

    assert wanted(policy, Content(attributes, b""))


@given(ATTRIBUTES, st.data())
def test_a_policy_with_one_other_value_does_not(attributes, data):
    policy = {name: [value_of(attribute)] for name, attribute in attributes.items()}
    name = data.draw(st.sampled_from(sorted(attributes)))

    assert not wanted(policy | {name: ["no such text"]}, Content(attributes, b""))


@given(ATTRIBUTES, PATTERNS, PATTERNS)
def test_either_of_two_policies_wants_what_one_of_them_wants(attributes, one, other):
    content = Content(attributes, b"")

    either = wanted({"$or": [{"a": one}, {"b": other}]}, content)

    assert either == (wanted({"a": one}, content) or wanted({"b": other}, content))


@given(ATTRIBUTES, PATTERNS, PATTERNS)
def test_two_properties_want_what_each_of_them_wants(attributes, one, other):
    content = Content(attributes, b"")

    both = wanted({"a": one, "b": other}, content)

    assert both == (wanted({"a": one}, content) and wanted({"b": other}, content))


@given(ATTRIBUTES, st.dictionaries(st.sampled_from("abc"), PATTERNS, min_size=1))
def test_attributes_and_a_body_of_the_same_values_are_matched_alike(attributes, policy):
    body = json.dumps({name: value_of(attribute) for name, attribute in attributes.items()})

    assert wanted(policy, Content(attributes, b"")) == wanted(policy, Content({}, body), "MessageBody")


@given(PATTERNS, SCALARS)
def test_anything_but_a_pattern_is_all_that_the_pattern_is_not(pattern, value):
    assert wanted({"a": [{"anything-but": pattern[0]}]}, of(value), "MessageBody") != wanted(
        {"a": pattern}, of(value), "MessageBody"
    )


@given(ATTRIBUTES)
def test_an_attribute_exists_or_it_does_not(attributes):
    attributes["z"] = ("String", "not empty")
    content = Content({name: value for name, value in attributes.items() if value != ("String", "")}, b"")

    assert wanted({"a": [{"exists": True}]}, content) != wanted({"a": [{"exists": False}]}, content)


@given(st.lists(st.text("ab", max_size=2), min_size=1, max_size=4), st.text("ab", max_size=8))
def test_wildcards_match_as_a_regular_expression_does(parts, text):
    pattern = re.sub(r"\*+", "*", "*".join(parts))

    found = wanted({"a": [{"wildcard": pattern}]}, of(text), "MessageBody")

    assert found == bool(re.fullmatch(pattern.replace("*", ".*"), text))


STEPS = st.integers(-300, 300)


@given(STEPS, STEPS, STEPS, st.sampled_from([">", ">="]), st.sampled_from(["<", "<="]))
def test_ranges_hold_what_is_between_their_ends(bottom, size, value, above, below):
    top = bottom + abs(size) + 1
    compare = {"<": Fraction.__lt__, "<=": Fraction.__le__, ">": Fraction.__gt__, ">=": Fraction.__ge__}

    found = wanted({"a": [{"numeric": [above, bottom / 1e5, below, top / 1e5]}]}, of(value / 1e5), "MessageBody")

    assert found == (compare[above](Fraction(value), bottom) and compare[below](Fraction(value), top))


BODIES = st.dictionaries(
    st.sampled_from("ab"),
    st.recursive(
        st.integers(0, 1),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        max_leaves=8,
    ),
)
LEAVES = st.lists(st.integers(0, 1), min_size=1, max_size=1)
NESTED = st.recursive(
    LEAVES, lambda inner: st.dictionaries(st.sampled_from("ab"), inner, min_size=1, max_size=2), max_leaves=3
).map(lambda inner: {"a": inner})


def values_within(value, path=(), within=None, place=()):
    """Yield every value below, with the names that lead to it and, for each array on the way, the element it is in."""
    within = within or {}
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from values_within(inner, (*path, name), within, (place, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from values_within(inner, path, within | {place: index}, (place, index))
    else:
        yield path, value, within


def fits(wanted, found, chosen):
    """Return True if each wanted value is found, no two of them in different elements of one array."""
    if not wanted:
        return True
    (path, value), *others = wanted
    return any(
        fits(others, found, chosen | within)
        for at, there, within in found
        if at == path and there == value and all(chosen.get(array, index) == index for array, index in within.items())
    )


@given(NESTED, BODIES)
def test_values_match_together_only_in_the_same_elements_of_arrays(policy, body):
    leaves = [(path, value) for path, value, _ in values_within(policy)]

    assert wanted(policy, Content({}, json.dumps(body)), "MessageBody") == fits(leaves, list(values_within(body)), {})
