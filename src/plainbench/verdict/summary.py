"""The figures of a run, as `plainbench run` prints and ``summary.json`` holds them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from plainbench.config.model import AtOnce, Closed, Faults
from plainbench.record import manifest
from plainbench.record.manifest import Manifest
from plainbench.verdict.latencies import Quantiles, Samples, held, quantiles
from plainbench.verdict.log_columns import NEVER, SENT, Flags, Numbers, topics_of
from plainbench.verdict.messages import process_of
from plainbench.verdict.verdict import Evidence, Verdict, evidence, judge_evidence
from sqew.errors import NotFound, StoreUnusable

SUMMARY = "summary.json"


class Throughput(Struct, frozen=True):
    """Messages a second, from the first to the last, and their durability."""

    sent_per_s: float
    acked_per_s: float
    durability: str


class Figures(Struct, frozen=True):
    """The figures of a topic, a lane or a worker."""

    topic: str
    lane: str
    worker: str
    messages: int
    """Number of messages that were sent; of a worker: of those that it was the first to receive."""
    deliveries: int
    throughput: Throughput
    to_stored: Quantiles
    """From when a message was due until the queue had confirmed it. Missing are sends that were refused, got no answer,
    or were dropped by the generator.
    """
    to_claim: Quantiles
    """From when it was due until a worker had it. Dropped messages are not in it."""
    held: Quantiles
    """From when a worker had it until the ack was confirmed. Missing are deliveries that ended in neither ack, retry
    nor death."""
    to_ack: Quantiles
    """From when it was due until the ack was confirmed. Missing are messages that are dead, left or lost."""


class Generator(Struct, frozen=True):
    """The punctuality of a topic's generators."""

    topic: str
    lag: Quantiles
    """Lag of the sends; None: arrivals had no times of their own."""
    dropped: int


class Summary(Struct, frozen=True):
    """All figures of one run."""

    id: str
    mode: str
    """In virtual time, durations are those of the model and say nothing of the machine."""
    driver: str
    durability: str
    events: int
    seconds: float
    verdict: Verdict
    topics: list[Figures]
    lanes: list[Figures]
    workers: list[Figures]
    generators: list[Generator]
    faults: dict[str, int]
    """Number of times that each fault happened, by its name and the call."""
    worker_deaths: int
    worker_reports: list[str]
    """Failures of workers, each once."""
    wal_bytes: int
    """Largest size of the write-ahead log of the queue's file."""


def summarize(run: Path, *, progress: Callable[[int], None] = lambda _events: None) -> Summary:
    """Compute the figures of a run from its log."""
    recorded = manifest.read(run)
    return summary_of(evidence_of(run, recorded, progress=progress), recorded)


def evidence_of(run: Path, recorded: Manifest, *, progress: Callable[[int], None] = lambda _events: None) -> Evidence:
    """Read the log of a recorded run."""
    config = recorded.config
    if recorded.schedule is not None:
        # Faults that were left out on purpose are not missed.
        config = replace(config, faults=Faults())
    return evidence(run, config, progress=progress)


def summary_of(known: Evidence, recorded: Manifest) -> Summary:
    """Return the summary of a log that was read before."""
    log, tables = known.log, _Tables(known, recorded.durability)
    faults = {f"{what} in {where}" if where else what: count for (what, where), count in sorted(log.faults.items())}
    reports = [event for event in log.worker_reports if event.what not in ("started", "died")]
    return Summary(
        recorded.id,
        recorded.config.mode,
        recorded.config.target.driver,
        recorded.durability,
        log.events,
        known.ended_us / 1e6,
        judge_evidence(known),
        tables.topics(),
        tables.lanes(),
        tables.workers(),
        tables.generators(),
        faults,
        len([event for event in log.worker_reports if event.what == "died"]),
        list(dict.fromkeys(f"{event.worker}: {event.what}: {event.reason}".strip(": ") for event in reports))[:20],
        log.wal_bytes,
    )


def write(summary: Summary, run: Path) -> None:
    """Write the summary to the run's folder, whole or not at all."""
    path, draft = run / SUMMARY, run / f"{SUMMARY}.new"
    try:
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n")
        os.replace(draft, path)  # noqa: PTH105 (the same, and it says what it does)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise StoreUnusable(f"{path} can't be written: {error.strerror}.") from error


def read(run: Path) -> Summary:
    """Read the summary of a run; make it anew from the log if the file can't be read."""
    path = run / SUMMARY
    if not path.is_file():
        raise NotFound(f"There is no summary in {run}. `plainbench stats --run {run}` makes one.")
    try:
        return msgspec.json.decode(path.read_bytes(), type=Summary)
    except OSError as error:
        raise StoreUnusable(f"{path} can't be read: {error.strerror}.") from error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        # Half a file, or that of another version: the log is what counts.
        summary = summarize(run)
    write(summary, run)
    return summary


class _Tables:
    """The figures by topic, by lane and by worker."""

    def __init__(self, known: Evidence, durability: str) -> None:
        self._known, self._durability = known, durability
        self._samples = Samples(known)
        self._log = known.log
        self._deliveries = known.messages.deliveries
        self._topic = topics_of(self._samples.key)
        self._is_counted = known.messages.outcome[self._samples.rows] == SENT
        self._delivery_topic = topics_of(self._deliveries.key)

    def topics(self) -> list[Figures]:
        return [
            self._figures(topic, "", "", self._topic == code, self._delivery_topic == code)
            for topic, code in sorted(self._log.topics.items())
            if topic
        ]

    def lanes(self) -> list[Figures]:
        found = []
        for topic, code in sorted(self._log.topics.items()):
            for lane, lane_code in sorted(self._log.lanes.items()):
                mine = (self._topic == code) & (self._samples.lane == lane_code)
                came = (self._delivery_topic == code) & (self._deliveries.lane == lane_code)
                if lane and (mine.any() or came.any()):
                    found.append(self._figures(topic, lane, "", mine, came))
        return found

    def workers(self) -> list[Figures]:
        slots: dict[str, list[int]] = {}
        for name, code in self._log.workers.items():
            slots.setdefault(process_of(name), []).append(code)
        found = []
        for worker, codes in sorted(slots.items()):
            came = np.isin(self._deliveries.worker, codes)
            if came.any():
                claimed, acked = (np.isin(by, codes) for by in (self._samples.claimed_by, self._samples.acked_by))
                found.append(self._figures("", "", worker, claimed, came, acked))
        return found

    def _figures(
        self, topic: str, lane: str, worker: str, mine: Flags, came: Flags, acked: Flags | None = None
    ) -> Figures:
        samples = self._samples
        return Figures(
            topic,
            lane,
            worker,
            int(np.count_nonzero(mine & self._is_counted)) if not worker else int(np.count_nonzero(mine)),
            int(np.count_nonzero(came)),
            self._throughput(mine, mine if acked is None else acked),
            quantiles(samples.until_stored(mine, self._log.topics.get(topic), self._log.lanes[lane] if lane else None)),
            quantiles(samples.to_claim[mine]),
            quantiles(held(self._known, came)),
            quantiles(samples.to_ack[mine if acked is None else acked]),
        )

    def _throughput(self, sent: Flags, acked: Flags) -> Throughput:
        samples = self._samples
        rows = samples.rows[sent & self._is_counted]
        began, stored = self._known.messages.began_at[rows], self._known.messages.sent_at[rows]
        done = samples.done_at[acked]
        done = done[done < NEVER]
        start = min(int(began.min(initial=NEVER)), int(samples.due[acked].min(initial=NEVER)))
        return Throughput(_rate(len(rows), start, stored), _rate(len(done), start, done), self._durability)

    def _planned_senders(self) -> list[int]:
        """Return the senders whose arrivals have times of their own."""
        free = {
            f"generator-{number}"
            for number, workload in enumerate(self._known.config.workload)
            if isinstance(workload.arrivals, AtOnce | Closed)
        }
        return [code for name, code in self._log.workers.items() if process_of(name) not in free]

    def generators(self) -> list[Generator]:
        sends, log = self._known.messages.sends, self._log
        topic, timed = topics_of(sends.keys), (sends.due < NEVER) & np.isin(sends.sender, self._planned_senders())
        lag = np.maximum(sends.began_at - sends.due, 0)
        return [
            Generator(name, quantiles(lag[timed & (topic == code)]), log.dropped[name])
            for name, code in sorted(log.topics.items())
            if name and (log.dropped[name] or (topic == code).any())
        ]


def _rate(count: int, start: int, ends: Numbers) -> float:
    last = int(ends.max(initial=0))
    return count / ((last - start) / 1e6) if count and last > start else 0.0
