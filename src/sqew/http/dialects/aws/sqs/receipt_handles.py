"""Receipt handles: the id of a message, the token of its lease, and a mark of the queue that it came from."""

from __future__ import annotations

from zlib import crc32

from sqew.http.dialects.aws.binary import base64_of, binary_of
from sqew.http.dialects.aws.refusals import AwsError
from sqew.model import Ref

_ID_BYTES = 8
_TOKEN_BYTES = 16
_MARK_BYTES = 3
"""Bytes of a queue's mark: enough to tell it from queues that it may be mistaken for, and no handle ends in ``=``."""
_TOKEN_END = _ID_BYTES + _TOKEN_BYTES


def mark_of(queue: str) -> bytes:
    """Return the mark that the handles of a queue end in."""
    return crc32(queue.encode()).to_bytes(4, "big")[:_MARK_BYTES]


def handle_of(id: int, token: str, mark: bytes) -> str:
    """Return a handle, which is opaque to clients.

    >>> ref_of(handle_of(42, "00" * 16, mark_of("orders")), "orders")
    Ref(id=42, token='00000000000000000000000000000000', by=None)
    """
    return base64_of(id.to_bytes(_ID_BYTES, "big") + bytes.fromhex(token) + mark)


def ref_of(handle: str, queue: str) -> Ref:
    """Return the message and the token that a handle stands for; raise unless it may be one of ours, of that queue."""
    decoded = binary_of(handle) or b""
    id = int.from_bytes(decoded[:_ID_BYTES], "big")
    if decoded[_TOKEN_END:] != mark_of(queue) or not 0 < id < 1 << 62:
        raise AwsError(
            "ReceiptHandleIsInvalid", f'The input receipt handle "{handle[:200]}" is not a valid receipt handle.'
        )
    return Ref(id, decoded[_ID_BYTES:_TOKEN_END].hex())
