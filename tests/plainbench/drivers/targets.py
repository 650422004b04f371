"""A topic of any queue that the lab measures, for the tests of drivers."""

import contextlib
import itertools
from urllib.parse import urlsplit

import msgspec

from plainbench.config.model import Config
from plainbench.drivers import open_driver
from plainbench.drivers.base import Item, Place, Topic
from plainbench.run.clock import RealTime

LEASE_MS = 1_000
LONG_MS = 30_000
KEYS = {"access_key_id": "anybody", "secret_access_key": "anything", "region": "us-east-1"}


class Target:
    """A topic of a queue, of the test's own, and drivers of it."""

    def __init__(self, kind, options, topic, folder):
        self.kind, self.options, self.topic = kind, options, topic
        self._folder = folder
        self._numbers = itertools.count(1)
        self._open = contextlib.ExitStack()

    @property
    def address(self):
        """The option that holds the server's address."""
        return "endpoint_url" if self.kind == "sqs" else "url"

    def at(self, port):
        """Return the same queue at another port."""
        parts = urlsplit(self.options[self.address])
        user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        url = parts._replace(netloc=f"{user}127.0.0.1:{port}").geturl()
        return Target(self.kind, {**self.options, self.address: url}, self.topic, self._folder)

    def driver(self, **topic):
        """Return a driver of the topic, which is made unless it is there."""
        driver = self.opened(**topic)
        driver.create(Topic(self.topic, max_attempts=topic.get("max_attempts", 5), lease_ms=LEASE_MS))
        return driver

    def opened(self, **topic):
        target = {
            "driver": self.kind.partition("-")[0] if "rabbit" in self.kind else self.kind,
            "options": self.options,
        }
        pragmas = {"synchronous": "NORMAL"}
        topics = [{"name": self.topic, "base_backoff_ms": 1_000, **topic}]
        config = msgspec.convert({"target": target, "sqlite": {"pragmas": pragmas}, "topics": topics}, Config)
        driver = open_driver(Place(config, self._folder, RealTime()))
        self._open.callback(driver.close)
        return driver

    def send(self, driver, count=1):
        """Send so many messages in one call and return their numbers."""
        items = [Item(number, b'{"n": %d}' % number) for number in itertools.islice(self._numbers, count)]
        driver.send(self.topic, items)
        return [item.number for item in items]

    def receive(self, driver, wait_s=5.0, lease_ms=LONG_MS):
        """Receive a message, if there is one; to wait for a lease to run out, pass a short one."""
        return list(driver.receive(self.topic, 1, lease_ms, wait_s))

    def receive_all(self, driver, count):
        found = []
        while len(found) < count and (more := driver.receive(self.topic, 10, LONG_MS, 5.0)):
            found += more
        return found

    def left(self, driver):
        return sorted((left.number, left.where) for left in driver.left(self.topic))

    def depths(self, driver):
        """Count the messages in each state, in all lanes together."""
        lanes = driver.depths(self.topic).values()
        return {state: sum(lane.get(state, 0) for lane in lanes) for state in ("ready", "leased", "delayed", "dead")}

    def close(self):
        self._open.close()
