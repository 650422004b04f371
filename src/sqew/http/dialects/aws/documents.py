"""Attributes that are JSON documents: policies of all kinds."""

from __future__ import annotations

from typing import Any

import msgspec

NOT_JSON = (msgspec.MsgspecError, ValueError, RecursionError)
"""The errors of reading a document that is not JSON."""


def object_of(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a string, or None if there is none."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except NOT_JSON:
        return None


def say_the_same(one: str, other: str) -> bool:
    """Return True if two strings are the same JSON, however it is written.

    >>> say_the_same('{"a":["b"]}', '{"a": ["b"]}'), say_the_same('{"a":[1]}', '{"a":[true]}')
    (True, False)
    """
    return one == other or _plain(one) == _plain(other)


def _plain(text: str) -> bytes:
    try:
        return msgspec.json.encode(msgspec.json.decode(text), order="sorted")
    except NOT_JSON:
        return text.encode(errors="replace")
