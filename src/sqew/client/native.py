"""What the calls of the native dialect have in common: its paths and its times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from sqew.errors import BadName

_EPOCH = datetime.fromtimestamp(0, UTC)


def path(*parts: object) -> str:
    """``/v1/…``, whatever stands in the parts."""
    return path_of("/v1", *parts)


def path_of(root: str, *parts: object) -> str:
    """A path below ``root``, whatever stands in the parts."""
    return "/".join((root, *map(_quoted, parts)))


def _quoted(part: object) -> str:
    text = str(part)
    if not text:
        raise BadName("A queue without a name can't be reached over HTTP. Open its file: Queue.open, or sqew --db.")
    # A part of dots alone would be taken for a step up.
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def given(**fields: Any) -> dict[str, Any]:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def epoch_ms(timestamp: str) -> int:
    """A time of the dialect in epoch milliseconds; raises ValueError if it is none.

    >>> epoch_ms("2023-11-14T22:13:20.042Z")
    1700000000042
    """
    return (datetime.fromisoformat(timestamp) - _EPOCH) // timedelta(milliseconds=1)


def epoch_ms_or_none(timestamp: str | None) -> int | None:
    return None if timestamp is None else epoch_ms(timestamp)


def seconds(ms: int | None) -> float | None:
    """Milliseconds as the dialect says them."""
    return None if ms is None else ms / 1000
