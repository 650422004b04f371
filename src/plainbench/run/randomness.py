"""Random numbers that depend on the seed and the name of their stream, and on nothing else.

Every worker, lane and fault draws from a stream of its own, which is named after its purpose. So a run with the same
seed makes the same decisions whatever the timing: the seventh claim of worker 2 is slow again, no matter which worker
claimed before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import numpy as np

_DRAWN_TOGETHER = 512


class Dice:
    """A stream of numbers from 0 up to 1."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self._numbers = self._draw()

    def _draw(self) -> Iterator[float]:
        while True:
            # A number at a time takes five times as long.
            yield from self.generator.random(_DRAWN_TOGETHER).tolist()

    def roll(self) -> float:
        return next(self._numbers)


class Streams:
    """All streams of a run, by name.

    >>> one, other = Streams(7), Streams(7)
    >>> one.dice("worker", 3, "latency").roll() == other.dice("worker", 3, "latency").roll()
    True
    >>> one.dice("worker", 3, "latency").roll() == one.dice("worker", 4, "latency").roll()
    False
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def generator(self, *name: str | int) -> np.random.Generator:
        """Return the stream of that name, from its beginning."""
        # What `SeedSequence.spawn` does, but that children have names, not turns: it does not matter who is born first.
        key = tuple(part if isinstance(part, int) else crc32(part.encode()) for part in name)
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=key)))

    def dice(self, *name: str | int) -> Dice:
        """Return the dice of that name, from their beginning."""
        return Dice(self.generator(*name))
