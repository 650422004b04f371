"""Lists, page by page: what is on one, and where the next begins, in a token that means nothing to others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqew.http.dialects.aws.binary import base64_of, binary_of

P = TypeVar("P")
T = TypeVar("T")

_AFTER = "after "
"""What a token begins with: so that few other texts can be one."""
_AT_ONCE = 1_000


def token_of(last: str) -> str:
    """The token of the page that begins after an entry."""
    return base64_of(f"{_AFTER}{last}".encode())


def last_of(token: str | None) -> str | None:
    """The entry that a token of ours holds; nothing for the first page, None where it is not ours.

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
    """The first entries after a place that are meant: as many as are on a page, and one more where there are more.

    ``read`` gives what comes after a place, so much at most, and ``place`` tells where to go on after an entry.
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
