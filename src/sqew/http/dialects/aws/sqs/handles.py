"""Receipt handles: which message is meant, and the token of the lease."""

from __future__ import annotations

import base64
import binascii

from sqew.http.aws_refusals import AwsError
from sqew.model import Ref

_ID_BYTES = 8
_TOKEN_BYTES = 16


def handle_of(id: int, token: str) -> str:
    """A handle, of which clients need know nothing.

    >>> ref_of(handle_of(42, "00" * 16))
    Ref(id=42, token='00000000000000000000000000000000', by=None)
    """
    return base64.b64encode(id.to_bytes(_ID_BYTES, "big") + bytes.fromhex(token)).decode()


def ref_of(handle: str) -> Ref:
    """What a handle stands for; raises unless it may be one of ours."""
    try:
        decoded = base64.b64decode(handle.encode(), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    id = int.from_bytes(decoded[:_ID_BYTES], "big")
    if len(decoded) != _ID_BYTES + _TOKEN_BYTES or not 0 < id < 1 << 62:
        raise AwsError(
            "ReceiptHandleIsInvalid", f'The input receipt handle "{handle[:200]}" is not a valid receipt handle.'
        )
    return Ref(id, decoded[_ID_BYTES:].hex())
