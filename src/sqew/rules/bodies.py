"""Bodies as bytes: values encoded as JSON or text, and JSON that is checked as it arrives."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from sqew.errors import BadBody
from sqew.model import Format
from sqew.rules.limits import Limits, check_size

NOT_PLAIN_DATA = (TypeError, ValueError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError)
"""Errors raised by msgspec, or by the object it reads, for values that JSON can't represent."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BYTES = (bytes, bytearray, memoryview)
_PLAIN = (str, int, bool, type(None))
_BYTES_PER_LOOK = 32
"""Bytes that take as long to search as the type of one value takes to look at (40 ns)."""

_NOT_OPENING = bytes(set(range(256)) - set(b"[{\0"))
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ROUND = bytes.maketrans(b"[]{}", b"()()")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode_body(value: Any, limits: Limits) -> tuple[bytes, Format]:
    """Encode a Python value as a body: strings as they are, everything else as JSON.

    Values for which JSON has no type are written as strings or lists: dates in ISO 8601, UUIDs and decimals in their
    usual form, sets and tuples as lists, dataclasses as objects, bytes in base64. Bytes that are the whole body are
    refused all the same: their sender expects them to arrive as they are.
    """
    if type(value) is not dict:
        if isinstance(value, str):
            return _encode_text(value), "text"
        if isinstance(value, _BYTES):
            raise BadBody("A body is JSON or text. Decode the bytes to a string, or encode them with base64.")
    return encode_json(value, "body", limits.max_depth), "json"


def _encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadBody(f"The text is not valid Unicode ({error}).") from error


def encode_json(value: Any, what: str, max_depth: int) -> bytes:
    """Encode a Python value as JSON; raise `BadBody` if JSON can't represent it, or it is nested too deep."""
    try:
        encoded = _encode(value)
    except NOT_PLAIN_DATA as error:
        raise BadBody(f"The {what} can't be written as JSON: {error}.") from error
    # Most bodies are a few plain values in a dict. To see that is quicker than to search the bytes for what can't be
    # in them: 0.3 instead of 0.8 µs of a body of 250 bytes.
    if type(value) is dict and len(value) * _BYTES_PER_LOOK < len(encoded):
        for inner in value.values():
            if type(inner) not in _PLAIN:
                break
        else:
            return encoded
    _check_depth((encoded,), max_depth, what)
    # msgspec writes NaN and infinity as null, which would alter the body in silence. (`in` takes twice as long as find:
    # it asks first whether the bytes are a number.)
    if encoded.find(b"null") >= 0 and _has_non_finite(value):
        raise BadBody(f"The {what} holds NaN or infinity, which JSON can't say. Send null or a string instead.")
    return encoded


def _has_non_finite(value: Any) -> bool:
    # As the encoder sees it, so that dataclasses and the like are looked into; and without recursion, since two
    # frames for each of 500 levels, as max_depth may be, are more than Python's stack allows.
    # JSON that is written already (Raw) stands for itself, and can't hold any.
    unseen = [msgspec.to_builtins(value, enc_hook=lambda _raw: None)]
    while unseen:
        seen = unseen.pop()
        if isinstance(seen, float) and not math.isfinite(seen):
            return True
        if isinstance(seen, dict):
            unseen.extend(seen.values())
        elif isinstance(seen, list | tuple):
            unseen.extend(seen)
    return False


def parse_json(body: bytes, limits: Limits) -> None:
    """Raise unless the bytes are strict JSON of an allowed size and depth."""
    # First: to decode 12 MiB of small objects takes 0.5 s, in which everybody else may have to wait.
    check_size(body, limits)
    parse_all((body,), limits)


def parse_all(bodies: Sequence[bytes], limits: Limits) -> None:
    """Raise unless each of many bodies is strict JSON of an allowed depth."""
    try:
        for body in bodies:
            _decode(body)
    except RecursionError as error:
        raise BadBody(f"The body is nested too deep; {limits.max_depth} levels are allowed (max_depth).") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBody(f"The body is not valid JSON: {error}.") from error
    # Only now: strings are cut out in one pass where every one of them ends, and none holds what stands between them.
    _check_depth(bodies, limits.max_depth, "body")


def _check_depth(encoded: Sequence[bytes], max_depth: int, what: str) -> None:
    together = b"\0".join(encoded)
    if len(together) <= 2 * max_depth:
        return
    # Most bodies have fewer brackets than the limit allows levels. (translate counts twice as fast as count.)
    opening = together.translate(None, _NOT_OPENING)
    if len(opening) - len(encoded) < max_depth:
        return
    for one, brackets in zip(encoded, opening.split(b"\0"), strict=True):
        deepest = _depth(one) if len(brackets) > max_depth else 0
        if deepest > max_depth:
            raise BadBody(
                f"The {what} is nested {deepest} levels deep; {max_depth} are allowed (max_depth). Flatten it."
            )


def _depth(encoded: bytes) -> int:
    """Count how deep valid JSON is nested: remove the innermost pairs of brackets until none is left."""
    brackets = _STRING.sub(b"", encoded).translate(_ROUND, _NO_BRACKETS)
    depth = 0
    while brackets:
        brackets = brackets.replace(b"()", b"")
        depth += 1
    return depth


def check_utf8(body: bytes) -> None:
    """Raise unless the bytes are UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"The text is not valid UTF-8 ({error}).") from error
