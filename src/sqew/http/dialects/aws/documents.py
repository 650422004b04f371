"""Attributes that are JSON documents: policies of all kinds."""

from __future__ import annotations

from typing import Any

import msgspec

NOT_JSON = (msgspec.MsgspecError, ValueError, RecursionError)
"""What reading a document raises that is none."""


def object_of(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, if it is one."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except NOT_JSON:
        return None


def say_the_same(one: str, other: str) -> bool:
    """Whether two texts are the same JSON, however it is written.

    >>> say_the_same('{"a":["b"]}', '{"a": ["b"]}'), say_the_same('{"a":[1]}', '{"a":[true]}')
    (True, False)
    """
    return one == other or _plain(one) == _plain(other)


def _plain(text: str) -> bytes:
    try:
        return msgspec.json.encode(msgspec.json.decode(text), order="sorted")
    except NOT_JSON:
        return text.encode(errors="replace")
