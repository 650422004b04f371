"""Parser of one property's values in a policy, ``["eu", {"prefix": "us-"}, {"numeric": [">", 5]}]``, into a leaf.

Whatever is not valid is refused in the words that SNS has for it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator

import msgspec

from sqew.errors import BadFilterPolicy
from sqew.matching.filters.nodes import Leaf, Test
from sqew.matching.filters.values import HIGHEST_NUMBER, Key, address_of, key_of
from sqew.matching.filters.wildcards import read_wildcard

NULL = key_of(None)

_END = object()
"""The end of an array, as a value."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


def read_values(values: list[object]) -> Leaf:
    """Compile the values that a property may have into one leaf."""
    if not values:
        raise BadFilterPolicy("Empty arrays are not allowed")
    exact: list[Key] = []
    tests: list[Test] = []
    absent = False
    for value in values:
        if isinstance(value, list):
            raise BadFilterPolicy("Match value must be String, number, true, false, or null")
        if not isinstance(value, dict):
            exact.append(key_of(value))
            continue
        test = _read_expression(value)
        if test is None:
            absent = True
        else:
            tests.append(test)
    return Leaf(exact, tests, absent)


def _read_expression(expression: dict[str, object]) -> Test | None:
    """Compile an operator into a test; None for ``{"exists": false}``, which no value that exists can pass."""
    if not expression:
        raise BadFilterPolicy("Match expression name not found")
    operator, operand = next(iter(expression.items()))
    read = _OPERATORS.get(operator)
    if read is None:
        raise BadFilterPolicy(f"Unrecognized match type {operator}")
    test = read(operand)
    if len(expression) > 1:
        if operator in ("numeric", "anything-but"):
            raise BadFilterPolicy("Too many elements in numeric expression")
        raise BadFilterPolicy("Only one key allowed in match expression")
    return test


def _text(operator: str, operand: object) -> str:
    if not isinstance(operand, str):
        raise BadFilterPolicy(f"{operator} match pattern must be a string")
    return operand


def _read_prefix(operand: object) -> Test:
    prefix = _text("prefix", operand)
    return Test(lambda key: type(key) is str and key.startswith(prefix), lambda array: array.has_prefix(prefix))


def _read_suffix(operand: object) -> Test:
    suffix = _text("suffix", operand)
    return Test(lambda key: type(key) is str and key.endswith(suffix), lambda array: array.has_suffix(suffix))


def _read_equals_ignore_case(operand: object) -> Test:
    text = _text("equals-ignore-case", operand).lower()
    longest = len(text)  # in lower case no text is shorter, and some are longer
    return Test(
        lambda key: type(key) is str and len(key) <= longest and key.lower() == text,
        lambda array: array.has_lowered(text),
    )


def _read_wildcard(operand: object) -> Test:
    return read_wildcard(_text("wildcard", operand))


def _read_exists(operand: object) -> Test | None:
    if not isinstance(operand, bool):
        raise BadFilterPolicy("exists match pattern must be either true or false.")
    return _none_of(frozenset((NULL, ""))) if operand else None


def _none_of(keys: frozenset[Key]) -> Test:
    return Test(lambda key: key not in keys, lambda array: array.has_other_than(keys))


def _read_cidr(operand: object) -> Test:
    # The sentence speaks of a prefix in AWS too.
    text, bits = _cidr_parts(_text("prefix", operand))
    address = address_of(text)
    if address is None:
        raise BadFilterPolicy(f"Nonstandard IP address: {text}")
    if bits > address.max_prefixlen:
        raise BadFilterPolicy(f"IPv{address.version} mask bits must be < {address.max_prefixlen + 1}")
    network = ipaddress.ip_network(f"{text}/{bits}", strict=False)
    first, last = int(network[0]), int(network[-1])

    def within(key: Key) -> bool:
        found = address_of(key) if type(key) is str else None
        return found is not None and found in network

    return Test(within, lambda array: array.has_address(network.version, first, last))


def _cidr_parts(cidr: str) -> tuple[str, int]:
    address, slash, bits = cidr.partition("/")
    if not slash or not bits or "/" in bits:
        raise BadFilterPolicy("Malformed CIDR, one '/' required")
    if not _INTEGER.fullmatch(bits):
        raise BadFilterPolicy("Malformed CIDR, mask bits must be an integer")
    if int(bits) < 0:
        raise BadFilterPolicy("Malformed CIDR, mask bits must not be negative")
    return address, int(bits)


def _read_numeric(operand: object) -> Test:
    if not isinstance(operand, list):
        raise BadFilterPolicy("Value of numeric must be an array.")
    members = iter(operand)
    operator = next(members, _END)
    if not isinstance(operator, str):
        raise BadFilterPolicy(f"Invalid member in numeric match: {_token(operator)}")
    if operator not in ("=", "<", "<=", ">", ">="):
        raise BadFilterPolicy(f"Unrecognized numeric range operator: {operator}")
    bound = _bound("equals" if operator == "=" else operator, next(members, _END))
    if operator in (">", ">="):
        return _between(bound + (operator == ">"), _read_top(bound, members))
    if next(members, _END) is not _END:
        raise BadFilterPolicy("Too many elements in numeric expression")
    if operator == "=":
        return _between(bound, bound)
    return _between(-_HIGHEST, bound - (operator == "<"))


def _read_top(bottom: int, members: Iterator[object]) -> int:
    """Return the highest number of a range, from the members behind its lower bound."""
    operator = next(members, _END)
    if operator is _END:
        return _HIGHEST
    if not isinstance(operator, str):
        raise BadFilterPolicy(f"Bad value in numeric range: {_token(operator)}")
    if operator not in ("<", "<="):
        raise BadFilterPolicy(f"Bad numeric range operator: {operator}")
    top = _bound(operator, next(members, _END))
    if next(members, _END) is not _END:
        raise BadFilterPolicy("Too many terms in numeric range expression")
    if bottom >= top:
        raise BadFilterPolicy("Bottom must be less than top")
    return top - (operator == "<")


def _bound(operator: str, value: object) -> int:
    if not _is_number(value):
        raise BadFilterPolicy(f"Value of {operator} must be numeric")
    return _number_key(value)


def _between(bottom: int, top: int) -> Test:
    return Test(lambda key: type(key) is int and bottom <= key <= top, lambda array: array.has_between(bottom, top))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number_key(value: object) -> int:
    key = key_of(value)
    if not isinstance(key, int):
        raise BadFilterPolicy("Value must be between -1.0E9 and 1.0E9, inclusive")
    return key


_HIGHEST = _number_key(HIGHEST_NUMBER)


def _token(value: object) -> str:
    """Return the first token of a value, as a parser names it that reads token by token."""
    if value is _END:
        return "]"
    if isinstance(value, list):
        return "["
    if isinstance(value, dict):
        return "{"
    return msgspec.json.encode(value).decode()


def _read_anything_but(operand: object) -> Test:
    if isinstance(operand, dict):
        return _read_anything_but_pattern(operand)
    if isinstance(operand, list):
        excluded = frozenset(map(_excluded_key, operand))
        if len({type(value) is str for value in operand}) != 1:
            raise BadFilterPolicy(
                "Inside anything but list, either all values are number or string, mixed type is not supported"
            )
    elif isinstance(operand, str) or _is_number(operand):
        excluded = frozenset([_excluded_key(operand)])
    else:
        raise BadFilterPolicy("Value of anything-but must be an array or single string/number value.")
    return _none_of(excluded)


def _excluded_key(value: object) -> Key:
    if isinstance(value, str):
        return value
    if not _is_number(value):
        raise BadFilterPolicy("Inside anything but list, start|null|boolean is not supported.")
    return _number_key(value)


def _read_anything_but_pattern(pattern: dict[str, object]) -> Test:
    if not pattern:
        raise BadFilterPolicy("Anything-But expression name not found")
    operator, operand = next(iter(pattern.items()))
    if operator not in _NEGATED:
        raise BadFilterPolicy(f"Unsupported anything-but pattern: {operator}")
    if len(pattern) > 1:
        raise BadFilterPolicy("Too many elements in numeric expression")
    operands = operand if isinstance(operand, list) and operand else [operand]
    if operator in ("prefix", "suffix") and "" in operands:
        raise BadFilterPolicy("Null prefix/suffix not allowed")
    return _NEGATED[operator]([_text(operator, text) for text in operands])


def _no_prefix(texts: list[str]) -> Test:
    prefixes = tuple(texts)
    return Test(lambda key: type(key) is not str or not key.startswith(prefixes))


def _no_suffix(texts: list[str]) -> Test:
    suffixes = tuple(texts)
    return Test(lambda key: type(key) is not str or not key.endswith(suffixes))


def _no_equal_ignoring_case(texts: list[str]) -> Test:
    lowered = frozenset(text.lower() for text in texts)
    longest = max(map(len, lowered))
    return Test(lambda key: type(key) is not str or len(key) > longest or key.lower() not in lowered)


def _no_wildcard(texts: list[str]) -> Test:
    tests = [read_wildcard(text) for text in texts]
    refused = [test.passes for test in tests]

    def passes(key: Key) -> bool:
        for refuses in refused:  # noqa: SIM110  # any() would take twice the time
            if refuses(key):
                return False
        return True

    return Test(passes, reads=sum(test.reads for test in tests))


_NEGATED: dict[str, Callable[[list[str]], Test]] = {
    "prefix": _no_prefix,
    "suffix": _no_suffix,
    "wildcard": _no_wildcard,
    "equals-ignore-case": _no_equal_ignoring_case,
}

_OPERATORS: dict[str, Callable[[object], Test | None]] = {
    "prefix": _read_prefix,
    "suffix": _read_suffix,
    "wildcard": _read_wildcard,
    "equals-ignore-case": _read_equals_ignore_case,
    "anything-but": _read_anything_but,
    "cidr": _read_cidr,
    "exists": _read_exists,
    "numeric": _read_numeric,
}
