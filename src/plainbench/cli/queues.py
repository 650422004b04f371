"""The queue of a configuration, for commands that use it outside of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from plainbench.config.model import Config, Target, TopicConfig
from plainbench.drivers import open_driver
from plainbench.drivers.base import Driver, Place, Topic
from plainbench.run.clock import RealTime
from sqew.errors import NotFound, nearest


@contextmanager
def queue_of(config: Config, folder: Path) -> Iterator[Driver]:
    """Yield the queue, without faults."""
    if config.target.driver == "sqew-http" and "url" not in config.target.options:
        # A run starts a server on the file; what is done to the file itself comes to the same.
        config = replace(config, target=Target())
    driver = open_driver(Place(config, folder, RealTime()))
    try:
        yield driver
    finally:
        driver.close()


def is_there(config: Config, folder: Path) -> bool:
    """Return True if the queue can hold anything: looking into a file that is not there would create it."""
    on_file = config.target.driver in ("sqew", "sqew-http") and "url" not in config.target.options
    return not on_file or (folder / config.sqlite.queue_file).exists()


def topic_of(config: Config, name: str) -> TopicConfig:
    """Return the topic of this name, or raise `NotFound`."""
    for topic in config.topics:
        if topic.name == name:
            return topic
    names = [topic.name for topic in config.topics]
    raise NotFound(
        f"There is no topic '{name}'{nearest(name, names)}. The configuration has: {', '.join(names)}. "
        f"Make one: plainbench topic create {name}"
    )


def as_made(config: Config, topic: TopicConfig) -> Topic:
    """Return the topic in the form that a driver creates."""
    leases = [worker.lease_ms for worker in config.workers] or [30_000]
    lanes = {lane.name: lane.weight for lane in topic.lanes}
    return Topic(topic.name, lanes, topic.fifo, topic.max_attempts, topic.base_backoff_ms, max(leases))
