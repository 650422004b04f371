"""What the calls of the native dialect have in common: its paths, its times, and what its refusals mean."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from sqew.errors import (
    BadValue,
    Conflict,
    Forbidden,
    Invalid,
    Limited,
    NotFound,
    RequestTimeout,
    SqewError,
    StoreBusy,
    StoreError,
    StoreFull,
    TooLarge,
    Unauthorized,
)

Refusals = Mapping[int, type[SqewError]]
"""The error that a status stands for: the dialect itself says a sentence and no more."""

REFUSALS: dict[int, type[SqewError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: Invalid,
    408: RequestTimeout,
    409: Conflict,
    413: TooLarge,
    415: Invalid,
    429: Limited,
    431: Invalid,
    500: StoreError,
    503: StoreBusy,
    507: StoreFull,
}
LISTING: Refusals = {**REFUSALS, 400: BadValue}
"""Of a list: it was asked for in a way that can't be, such as in pages that are too large."""
_EPOCH = datetime.fromtimestamp(0, UTC)


def path(*parts: object) -> str:
    """``/v1/…``, whatever stands in the parts."""
    return "/".join(("/v1", *map(_quoted, parts)))


def _quoted(part: object) -> str:
    text = str(part)
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
