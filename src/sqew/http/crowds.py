"""Arrays of more entries than a batch may hold, told apart before anything is made of them."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import msgspec
from msgspec import Raw, defstruct

from sqew.errors import TooLarge

_LARGE = 65_536
"""Bodies up to this are decoded at once: there is not much in them."""
_MOST = 10_000
"""Where batches may be larger than this, nothing is told apart: to be ready for it would take a second of its own."""


class Crowd:
    """Looks no further into an array than to the first entry that is too many.

    A million small messages in 16 MiB take 0.7 s to decode, only to be counted and refused; this takes 0.2 ms. Of a
    large body that is not refused it takes 2 to 5 ms for each MiB.
    """

    def __init__(self, max_batch: int) -> None:
        self._max_batch = max_batch
        self._decoder: msgspec.json.Decoder[Any] | None = None

    def check(self, body: bytes) -> None:
        """Raise `TooLarge` if a body is an array of too many. One that is anything else is no business of this."""
        if len(body) <= _LARGE or self._max_batch > _MOST or body[:64].lstrip()[:1] != b"[":
            return
        try:
            self._decode(body)
        except msgspec.ValidationError as error:
            raise TooLarge(f"A batch may hold {self._max_batch} entries; this one holds more. Split it.") from error
        except (msgspec.DecodeError, RecursionError):
            return  # Whoever decodes it says what is wrong.

    def _decode(self, body: bytes) -> None:
        if self._decoder is None:
            # An array as a record with so many fields at most: msgspec has no other limit that ends the decoding.
            fields = [(f"entry{number}", Raw, Raw()) for number in range(self._max_batch)]
            few = defstruct("Few", fields, array_like=True, forbid_unknown_fields=True, gc=False)
            self._decoder = msgspec.json.Decoder(few)
        self._decoder.decode(body)


def takes_array(body: Any) -> bool:
    """Tell whether a body of this type may be an array."""
    return any(get_origin(kind) is list for kind in (body, *get_args(body)))
