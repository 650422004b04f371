"""Keys, sizes, lanes and priorities of messages, drawn from a workload's shares; and synthetic bodies."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from typing import TypeVar

import numpy as np

from plainbench.config.model import Keys, Sizes

T = TypeVar("T")
U = TypeVar("U")

_DRAWN_TOGETHER = 512
_LETTERS = (string.ascii_letters + string.digits + "+/").encode()
_TEXT_BYTES = 65_536
_STEP = 7_919
"""Bytes between the beginnings of the texts of two messages. A prime: it takes long until one is repeated."""
_QUOTES = 2


def _drawn(draw: Callable[[int], np.ndarray]) -> Iterator[int]:
    return chain.from_iterable(iter(lambda: draw(_DRAWN_TOGETHER).tolist(), None))


def shared_out(shares: Mapping[T, float], generator: np.random.Generator, otherwise: U) -> Iterator[T | U]:
    """Draw names without end, each as often as its share says; ``otherwise`` if there are none."""
    names = list(shares)
    if not names:
        return repeat(otherwise)
    if len(names) == 1:
        return repeat(names[0])
    bounds = np.cumsum(np.array(list(shares.values()), dtype=float))
    # The last bound is left out: no roll may land beyond it.
    places = _drawn(lambda count: np.searchsorted(bounds[:-1], generator.random(count) * bounds[-1], side="right"))
    return map(names.__getitem__, places)


def keys(model: Keys, generator: np.random.Generator) -> Iterator[int]:
    """Draw the key of each message: from 1 to ``count``; with skew, the k-th as often as ``k ** -skew`` says."""
    if not model.skew:
        return _drawn(lambda count: generator.integers(1, model.count, count, endpoint=True))
    bounds = np.cumsum(np.arange(1, model.count + 1, dtype=float) ** -model.skew)
    return _drawn(
        lambda count: np.searchsorted(bounds[:-1], generator.random(count) * bounds[-1], side="right") + 1
    )  # fmt: skip


def sizes(model: Sizes, generator: np.random.Generator) -> Iterator[int]:
    """Draw the size of each body, in bytes."""
    if model.min == model.max:
        return repeat(model.min)
    if model.shape == "uniform":
        return _drawn(lambda count: generator.integers(model.min, model.max, count, endpoint=True))
    low, high = np.log(model.min), np.log(model.max + 1)
    return _drawn(lambda count: np.exp(generator.uniform(low, high, count)).astype(np.int64).clip(max=model.max))


class Synthetic:
    """Synthetic bodies: ``{"n": 17, "key": 3, "text": "…"}``, filled up with letters to the very byte."""

    def __init__(self, model: Sizes, generator: np.random.Generator) -> None:
        letters = np.frombuffer(_LETTERS, dtype=np.uint8)
        self._text = generator.choice(letters, _TEXT_BYTES + model.max).tobytes()

    def body(self, number: int, key: int, size: int) -> bytes:
        """Return a body of that size. Without room for number and key it is a string, or a digit."""
        start = b'{"n":%d,"key":%d,"text":"' % (number, key)
        rest = size - len(start) - len(b'"}')
        at = number * _STEP % _TEXT_BYTES
        if rest >= 0:
            return b'%b%b"}' % (start, self._text[at : at + rest])
        return b'"%b"' % self._text[at : at + size - _QUOTES] if size >= _QUOTES else b"0"
