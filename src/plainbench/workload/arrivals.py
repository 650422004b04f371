"""Due times of messages: decided before the run, so that a slow queue can't slow its senders down unseen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import merge
from itertools import chain, count, repeat
from pathlib import Path

import numpy as np

from plainbench.config.model import Arrivals, Bursts, Constant, Poisson, Ramp, Recorded
from plainbench.record.events import SUFFIX, log_files, read_chunks
from sqew.errors import BadValue

_DRAWN_TOGETHER = 512
"""Large enough for numpy to pay, and small enough that no sender waits for the next ones."""


def due_times(arrivals: Arrivals, generator: np.random.Generator, folder: Path, topic: str) -> Iterator[int | None]:
    """Return the due time of each message, in microseconds since the run began; None: whenever there is time.

    Only recorded arrivals come to an end.
    """
    match arrivals:
        case Constant():
            return _constant(arrivals.rate)
        case Poisson():
            return _poisson(arrivals.rate, generator)
        case Bursts():
            return merge(_bursts(arrivals), _between(arrivals.rate))
        case Ramp():
            return _ramp(arrivals)
        case Recorded():
            return iter(recorded_times(arrivals, folder, topic))
        case _:
            return repeat(None)


def _numbered() -> Iterator[np.ndarray]:
    """Yield 0, 1, 2, … as arrays."""
    return (np.arange(first, first + _DRAWN_TOGETHER, dtype=float) for first in count(0, _DRAWN_TOGETHER))


def _microseconds(seconds: Iterator[np.ndarray]) -> Iterator[int]:
    return chain.from_iterable(np.rint(some * 1e6).astype(np.int64).tolist() for some in seconds)


def _constant(rate: float) -> Iterator[int]:
    return _microseconds(numbers / rate for numbers in _numbered())


def _poisson(rate: float, generator: np.random.Generator) -> Iterator[int]:
    def times() -> Iterator[np.ndarray]:
        last = 0.0
        while True:
            drawn = last + np.cumsum(generator.exponential(1 / rate, _DRAWN_TOGETHER))
            last = float(drawn[-1])
            yield drawn

    return _microseconds(times())


def _bursts(arrivals: Bursts) -> Iterator[int]:
    return chain.from_iterable(repeat(round(turn * arrivals.every_s * 1e6), arrivals.size) for turn in count())


def _between(rate: float) -> Iterator[int]:
    """Return the due times between the bursts: the first is not together with the first burst."""
    return _microseconds((numbers + 1) / rate for numbers in _numbered()) if rate else iter(())


def _ramp(arrivals: Ramp) -> Iterator[int]:
    """Return due times on a ramp: a message that n others precede is due when the area under the rate has come to n."""
    start, end, over = arrivals.start_rate, arrivals.end_rate, arrivals.over_s
    growth = (end - start) / over
    on_the_ramp = (start + end) / 2 * over

    def times(numbers: np.ndarray) -> np.ndarray:
        # The same as (sqrt(…) - start) / growth, but right also where the rate hardly grows, or shrinks.
        root = np.sqrt(np.maximum(start**2 + 2 * growth * numbers, 0.0))
        rising = 2 * numbers / np.maximum(start + root, 1e-300)
        return np.where(numbers <= on_the_ramp, rising, over + (numbers - on_the_ramp) / end)

    return _microseconds(times(numbers) for numbers in _numbered())


def recorded_times(arrivals: Recorded, folder: Path, topic: str) -> list[int]:
    """Return earlier due times: those of a file, counted from the first of them, or those of a run for that topic."""
    path = folder / arrivals.file
    seconds = _times_of_run(path, topic) if path.is_dir() else _times_in_file(path)
    scaled: list[int] = np.rint(np.sort(seconds) * 1e6 / arrivals.speed).astype(np.int64).tolist()
    return scaled


def _times_in_file(path: Path) -> np.ndarray:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        raise BadValue(f"The recorded arrivals {path} can't be read: {error.strerror}.") from error
    times = [_time(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not times:
        raise BadValue(f"There are no arrivals in {path}: it must have a time in seconds on each line.")
    return np.array(times) - min(times)


def _time(path: Path, number: int, line: str) -> float:
    try:
        time = float(line)
    except ValueError:
        time = math.nan
    if not math.isfinite(time):
        raise BadValue(f"{path}, line {number}: {line.strip()[:80]!r} is no time. Each line must be a time in seconds.")
    return time


def _times_of_run(run: Path, topic: str) -> np.ndarray:
    dues: list[int] = []
    topics = set()
    for path in log_files(run):
        if not path.name.startswith(("generator-", f"run{SUFFIX}")):
            continue
        for event in chain.from_iterable(read_chunks(path)):
            if event.event in ("sent", "dropped") and event.due is not None:
                topics.add(event.topic)
                if event.topic == topic:
                    dues += repeat(event.due, max(event.to - event.n, 0) + 1)
    if not dues:
        others = f" It has some for: {', '.join(sorted(topics))}." if topics else ""
        raise BadValue(f"In the run {run} nothing was sent to the topic {topic!r}.{others}")
    return np.array(dues) / 1e6
