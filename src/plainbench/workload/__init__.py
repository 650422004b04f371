"""The load of a run, planned from the seed before anything is sent, so that nothing depends on how the run goes."""

from __future__ import annotations

from msgspec import Struct

from plainbench.drivers.base import Item

NUMBERS_APART = 1_000_000_000
"""Workload i (from 0) numbers its messages from ``i * NUMBERS_APART + 1``."""


class Planned(Struct, frozen=True, gc=False):
    """A message and its due time, in microseconds since the run began; None: whenever there is time."""

    item: Item
    due_us: int | None
