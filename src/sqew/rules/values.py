"""Checks of single values: each has the right type and can be stored."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from sqew.errors import BadBody, BadName, BadValue
from sqew.model import NewMessage
from sqew.rules.rules import Limits, check_int, check_message, check_ms, parse_json, shown

LARGEST_ID = 1 << 62
MOST_CLAIMED = 10_000_000
"""Messages in a claim, at most."""
LONGEST_TARGET = 2048
"""The most characters in the URL of an endpoint."""
_NOT_BATCHES = (str, bytes, bytearray, memoryview, Mapping)
"""Types that are iterable, but passed as a batch only by mistake."""


def check_new_message(message: NewMessage, limits: Limits) -> None:
    """Raise unless a message made by a caller may be sent, and its body has the format it claims."""
    if type(message) is not NewMessage:
        raise BadValue(f"{shown(message)} can't be sent as it is: it must be a NewMessage.")
    check_message(message, limits)
    if message.format == "json":
        parse_json(message.body, limits)
    else:
        check_utf8(message.body)


def check_utf8(body: bytes) -> None:
    """Raise unless the bytes are UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"The text is not valid UTF-8 ({error}).") from error


def check_lane(lane: object) -> None:
    """Raise unless the lane can be looked up among a queue's lanes."""
    if not isinstance(lane, str):
        raise BadName(f"{shown(lane)} can't be a lane's name: it must be a text.")


def check_unicode(name: str, value: object) -> None:
    """Raise `BadValue` unless the value is a string, of any length, that can be stored."""
    if not isinstance(value, str):
        raise BadValue(f"{name} can't be {shown(value)}: it must be a text.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValue(f"{name} can't be {shown(value)}: it is not valid Unicode.") from error
    if "\0" in value:
        raise BadValue(f"{name} can't be {shown(value)}: not every store can hold the character NUL. Leave it out.")


def check_id(id: object) -> None:
    """Raise `BadValue` unless the value may be a message's id."""
    check_int("A message id", id, 1, LARGEST_ID)


def claims_done(after: int, done: int | None) -> int:
    """Return the claim up to which a consumer is done that asks for the one after ``after``: that, or ``done``."""
    check_int("after", after, 0, LARGEST_ID)
    if done is None:
        return after
    check_int("done", done, 0, after)
    return done


def check_right(id: int, token: str | None, consumer: str | None) -> None:
    """Raise `BadValue` unless the right to settle a message is given: anyone can guess its id."""
    if token is None and consumer is None:
        raise BadValue(
            f"Message {id} is named by its id alone, and only its holder may settle it. Give the token that it was "
            "received with, or the name of the consumer that it was received for. To delete it whoever holds it, "
            "remove it."
        )


def check_claiming(limit: object, lease_ms: object) -> None:
    """Raise `BadValue` unless a claim may have this limit and this lease."""
    check_int("limit", limit, 0, MOST_CLAIMED)
    check_ms("lease_ms", lease_ms)


def check_collection(name: str, values: object) -> None:
    """Raise `BadValue` unless the entries can be counted and iterated over."""
    if type(values) is tuple or type(values) is list:
        return
    if not isinstance(values, Collection) or isinstance(values, _NOT_BATCHES):
        raise BadValue(f"{name} can't be {shown(values)}: it must be a list.")


def check_iterable(name: str, values: object) -> None:
    """Raise `BadValue` unless the entries can be iterated over."""
    if not isinstance(values, Iterable) or isinstance(values, _NOT_BATCHES):
        raise BadValue(f"{name} can't be {shown(values)}: it must be a list, or something else to go through.")


def check_path(name: str, path: object) -> None:
    """Raise `BadValue` unless the value may be the path of a file."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text or "\0" in text:
        raise BadValue(f"{name} can't be {shown(path)}: it must be the path of a file.")
