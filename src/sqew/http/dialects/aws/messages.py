"""Messages as SQS and SNS both have them: valid attributes and ids, and how attributes are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from msgspec import Struct

from sqew.http.dialects.aws.binary import base64_of, binary_of
from sqew.http.dialects.aws.query import SPEAKABLE, UNSPEAKABLE

TRACE_HEADER = "aws:AWSTraceHeader"
"""The header in which the system attribute AWSTraceHeader is stored. No attribute can have this name."""

_RESERVED = ("aws.", "amazon.")
_NAME = re.compile(r"(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
_TYPE = re.compile(rf"(String|Number|Binary)(\.{SPEAKABLE}{{1,248}})?")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_PUNCTUATED = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")
_MOST_DIGITS = 38
_LEAST_EXPONENT, _MOST_EXPONENT = -128, 126

Kind = Literal["String", "Number", "Binary"]


class Attribute(Struct, omit_defaults=True):
    """An attribute, as it stands on the wire: binary values in Base64."""

    DataType: str | None = None
    StringValue: str | None = None
    BinaryValue: str | None = None
    StringListValues: list[str] | None = None
    BinaryListValues: list[str] | None = None


Attributes = dict[str, Attribute]


def is_legal(text: str) -> bool:
    """Return True if a string has only characters that XML, and so SQS, can carry."""
    # What can be printed is legal, and is found out in a third of the time.
    return text.isprintable() or UNSPEAKABLE.search(text) is None


def is_punctuated(id: str) -> bool:
    """Return True if a message group or a deduplication id may have this name."""
    return _PUNCTUATED.fullmatch(id) is not None


def is_name(name: str) -> bool:
    """Return True if an attribute may have this name.

    >>> is_name("_a.b-1"), is_name(".a"), is_name("a..b"), is_name("a:b")
    (True, False, False, False)
    """
    return _NAME.fullmatch(name) is not None


def is_reserved(name: str) -> bool:
    """Return True if AWS reserves an attribute's name.

    >>> is_reserved("AWS.trace"), is_reserved("awsome")
    (True, False)
    """
    return name.lower().startswith(_RESERVED)


def kind_of(data_type: str) -> Kind | None:
    """Return the kind of value that a type of attribute has; None: there is no such type.

    >>> kind_of("Number.int"), kind_of("number")
    ('Number', None)
    """
    found = _TYPE.fullmatch(data_type)
    return None if found is None else found[1]  # type: ignore[return-value]


def is_number(text: str) -> bool:
    """Return True if a string is a number as attributes hold it: 38 digits at most, between 10^-128 and 10^126.

    >>> is_number("-1.50e3"), is_number("9" * 39), is_number("1e127"), is_number("0x1")
    (True, False, False, False)
    """
    if not _NUMBER.fullmatch(text):
        return False
    try:
        number = Decimal(text)
    except InvalidOperation:
        # An exponent of some 20 digits.
        return False
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if not digits:
        return True
    below = number.adjusted() < _MOST_EXPONENT or (number.adjusted() == _MOST_EXPONENT and digits == "1")
    return len(digits) <= _MOST_DIGITS and number.adjusted() >= _LEAST_EXPONENT and below


def as_headers(attributes: Mapping[str, Attribute], trace: str | None = None) -> dict[str, Any] | None:
    """Return checked attributes, and the trace that a message belongs to, as the message's headers."""
    headers: dict[str, Any] = {}
    for name, attribute in attributes.items():
        if (attribute.DataType or "").startswith("Binary"):
            value = base64_of(binary_of(attribute.BinaryValue or "") or b"")
            headers[name] = {"DataType": attribute.DataType, "BinaryValue": value}
        else:
            headers[name] = {"DataType": attribute.DataType, "StringValue": attribute.StringValue}
    if trace is not None:
        headers[TRACE_HEADER] = trace
    return headers or None


def of_headers(headers: Mapping[str, Any]) -> Attributes:
    """Return the attributes that headers stand for; those of other dialects are plain strings and numbers.

    A header that could be no attribute is left out, such as those by which Sqew names the sender of a message.
    """
    return {name: attribute for name, value in headers.items() if (attribute := _attribute(name, value)) is not None}


def trace_of(headers: Mapping[str, Any]) -> str | None:
    """Return the trace that a message belongs to, or None."""
    trace = headers.get(TRACE_HEADER)
    return trace if isinstance(trace, str) and trace and is_legal(trace) else None


def _attribute(name: str, value: Any) -> Attribute | None:
    match value:
        case {"DataType": str(kind), "StringValue": str(text)}:
            found = Attribute(kind, text)
        case {"DataType": str(kind), "BinaryValue": str(data)}:
            found = Attribute(kind, None, data)
        case str():
            found = Attribute("String", value)
        case int() | float() if not isinstance(value, bool):
            found = Attribute("Number", str(value))
        case _:
            return None
    return found if is_name(name) and _is_whole(found) else None


def _is_whole(attribute: Attribute) -> bool:
    """Return True if an attribute has a value of its type."""
    kind, text = kind_of(attribute.DataType or ""), attribute.StringValue or ""
    if kind == "Binary":
        return bool(binary_of(attribute.BinaryValue or ""))
    return is_number(text) if kind == "Number" else kind == "String" and text != "" and is_legal(text)
