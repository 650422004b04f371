"""Figures that a noisy machine can't spoil: short rounds that take turns, medians of ratios, and their spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

T = TypeVar("T")


class Spread(Struct, frozen=True):
    """A median, and the quartiles around it."""

    median: float
    low: float
    high: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the quartiles of some rounds."""
    ordered = sorted(values)
    return Spread(statistics.median(ordered), quantile(ordered, 0.25), quantile(ordered, 0.75), len(ordered))


def ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """Return the ratio of two contenders, each round to its neighbour in time, so that both met the same machine."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value at or below which that part of the ordered values lies (nearest rank)."""
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


class Quantiles(Struct, frozen=True):
    """Latencies in microseconds."""

    p50: float
    p95: float
    p99: float
    count: int


def quantiles(nanoseconds: Sequence[int]) -> Quantiles:
    ordered = sorted(ns / 1000 for ns in nanoseconds)
    return Quantiles(quantile(ordered, 0.5), quantile(ordered, 0.95), quantile(ordered, 0.99), len(ordered))


def in_turn(contenders: Sequence[T], round: int) -> list[T]:
    """Return the contenders, another one first in each round, so that none always follows the same one."""
    start = round % len(contenders)
    return [*contenders[start:], *contenders[:start]]
