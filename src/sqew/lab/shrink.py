"""Which of a failing run's faults does it take? The smallest schedule that still fails, by taking faults away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def smallest(parts: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A subset that fails and of which nothing can be left out, given that all of them together fail.

    It leaves out ever smaller pieces (delta debugging), so few culprits among many are found in a few tries.

    >>> smallest(range(100), lambda some: {17, 64} <= set(some))
    [17, 64]
    """
    left, pieces = list(parts), 2
    while len(left) >= 2:
        for without in _without_each(left, pieces):
            if fails(without):
                left, pieces = without, max(pieces - 1, 2)
                break
        else:
            if pieces >= len(left):
                break
            pieces = min(pieces * 2, len(left))
    return [] if len(left) == 1 and fails([]) else left


def _without_each(parts: list[T], pieces: int) -> Iterator[list[T]]:
    """The parts without the first piece, without the second, …"""
    bounds = [round(place * len(parts) / pieces) for place in range(pieces + 1)]
    for start, end in pairwise(bounds):
        yield parts[:start] + parts[end:]
