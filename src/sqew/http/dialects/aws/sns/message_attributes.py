"""Checks of the attributes of a published message."""

from __future__ import annotations

from collections.abc import Mapping

from sqew.http.dialects.aws.binary import binary_of
from sqew.http.dialects.aws.messages import Attribute, is_legal, is_name, is_number, is_reserved, kind_of
from sqew.http.dialects.aws.sns.refusals import bad_value


def check(attributes: Mapping[str, Attribute]) -> int:
    """Return the size of attributes in bytes; raise if one of them is invalid."""
    return sum(_check(name, attribute) for name, attribute in attributes.items())


def _check(name: str, attribute: Attribute) -> int:
    if not is_name(name):
        raise bad_value(
            f"The message attribute name '{name[:100]}' is not valid: "
            "it may hold letters, digits, hyphens, underscores and, between others, dots."
        )
    if is_reserved(name):
        raise bad_value(f"The message attribute name '{name}' is not valid: AWS keeps those in AWS. and Amazon.")
    if not attribute.DataType:
        raise bad_value(f"The message attribute '{name}' must contain non-empty message attribute type.")
    kind = kind_of(attribute.DataType)
    if kind is None:
        raise bad_value(
            f"The message attribute '{name}' has an invalid message attribute type, "
            "the set of supported type prefixes is Binary, Number, and String."
        )
    size = len(name.encode()) + len(attribute.DataType.encode())
    if kind == "Binary":
        return size + _binary_size(name, attribute)
    return size + _text_size(name, kind, attribute)


def _binary_size(name: str, attribute: Attribute) -> int:
    if attribute.StringValue is not None:
        raise bad_value(f"The message attribute '{name}' with type 'Binary' must use field 'Binary'.")
    if not attribute.BinaryValue:
        raise _empty(name)
    value = binary_of(attribute.BinaryValue)
    if value is None:
        raise bad_value(f"The value of the message attribute '{name}' is not valid Base64.")
    return len(value)


def _text_size(name: str, kind: str, attribute: Attribute) -> int:
    if attribute.BinaryValue is not None:
        raise bad_value(f"The message attribute '{name}' with type '{kind}' must use field 'String'.")
    text = attribute.StringValue
    if not text:
        raise _empty(name)
    if kind == "Number" and not is_number(text):
        raise bad_value(f"Could not cast message attribute '{name}' value to number.")
    if not is_legal(text):
        raise bad_value(f"The value of the message attribute '{name}' holds characters that can't stand in XML.")
    return len(text.encode())


def _empty(name: str) -> Exception:
    return bad_value(f"The message attribute '{name}' must contain non-empty message attribute value.")
