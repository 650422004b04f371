"""Bytes in Base64, read strictly: with as many ``=`` as it takes, and nothing else."""

from __future__ import annotations

import binascii


def base64_of(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def binary_of(text: str) -> bytes | None:
    """Return the bytes that Base64 stands for; None: it is not Base64, or has more ``=`` than it takes.

    >>> binary_of("eHg="), binary_of("eHg=="), binary_of("eHh4===="), binary_of("eHg"), binary_of("e Hg=")
    (b'xx', None, None, None, None)
    """
    try:
        data = binascii.a2b_base64(text.encode(), strict_mode=True)
    except ValueError:
        return None
    # Even so, any number of "=" passes behind four characters that need none.
    return data if len(text) == (len(data) + 2) // 3 * 4 else None
