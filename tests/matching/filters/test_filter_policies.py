"""Filter policies: refusals in the words of AWS, and properties of all policies that are accepted."""

import json

import pytest

from sqew.errors import BadFilterPolicy
from sqew.matching.filters import compile_filter

TOO_COMPLEX = "Filter policy is too complex"


def refusal(policy: str | dict[str, object], scope: str = "MessageBody") -> BadFilterPolicy:
    with pytest.raises(BadFilterPolicy) as caught:
        compile_filter(policy if isinstance(policy, str) else json.dumps(policy), scope)
    return caught.value


NUMERIC = [
    ({}, "Value of numeric must be an array."),
    ([], "Invalid member in numeric match: ]"),
    ([1, "<="], "Invalid member in numeric match: 1"),
    ([None], "Invalid member in numeric match: null"),
    ([[]], "Invalid member in numeric match: ["),
    ([{}], "Invalid member in numeric match: {"),
    (["operator"], "Unrecognized numeric range operator: operator"),
    (["=", "000"], "Value of equals must be numeric"),
    (["=", True], "Value of equals must be numeric"),
    ([">="], "Value of >= must be numeric"),
    ([">", "20", "<", "30"], "Value of > must be numeric"),
    (["<", 100, ">", 10], "Too many elements in numeric expression"),
    (["=", 1, 2], "Too many elements in numeric expression"),
    ([">=", 1, ">", 2], "Bad numeric range operator: >"),
    ([">", 20, "test"], "Bad numeric range operator: test"),
    ([">", 20, 30], "Bad value in numeric range: 30"),
    ([">", 20, "<="], "Value of <= must be numeric"),
    ([">", 20, "<", "30"], "Value of < must be numeric"),
    ([">", 3, "<", 1], "Bottom must be less than top"),
    ([">=", 3, "<=", 3], "Bottom must be less than top"),
    ([">", 20, "<", 30, "<", 50], "Too many terms in numeric range expression"),
    (["=", 1_000_000_001], "Value must be between -1.0E9 and 1.0E9, inclusive"),
]

ANYTHING_BUT = [
    (None, "Value of anything-but must be an array or single string/number value."),
    (True, "Value of anything-but must be an array or single string/number value."),
    ([True], "Inside anything but list, start|null|boolean is not supported."),
    ([["x"]], "Inside anything but list, start|null|boolean is not supported."),
    (["x", 1], "Inside anything but list, either all values are number or string, mixed type is not supported"),
    ([], "Inside anything but list, either all values are number or string, mixed type is not supported"),
    (2e9, "Value must be between -1.0E9 and 1.0E9, inclusive"),
    ({}, "Anything-But expression name not found"),
    ({"wrong-operator": None}, "Unsupported anything-but pattern: wrong-operator"),
    ({"exists": False}, "Unsupported anything-but pattern: exists"),
    ({"prefix": False}, "prefix match pattern must be a string"),
    ({"suffix": ["x", 1]}, "suffix match pattern must be a string"),
    ({"wildcard": []}, "wildcard match pattern must be a string"),
    ({"prefix": ""}, "Null prefix/suffix not allowed"),
    ({"suffix": ["x", ""]}, "Null prefix/suffix not allowed"),
    ({"wildcard": "a**"}, "Consecutive wildcard characters at pos 2"),
    ({"prefix": "x", "suffix": "y"}, "Too many elements in numeric expression"),
]

VALUES = [
    ([], "Empty arrays are not allowed"),
    ([["value"]], "Match value must be String, number, true, false, or null"),
    ([{}], "Match expression name not found"),
    ([{"wrong-operator": True}], "Unrecognized match type wrong-operator"),
    ([{"suffix": "value", "prefix": "value2"}], "Only one key allowed in match expression"),
    ([{"numeric": ["=", 1], "prefix": "x"}], "Too many elements in numeric expression"),
    ([{"prefix": 1}], "prefix match pattern must be a string"),
    ([{"suffix": 100}], "suffix match pattern must be a string"),
    ([{"suffix": None}], "suffix match pattern must be a string"),
    ([{"suffix": ["test", "test2"]}], "suffix match pattern must be a string"),
    ([{"equals-ignore-case": 1}], "equals-ignore-case match pattern must be a string"),
    ([{"wildcard": True}], "wildcard match pattern must be a string"),
    ([{"wildcard": "**"}], "Consecutive wildcard characters at pos 1"),
    ([{"wildcard": "é**"}], "Consecutive wildcard characters at pos 3"),
    ([{"wildcard": r"a\b"}], "Invalid escape character at pos 2"),
    ([{"wildcard": "a\\"}], "Invalid escape character at pos 2"),
    ([{"wildcard": "*a*b*c*"}], f"{TOO_COMPLEX}: a pattern can have at most 3 wildcards"),
    ([{"exists": None}], "exists match pattern must be either true or false."),
    ([{"exists": "no"}], "exists match pattern must be either true or false."),
    ([{"cidr": 10}], "prefix match pattern must be a string"),
    ([{"cidr": "10.0.0.0"}], "Malformed CIDR, one '/' required"),
    ([{"cidr": "10.0.0.0/"}], "Malformed CIDR, one '/' required"),
    ([{"cidr": "10.0.0.0/8/8"}], "Malformed CIDR, one '/' required"),
    ([{"cidr": "10.0.0.0/x"}], "Malformed CIDR, mask bits must be an integer"),
    ([{"cidr": "10.0.0.0/-1"}], "Malformed CIDR, mask bits must not be negative"),
    ([{"cidr": "10.0.0.0/33"}], "IPv4 mask bits must be < 33"),
    ([{"cidr": "::/129"}], "IPv6 mask bits must be < 129"),
    ([{"cidr": "localhost/8"}], "Nonstandard IP address: localhost"),
    ([{"cidr": "/8"}], "Nonstandard IP address: "),
    ("value", '"key" must be an object or an array'),
    (None, '"key" must be an object or an array'),
    ({"suffix": "value"}, '"suffix" must be an object or an array'),
    ({}, "Empty objects are not allowed"),
    *(([{"numeric": operand}], sentence) for operand, sentence in NUMERIC),
    *(([{"anything-but": operand}], sentence) for operand, sentence in ANYTHING_BUT),
]


@pytest.mark.parametrize(("values", "sentence"), VALUES)
@pytest.mark.parametrize("scope", ["MessageAttributes", "MessageBody"])
def test_a_mistake_in_the_values_is_named_as_aws_names_it(values, sentence, scope):
    assert str(refusal({"key": values}, scope)) == sentence


ORS = [
    ({"$or": [{"a": ["x"]}]}, "Unrecognized match type a"),
    ({"$or": [{"a": ["x"]}, ["y"]]}, "Unrecognized match type a"),
    ({"$or": [{"numeric": 123}, {"prefix": "abc"}]}, "Value of numeric must be an array."),
    ({"$or": [{"a": ["x"]}, {}]}, "Empty objects are not allowed"),
    ({"$or": []}, "Empty arrays are not allowed"),
    (
        {"$or": [{"a": {"prefix": ["x"]}}, {"b": ["y"]}]},
        "prefix is Ruler reserved fieldName which cannot be used inside $or.",
    ),
]


@pytest.mark.parametrize(("policy", "sentence"), ORS)
def test_an_or_that_is_none_is_read_as_any_other_name(policy, sentence):
    assert str(refusal(policy)) == sentence


@pytest.mark.parametrize(
    "policy", ["", "{", "{invalidjson}", '{"a": ["x"]} x', '{"a": [1e999]}', "[" * 100_000, "\ud800"]
)
def test_a_policy_that_is_no_json_is_refused(policy):
    assert str(refusal(policy)).startswith("failed to parse JSON. ")


@pytest.mark.parametrize("policy", ["[]", '"a"', "null", "1"])
def test_a_policy_that_is_no_object_is_refused(policy):
    assert str(refusal(policy)) == "Filter is not an object"


def test_the_reason_is_what_an_answer_says_behind_invalid_parameter():
    mistake = refusal({"a": [{"error": True}]}, "MessageAttributes")

    assert mistake.reason == "FilterPolicy: Unrecognized match type error"


@pytest.mark.parametrize("policy", [{"a": {"b": ["x"]}}, {"$or": [{"a": ["x"]}, {"b": {"c": ["x"]}}]}])
def test_attributes_have_no_properties_of_their_own(policy):
    mistake = refusal(policy, "MessageAttributes")

    assert mistake.reason == "Filter policy scope MessageAttributes does not support nested filter policy"


def names(count: int) -> dict[str, object]:
    return {f"key{n}": ["x"] for n in range(count)}


@pytest.mark.parametrize("scope", ["MessageAttributes", "MessageBody"])
def test_a_policy_has_five_keys_at_most(scope):
    compile_filter(json.dumps(names(5)), scope)

    assert str(refusal(names(6), scope)) == "Filter policy can not have more than 5 keys"


def test_the_keys_of_a_nested_policy_are_its_leaves():
    compile_filter(json.dumps({"a": names(5)}), "MessageBody")

    assert str(refusal({"a": names(3), "b": names(3)})) == "Filter policy can not have more than 5 keys"


def values(count: int) -> list[str]:
    return [f"value{n}" for n in range(count)]


def nested_or(sources: int, names: int, types: int, ids: int, spaces: int) -> dict[str, object]:
    deeper = {"type": values(types), "$or": [{"id": values(ids)}, {"space": values(spaces)}]}
    return {"source": values(sources), "$or": [{"name": values(names)}, deeper]}


COMBINATIONS = [
    ({"a": values(150)}, {"a": values(151)}),
    ({"a": values(50), "b": values(3)}, {"a": values(51), "b": values(3)}),
    (nested_or(3, 6, 4, 4, 7), nested_or(4, 6, 4, 4, 4)),
    ({"a": {"b": {"c": values(4)}}, "d": {"e": values(6)}}, {"a": {"b": {"c": values(4)}}, "d": {"e": values(7)}}),
    ({"$or": [{"a": values(75)}, {"a": values(75)}]}, {"$or": [{"a": values(75)}, {"a": values(76)}]}),
    ({"$or": [{"a": ["x"]}] * 150}, {"$or": [{"a": ["x"]}] * 151}),
]


@pytest.mark.parametrize(
    ("most", "too_many"), COMBINATIONS, ids=["150", "50 x 3", "or within or", "nested", "or", "150 ors"]
)
def test_a_policy_has_150_combinations_at_most(most, too_many):
    compile_filter(json.dumps(most), "MessageBody")

    assert str(refusal(too_many)) == TOO_COMPLEX


def deep_or(levels: int) -> str:
    return '{"$or": [{"a": ["x"]}, ' * levels + '{"b": ["y"]}' + "]}" * levels


def crossed_ors(count: int) -> str:
    return "{" + ", ".join(f'"k{n}": {{"$or": [{{"a": ["x"]}}, {{"b": ["y"]}}]}}' for n in range(count)) + "}"


@pytest.mark.parametrize(
    "policy",
    [
        deep_or(151),
        deep_or(300),
        crossed_ors(40),
        '{"a": ' * 151 + '["x"]' + "}" * 151,
        '{"' + "a." * 50_000 + '": ["x"]}',
    ],
    ids=["151 ors", "300 ors", "40 ors beside each other", "151 levels", "50,000 dots"],
)
def test_a_policy_that_grows_without_end_is_refused_at_once(policy):
    assert str(refusal(policy)) == TOO_COMPLEX


def test_a_policy_just_below_the_depth_that_can_be_parsed_is_refused():
    for levels in range(400, 520):
        assert str(refusal(deep_or(levels))).startswith((TOO_COMPLEX, "failed to parse JSON."))


def test_wildcards_cost_100_points_at_most():
    most = {"a": [{"wildcard": f"{n}*"} for n in range(10)]}
    too_many = {"a": [{"wildcard": f"{n}*"} for n in range(10)], "b": [{"wildcard": "x*"}]}

    compile_filter(json.dumps(most), "MessageBody")

    assert str(refusal(too_many)) == f"{TOO_COMPLEX}: its wildcards count 101 points, and 100 are the most"


def test_a_pattern_of_several_wildcards_costs_three_points():
    most = {"a": [{"wildcard": f"*{n}*"} for n in range(5)]}
    too_many = {"a": [{"wildcard": f"*{n}*"} for n in range(6)]}

    compile_filter(json.dumps(most), "MessageBody")

    assert str(refusal(too_many)) == f"{TOO_COMPLEX}: its wildcards count 108 points, and 100 are the most"


def test_patterns_without_wildcards_cost_no_points():
    compile_filter(json.dumps({"a": [{"anything-but": n} for n in range(20)]}), "MessageBody")


def test_a_policy_has_256_kilobytes_at_most():
    most = '{"a": ["' + "x" * (256 * 1024 - 11) + '"]}'

    compile_filter(most, "MessageBody")

    assert str(refusal(most + " ")) == "Filter policy has 262145 bytes, and 262144 are the most"
