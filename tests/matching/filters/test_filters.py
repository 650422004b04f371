"""Filters: the messages that they let through, property by property."""

import json

import pytest

from sqew.matching.filters import Attribute, Content, compile_filter


def attribute(value: object) -> Attribute:
    """Return a string, number or array as the attribute a client would send; a tuple as it is."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, str):
        return "String", value
    if isinstance(value, list):
        return "String.Array", json.dumps(value)
    return "Number", str(value)


def by_attributes(policy: dict[str, object], attributes: dict[str, object]) -> bool:
    content = Content({name: attribute(value) for name, value in attributes.items()}, b"not JSON")
    return compile_filter(json.dumps(policy), "MessageAttributes").matches(content)


def by_body(policy: dict[str, object], body: object) -> bool:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return compile_filter(json.dumps(policy), "MessageBody").matches(Content({"a": ("String", "x")}, text))


# What a value of `a` does under the values that a policy gives for it: the same in an attribute and in a body.
VALUES = [
    (["x"], "x", True, "a text is equal to itself"),
    (["x"], "y", False, "another text is not"),
    (["x"], "X", False, "case counts"),
    (["x"], "x ", False, "spaces count"),
    (["é"], "é", True, "texts beyond ASCII"),
    (['say "hi"\\'], 'say "hi"\\', True, "quotation marks and backslashes"),
    (["x", "y"], "y", True, "one of the values is enough"),
    (["x", {"prefix": "y"}], "yes", True, "a value or a pattern"),
    (["x", {"prefix": "y"}], "z", False, "neither the value nor the pattern"),
    ([5], 5, True, "a number is equal to itself"),
    ([5], 5.0, True, "however it is written"),
    ([301.5], 301.5, True, "a decimal number"),
    ([5], 6, False, "another number is not"),
    ([5], "5", False, "a text is never a number"),
    (["5"], 5, False, "a number is never a text"),
    ([0.3], 0.1 + 0.2, True, "five digits after the point are compared"),
    ([1.00001], 1.00002, False, "and the fifth counts"),
    ([1.000001], 1.000002, True, "but not the sixth"),
    ([2_000_000_000], 2_000_000_000, True, "a number out of range is equal to itself"),
    ([20_000], 2_000_000_000, False, "a number out of range is not mistaken for one in range"),
    ([123456789012345678901234567890], 123456789012345678901234567890, True, "numbers of many digits"),
    ([True], "true", False, "true is not a text"),
    ([0.00001], "x", False, "the smallest number is not a text"),
    (["rugby", "tennis"], ["rugby", "golf"], True, "one element of an array is enough"),
    (["rugby", "tennis"], ["golf"], False, "none of the elements"),
    ([5], [1, 5], True, "a number in an array"),
    ([True], ["x", True], True, "true in an array"),
    ([False], [True], False, "false is not true"),
    ([None], [None], True, "null in an array"),
    ([True], [1], False, "1 is not true"),
    ([1], [True], False, "true is not 1"),
    ([0], [False], False, "false is not 0"),
    ([None], ["null"], False, "the text null is not null"),
    ([{"prefix": "bas"}], "baseball", True, "a prefix"),
    ([{"prefix": "bas"}], "rugby", False, "no such prefix"),
    ([{"prefix": "bas"}], "Baseball", False, "case counts in a prefix"),
    ([{"prefix": "1"}], 12, False, "a number has no prefix"),
    ([{"prefix": ""}], "anything", True, "every text begins with nothing"),
    ([{"prefix": "bas"}], ["rugby", "basketball"], True, "a prefix of an element"),
    ([{"suffix": "ball"}], "baseball", True, "a suffix"),
    ([{"suffix": "ball"}], "balls", False, "no such suffix"),
    ([{"suffix": "2"}], 12, False, "a number has no suffix"),
    ([{"equals-ignore-case": "tennis"}], "TeNNiS", True, "equal but for case"),
    ([{"equals-ignore-case": "tennis"}], "tennis1", False, "equal as a whole only"),
    ([{"equals-ignore-case": "Ärger"}], "äRGER", True, "case beyond ASCII"),
    ([{"equals-ignore-case": "1"}], 1, False, "a number has no case"),
    ([{"wildcard": "*ball"}], "baseball", True, "a wildcard at the start"),
    ([{"wildcard": "*ball"}], "ball", True, "a wildcard for nothing"),
    ([{"wildcard": "*ball"}], "balloon", False, "what follows the wildcard must end the text"),
    ([{"wildcard": "base*"}], "baseball", True, "a wildcard at the end"),
    ([{"wildcard": "b*e*l"}], "baseball", True, "wildcards in the middle"),
    ([{"wildcard": "b*z*l"}], "baseball", False, "a part that is missing"),
    ([{"wildcard": "a*a"}], "a", False, "one character is not used twice"),
    ([{"wildcard": "ab*ab"}], "aab", False, "nor are several"),
    ([{"wildcard": "*a*b*"}], "ba", False, "parts stand in their order"),
    ([{"wildcard": "*a*b*"}], "xaxbx", True, "three wildcards"),
    ([{"wildcard": "x\ny*"}], "x\ny\nz", True, "a wildcard goes over the ends of lines"),
    ([{"wildcard": "*"}], "", True, "a lone wildcard, and an empty text"),
    ([{"wildcard": "plain"}], "plain", True, "a pattern without a wildcard"),
    ([{"wildcard": r"\**"}], "*x", True, "an escaped asterisk is one"),
    ([{"wildcard": r"\**"}], "x", False, "and nothing else"),
    ([{"wildcard": r"a\\*"}], r"a\b", True, "an escaped backslash is one"),
    ([{"wildcard": "1*"}], 12, False, "a number matches no wildcard"),
    ([{"wildcard": "a.c*"}], "abc", False, "a dot is a dot"),
    ([{"numeric": ["=", 301.5]}], 301.5, True, "numeric equality"),
    ([{"numeric": ["=", 301.5]}], 301.6, False, "numeric inequality"),
    ([{"numeric": ["=", 5]}], "5", False, "a text is not compared as a number"),
    ([{"numeric": [">", 5]}], 5, False, "greater means greater"),
    ([{"numeric": [">", 5]}], 5.00001, True, "by the smallest difference"),
    ([{"numeric": [">", 5]}], 5.000001, False, "a smaller difference is none"),
    ([{"numeric": [">=", 5]}], 5, True, "greater or equal"),
    ([{"numeric": [">=", 5]}], 4.99999, False, "just below"),
    ([{"numeric": ["<", 0]}], -1, True, "less"),
    ([{"numeric": ["<", 0]}], 0, False, "less means less"),
    ([{"numeric": ["<=", 0]}], 0, True, "less or equal"),
    ([{"numeric": ["<=", 0]}], 0.00001, False, "just above"),
    ([{"numeric": [">", 0, "<=", 150]}], 150, True, "the top of a range"),
    ([{"numeric": [">", 0, "<=", 150]}], 0, False, "the bottom of a range that leaves it out"),
    ([{"numeric": [">=", 0, "<", 150]}], 150, False, "the top of a range that leaves it out"),
    ([{"numeric": [">=", 0, "<", 150]}], 0, True, "the bottom of a range"),
    ([{"numeric": [">=", 0]}], 1_000_000_000, True, "the highest number"),
    ([{"numeric": [">=", 0]}], 1_000_000_001, False, "a higher one is out of range"),
    ([{"numeric": ["<", 0]}], -1_000_000_001, False, "and so is a lower one"),
    ([{"numeric": [">", 5]}], ["x", 7], True, "a number among texts"),
    ([{"numeric": [">=", 0]}], [True], False, "true is not a number"),
    ([{"anything-but": "x"}], "y", True, "anything but a text"),
    ([{"anything-but": "x"}], "x", False, "but not that text"),
    ([{"anything-but": ["x", "y"]}], "z", True, "anything but several"),
    ([{"anything-but": ["x", "y"]}], "y", False, "but not the second either"),
    ([{"anything-but": "5"}], 5, True, "a number is not that text"),
    ([{"anything-but": 100}], 100, False, "anything but a number"),
    ([{"anything-but": [100, 500]}], 100.1, True, "a number beside it"),
    ([{"anything-but": [100, 500]}], 5e2, False, "the number in another form"),
    ([{"anything-but": [100]}], "100", True, "a text is not that number"),
    ([{"anything-but": [100]}], 2_000_000_000, True, "a number out of range is another one"),
    ([{"anything-but": ["rugby", "tennis"]}], ["rugby", "golf"], True, "one element that is something else"),
    ([{"anything-but": ["rugby", "tennis"]}], ["rugby", "tennis"], False, "no element that is"),
    ([{"anything-but": [100, 500]}], [100, 50], True, "one number that is something else"),
    ([{"anything-but": "x"}], [None], True, "null is not that text"),
    ([{"anything-but": {"prefix": "order-"}}], "order_1", True, "anything but a prefix"),
    ([{"anything-but": {"prefix": "order-"}}], "order-1", False, "not with that prefix"),
    ([{"anything-but": {"prefix": ["a", "b"]}}], "b1", False, "not with any of the prefixes"),
    ([{"anything-but": {"prefix": "1"}}], 12, True, "a number has no prefix to be refused for"),
    ([{"anything-but": {"suffix": "ball"}}], "hockey", True, "anything but a suffix"),
    ([{"anything-but": {"suffix": "ball"}}], "baseball", False, "not with that suffix"),
    ([{"anything-but": {"wildcard": "*/lib/*"}}], "/usr/bin/x", True, "anything but a wildcard"),
    ([{"anything-but": {"wildcard": "*/lib/*"}}], "/usr/lib/x", False, "not what it stands for"),
    ([{"anything-but": {"wildcard": ["a*", "b*"]}}], "bc", False, "not what any of them stands for"),
    ([{"anything-but": {"equals-ignore-case": "x"}}], "X", False, "anything but a text in any case"),
    ([{"anything-but": {"equals-ignore-case": ["x", "y"]}}], "z", True, "another text in any case"),
    ([{"anything-but": "x"}, {"anything-but": "y"}], "x", True, "two negations let everything through"),
    ([{"exists": True}], "x", True, "it is there"),
    ([{"exists": True}], 0, True, "zero is there"),
    ([{"exists": True}], [None], False, "null is not"),
    ([{"exists": False}], "x", False, "it must not be there"),
    ([{"exists": False}], [None], False, "null is there as far as its absence goes"),
    ([{"exists": False}], [], True, "an empty array holds nothing"),
    ([{"exists": True}], [], False, "so it is not there"),
    ([{"exists": False}, "x"], "x", True, "absent or of a value"),
    ([{"cidr": "10.0.0.0/24"}], "10.0.0.255", True, "an address in a network"),
    ([{"cidr": "10.0.0.0/24"}], "10.0.1.0", False, "an address outside"),
    ([{"cidr": "10.0.0.77/24"}], "10.0.0.1", True, "a network by any of its addresses"),
    ([{"cidr": "10.0.0.1/32"}], "10.0.0.1", True, "a single address"),
    ([{"cidr": "0.0.0.0/0"}], "255.255.255.255", True, "every address"),
    ([{"cidr": "0.0.0.0/0"}], "::1", False, "but none of the other kind"),
    ([{"cidr": "2001:db8::/32"}], "2001:0DB8:1::7", True, "an address of version 6"),
    ([{"cidr": "2001:db8::/32"}], "2001:db9::", False, "one outside"),
    ([{"cidr": "10.0.0.0/8"}], "localhost", False, "a name is no address"),
    ([{"cidr": "10.0.0.0/8"}], "10.0.0.999", False, "nor are numbers with dots"),
    ([{"cidr": "0.0.0.0/0"}], 16777216, False, "nor is a number"),
]


@pytest.mark.parametrize(("values", "value", "wanted", "reason"), VALUES, ids=[reason for *_, reason in VALUES])
def test_a_value_does_the_same_in_an_attribute_and_in_a_body(values, value, wanted, reason):
    assert by_attributes({"a": values}, {"a": value, "b": "y"}) is wanted, reason
    assert by_body({"a": values}, {"a": value, "b": "y"}) is wanted, reason


X, Y = {"a": ["x"]}, {"b": ["y"]}
EITHER = {"$or": [X, Y]}

ATTRIBUTES = [
    (X | Y, {"a": "x", "b": "y"}, True, "all properties must match"),
    (X | Y, {"a": "x", "b": "z"}, False, "one that does not is enough to refuse"),
    (X | Y, {"a": "x"}, False, "one that is missing too"),
    (X, {"a": "x", "z": "?"}, True, "what a policy does not name is ignored"),
    (X, {"A": "x"}, False, "case counts in names"),
    (X, {}, False, "no attributes at all"),
    ({"a": [{"anything-but": "x"}]}, {"b": "y"}, False, "anything but a value is a value"),
    ({"a": [None]}, {"b": "y"}, False, "null is not absence"),
    ({"a": [{"exists": False}]}, {"b": "y"}, True, "an attribute that is not there"),
    ({"a": [{"exists": False}]}, {}, False, "absence needs another attribute"),
    ({"a": [{"exists": False}, {"anything-but": "x"}]}, {"b": "y"}, True, "absent or anything else"),
    ({"a": [{"exists": False}] } | Y, {"b": "y"}, True, "one absent and one there"),
    ({"a": [{"exists": True}]}, {"a": ("Binary", b"x"), "b": "y"}, False, "binary attributes are ignored"),
    ({"a": [{"exists": False}]}, {"a": ("Binary", b"x"), "b": "y"}, True, "so they are absent"),
    ({"a": [{"exists": False}]}, {"b": ("Binary.png", b"x")}, False, "and don't count as another one"),
    ({"a": [{"exists": True}]}, {"a": ("Number", b"5"), "b": "y"}, False, "bytes are binary whatever their type says"),
    ({"a": [5]}, {"a": ("Number.int", "5")}, True, "a number of a custom type"),
    (X, {"a": ("String.colour", "x")}, True, "a text of a custom type"),
    ({"a": [301.5]}, {"a": ("Number", "3.015e2")}, True, "a number with an exponent"),
    ({"a": [5]}, {"a": ("Number", "+5.")}, True, "a number with a sign and a lone point"),
    ({"a": [100]}, {"a": ("Number.Array", "[100, 50]")}, True, "an array of numbers"),
    ({"a": [{"numeric": [">", 0]}]}, {"a": ("Number", "nan")}, False, "a number that is none"),
    ({"a": [{"exists": True}]}, {"a": ("Number", "five")}, True, "which is there all the same"),
    (X, {"a": ("String.Array", "[\"x\"")}, False, "an array that is no JSON"),
    (X, {"a": ("String.Array", "\"x\"")}, False, "an array that is none"),
    ({"a": ["[\"x\"]"]}, {"a": ["x"]}, False, "an array is not its text"),
    ({"a.b": ["x"]}, {"a.b": "x"}, True, "a dot is part of an attribute's name"),
    (EITHER, {"a": "x"}, True, "the first of two"),
    (EITHER, {"b": "y"}, True, "the second of two"),
    (EITHER, {"a": "y", "b": "x"}, False, "neither of two"),
    ({"c": ["z"]} | EITHER, {"c": "z", "b": "y"}, True, "one and either of two"),
    ({"c": ["z"]} | EITHER, {"a": "x", "b": "y"}, False, "either of two, without the one"),
    (EITHER | {"c": ["z"]}, {"a": "x"}, False, "the order does not matter"),
    ({"$or": [X | Y, {"c": ["z"]}]}, {"a": "x"}, False, "half of the first of two"),
    ({"$or": [X | Y, {"c": ["z"]}]}, {"a": "x", "b": "y"}, True, "the whole of it"),
    ({"$or": [X, Y | {"$or": [{"c": [1]}, {"d": [2]}]}]}, {"b": "y", "d": 2}, True, "either within either"),
    ({"$or": [X, Y | {"$or": [{"c": [1]}, {"d": [2]}]}]}, {"b": "y", "d": 1}, False, "neither within either"),
    ({"$or": [{"a": [{"exists": False}]}, Y]}, {"c": "z"}, True, "absent, or of a value"),
    ({"$or": ["x", "y"]}, {"$or": "y"}, True, "a name of values is a name"),
    ({"$or": [{"prefix": "x"}, {"suffix": "y"}]}, {"$or": "xx"}, True, "and so is one of patterns"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "attributes", "wanted", "reason"), ATTRIBUTES, ids=[row[-1] for row in ATTRIBUTES])
def test_attributes_are_matched_by_their_names(policy, attributes, wanted, reason):
    assert by_attributes(policy, attributes) is wanted, reason


RECORDS = {"records": {"event": [{"prefix": "made:"}], "file": {"name": [{"prefix": "auto-"}]}}}
MADE, GONE = {"event": "made:put"}, {"event": "gone"}
AUTO, HOME = {"file": {"name": "auto-1"}}, {"file": {"name": "home-1"}}

BODIES = [
    ({"a": {"b": ["x"]}}, {"a": {"b": "x"}}, True, "a property of a property"),
    ({"a": {"b": ["x"]}}, {"b": "x"}, False, "a property elsewhere"),
    ({"a": {"b": ["x"]}}, {"a": "x"}, False, "a value where properties should be"),
    ({"a": ["x"]}, {"a": {"b": "x"}}, False, "properties where a value should be"),
    ({"a": {"b": ["x"], "c": ["y"]}}, {"a": {"b": "x", "c": "y"}}, True, "two properties of one"),
    ({"a": {"b": ["x"], "c": ["y"]}}, {"a": {"b": "x"}}, False, "one of the two"),
    ({"a": ["x"]}, {"a": ["w", ["x"]]}, True, "arrays within arrays"),
    ({"a": ["x"]}, {"a": [{"a": "x"}]}, False, "an object in an array is no value"),
    ({"a": [None]}, {"a": None}, True, "null"),
    ({"a": [True]}, {"a": True}, True, "true"),
    ({"a": [{"exists": True}]}, {"a": None}, False, "null is not there"),
    ({"a": [{"exists": True}]}, {"a": ""}, False, "nor is an empty text"),
    ({"a": [{"exists": True}]}, {"a": {"b": 1}}, False, "nor is an object: only values are"),
    ({"a": [{"exists": False}]}, {"a": {"b": 1}}, True, "so it is absent"),
    ({"a": [{"exists": False}]}, {"a": [{"b": 1}]}, True, "in an array too"),
    ({"a": [{"exists": False}]}, {"a": [1, {"b": 1}]}, False, "but not beside a value"),
    ({"a": [{"exists": False}]}, {}, False, "absence needs another property"),
    ({"a": {"b": [{"exists": False}]}}, {"c": 1}, True, "absent with what should hold it"),
    ({"a": {"b": [{"exists": False}]}}, {"a": 1}, True, "absent where a value is"),
    ({"a": {"b": [{"exists": False}]}}, {"a": [{"b": 1}, {"c": 1}]}, False, "absent from one element only"),
    ({"a": {"b": [{"exists": False}]}}, {"a": [{"c": 1}, {"d": 1}]}, True, "absent from all elements"),
    ({"a": {"b": [{"exists": False}]}}, {"a": [[]]}, True, "absent from no elements"),
    ({"a": {"b": [{"exists": False}], "c": [1]}}, {"a": [{"b": 1}, {"c": 1}]}, True, "absent from the one that fits"),
    ({"a": {"b": ["x"]}}, {"a": []}, False, "nothing in an array"),
    (RECORDS, {"records": MADE | AUTO}, True, "an object with both"),
    (RECORDS, {"records": [MADE | AUTO]}, True, "an array of such an object"),
    (RECORDS, {"records": [[MADE | AUTO]]}, True, "an array of such an array"),
    (RECORDS, {"records": [GONE | HOME, MADE | AUTO]}, True, "one of the objects has both"),
    (RECORDS, {"records": [MADE | HOME, GONE | AUTO]}, False, "no one has both, though both are there"),
    (RECORDS, {"records": [MADE | {"file": [[{"name": "auto-1"}]]}]}, True, "arrays at every level"),
    ({"a.b": ["x"]}, {"a": {"b": "x"}}, True, "a dot is a step"),
    ({"a.b": ["x"]}, {"a.b": "x"}, True, "on both sides"),
    ({"a": {"b": ["x"]}}, {"a.b": "x"}, True, "on either side"),
    ({"a.b.c": ["x"]}, {"a": {"b": {"c": "x"}}}, True, "two dots are two steps"),
    ({"a.b.c": ["x"]}, {"a.b": {"c": "x"}}, True, "the first of them in the message"),
    ({"a.b.c": ["x"]}, {"a": {"b.c": "x"}}, True, "or the second"),
    ({"a.b.c": ["x"]}, {"a": {"b": {"c": "y"}}}, False, "another value at the end"),
    ({"a": {"b.c": ["x"]}}, {"a.b.c": "x"}, True, "dots in other places"),
    ({"a.b": [{"exists": False}]}, {"a.b": "x"}, False, "not absent by another name"),
    ({"a": {"b": ["x"], "c": ["y"]}}, {"a": {"b": "x"}, "a.c": "y"}, True, "half with a dot"),
    ({"a": ["x"], "a.b": ["y"]}, {"a": "x", "a.b": "y"}, True, "a value beside a property below"),
    ({"a": ["x"], "a.b": ["y"]}, {"a": "z", "a.b": "y"}, False, "another value beside it"),
    ({"a": ["x"]}, {"a": {"b": 1}, "a.b": 2}, False, "a name said twice is still no value"),
    ({"a.b": [2]}, {"a": {"b": 1}, "a.b": 2}, True, "and has both values"),
    ({"a.b": [2]}, {"a": [1], "a.b": 2}, True, "beside an array"),
    ({"a": {"$or": [{"b": ["x"]}, {"c": ["y"]}]}}, {"a": {"c": "y"}}, True, "either of two properties below"),
    ({"a": {"$or": [{"b": ["x"]}, {"c": ["y"]}]}}, {"c": "y"}, False, "not beside it"),
    ({"$or": [{"a": {"b": ["x"]}}, Y]}, {"a": {"b": "x"}}, True, "either here or below"),
    (EITHER | {"c": {"$or": [{"d": [1]}, {"e": [2]}]}}, {"b": "y", "c": {"d": 1}}, True, "either and either"),
    (EITHER | {"c": {"$or": [{"d": [1]}, {"e": [2]}]}}, {"b": "y", "c": {"d": 2}}, False, "either and neither"),
    ({"$or": {"a": ["x"]}}, {"$or": {"a": "x"}}, True, "a name of properties is a name"),
    (X, b"plain text", False, "a body that is no JSON"),
    (X, b'{"a": "x"', False, "a body that is cut off"),
    (X, b"", False, "an empty body"),
    (X, "x", False, "a JSON text"),
    (X, [{"a": "x"}], False, "a JSON array"),
    ({"a": [{"exists": False}]}, b"plain text", False, "nothing is absent from what is no JSON"),
    (X, b'{"a": "y", "a": "x"}', True, "of two with one name, the last"),
    ({"a": [1e5]}, b'{"a": 1e5}', True, "a number with an exponent"),
    (X, b'{"a": "\xff"}', False, "a body that is not UTF-8"),
]


@pytest.mark.parametrize(("policy", "body", "wanted", "reason"), BODIES, ids=[row[-1] for row in BODIES])
def test_bodies_are_matched_property_by_property(policy, body, wanted, reason):
    assert by_body(policy, body) is wanted, reason


@pytest.mark.parametrize("scope", ["MessageAttributes", "MessageBody"])
def test_an_empty_policy_lets_everything_through(scope):
    everything = compile_filter("{}", scope)

    assert everything.matches(Content({}, b"plain text"))


def test_attributes_are_never_looked_for_in_the_body():
    content = Content({"b": ("String", "y")}, b'{"a": "x"}')

    assert not compile_filter('{"a": ["x"]}', "MessageAttributes").matches(content)
    assert not compile_filter('{"b": ["y"]}', "MessageBody").matches(content)


def test_a_message_is_read_once_for_all_filters():
    content = Content({"a": ("String.Array", '["x"]')}, '{"a": ["x"]}')

    assert content.values is content.values
    assert content.fields is content.fields


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"[" * 500 + b"1" + b"]" * 500 + b"}",
        b'{"' + b"a." * 100_000 + b'": 1}',
        b'{"a": "' + b"." * 200_000 + b'"}',
    ],
    ids=["arrays without end", "objects without end", "500 arrays", "100,000 dots in a name", "dots in a text"],
)
def test_a_body_of_any_depth_is_answered(body):
    assert not compile_filter('{"a": {"a": ["x"]}}', "MessageBody").matches(Content({}, body))


def test_a_value_deep_in_arrays_is_found():
    body = b'{"a":' + b"[" * 500 + b"1" + b"]" * 500 + b"}"

    assert compile_filter('{"a": [1]}', "MessageBody").matches(Content({}, body))
