"""The queue as a library: `Queue.open`, and what belongs to it."""

from sqew.embedded.queue import Held, Queue

__all__ = ["Held", "Queue"]
