"""Bodies of messages: JSON of 256 bytes, unless another size is wanted, that can be told apart."""

from __future__ import annotations

import string
from random import Random
from typing import Any

import msgspec

SIZE = 256
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class Bodies:
    """Values whose JSON is all of one size. Each has a number of its own, by which its delivery is checked."""

    def __init__(self, seed: int, size: int = SIZE) -> None:
        random = Random(seed)
        self._size = size
        self._fillings = ["".join(random.choices(string.ascii_letters + " ", k=size)) for _ in range(64)]
        self._next = 0

    def next(self) -> dict[str, Any]:
        number = self._next
        self._next += 1
        room = self._size - len('{"n":,"note":""}') - len(str(number))
        return {"n": number, "note": self._fillings[number % 64][:room]}

    def take(self, count: int) -> list[dict[str, Any]]:
        return [self.next() for _ in range(count)]
