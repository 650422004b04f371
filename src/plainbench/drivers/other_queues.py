"""What drivers of other queues have in common: policies that the lab keeps for them, and what they can't do."""

from __future__ import annotations

from collections.abc import Sequence

from plainbench.config.model import TopicConfig
from plainbench.drivers.base import Item, NotOffered, Place, Topic
from sqew.model import Backoff

NUMBER = "lab"
"""The attribute, field or header that holds a message's number."""


class Policies:
    """How often and how soon messages come again, for queues that leave that to who uses them."""

    def __init__(self, place: Place) -> None:
        self._topics = {topic.name: topic for topic in place.config.topics}

    def _of(self, topic: str) -> TopicConfig:
        return self._topics.get(topic) or TopicConfig(topic)

    def is_spent(self, topic: str, attempt: int) -> bool:
        """Whether there is no delivery after this one."""
        most = self._of(topic).max_attempts
        return most is not None and attempt >= most

    def wait_ms(self, topic: str, attempt: int, after_ms: int | None) -> int:
        """How long a message stays away that was given back: as was asked, or as Sqew would have it."""
        if after_ms is not None:
            return after_ms
        return Backoff(base_ms=self._of(topic).base_backoff_ms, jitter_ms=0).delay_ms(attempt, 0.0)


def refuse_lanes(topic: Topic, queue: str) -> None:
    """Raise if the topic has lanes."""
    if topic.lanes:
        raise NotOffered(f"{queue} has no lanes: leave out those of topic {topic.name}, or measure them with sqew.")


def refuse_fifo(topic: Topic, queue: str) -> None:
    """Raise if the topic is to be in order by groups."""
    if topic.fifo:
        raise NotOffered(
            f"{queue} has no order by groups: leave out fifo of topic {topic.name}, or measure it with sqew or sqs."
        )


def refuse_priorities(items: Sequence[Item], queue: str) -> None:
    """Raise if one of the messages is to overtake others."""
    if any(item.priority for item in items):
        raise NotOffered(f"{queue} has no priorities: leave out those of the workload, or measure them with sqew.")


def number_of(value: object, otherwise: int) -> int:
    """The lab's number; of what the lab did not send, another one below 0."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return int(text) if text.removeprefix("-").isdecimal() else -1 - abs(otherwise)
