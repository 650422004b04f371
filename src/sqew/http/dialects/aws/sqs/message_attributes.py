"""The attributes of a message: checked with SQS's errors, and summed up in the MD5 that clients check."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from sqew.http.dialects.aws.binary import binary_of
from sqew.http.dialects.aws.messages import Attribute, Attributes, is_legal, is_name, is_number, is_reserved, kind_of
from sqew.http.dialects.aws.refusals import AwsError, invalid_value

MOST_ATTRIBUTES = 10
_TRACE = "AWSTraceHeader"


def md5(data: bytes) -> hashlib._Hash:
    """Return the checksum that clients compare; it is nobody's secret."""
    return hashlib.md5(data, usedforsecurity=False)


def size_of(name: str, attribute: Attribute) -> int:
    """Return the size of an attribute in bytes: its name, its type and its value, valid or not."""
    value, binary = attribute.StringValue or "", attribute.BinaryValue or ""
    texts = sum(len(text.encode(errors="replace")) for text in (name, attribute.DataType or "", value))
    return texts + len(binary) * 3 // 4 - binary[-2:].count("=")


def check(attributes: Mapping[str, Attribute]) -> int:
    """Return the size of attributes in bytes; raise if one of them is invalid."""
    if len(attributes) > MOST_ATTRIBUTES:
        raise invalid_value(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{MOST_ATTRIBUTES}]."
        )
    return sum(_check(name, attribute) for name, attribute in attributes.items())


def _check(name: str, attribute: Attribute) -> int:
    if not is_name(name) or is_reserved(name):
        raise invalid_value(f"Message (user) attribute name '{name[:100]}' is not valid.")
    if not attribute.DataType:
        raise invalid_value(f"Message (user) attribute '{name}' must contain a non-empty attribute type.")
    kind = kind_of(attribute.DataType)
    if kind is None:
        raise invalid_value(
            f"The type of message (user) attribute '{name}' is invalid. "
            "You must use only the following supported type prefixes: Binary, Number, String."
        )
    if attribute.StringListValues or attribute.BinaryListValues:
        raise AwsError(
            "UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported."
        )
    size = len(name.encode()) + len(attribute.DataType.encode())
    if kind == "Binary":
        return size + len(_binary(name, attribute))
    text = attribute.StringValue
    if not text:
        raise invalid_value(
            f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'."
            if kind == "String" or not attribute.BinaryValue
            else f"Message (user) attribute '{name}' must contain a value of type '{kind}'."
        )
    if not is_legal(text):
        raise AwsError("InvalidMessageContents", f"Invalid characters found in the message attribute '{name}'.")
    if kind == "Number" and not is_number(text):
        raise invalid_value(f"Can't cast the value of message (user) attribute '{name}' to a number.")
    return size + len(text.encode())


def _binary(name: str, attribute: Attribute) -> bytes:
    value = binary_of(attribute.BinaryValue or "")
    if value is None:
        raise invalid_value(f"The value of message (user) attribute '{name}' is not valid Base64.")
    if not value:
        raise invalid_value(f"Message (user) attribute '{name}' must contain a non-empty value of type 'Binary'.")
    return value


def trace_in(system: Mapping[str, Attribute]) -> str | None:
    """Return the trace that system attributes name; raise if they say anything else. They don't count in the size."""
    for name in system:
        if name != _TRACE:
            raise invalid_value(f"Message (system) attribute name '{name[:100]}' is not valid: there is {_TRACE}.")
    attribute = system.get(_TRACE)
    if attribute is None:
        return None
    if attribute.DataType != "String":
        raise invalid_value(f"The type of message (system) attribute '{_TRACE}' is invalid. It must be String.")
    trace = attribute.StringValue
    if not trace:
        raise invalid_value(f"Message (system) attribute '{_TRACE}' must contain a non-empty value of type 'String'.")
    if not is_legal(trace):
        raise AwsError("InvalidMessageContents", f"Invalid characters found in the message attribute '{_TRACE}'.")
    return trace


def md5_of(attributes: Mapping[str, Attribute]) -> str:
    """Return the checksum that clients compare: names, types and values by name, each with its length.

    The attributes must have been checked.
    """
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        attribute = attributes[name]
        kind = attribute.DataType or ""
        for part in (name.encode(), kind.encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        if kind.startswith("Binary"):
            value, mark = binary_of(attribute.BinaryValue or "") or b"", b"\x02"
        else:
            value, mark = (attribute.StringValue or "").encode(), b"\x01"
        digest.update(mark + len(value).to_bytes(4, "big") + value)
    return digest.hexdigest()


def selected(attributes: Attributes, asked: list[str]) -> Attributes:
    """Return the attributes that are asked for: by name, by the beginning of a name (``foo.*``), or all."""
    if "All" in asked or ".*" in asked:
        return attributes
    names = {name for name in asked if not name.endswith(".*")}
    beginnings = tuple(name[:-2] for name in asked if name.endswith(".*"))
    return {
        name: value
        for name, value in attributes.items()
        if name in names or (beginnings and name.startswith(beginnings))
    }
