"""The attributes of a message that is published: what they may be."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from sqew.http.dialects.aws.sns.refusals import bad_value
from sqew.http.dialects.aws.sqs.message_attributes import Attribute

_NAME = re.compile(r"(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
_TYPE = re.compile(r"(String|Number|Binary)(\.[^\x00-\x1f]{1,248})?")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def check(attributes: Mapping[str, Attribute]) -> int:
    """How many bytes attributes have; raises if one of them can't be."""
    return sum(_check(name, attribute) for name, attribute in attributes.items())


def _check(name: str, attribute: Attribute) -> int:
    if not _NAME.fullmatch(name):
        raise bad_value(
            f"The message attribute name '{name[:100]}' is not valid: "
            "it may hold letters, digits, hyphens, underscores and, between others, dots."
        )
    if not attribute.DataType:
        raise bad_value(f"The message attribute '{name}' must contain non-empty message attribute type.")
    kind = _TYPE.fullmatch(attribute.DataType)
    if kind is None:
        raise bad_value(
            f"The message attribute '{name}' has an invalid message attribute type, "
            "the set of supported type prefixes is Binary, Number, and String."
        )
    size = len(name.encode()) + len(attribute.DataType.encode())
    if kind[1] == "Binary":
        return size + _binary_size(name, attribute)
    return size + _text_size(name, kind[1], attribute)


def _binary_size(name: str, attribute: Attribute) -> int:
    if attribute.StringValue is not None:
        raise bad_value(f"The message attribute '{name}' with type 'Binary' must use field 'Binary'.")
    if not attribute.BinaryValue:
        raise _empty(name)
    try:
        return len(base64.b64decode(attribute.BinaryValue.encode(), validate=True))
    except (binascii.Error, ValueError) as error:
        raise bad_value(f"The value of the message attribute '{name}' is not valid Base64.") from error


def _text_size(name: str, kind: str, attribute: Attribute) -> int:
    if attribute.BinaryValue is not None:
        raise bad_value(f"The message attribute '{name}' with type '{kind}' must use field 'String'.")
    text = attribute.StringValue
    if not text:
        raise _empty(name)
    if kind == "Number" and not _NUMBER.fullmatch(text):
        raise bad_value(f"Could not cast message attribute '{name}' value to number.")
    return len(text.encode())


def _empty(name: str) -> Exception:
    return bad_value(f"The message attribute '{name}' must contain non-empty message attribute value.")
