"""Parts that drivers of other queues share: policies that the lab keeps for them, and features that they refuse."""

from __future__ import annotations

from collections.abc import Sequence

from plainbench.config.model import TopicConfig
from plainbench.drivers.base import Item, NotOffered, Place, Topic
from sqew.model import Backoff

NUMBER = "lab"
"""The attribute, field or header that holds a message's number."""


class Policies:
    """Retry policies, for queues that leave the number of attempts and the backoff to their clients."""

    def __init__(self, place: Place) -> None:
        self._topics = {topic.name: topic for topic in place.config.topics}

    def _of(self, topic: str) -> TopicConfig:
        return self._topics.get(topic) or TopicConfig(topic)

    def is_spent(self, topic: str, attempt: int) -> bool:
        """Return True if there is no delivery after this one."""
        most = self._of(topic).max_attempts
        return most is not None and attempt >= most

    def wait_ms(self, topic: str, attempt: int, after_ms: int | None) -> int:
        """Return the delay of a message that was given back: the one that was asked for, or Sqew's backoff."""
        if after_ms is not None:
            return after_ms
        return Backoff(base_ms=self._of(topic).base_backoff_ms, jitter_ms=0).delay_ms(attempt, 0.0)


def refuse_lanes(topic: Topic, queue: str) -> None:
    """Raise `NotOffered` if the topic has lanes."""
    if topic.lanes:
        raise NotOffered(f"{queue} has no lanes: leave out those of topic {topic.name}, or measure them with sqew.")


def refuse_fifo(topic: Topic, queue: str) -> None:
    """Raise `NotOffered` if the topic is FIFO."""
    if topic.fifo:
        raise NotOffered(
            f"{queue} has no order by groups: leave out fifo of topic {topic.name}, or measure it with sqew or sqs."
        )


def refuse_priorities(items: Sequence[Item], queue: str) -> None:
    """Raise `NotOffered` if a message has a priority."""
    if any(item.priority for item in items):
        raise NotOffered(f"{queue} has no priorities: leave out those of the workload, or measure them with sqew.")


def number_of(value: object, otherwise: int) -> int:
    """Return the lab's number of a message, or a number below 0 if the lab did not send it."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return int(text) if text.removeprefix("-").isdecimal() else -1 - abs(otherwise)
