"""Lists, page by page: the entries of a page, and an opaque token for the next one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqew.http.dialects.aws.binary import base64_of, binary_of

P = TypeVar("P")
T = TypeVar("T")

_AFTER = "after "
"""The prefix of each token, so that few other strings can be one."""
_AT_ONCE = 1_000


def token_of(last: str) -> str:
    """Return the token of the page that begins after an entry."""
    return base64_of(f"{_AFTER}{last}".encode())


def last_of(token: str | None) -> str | None:
    """Return the entry that one of our tokens holds; empty for the first page, None for a token that is not ours.

    >>> last_of(token_of("orders")), last_of(None), last_of("AAAA")
    ('orders', '', None)
    """
    if not token:
        return ""
    try:
        text = (binary_of(token) or b"").decode()
    except UnicodeDecodeError:
        return None
    return text.removeprefix(_AFTER) if text.startswith(_AFTER) else None


async def first_of(
    read: Callable[[P, int], Awaitable[list[T]]],
    is_meant: Callable[[T], bool],
    place: Callable[[T], P],
    after: P,
    most: int,
) -> list[T]:
    """Return the first entries after a place that are wanted: a page of them, and one more if there are more.

    ``read`` returns up to so many entries after a place, and ``place`` returns the place of an entry, to go on after
    it.
    """
    found: list[T] = []
    size = most + 1
    while True:
        entries = await read(after, size)
        found += [entry for entry in entries if is_meant(entry)]
        if len(entries) < size or len(found) > most:
            return found[: most + 1]
        # What was read is others': then there may be many of them.
        after, size = place(entries[-1]), max(size, _AT_ONCE)
