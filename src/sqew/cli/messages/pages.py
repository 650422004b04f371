"""Long lists from a server, fetched a page at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqew.cli.session import QueueSession
from sqew.errors import BadValue

E = TypeVar("E")
P = TypeVar("P", int, str)
"""The key that entries are sorted by: their ids, or their names."""

PAGE = 1_000


def listed(
    session: QueueSession, ask: Callable[[int, P], list[E]], place_of: Callable[[E], P], limit: int, after: P
) -> list[E]:
    """Return up to ``limit`` entries that come after ``after``. ``ask`` gets the number to fetch, and after which."""
    if not session.url:
        return ask(limit, after)
    found: list[E] = []
    page = PAGE
    while len(found) < limit:
        asked = min(page, limit - len(found))
        try:
            entries = ask(asked, place_of(found[-1]) if found else after)
        except BadValue:
            if asked == 1:
                raise
            # This server's pages are smaller.
            page = asked // 2
            continue
        found += entries
        if len(entries) < asked:
            break
    return found
