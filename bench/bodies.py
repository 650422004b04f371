"""What the messages carry: JSON of 256 bytes that can be told apart."""

from __future__ import annotations

import string
from random import Random
from typing import Any

import msgspec

SIZE = 256
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


class Bodies:
    """Values whose JSON is 256 bytes long. Each has a number of its own, by which its delivery is checked."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self._fillings = ["".join(random.choices(string.ascii_letters + " ", k=SIZE)) for _ in range(64)]
        self._next = 0

    def next(self) -> dict[str, Any]:
        number = self._next
        self._next += 1
        room = SIZE - len('{"n":,"note":""}') - len(str(number))
        return {"n": number, "note": self._fillings[number % 64][:room]}

    def take(self, count: int) -> list[dict[str, Any]]:
        return [self.next() for _ in range(count)]
