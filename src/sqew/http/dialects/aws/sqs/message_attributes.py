"""The attributes of a message: checked, kept in its headers, and summed up in an MD5 as clients check it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sqew.http.aws_refusals import AwsError, invalid_value

MOST_ATTRIBUTES = 10
TRACE_HEADER = "_aws_trace"
"""Under which header the system attribute AWSTraceHeader is kept."""
_NAME = re.compile(r"(?!\.)(?!.*\.\.)[A-Za-z0-9_.-]{1,256}(?<!\.)")
_RESERVED = ("aws.", "amazon.")
_TYPE = re.compile(r"(String|Number|Binary)(\.[^\x00-\x1f]{1,248})?")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Attribute(Struct, omit_defaults=True):
    """One attribute, as it stands on the wire: binary values in Base64."""

    DataType: str | None = None
    StringValue: str | None = None
    BinaryValue: str | None = None
    StringListValues: list[str] | None = None
    BinaryListValues: list[str] | None = None


Attributes = dict[str, Attribute]


def md5(data: bytes) -> hashlib._Hash:
    """The checksum that clients compare; it is nobody's secret."""
    return hashlib.md5(data, usedforsecurity=False)


def is_legal(text: str) -> bool:
    """Whether a text has only characters that XML, and so SQS, can carry."""
    # What can be printed is legal, and is found out in a third of the time.
    return text.isprintable() or _ILLEGAL.search(text) is None


def size_of(name: str, attribute: Attribute) -> int:
    """How many bytes an attribute has: its name, its type and its value, good or bad."""
    value = attribute.StringValue or ""
    binary = len(attribute.BinaryValue or "") * 3 // 4
    return sum(len(text.encode(errors="replace")) for text in (name, attribute.DataType or "", value)) + binary


def check(attributes: Mapping[str, Attribute]) -> int:
    """How many bytes attributes have; raises if one of them can't be."""
    if len(attributes) > MOST_ATTRIBUTES:
        raise invalid_value(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum [{MOST_ATTRIBUTES}]."
        )
    return sum(_check(name, attribute) for name, attribute in attributes.items())


def _check(name: str, attribute: Attribute) -> int:
    if not _NAME.fullmatch(name) or name.lower().startswith(_RESERVED):
        raise invalid_value(f"Message (user) attribute name '{name[:100]}' is not valid.")
    kind = _TYPE.fullmatch(attribute.DataType or "")
    if kind is None:
        raise invalid_value(
            f"The message attribute '{name}' has an invalid message attribute type, "
            "the set of supported type prefixes is Binary, Number, and String."
        )
    if attribute.StringListValues or attribute.BinaryListValues:
        raise AwsError(
            "UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported."
        )
    size = len(name.encode()) + len(kind[0].encode())
    if kind[1] == "Binary":
        return size + len(_binary(name, attribute))
    text = attribute.StringValue
    if not text:
        raise invalid_value(
            f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind[1]}'."
            if kind[1] == "String" or not attribute.BinaryValue
            else f"Message (user) attribute '{name}' must contain a value of type '{kind[1]}'."
        )
    if not is_legal(text):
        raise AwsError("InvalidMessageContents", f"Invalid characters found in the message attribute '{name}'.")
    if kind[1] == "Number" and not _NUMBER.fullmatch(text):
        raise invalid_value(f"Can't cast the value of message (user) attribute '{name}' to a number.")
    return size + len(text.encode())


def _binary(name: str, attribute: Attribute) -> bytes:
    try:
        value = base64.b64decode((attribute.BinaryValue or "").encode(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid_value(f"The value of message (user) attribute '{name}' is not valid Base64.") from error
    if not value:
        raise invalid_value(f"Message (user) attribute '{name}' must contain a non-empty value of type 'Binary'.")
    return value


def as_headers(
    attributes: Mapping[str, Attribute] | None, system: Mapping[str, Attribute] | None
) -> dict[str, Any] | None:
    """Attributes as the headers of a message."""
    headers: dict[str, Any] = {}
    for name, attribute in (attributes or {}).items():
        value = {"DataType": attribute.DataType}
        if attribute.StringValue is not None and not (attribute.DataType or "").startswith("Binary"):
            value["StringValue"] = attribute.StringValue
        else:
            value["BinaryValue"] = attribute.BinaryValue
        headers[name] = value
    for name, attribute in (system or {}).items():
        if name != "AWSTraceHeader":
            raise invalid_value(f"Message system attribute name '{name[:100]}' is not valid: there is AWSTraceHeader.")
        headers[TRACE_HEADER] = attribute.StringValue
    return headers or None


def of_headers(headers: Mapping[str, Any]) -> Attributes:
    """The attributes that headers stand for; those of other dialects are plain texts and numbers."""
    return {name: attribute for name, value in headers.items() if (attribute := _attribute(name, value)) is not None}


def _attribute(name: str, value: Any) -> Attribute | None:
    if name.startswith("_") or not _NAME.fullmatch(name):
        return None
    match value:
        case {"DataType": str(kind), "StringValue": str(text)}:
            return Attribute(kind, text)
        case {"DataType": str(kind), "BinaryValue": str(data)}:
            return Attribute(kind, None, data)
        case str() if value:
            return Attribute("String", value)
        case bool() | None:
            return None
        case int() | float():
            return Attribute("Number", str(value))
        case _:
            return None


def md5_of(attributes: Mapping[str, Attribute]) -> str:
    """The checksum that clients compare: names, types and values in order of the names, each with its length."""
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        attribute = attributes[name]
        kind = attribute.DataType or ""
        for part in (name.encode(), kind.encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        if kind.startswith("Binary"):
            value, mark = base64.b64decode(attribute.BinaryValue or ""), b"\x02"
        else:
            value, mark = (attribute.StringValue or "").encode(), b"\x01"
        digest.update(mark + len(value).to_bytes(4, "big") + value)
    return digest.hexdigest()


def selected(attributes: Attributes, asked: list[str]) -> Attributes:
    """Those that are asked for: by name, by the beginning of a name (``foo.*``), or all."""
    if "All" in asked or ".*" in asked:
        return attributes
    names = {name for name in asked if not name.endswith(".*")}
    beginnings = tuple(name[:-2] for name in asked if name.endswith(".*"))
    return {
        name: value
        for name, value in attributes.items()
        if name in names or (beginnings and name.startswith(beginnings))
    }
