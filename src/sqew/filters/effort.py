"""How much filters may compare."""

from __future__ import annotations

from sqew.errors import TooMuchToCompare

MOST_COMPARISONS = 300_000
"""In one publish, over all filters: everybody else waits meanwhile, for 0.3 s at most."""
LONG = 256
"""To look for something in so many characters is one comparison."""


class Effort:
    """What is left of the comparisons that a publish may make. To use them up takes many filters and a long array."""

    __slots__ = ("_left", "_most")

    def __init__(self, most: int = MOST_COMPARISONS) -> None:
        self._left = self._most = most

    def spend(self, comparisons: int) -> None:
        self._left -= comparisons
        if self._left < 0:
            raise TooMuchToCompare(self._most)
