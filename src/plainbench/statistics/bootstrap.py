"""Confidence intervals by resampling.

Messages that are sent one after the other share their fate: one stall makes a thousand of them slow. To draw them one
by one would pretend to know more than the run shows, so whole stretches of it are drawn (a block bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from plainbench.verdict.log_columns import NEVER, Numbers

BLOCKS = 50
_RESAMPLES = 2_000
_CELLS_TOGETHER = 1_000_000
"""Number of counts that are worked out at once. Few large products: many small ones would keep all cores waiting."""
_BINS_PER_DECADE = 500
"""Samples are counted in steps of half a percent while they are resampled; the estimates themselves are exact."""
_LEAST_US = 1.0
_DECADES = 12

Array = np.ndarray[Any, np.dtype[np.float64]]


class Estimate(Struct, frozen=True):
    """A figure with the interval in which it lies in 95 of 100 cases; None stands for infinity."""

    value: float | None
    low: float | None
    high: float | None


class Resampled(Struct, frozen=True):
    """A figure as it was measured, and as the resampled runs have it."""

    value: float
    draws: Array

    def estimate(self) -> Estimate:
        low, high = np.quantile(self.draws, (0.025, 0.975), method="nearest")
        return Estimate(*(_finite(float(one)) for one in (self.value, low, high)))

    def ratio(self, base: Resampled) -> Estimate:
        """Return the ratio of this figure to another."""
        draws = _divide(self.draws, base.draws)
        low, high = np.quantile(draws, (0.025, 0.975), method="nearest")
        value = _divide(np.array([self.value]), np.array([base.value]))[0]
        return Estimate(*(_finite(float(one)) for one in (value, low, high)))


def _divide(one: Array, other: Array) -> Array:
    # For ever in both: nobody can tell which is longer, so nothing is claimed.
    both = np.isinf(one) & np.isinf(other)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(other == 0, np.where(one == 0, 1.0, np.inf), one / np.where(other == 0, 1.0, other))
    return np.where(both, 1.0, ratios)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


class Blocks:
    """The samples of a run by due time, in stretches of the same number of messages."""

    def __init__(self, due: Numbers, took_us: Numbers, seed: int) -> None:
        self._samples = took_us[np.argsort(due, kind="stable")]
        pieces = np.array_split(self._samples, min(BLOCKS, max(1, len(self._samples))))
        counts = np.stack([_histogram(piece) for piece in pieces])
        # Most bins are empty in all of them.
        self._bins = np.flatnonzero(counts.any(axis=0))
        self._counts = counts[:, self._bins]
        self._chosen = _choices(len(pieces), seed)

    def quantiles(self, parts: Sequence[float]) -> list[Resampled]:
        """Return quantiles, in milliseconds."""
        draws = np.empty((len(parts), len(self._chosen)))
        together = max(1, _CELLS_TOGETHER // len(self._bins))
        for start in range(0, len(self._chosen), together):
            upto = np.cumsum(self._chosen[start : start + together] @ self._counts, axis=1)
            for number, part in enumerate(parts):
                reached = (upto >= part * upto[:, -1:]).argmax(axis=1)
                draws[number, start : start + len(upto)] = _middle_ms(self._bins[reached])
        return [Resampled(self._exact(part), draws[number]) for number, part in enumerate(parts)]

    def _exact(self, part: float) -> float:
        count = len(self._samples)
        rank = min(count, max(1, int(np.ceil(part * count)))) - 1
        found = int(np.partition(self._samples, rank)[rank])
        return np.inf if found == NEVER else found / 1000


def rate(done_at: Numbers, began_us: int, ended_us: int, seed: int) -> Resampled:
    """Return the number of messages a second, from stretches of equal time."""
    done = done_at[done_at < NEVER]
    span = max(ended_us - began_us, 1)
    counts, _ = np.histogram(done, BLOCKS, (began_us, began_us + span))
    draws = _choices(BLOCKS, seed) @ counts / (span / 1e6)
    return Resampled(len(done) / (span / 1e6), draws)


def _choices(blocks: int, seed: int) -> Array:
    """Draw, for each resampled run, the number of times that each block is in it."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(blocks, [1 / blocks] * blocks, size=_RESAMPLES).astype(float)


def _histogram(took_us: Numbers) -> Array:
    bins = _DECADES * _BINS_PER_DECADE
    forever = took_us == NEVER
    logs = np.log10(np.maximum(took_us[~forever], _LEAST_US))
    places = np.minimum((logs * _BINS_PER_DECADE).astype(np.int64), bins - 1)
    counts = np.bincount(places, minlength=bins + 1).astype(float)
    counts[bins] = np.count_nonzero(forever)
    return counts


def _middle_ms(bins: Numbers) -> Array:
    middle = 10 ** ((bins + 0.5) / _BINS_PER_DECADE) / 1000
    return np.where(bins >= _DECADES * _BINS_PER_DECADE, np.inf, middle)
