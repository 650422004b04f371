"""Runs whose log is written by hand, and queues that are broken on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plainbench.config.model import Config, TopicConfig, WorkerConfig
from plainbench.record import manifest
from plainbench.record.events import SUFFIX, Event, Recorder
from plainbench.record.manifest import Manifest

LEASE_MS = 1_000
SECOND = 1_000_000


def config_of(**changes: Any) -> Config:
    """Return a configuration with a topic and a worker, unless changed."""
    return Config(
        **{"topics": [TopicConfig("orders", max_attempts=3)], "workers": [WorkerConfig("w", lease_ms=LEASE_MS)]}
        | changes
    )


class MadeUpRun:
    """A log, written in the order in which things happened. Times are microseconds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._events: list[Event] = [Event(0, "run", what="began")]

    def add(self, at: int, kind: Any, n: int = 0, topic: str = "orders", **fields: Any) -> None:
        self._events.append(Event(at, kind, topic, n=n, **fields))

    def sent(self, at: int, n: int, *, to: int = 0, took: int = 10, due: int | None = None, **fields: Any) -> None:
        """Add a send that was answered at a time."""
        sender = {"worker": "generator-0/0", **fields}
        self.add(at - took, "sending", n, to=to, **sender)
        self.add(at, "sent", n, to=to, due=at - took if due is None else due, took=took, **sender)

    def received(self, at: int, n: int, worker: str = "w/0", took: int = 10, **fields: Any) -> None:
        self.add(at, "received", n, worker=worker, took=took, **{"attempt": 1, **fields})

    def ended(self, at: int, n: int, worker: str = "w/0", how: str = "acked", took: int = 10, **fields: Any) -> None:
        self.add(at, how, n, worker=worker, took=took, **fields)

    def done(self, n: int, at: int = 100) -> None:
        """Add a message that was sent, received and acked."""
        self.sent(at, n)
        self.received(at + 100, n)
        self.ended(at + 200, n)

    def crashed(self, at: int, worker: str = "w/0", point: str = "after_commit", call: str = "ack") -> None:
        stream = f"queue/{worker}/0/crash"
        self._events.append(Event(at, "fault", worker=worker, what=point, where=call, stream=stream, index=1))

    def left(self, n: int, where: str = "ready") -> None:
        self.add(9 * SECOND, "left", n, what=where)

    def finish(self, why: str = "settled", at: int = 9 * SECOND, **fields: Any) -> Path:
        """Write the log and return its folder."""
        self._events.append(Event(at, "run", what=why, **fields))
        return self.unfinished()

    def unfinished(self) -> Path:
        recorder = Recorder(self.folder / f"run{SUFFIX}")
        recorder.record_all(self._events)
        recorder.close()
        return self.folder


def with_manifest(run: Path, config: Config, **changes: Any) -> Path:
    """Add a manifest to a run, so that it can be summarized and compared, and return the run."""
    facts: dict[str, Any] = {
        "id": run.name,
        "began": "2026-01-31T12:00:00+00:00",
        "seed": config.seed,
        "durability": "durable",
        "inputs": [],
        "versions": {"sqew": "1"},
        "machine": {"cpu": "one"},
        "folder": str(run.parent),
        "config_file": str(run.parent / "plainbench.yaml"),
        "config": config,
    }
    manifest.write(Manifest(**facts | changes), run)
    return run


BROKEN = '''
from plainbench.drivers.embedded import EmbeddedDriver

class LosesSome(EmbeddedDriver):
    """Answers every 50th send without storing it."""
    def send(self, topic, items):
        kept = [item for item in items if item.number % 50]
        if kept:
            super().send(topic, kept)

class ForgetsAcks(EmbeddedDriver):
    """Confirms the ack of every 50th message and gives it back instead."""
    def ack(self, topic, deliveries):
        forgotten = [one for one in deliveries if one.number % 50 == 0 and one.attempt < 3]
        for one in forgotten:
            self.retry(topic, one, 100)
        done = [one for one in deliveries if one not in forgotten]
        if done:
            super().ack(topic, done)
        return [None] * len(deliveries)

class LeasesForNoTime(EmbeddedDriver):
    """Holds messages for a tenth of the time that was asked for."""
    def receive(self, topic, limit, lease_ms, wait_s):
        return super().receive(topic, limit, lease_ms // 10, wait_s)
    def extend(self, topic, delivery, lease_ms):
        pass

class Invents(EmbeddedDriver):
    """Delivers, now and then, what nobody has sent."""
    def receive(self, topic, limit, lease_ms, wait_s):
        from msgspec.structs import replace
        found = super().receive(topic, limit, lease_ms, wait_s)
        return [replace(one, number=one.number + 1_000_000) if one.number % 50 == 0 else one for one in found]

class BreaksOrder(EmbeddedDriver):
    """Sends every 50th message of a FIFO topic to a group of its own, and says it was another."""
    def send(self, topic, items):
        from msgspec.structs import replace
        super().send(topic, [replace(one, group=f"{one.group}!") if one.number % 50 == 0 else one for one in items])
    def receive(self, topic, limit, lease_ms, wait_s):
        from msgspec.structs import replace
        found = super().receive(topic, limit, lease_ms, wait_s)
        return [replace(one, group=one.group.rstrip("!")) for one in found]

class Starves(EmbeddedDriver):
    """Keeps back what is in the lane normal as long as there is anything in the other."""
    def receive(self, topic, limit, lease_ms, wait_s):
        found = super().receive(topic, limit, lease_ms, wait_s)
        if self.depths(topic)["priority"]["ready"]:
            for one in found:
                if one.lane == "normal":
                    self.retry(topic, one, 20)
            found = [one for one in found if one.lane != "normal"]
        return found

class LosesAtTheSecondError(EmbeddedDriver):
    """When two of a sender's calls have failed, the third try to send is answered and nothing is stored."""
    failures = 0
    def send(self, topic, items):
        if self.failures == 2:
            self.failures = 0
            return
        try:
            super().send(topic, items)
        except Exception:
            self.failures += 1
            raise

class Garbles(EmbeddedDriver):
    """Changes the body of every 50th message."""
    def send(self, topic, items):
        from msgspec.structs import replace
        super().send(topic, [replace(one, body=b'{"a":1}') if one.number % 50 == 0 else one for one in items])

class MixesLanes(EmbeddedDriver):
    """Puts every 50th message into the lane normal."""
    def send(self, topic, items):
        from msgspec.structs import replace
        super().send(topic, [replace(one, lane="normal") if one.number % 50 == 0 else one for one in items])

class ExtendsNothing(EmbeddedDriver):
    """Confirms that a lease is longer, and leaves it as it is."""
    def extend(self, topic, delivery, lease_ms):
        pass

class DeliversNothing(EmbeddedDriver):
    """Takes everything, and gives nothing out."""
    def receive(self, topic, limit, lease_ms, wait_s):
        return []

class LosesDeadLetters(EmbeddedDriver):
    """Confirms that a message was given up, and throws it away."""
    def bury(self, topic, delivery, reason):
        self.ack(topic, [delivery])

class Stalls(EmbeddedDriver):
    """Delivers nothing from the second second to the fifth."""
    def __init__(self, place):
        super().__init__(place)
        self._time = place.time
    def receive(self, topic, limit, lease_ms, wait_s):
        if 2_000_000 <= self._time.now_us() < 5_000_000:
            return []
        return super().receive(topic, limit, lease_ms, wait_s)

class StallsSends(EmbeddedDriver):
    """One send takes three seconds."""
    def __init__(self, place):
        super().__init__(place)
        self._time = place.time
    def send(self, topic, items):
        if items[0].number == 200:
            self._time.sleep(3)
        super().send(topic, items)
'''
