"""Which queues metrics name: labels must not grow without bound, whatever users make up."""

from __future__ import annotations

from collections.abc import Collection

OTHERS = "(other)"
"""Stands for all queues beyond those that are named. No queue can be called so."""
BY_ID = "(by id)"
"""Stands for the queue of messages that were named by their ids alone."""


class QueueLabels:
    """The first so many queues under their names, and the rest under one.

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
        """The label of a queue. Who has been named stays named, so that its figures go on."""
        if queue in self._named:
            return queue
        if len(self._named) >= self._most:
            return OTHERS
        self._named.add(queue)
        return queue

    def known(self, queue: str) -> str | None:
        """Return the label of what may be no queue at all; None where it has no name, and could have one."""
        if queue in self._named or queue == BY_ID:
            return queue
        return None if len(self._named) < self._most else OTHERS

    def keep(self, queues: Collection[str]) -> None:
        """Those that are gone make room for others."""
        self._named.intersection_update(queues)
