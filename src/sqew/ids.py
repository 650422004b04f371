"""Identifiers: lease tokens, and message ids as UUIDs."""

from __future__ import annotations

import hashlib
import os
from uuid import UUID

from sqew.errors import MessageNotFound

_ID_BITS = 62
_ID_MASK = (1 << _ID_BITS) - 1
_UUID_LENGTH = 36
_MOST_REMEMBERED = 8_192
# An odd multiplier is a bijection modulo a power of two, so consecutive ids look unrelated and still map back.
_SPREAD = 0x1B03_B7D5_6A9F_4E2D | 1
_UNSPREAD = pow(_SPREAD, -1, 1 << _ID_BITS)


# Drawn together: one by one they take ten times as long (0.9 µs each). A forked child draws its own.
_TOKENS_AT_ONCE = 64
_tokens: list[str] = []
os.register_at_fork(after_in_child=_tokens.clear)


def new_token() -> str:
    """Return a secret that can't be guessed: 128 random bits."""
    try:
        return _tokens.pop()
    except IndexError:
        drawn = os.urandom(16 * _TOKENS_AT_ONCE).hex()
        _tokens.extend([drawn[start : start + 32] for start in range(32, len(drawn), 32)])
        return drawn[:32]


class MessageUuids:
    """A mapping of message ids to UUIDs (version 8) and back, for the dialects whose ids are UUIDs.

    The salt is the store's own: two stores, which both have a message 1, give it different UUIDs, so a consumer that
    remembers the UUIDs it has dealt with may receive from both.
    """

    def __init__(self, salt: int) -> None:
        self._mask = salt & _ID_MASK
        # Most messages are sent, received and finished within moments: each time they are called by the same name.
        self._texts: dict[int, str] = {}
        # To copy it takes less than half as long as to make one.
        self._hasher = hashlib.blake2b(salt.to_bytes(8, "big", signed=True), digest_size=8, person=b"sqew-id")

    def of(self, id: int) -> UUID:
        """Return the UUID of a message.

        >>> uuids = MessageUuids(4711)
        >>> uuids.id_of(uuids.of(42))
        42
        """
        return UUID(self.text(id))

    def text(self, id: int) -> str:
        """Return the UUID of a message as a string, in a quarter of the time: no UUID object is made."""
        known = self._texts.get(id)
        if known is not None:
            return known
        spread = id * _SPREAD & _ID_MASK ^ self._mask
        hasher = self._hasher.copy()
        hasher.update(spread.to_bytes(8, "big"))
        digits, check = f"{spread >> 14:012x}", hasher.hexdigest()
        # Two bits of the id stand behind those of the variant, and the check is the rest.
        made = f"{digits[:8]}-{digits[8:]}-8{spread >> 2 & 0xFFF:03x}-{'89ab'[spread & 3]}{check[:3]}-{check[3:15]}"
        if len(self._texts) >= _MOST_REMEMBERED:
            self._texts.clear()
        self._texts[id] = made
        return made

    def id_in(self, text: str) -> int:
        """Return the id of a message from its UUID in any form, fastest in that of `text`; raises as `id_of` does.

        >>> uuids = MessageUuids(4711)
        >>> uuids.id_in(uuids.text(42)), uuids.id_in(uuids.of(42).hex.upper())
        (42, 42)
        """
        if len(text) == _UUID_LENGTH and text.isascii():
            try:
                bits = int(text.replace("-", ""), 16)
            except ValueError:
                bits = 0
            id = self._id_of_bits(bits)
            # Most are written as they were given, and to make a UUID of each would take longer than all the rest.
            if self.text(id) == text:
                return id
        return self.id_of(UUID(text))

    def _id_of_bits(self, bits: int) -> int:
        spread = (bits >> 80) << 14 | (bits >> 64 & 0xFFF) << 2 | bits >> 60 & 3
        return (spread ^ self._mask) * _UNSPREAD & _ID_MASK

    def id_of(self, uuid: UUID) -> int:
        """Return the id of a message from a UUID made by `of`; raise `MessageNotFound` for any other UUID."""
        id = self._id_of_bits(uuid.int)
        if self.of(id) != uuid:
            raise MessageNotFound(id)
        return id
