"""Rules for messages that are to be sent: their fields, headers and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqew.errors import BadBody, BadValue, TooLarge
from sqew.model import NewMessage
from sqew.rules.bodies import check_utf8, encode_json, parse_json
from sqew.rules.limits import Limits, check_size
from sqew.rules.values import check_int, check_ms, check_text, shown

HIGHEST_PRIORITY = 1_000
"""The highest priority: they run from -1000 to 1000, few because a claim looks into each one in use."""

_ATTRIBUTE_FIELDS = 2
_SMALLEST_HEADER = 5
"""Bytes that a header takes, at least: ``"":1,``. Attributes of SQS are longer, and ten at most."""


def check_new_message(message: NewMessage, limits: Limits) -> None:
    """Raise unless a message made by a caller may be sent, and its body has the format it claims."""
    if type(message) is not NewMessage:
        raise BadValue(f"{shown(message)} can't be sent as it is: it must be a NewMessage.")
    check_message(message, limits)
    if message.format == "json":
        parse_json(message.body, limits)
    else:
        check_utf8(message.body)


def check_message(message: NewMessage, limits: Limits) -> None:
    """Raise unless the message may be sent. Its JSON must be well-formed already: see `parse_json`."""
    if type(message.body) is not bytes:
        raise BadBody(f"The body of a NewMessage can't be {shown(message.body)}: encode it to bytes.")
    if message.format != "json" and message.format != "text":
        raise BadValue(f"format can't be {shown(message.format)}: it must be 'json' or 'text'.")
    check_size(message.body, limits)
    if type(message.priority) is not int or not -HIGHEST_PRIORITY <= message.priority <= HIGHEST_PRIORITY:
        check_int("priority", message.priority, -HIGHEST_PRIORITY, HIGHEST_PRIORITY)
    if message.delay_ms is not None:
        check_ms("delay_ms", message.delay_ms)
    if message.ttl_ms is not None:
        check_ms("ttl_ms", message.ttl_ms, at_least=1)
    if message.lane is not None:
        check_text("lane", message.lane)
    if message.key is not None:
        check_text("key", message.key)
    if message.group is not None:
        check_text("group", message.group)
    if message.headers is not None:
        _check_headers(message.headers, len(message.body), limits)


def _check_headers(headers: object, body_bytes: int, limits: Limits) -> None:
    if not isinstance(headers, dict) or not all(isinstance(name, str) for name in headers):
        raise BadValue(f"headers can't be {shown(headers)}: they must be a mapping from names to JSON values.")
    if len(headers) > limits.max_headers_bytes // _SMALLEST_HEADER:
        # Each of them would be looked at, a million as well.
        raise TooLarge(f"There are {len(headers)} headers; {limits.max_headers_bytes} bytes are allowed. Send fewer.")
    size = len(encode_json(headers, "headers", limits.max_depth))
    if size <= limits.max_headers_bytes:
        return
    others = {name: value for name, value in headers.items() if not attribute_bytes({name: value})}
    size = len(encode_json(others, "headers", limits.max_depth))
    if size > limits.max_headers_bytes:
        raise TooLarge(f"The headers have {size} bytes; {limits.max_headers_bytes} are allowed.")
    size = body_bytes + attribute_bytes(headers)
    if size > limits.max_body_bytes:
        raise TooLarge(
            f"The body has {size} bytes with its attributes; {limits.max_body_bytes} are allowed (max_body_bytes). "
            "Store the data elsewhere and send a reference to it."
        )


def attribute_bytes(headers: Mapping[str, Any]) -> int:
    """Return the bytes of headers that are attributes of SQS or SNS: they count with the body, as they do there.

    >>> attribute_bytes({"a": {"DataType": "Binary", "BinaryValue": "AA=="}, "b": "no attribute"})
    8
    """
    return sum(map(_attribute_bytes, headers, headers.values()))


def _attribute_bytes(name: str, value: Any) -> int:
    match value:
        case {"DataType": str(kind), "StringValue": str(text)} if len(value) == _ATTRIBUTE_FIELDS:
            return len(name.encode()) + len(kind.encode()) + len(text.encode())
        case {"DataType": str(kind), "BinaryValue": str(text)} if len(value) == _ATTRIBUTE_FIELDS:
            # The bytes that Base64 stands for.
            return len(name.encode()) + len(kind.encode()) + len(text) * 3 // 4 - text[-2:].count("=")
        case _:
            return 0
