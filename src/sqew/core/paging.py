"""Paged lists, put together again: a caller gets as many entries as it asked for, however large they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class PagePart(Protocol[T_co]):
    """A page: it has fewer entries than requested at the end of the list, or if the entries are large."""

    @property
    def messages(self) -> Sequence[T_co]:
        """The page's entries."""

    @property
    def after(self) -> int | None:
        """The position after which the next page begins, or None if this is the last."""


class Pages(Generic[T]):
    """The pages of one list: request ``limit`` entries after ``after``, and take each page, until it is done."""

    def __init__(self, limit: int, after: int) -> None:
        self.limit, self.after = limit, after
        self.found: list[T] = []
        self.is_done = False

    def take(self, page: PagePart[T]) -> None:
        """Add a page."""
        self.found += page.messages
        self.limit -= len(page.messages)
        if page.after is None or self.limit <= 0:
            self.is_done = True
        else:
            self.after = page.after


def all_of(ask: Callable[[int, int], PagePart[T]], limit: int, after: int) -> list[T]:
    """Return up to ``limit`` entries after ``after``. ``ask`` gets how many to fetch, and after which."""
    pages = Pages[T](limit, after)
    while not pages.is_done:
        pages.take(ask(pages.limit, pages.after))
    return pages.found
