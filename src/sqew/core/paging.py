"""Lists that come in pages, put together again: who asked for so many entries gets them, however large they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Part(Protocol[T_co]):
    """A page: it has fewer entries than were asked for at the end of the list, or where they are large."""

    @property
    def messages(self) -> Sequence[T_co]:
        """Its entries."""

    @property
    def after(self) -> int | None:
        """After which entry the next page begins; None: there is none."""


class Pages(Generic[T]):
    """The pages of one list: ask for ``limit`` entries after ``after``, and take them, until it is done."""

    def __init__(self, limit: int, after: int) -> None:
        self.limit, self.after = limit, after
        self.found: list[T] = []
        self.is_done = False

    def take(self, page: Part[T]) -> None:
        """Add a page."""
        self.found += page.messages
        self.limit -= len(page.messages)
        if page.after is None or self.limit <= 0:
            self.is_done = True
        else:
            self.after = page.after


def all_of(ask: Callable[[int, int], Part[T]], limit: int, after: int) -> list[T]:
    """Up to ``limit`` entries that come later than ``after``. ``ask`` is told how many to bring, and after which."""
    pages = Pages[T](limit, after)
    while not pages.is_done:
        pages.take(ask(pages.limit, pages.after))
    return pages.found
