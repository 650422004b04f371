"""Single values: whether each is of the right type and can be stored."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from sqew.errors import BadBody, BadName, BadValue
from sqew.model import NewMessage
from sqew.rules.rules import Limits, check_int, check_message, check_ms, parse_json, shown

LARGEST_ID = 1 << 62
MOST_CLAIMED = 10_000_000
"""How many messages a claim has at most."""
LONGEST_TARGET = 2048
"""How many characters the URL of an endpoint may have."""
_NOT_BATCHES = (str, bytes, bytearray, memoryview, Mapping)
"""They can be iterated over, but whoever passes one as a batch meant something else."""


def check_new_message(message: NewMessage, limits: Limits) -> None:
    """Raise unless a message that somebody else made up may be sent, its body being what it is said to be."""
    if type(message) is not NewMessage:
        raise BadValue(f"{shown(message)} can't be sent as it is: it must be a NewMessage.")
    check_message(message, limits)
    if message.format == "json":
        parse_json(message.body, limits)
    else:
        check_utf8(message.body)


def check_utf8(body: bytes) -> None:
    """Raise unless the bytes are text."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"The text is not valid UTF-8 ({error}).") from error


def check_lane(lane: object) -> None:
    """Raise unless it may be looked up among a queue's lanes."""
    if not isinstance(lane, str):
        raise BadName(f"{shown(lane)} can't be a lane's name: it must be a text.")


def check_unicode(name: str, value: object) -> None:
    """Raise `BadValue` unless the value is a text, however long, that can be stored."""
    if not isinstance(value, str):
        raise BadValue(f"{name} can't be {shown(value)}: it must be a text.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValue(f"{name} can't be {shown(value)}: it is not valid Unicode.") from error
    if "\0" in value:
        raise BadValue(f"{name} can't be {shown(value)}: not every store can hold the character NUL. Leave it out.")


def check_id(id: object) -> None:
    """Raise `BadValue` unless it may be a message's id."""
    check_int("A message id", id, 1, LARGEST_ID)


def claims_done(after: int, done: int | None) -> int:
    """Up to which claim a consumer is done that asks for the one after another. None: up to that one."""
    check_int("after", after, 0, LARGEST_ID)
    if done is None:
        return after
    check_int("done", done, 0, after)
    return done


def check_right(id: int, token: str | None, consumer: str | None) -> None:
    """Raise `BadValue` unless it is said by what right a message is settled: everybody can guess its id."""
    if token is None and consumer is None:
        raise BadValue(
            f"Message {id} is named by its id alone, and only its holder may settle it. Give the token that it was "
            "received with, or the name of the consumer that it was received for. To delete it whoever holds it, "
            "remove it."
        )


def check_claiming(limit: object, lease_ms: object) -> None:
    """Raise `BadValue` unless a claim of up to so many messages may be made, for so long."""
    check_int("limit", limit, 0, MOST_CLAIMED)
    check_ms("lease_ms", lease_ms)


def check_collection(name: str, values: object) -> None:
    """Raise `BadValue` unless there are entries to count and to go through."""
    if type(values) is tuple or type(values) is list:
        return
    if not isinstance(values, Collection) or isinstance(values, _NOT_BATCHES):
        raise BadValue(f"{name} can't be {shown(values)}: it must be a list.")


def check_iterable(name: str, values: object) -> None:
    """Raise `BadValue` unless there are entries to go through."""
    if not isinstance(values, Iterable) or isinstance(values, _NOT_BATCHES):
        raise BadValue(f"{name} can't be {shown(values)}: it must be a list, or something else to go through.")


def check_path(name: str, path: object) -> None:
    """Raise `BadValue` unless a file could have this name."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str) or not text or "\0" in text:
        raise BadValue(f"{name} can't be {shown(path)}: it must be the path of a file.")
