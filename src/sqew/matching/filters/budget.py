"""Budget of the comparisons that filters may make."""

from __future__ import annotations

from sqew.errors import TooMuchToCompare

MOST_COMPARISONS = 300_000
"""The most comparisons in one publish, over all filters: everybody else waits meanwhile, for some 0.3 s. If envelopes
have to be signed, the filters run twice, and others have their turn in between."""
LONG = 256
"""Characters that are searched at the cost of one comparison."""
PLACE = 2
"""Cost, in comparisons, of reading an object or an array within a body, or of making one of a name with dots."""
LOOKS = 10
"""Objects that are searched for one name at the cost of one comparison."""
ADDRESS = 4
"""Cost, in comparisons, of reading a string as an IP address."""
MOST_LEVELS = 150
"""The depth of the deepest property that a filter can ask for: each level adds a combination to its policy."""


class Effort:
    """Comparisons that a publish may still make.

    Using them up takes a long array and many filters, or more than a hundred thousand objects and arrays.
    """

    __slots__ = ("_left", "_most")

    def __init__(self, most: int = MOST_COMPARISONS) -> None:
        self._left = self._most = most

    def spend(self, comparisons: int) -> None:
        self._left -= comparisons
        if self._left < 0:
            raise TooMuchToCompare(self._most)
