"""How much filters may compare."""

from __future__ import annotations

from sqew.errors import TooMuchToCompare

MOST_COMPARISONS = 300_000
"""In one publish, over all filters: everybody else waits meanwhile, for some 0.3 s. Where envelopes have to be signed,
it is found out twice who wants it, and others have their turn in between."""
LONG = 256
"""To look for something in so many characters is one comparison."""
PLACE = 2
"""To read an object or an array within a body, or to make one of a name with dots, takes as long as so many."""
LOOKS = 10
"""To look for one name in so many objects takes as long as one."""
ADDRESS = 4
"""To read a text as an IP address takes as long as so many."""
MOST_LEVELS = 150
"""How deep a property may be that a filter asks for: each level adds a combination to its policy."""


class Effort:
    """What is left of the comparisons that a publish may make.

    To use them up takes a long array and many filters, or more than a hundred thousand objects and arrays.
    """

    __slots__ = ("_left", "_most")

    def __init__(self, most: int = MOST_COMPARISONS) -> None:
        self._left = self._most = most

    def spend(self, comparisons: int) -> None:
        self._left -= comparisons
        if self._left < 0:
            raise TooMuchToCompare(self._most)
