"""The queue as a library: `Queue.open`, and the parts of a `Queue`."""

from sqew.embedded.queue import Held, Queue

__all__ = ["Held", "Queue"]
