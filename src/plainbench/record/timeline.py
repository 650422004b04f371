"""The timeline of a run, live or recorded: its logs are read as they grow, and any time of it can be looked at."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from msgspec import Struct

from plainbench.config.model import Config
from plainbench.record.events import SUFFIX, Event
from plainbench.record.snapshots import COUNTED, Depths, Happening, Measure, Quantiles, Snapshots, quantiles, rounded
from sqew.errors import StoreDamaged

_decode_lines = msgspec.json.Decoder(Event).decode_lines
_UNKNOWN, _SETTLED = -1, -2
_PAGE = 4096
DELAY = "latency"
"""The fault that every call may have."""
_WAL = "wal_bytes"


class Tail:
    """A reader of a run's log files, which continues each where it left off. New files may come at any time."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._offsets: dict[Path, int] = {}

    def read(self, most: int = 256 * 1024) -> list[Event]:
        """Return the new events, from each file up to about ``most`` bytes; an empty list if there are none yet."""
        events: list[Event] = []
        for path in sorted(self._run.glob(f"*{SUFFIX}")):
            events += self._read_file(path, most)
        return events

    def _read_file(self, path: Path, most: int) -> list[Event]:
        offset = self._offsets.get(path, 0)
        with path.open("rb") as file:
            file.seek(offset)
            block = file.read(most)
            if len(block) == most and b"\n" not in block:
                block += file.readline()
        whole = block.rfind(b"\n") + 1
        try:
            events = _decode_lines(block[:whole])
        except msgspec.MsgspecError as error:
            raise StoreDamaged(f"{path} holds a line after byte {offset} that is not an event: {error}.") from error
        self._offsets[path] = offset + whole
        return events

    @property
    def read_bytes(self) -> int:
        return sum(self._offsets.values())

    @property
    def total_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._run.glob(f"*{SUFFIX}"))


class Row(Struct, frozen=True):
    """A topic, or one lane of it, at some time."""

    topic: str
    lane: str
    """Empty: the topic as a whole."""
    depths: Depths
    rates: dict[str, float | None]
    """Messages a second. None: unknown, because messages of several lanes are sent in one call."""
    latency: Quantiles | None


class View(Struct, frozen=True):
    """A run at some time."""

    at_us: int
    rows: list[Row]
    wal_bytes: int | None
    lag_us: int
    dropped: int


class _Topic:
    """Due times of a topic's messages, and marks of those that were received before.

    Numbers lie close together within a workload and far apart between two, so they are kept in pages.
    """

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}
        # The logs of generators and workers are apart: of what came out, the sending may be read later.
        self.early: dict[int, list[tuple[Measure, int, str]]] = {}

    def __getitem__(self, n: int) -> int:
        """Return twice the time at which it was due, plus one if it was received before; or _UNKNOWN or _SETTLED."""
        page = self._pages.get(n // _PAGE)
        return _UNKNOWN if page is None else page[n % _PAGE]

    def __setitem__(self, n: int, value: int) -> None:
        page = self._pages.get(n // _PAGE)
        if page is None:
            page = self._pages[n // _PAGE] = array("q", [_UNKNOWN]) * _PAGE
        page[n % _PAGE] = value


class Timeline:
    """The state of a run so far. It takes events in any order, and each once."""

    def __init__(self, config: Config) -> None:
        self.snapshots = Snapshots()
        self.now_us = 0
        """Time of the last event."""
        self.ended: str | None = None
        """Reason why the run ended; None: it goes on, as far as is known."""
        self.events = 0
        self._lanes = {topic.name: [lane.name for lane in topic.lanes] for topic in config.topics}
        self._topics: dict[str, _Topic] = {}
        self._held: dict[tuple[str, int, str], int] = {}
        self._handlers: dict[str, Callable[[Event], None]] = {
            "sent": self._take_sent,
            "found": self._take_found,
            "received": self._take_received,
            "acked": self._take_acked,
            "retried": self._take_given_back,
            "died": self._take_given_back,
            "refused": self._take_refused,
            "depth": self._take_depth,
            "fault": self._take_fault,
            "worker": self._take_worker,
            "generator": self._take_generator,
            "run": self._take_run,
        }

    @property
    def topics(self) -> list[str]:
        return list(self._lanes)

    def lanes_of(self, topic: str) -> list[str]:
        """Return the lanes of a topic that has several; else none."""
        lanes = self._lanes[topic]
        return lanes if len(lanes) > 1 else []

    def take(self, events: Sequence[Event]) -> None:
        self.events += len(events)
        handlers, now_us = self._handlers, self.now_us
        for event in events:
            if event.at > now_us:
                now_us = event.at
            if (handler := handlers.get(event.event)) is not None:
                handler(event)
        self.now_us = now_us

    def _topic(self, name: str) -> _Topic:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = _Topic()
            self._lanes.setdefault(name, [])
        return found

    def _take_sent(self, event: Event) -> None:
        topic, last, due = self._topic(event.topic), event.to or event.n, event.due or 0
        self.snapshots.at(event.at).served(event.topic, event.lane).counts["sent"] += last - event.n + 1
        for n in range(event.n, last + 1):
            topic[n] = 2 * due
            if topic.early:
                for measure, at, lane in topic.early.pop(n, ()):
                    self._measure_since_due(measure, event.topic, n, at, lane)

    def _take_found(self, event: Event) -> None:
        self._topic(event.topic)[event.n] = _SETTLED

    def _take_received(self, event: Event) -> None:
        self.snapshots.at(event.at).served(event.topic, event.lane).counts["received"] += 1
        self._held[event.topic, event.n, event.worker] = event.at
        self._measure_since_due("to_claim", event.topic, event.n, event.at, event.lane)

    def _take_acked(self, event: Event) -> None:
        served = self.snapshots.at(event.at).served(event.topic, event.lane)
        served.counts["acked"] += 1
        began = self._held.pop((event.topic, event.n, event.worker), None)
        if began is not None:
            served.latencies["held"][rounded(event.at - began)] += 1
        self._measure_since_due("to_ack", event.topic, event.n, event.at, event.lane)

    def _take_given_back(self, event: Event) -> None:
        self.snapshots.at(event.at).served(event.topic, event.lane).counts[event.event] += 1
        self._held.pop((event.topic, event.n, event.worker), None)

    def _take_refused(self, event: Event) -> None:
        self._held.pop((event.topic, event.n, event.worker), None)

    def _measure_since_due(self, measure: Measure, name: str, n: int, at: int, lane: str) -> None:
        """Count a latency since a message was due: only of its first delivery and its first ack."""
        topic = self._topic(name)
        known = topic[n]
        if known == _UNKNOWN:
            topic.early.setdefault(n, []).append((measure, at, lane))
            return
        if known == _SETTLED:
            return
        if measure == "to_ack":
            topic[n] = _SETTLED
        elif known & 1:
            return
        else:
            topic[n] = known | 1
        took = max(0, at - (known >> 1))
        self.snapshots.at(at).served(name, lane).latencies[measure][rounded(took)] += 1

    def _take_depth(self, event: Event) -> None:
        snapshot = self.snapshots.at(event.at)
        if event.at >= snapshot.looked_at:
            snapshot.looked_at = event.at
            figures = {state: int(count) for state, count in event.figures.items()}
            snapshot.wal_bytes = max(snapshot.wal_bytes, figures.pop(_WAL, -1))
            snapshot.depths[event.topic, event.lane] = figures

    def _take_fault(self, event: Event) -> None:
        who, ms = event.worker, event.ms or 0.0
        self.snapshots.at(event.at).note(Happening(event.what, event.where, event.at, who, ms=ms))

    def _take_worker(self, event: Event) -> None:
        self.snapshots.at(event.at).note(
            Happening(event.what, event.worker, event.at, event.worker, reason=event.reason, is_fault=False)
        )

    def _take_generator(self, event: Event) -> None:
        snapshot = self.snapshots.at(event.at)
        snapshot.lag_us = max(snapshot.lag_us, int(event.figures.get("lag_us", 0)))
        snapshot.dropped[event.worker] = int(event.figures.get("dropped", 0))

    def _take_run(self, event: Event) -> None:
        self.snapshots.at(event.at)
        if event.what != "began":
            self.ended = event.what

    # Looking at it

    def view(self, at_us: int, window_us: int | None, measure: Measure) -> View:
        """Return the run at that time: rates and latencies of the window before it, or of all the time before it."""
        depths, wal_bytes = self._depths_at(at_us)
        dropped = Counter[str]()
        lag_us = 0
        for snapshot in self.snapshots.before(at_us, window_us):
            lag_us = max(lag_us, snapshot.lag_us)
        for snapshot in self.snapshots.before(at_us):
            for generator, count in snapshot.dropped.items():
                dropped[generator] = max(dropped[generator], count)
        rows = [
            self._row(topic, lane, at_us, window_us, measure, depths)
            for topic in self._lanes
            for lane in ("", *self.lanes_of(topic))
        ]
        return View(at_us, rows, wal_bytes, lag_us, dropped.total())

    def _depths_at(self, at_us: int) -> tuple[dict[tuple[str, str], Depths], int | None]:
        depths: dict[tuple[str, str], Depths] = {}
        for snapshot in self.snapshots.before(at_us):
            if snapshot.depths:
                depths = snapshot.depths
                return depths, None if snapshot.wal_bytes < 0 else snapshot.wal_bytes
        return depths, None

    def _row(
        self, topic: str, lane: str, at_us: int, window_us: int | None, measure: Measure,
        depths: dict[tuple[str, str], Depths],
    ) -> Row:  # fmt: skip
        counts: Counter[str] = Counter()
        latencies: Counter[int] = Counter()
        mixed = 0
        for snapshot in self.snapshots.before(at_us, window_us):
            for (of_topic, of_lane), served in snapshot.lanes.items():
                if of_topic != topic:
                    continue
                if lane in ("", of_lane):
                    counts.update(served.counts)
                    latencies.update(served.latencies[measure])
                elif not of_lane:
                    mixed += served.counts["sent"]
        seconds = self.seconds_in(at_us, window_us)
        rates: dict[str, float | None] = {kind: counts[kind] / seconds for kind in COUNTED}
        if mixed:
            rates["sent"] = None
        total: Counter[str] = Counter()
        for (of_topic, of_lane), found in depths.items():
            if of_topic == topic and lane in ("", of_lane):
                total.update(found)
        return Row(topic, lane, dict(total), rates, quantiles(latencies))

    def seconds_in(self, at_us: int, window_us: int | None) -> float:
        """Return the length of the moments in a window, in seconds: of the last one, as much as has passed."""
        width = self.snapshots.width_us
        until = min((self.snapshots.index(at_us) + 1) * width, max(self.now_us, 1))
        return max(until - self.snapshots.span(at_us, window_us).start * width, width) / 1e6

    def faults(self, at_us: int, most: int) -> list[Happening]:
        """Return what went wrong last, the last first: all but delays, of which there may be one in every call."""
        found: list[Happening] = []
        for snapshot in self.snapshots.before(at_us):
            happened = (one for one in snapshot.happenings.values() if one.what != DELAY)
            found += sorted(happened, key=lambda one: one.at, reverse=True)
            if len(found) >= most:
                break
        return found[:most]

    def delays(self, at_us: int, window_us: int | None) -> list[Happening]:
        """Return the delays that were injected within a window, by call."""
        found: dict[str, Happening] = {}
        for snapshot in self.snapshots.before(at_us, window_us):
            for one in snapshot.happenings.values():
                if one.what != DELAY:
                    continue
                if one.where in found:
                    found[one.where].add(one)
                else:
                    found[one.where] = replace(one)
        return [found[where] for where in sorted(found)]

    def fault_next_to(self, at_us: int, direction: int) -> int | None:
        """Return the time at which something went wrong next (1), or before (-1); None if there is none."""
        index = self.snapshots.index(at_us) + direction
        while 0 <= index < len(self.snapshots):
            if any(one.what != DELAY for one in self.snapshots[index].happenings.values()):
                return index * self.snapshots.width_us
            index += direction
        return None
