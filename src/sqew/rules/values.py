"""Checks of single values: each has the right type and can be stored."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePath

from sqew.errors import BadValue, shortened
from sqew.model import NO_REASON

LARGEST_ID = 1 << 62
LONGEST_JITTER_S = 86_400
LONGEST_MS = 10 * 366 * 86_400_000
"""The longest delay, lease, TTL or retention, ten years: a longer one is a mistake in the unit."""
LONGEST_NAME = 256
"""The longest key, group, consumer's name or reason of a death, in characters; longer ones are refused, or cut."""
LONGEST_TARGET = 2048
"""The most characters in the URL of an endpoint."""
MOST_CLAIMED = 10_000_000
"""Messages in a claim, at most."""

_LONGEST_SHOWN = 100
_NOT_BATCHES = (str, bytes, bytearray, memoryview, Mapping)
"""Types that are iterable, but passed as a batch only by mistake."""


def check_int(name: str, value: object, at_least: int, at_most: int) -> None:
    """Raise `BadValue` unless the value is a whole number in the range."""
    if type(value) is not int or not at_least <= value <= at_most:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a whole number from {at_least} to {at_most}.")


def check_ms(name: str, value: object, at_least: int = 0) -> None:
    """Raise `BadValue` unless the value is a sensible number of milliseconds."""
    check_int(name, value, at_least, LONGEST_MS)


def check_jitter(seconds: object) -> None:
    """Raise unless a schedule may fire up to so many seconds late."""
    check_int("jitter_secs", seconds, 0, LONGEST_JITTER_S)


def seconds_as_ms(name: str, seconds: object, at_least: int = 0) -> int:
    """Convert seconds to milliseconds; raise `BadValue` unless they are sensible, and at least ``at_least``."""
    if (type(seconds) is not int and type(seconds) is not float) or not at_least <= seconds * 1000 <= LONGEST_MS:
        raise BadValue(
            f"{name} can't be {shown(seconds)}: "
            f"it must be a number of seconds from {at_least / 1000:g} to {LONGEST_MS // 1000}."
        )
    return round(seconds * 1000)


def seconds_of(prefix: str, seconds: float | None, ms: object, at_least: int = 0) -> float | None:
    """Return a time given as ``lease_seconds`` or as ``lease_ms``, in seconds, or None if neither is given."""
    if ms is None:
        return seconds
    if seconds is not None:
        raise BadValue(f"{prefix}seconds and {prefix}ms say the same. Give one of the two.")
    check_ms(f"{prefix}ms", ms, at_least)
    assert isinstance(ms, int)
    return ms / 1000


def is_short(text: str) -> bool:
    """Return True if `check_text` would accept the string."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def check_text(name: str, value: object) -> None:
    """Raise `BadValue` unless the value is a short string."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise BadValue(f"{name} can't be {shown(value)}: it must be a text of 1 to {LONGEST_NAME} characters.")
    if not value.isprintable():
        if "\0" in value:
            raise BadValue(f"{name} can't be {shown(value)}: not every store can hold the character NUL. Leave it out.")
        if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
            raise BadValue(f"{name} can't be {shown(value)}: it is not valid Unicode.")


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


def reason_of(cause: object) -> str:
    """Return the reason of a failure as a short string that can be stored, whatever a program gave as the cause."""
    if cause is None:
        return NO_REASON
    try:
        text = str(cause)
    except Exception:  # noqa: BLE001 (the object's own code, and it is about to be reported as it is)
        text = ""
    if isinstance(cause, BaseException):
        text = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
    # Neither surrogates nor NUL can be stored.
    return text[:LONGEST_NAME].encode(errors="backslashreplace").decode().replace("\0", "\\x00")[:LONGEST_NAME]


def shown(value: object) -> str:
    """Format a value for the sentence that refuses it: short, and without ever raising an error."""
    try:
        text = repr(str(value) if isinstance(value, PurePath) else _beginning(value))
    except Exception:  # noqa: BLE001 (the object's own code; or an integer of more than 4,300 digits)
        text = f"this {type(value).__name__}"
    return shortened(text)


def _beginning(value: object) -> object:
    """Return the part of a string that can ever be shown: checking whether 16 MiB can be printed takes 0.1 s."""
    return value[:_LONGEST_SHOWN] if type(value) in (str, bytes) else value  # type: ignore[index]  # both have parts
