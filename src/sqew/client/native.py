"""The paths and times of the native dialect, for all of its calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from sqew.errors import BadName

_EPOCH = datetime.fromtimestamp(0, UTC)


def path(*parts: object) -> str:
    """Return the path ``/v1/…``, with the parts quoted."""
    return path_of("/v1", *parts)


def path_of(root: str, *parts: object) -> str:
    """Return a path below ``root``, with the parts quoted."""
    return "/".join((root, *map(_quoted, parts)))


def _quoted(part: object) -> str:
    text = str(part)
    if not text:
        raise BadName("A queue without a name can't be reached over HTTP. Open its file: Queue.open, or sqew --db.")
    # A part of dots alone would be taken for a step up.
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def epoch_ms(timestamp: str) -> int:
    """Convert a time of the dialect to epoch milliseconds; raise ValueError if it is none.

    >>> epoch_ms("2023-11-14T22:13:20.042Z")
    1700000000042
    """
    return (datetime.fromisoformat(timestamp) - _EPOCH) // timedelta(milliseconds=1)


def epoch_ms_or_none(timestamp: str | None) -> int | None:
    return None if timestamp is None else epoch_ms(timestamp)


def seconds(ms: int | None) -> float | None:
    """Convert milliseconds to seconds, as the dialect has them."""
    return None if ms is None else ms / 1000
