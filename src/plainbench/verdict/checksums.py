"""Checksums of messages: what comes out must be what went in."""

from __future__ import annotations

from zlib import crc32


def check_of(body: bytes, lane: str | None, group: str | None) -> int:
    """Return the checksum of the body, and of the lane and group if there are any.

    >>> check_of(b"{}", "normal", None) == check_of(b"{}", None, None)
    False
    """
    check = crc32(body)
    return crc32(f"{lane or ''}\n{group or ''}".encode(), check) if lane or group else check
