"""Long lists from a server, which gives them a page at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqew.cli.session import Session
from sqew.errors import BadValue

E = TypeVar("E")
P = TypeVar("P", int, str)
"""What entries are in the order of: their ids, or their names."""

PAGE = 1_000


def listed(
    session: Session, ask: Callable[[int, P], list[E]], place_of: Callable[[E], P], limit: int, after: P
) -> list[E]:
    """Up to ``limit`` entries that come later than ``after``. ``ask`` is told how many to bring, and after which."""
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
