"""Labels of queues in metrics, which must not grow without bound, whatever names users make up."""

from __future__ import annotations

from collections.abc import Collection

OTHERS = "(other)"
"""The label of all queues beyond those that are named. No queue can have this name."""
BY_ID = "(by id)"
"""The label of the queue of messages that were named by their ids alone."""


class QueueLabels:
    """Labels for a limited number of queues, first come, first served; the rest share one.

    >>> labels = QueueLabels(2)
    >>> [labels.of(queue) for queue in ("a", "b", "c", "a")]
    ['a', 'b', '(other)', 'a']
    >>> labels.known("a"), labels.known("z")
    ('a', '(other)')
    >>> labels.keep({"b", "c"})
    >>> labels.known("z")
    >>> [labels.of(queue) for queue in ("c", "a")]
    ['c', '(other)']
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: set[str] = set()

    def of(self, queue: str) -> str:
        """Return the label of a queue. A queue that has been named stays named, so that its counters go on."""
        if queue in self._named:
            return queue
        if len(self._named) >= self._most:
            return OTHERS
        self._named.add(queue)
        return queue

    def known(self, queue: str) -> str | None:
        """Return the label of a name that may not be a queue's; None if it has none, and there is room for one."""
        if queue in self._named or queue == BY_ID:
            return queue
        return None if len(self._named) < self._most else OTHERS

    def keep(self, queues: Collection[str]) -> None:
        """Forget the queues that are not among these, to make room for others."""
        self._named.intersection_update(queues)
