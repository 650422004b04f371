"""The data of a report's plots, from a run's log: a few hundred numbers for each line, however long the log is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from plainbench.faults.labels import fault_name
from plainbench.record.events import log_files
from plainbench.verdict.latencies import Samples, held
from plainbench.verdict.log_columns import ACKED, DIED, NEVER, RECEIVED, RETRIED, SENT, Flags, Numbers, topics_of
from plainbench.verdict.verdict import Evidence

Values = np.ndarray[Any, np.dtype[np.float64]]
"""Values of a line. NaN: there is nothing to show; infinity: never."""

_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_MOST_STEPS = 240
_FEW_STEPS = 60
_CDF_POINTS = 160
_KINDS = {"received": RECEIVED, "acked": ACKED, "retried": RETRIED, "died": DIED}
TO_CLAIM, HELD, TO_ACK = "enqueue → claim", "claim → ack", "end to end"
"""Titles of the latencies whose distributions are drawn."""
_STATES = ("ready", "leased", "delayed", "blocked", "dead")
_OPEN = ("ready", "delayed", "blocked")


class Axis(Struct, frozen=True):
    """The time of a run, cut into steps of equal length."""

    step_us: int
    steps: int

    def of(self, at: Numbers) -> Numbers:
        """Return the step that each time is in."""
        return np.clip(at // self.step_us, 0, self.steps - 1)

    @property
    def end_s(self) -> float:
        return self.step_us * self.steps / 1e6


def axis_of(ended_us: int) -> Axis:
    """Return steps of a second where that gives a fair number of them: for a minute to four."""
    for step_s in _STEPS_S:
        steps = int(np.ceil(max(ended_us, 1) / (step_s * 1e6)))
        if steps <= (_FEW_STEPS if step_s < 1 else _MOST_STEPS):
            return Axis(round(step_s * 1e6), max(1, steps))
    step_us = -(-ended_us // _MOST_STEPS)
    return Axis(step_us, _MOST_STEPS)


class Line(Struct, frozen=True):
    name: str
    values: Values


class FaultRow(Struct, frozen=True):
    """The occurrences of a fault in each step."""

    name: str
    counts: Numbers
    times_s: list[float]
    """Times of the occurrences, if there are few enough to list."""

    @property
    def total(self) -> int:
        return int(self.counts.sum())


class Curve(Struct, frozen=True):
    """A CDF: the part that took no longer than so many milliseconds. It ends below 1 where some never got there."""

    name: str
    ms: Values
    part: Values


class Annotations(Struct, frozen=True):
    """The data that the plots need besides the messages."""

    faults: list[FaultRow]
    depths: list[Line]
    """Messages waiting, by topic and lane."""
    states: list[Line]
    """All messages, by state."""
    wal_bytes: Values
    lag_ms: Values


class Plotted(Struct, frozen=True):
    """The data of all plots of a report."""

    axis: Axis
    latency: list[Line]
    """Latency end to end of the messages that were due in each step: p50 and p99."""
    rates: list[Line]
    curves: dict[str, list[Curve]]
    """The CDFs of each latency, by its title."""
    annotations: Annotations


def plotted(run: Path, known: Evidence, most_curves: int) -> Plotted:
    """Return the data of a run's plots, from its log."""
    axis, samples = axis_of(known.ended_us), Samples(known)
    p50, p99 = quantiles_over_time(axis, samples.due, samples.to_ack, (0.5, 0.99))
    return Plotted(
        axis,
        [Line("p50", p50), Line("p99", p99)],
        rates(axis, known),
        curves(known, samples, cuts_of(known, samples, most_curves)),
        annotations_of(run, axis),
    )


# Messages


class Cut(Struct, frozen=True):
    """A part of the messages: of a topic or a lane."""

    name: str
    messages: Flags
    deliveries: Flags


def cuts_of(known: Evidence, samples: Samples, most: int) -> list[Cut]:
    """Return all messages by topic, or by lane where a topic has several; the largest parts, if there are too many."""
    log, deliveries = known.log, known.messages.deliveries
    topic, came = topics_of(samples.key), topics_of(deliveries.key)
    cuts: list[Cut] = []
    for name, code in sorted(log.topics.items()):
        if not name:
            continue
        of_topic = Cut(name, topic == code, came == code)
        lanes = [
            Cut(
                f"{name}/{lane}",
                of_topic.messages & (samples.lane == of),
                of_topic.deliveries & (deliveries.lane == of),
            )
            for lane, of in sorted(log.lanes.items())
            if lane
        ]
        lanes = [lane for lane in lanes if lane.messages.any() or lane.deliveries.any()]
        cuts += lanes if len(lanes) > 1 else [of_topic]
    cuts = [cut for cut in cuts if cut.messages.any() or cut.deliveries.any()]
    largest = sorted(cuts, key=lambda cut: -int(cut.deliveries.sum()))[:most]
    return [cut for cut in cuts if any(cut is one for one in largest)]


def quantiles_over_time(axis: Axis, due: Numbers, took_us: Numbers, parts: tuple[float, ...]) -> list[Values]:
    """Return quantiles in milliseconds of the messages that were due in each step."""
    step = axis.of(due)
    order = np.lexsort((took_us, step))
    step, took_us = step[order], took_us[order]
    first = np.searchsorted(step, np.arange(axis.steps))
    count = np.searchsorted(step, np.arange(axis.steps), "right") - first
    found = []
    for part in parts:
        values = np.full(axis.steps, np.nan)
        some = count > 0
        rank = first[some] + np.maximum(np.ceil(part * count[some]).astype(np.int64), 1) - 1
        took = took_us[rank]
        values[some] = np.where(took == NEVER, np.inf, took / 1000)
        found.append(values)
    return found


def rates(axis: Axis, known: Evidence) -> list[Line]:
    """Return messages a second: sent, received, acked, retried, given up."""
    sends, handled = known.log.sends, known.log.handled
    is_sent = sends["kind"] == SENT
    counts = (sends["last"] - sends["first"] + 1)[is_sent]
    lines = [Line("sent", _per_second(axis, sends["at"][is_sent], counts))]
    for name, kind in _KINDS.items():
        rows = handled["kind"] == kind
        if rows.any() or name in ("received", "acked"):
            lines.append(Line(name, _per_second(axis, handled["at"][rows])))
    return lines


def _per_second(axis: Axis, at: Numbers, counts: Numbers | None = None) -> Values:
    return np.asarray(np.bincount(axis.of(at), counts, axis.steps) / (axis.step_us / 1e6), np.float64)


def curves(known: Evidence, samples: Samples, cuts: list[Cut]) -> dict[str, list[Curve]]:
    """Return the CDFs of each latency."""
    return {
        TO_CLAIM: [_curve(cut.name, samples.to_claim[cut.messages]) for cut in cuts],
        HELD: [_curve(cut.name, held(known, cut.deliveries)) for cut in cuts],
        TO_ACK: [_curve(cut.name, samples.to_ack[cut.messages]) for cut in cuts],
    }


def _curve(name: str, took_us: Numbers) -> Curve:
    """Return a CDF whose points are close together where the axis is stretched: towards the slowest."""
    count = len(took_us)
    happened = np.sort(took_us[took_us < NEVER])
    if not len(happened):
        return Curve(name, np.zeros(0), np.zeros(0))
    ranks = np.unique(np.append(np.minimum(cdf_ranks(count), len(happened) - 1), len(happened) - 1))
    return Curve(name, happened[ranks] / 1000, (ranks + 1) / count)


def cdf_ranks(count: int) -> Numbers:
    """Return the ranks, from 0, of the sorted samples that are the points of a CDF."""
    wanted = 1 - 10 ** -np.linspace(0, np.log10(max(count, 2)), _CDF_POINTS)
    return np.unique(np.maximum(np.ceil(wanted * count).astype(np.int64) - 1, 0))


# The rest of the log


class Annotation(Struct, gc=False):
    """The fields of an event that matter here; the others are passed over."""

    at: int
    event: str
    topic: str = ""
    lane: str = ""
    what: str = ""
    where: str = ""
    figures: dict[str, float] = {}  # msgspec copies it


_decode = msgspec.json.Decoder(Annotation).decode
_WANTED = frozenset({b"fault", b"depth", b"generator"})
SELDOM = 60
"""Number of times up to which the times of a fault are listed."""


def annotations_of(run: Path, axis: Axis) -> Annotations:
    """Read faults, depths and lags. Most lines of a log are something else, and are not even decoded."""
    reading = AnnotationReader(axis)
    for path in log_files(run):
        with path.open("rb") as file:
            for note in _notes(file):
                reading.take(note)
    return reading.annotations()


def _notes(lines: Iterator[bytes]) -> Iterator[Annotation]:
    for line in lines:
        # {"at":1,"event":"fault",…: the names and the order of the fields are those of the format.
        parts = line.split(b'"', 6)
        if len(parts) == 7 and parts[5] in _WANTED and line.endswith(b"\n"):
            yield _decode(line)


_Sample = dict[tuple[str, str], dict[str, float]]
"""Depths that were seen, by topic and lane."""


class AnnotationReader:
    """A collector of the data that the plots need besides the messages."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._faults: dict[tuple[str, str], tuple[Numbers, list[float]]] = {}
        self._looks: dict[int, _Sample] = {}
        self._lag = np.full(axis.steps, np.nan)

    def take(self, note: Annotation) -> None:
        step = self._step(note.at)
        if note.event == "fault":
            self.take_faults(note.what, note.where, note.at, 1, [note.at])
        elif note.event == "depth":
            # The most that was seen in a step stands for it.
            known = self._looks.setdefault(step, {}).setdefault((note.topic, note.lane), {})
            for name, figure in note.figures.items():
                known[name] = max(known.get(name, 0.0), figure)
        else:
            lag = note.figures.get("lag_us", 0.0) / 1000
            self._lag[step] = np.fmax(self._lag[step], lag)

    def _step(self, at: int) -> int:
        return min(max(at, 0) // self._axis.step_us, self._axis.steps - 1)

    def take_faults(self, what: str, where: str, at: int, count: int, times: Sequence[int]) -> None:
        """Count a fault that happened so often about then. The times of a rare fault are kept."""
        found = self._faults.get((what, where))
        if found is None:
            found = self._faults[what, where] = (np.zeros(self._axis.steps, np.int64), [])
        counts, known = found
        counts[self._step(at)] += count
        if len(known) <= SELDOM:
            known += [time / 1e6 for time in times]

    def annotations(self) -> Annotations:
        faults = [
            FaultRow(fault_name(what, where), counts, times if len(times) <= SELDOM else [])
            for (what, where), (counts, times) in sorted(self._faults.items(), key=lambda one: int(one[1][0].sum()))
        ]  # fmt: skip
        depths = [Line(name, self._each(_waiting(key))) for name, key in self._lanes().items()]
        states = [Line(state, self._each(_in_state(state))) for state in _STATES]
        wal = self._each(_wal_bytes)
        states = [line for line in states if np.nansum(line.values) or line.name in ("ready", "leased")]
        return Annotations(faults, depths, states, wal, self._lag)

    def _lanes(self) -> dict[str, tuple[str, str]]:
        """Return the places where messages can wait, by name: a topic's lanes, or the topic if it has one."""
        keys = sorted({key for look in self._looks.values() for key in look})
        names: dict[str, tuple[str, str]] = {}
        for topic in dict.fromkeys(topic for topic, _ in keys):
            lanes = [key for key in keys if key[0] == topic and key[1]]
            if len(lanes) > 1:
                names |= {f"{topic}/{lane}": (topic, lane) for _, lane in lanes}
            else:
                names[topic] = lanes[0] if lanes else (topic, "")
        return names

    def _each(self, value_of: Callable[[_Sample], float | None]) -> Values:
        """Return a value for each step: that of the last look up to then."""
        values = np.full(self._axis.steps, np.nan)
        last: float | None = None
        for step in range(self._axis.steps):
            if step in self._looks:
                last = value_of(self._looks[step])
            if last is not None:
                values[step] = last
        return values


def _wal_bytes(look: _Sample) -> float | None:
    return max((figures["wal_bytes"] for figures in look.values() if "wal_bytes" in figures), default=None)


def _waiting(key: tuple[str, str]) -> Callable[[_Sample], float | None]:
    return lambda look: sum(look[key].get(state, 0.0) for state in _OPEN) if key in look else None


def _in_state(state: str) -> Callable[[_Sample], float | None]:
    return lambda look: sum(figures.get(state, 0.0) for figures in look.values())
