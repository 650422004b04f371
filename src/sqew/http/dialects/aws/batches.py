"""Batches of SQS and SNS, as far as they are alike: entries with ids of their own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

MOST_ENTRIES = 10

Fault = Literal[
    "EmptyBatchRequest", "TooManyEntriesInBatchRequest", "InvalidBatchEntryId", "BatchEntryIdsNotDistinct"
]  # fmt: skip
"""A fault of a batch, by the name that both services have for it."""

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def fault_in(entries: Sequence[Any]) -> Fault | None:
    """Return the fault of a batch, or None: it must have one to ten entries, with valid and distinct ids."""
    if not entries:
        return "EmptyBatchRequest"
    if len(entries) > MOST_ENTRIES:
        return "TooManyEntriesInBatchRequest"
    if not all(_ENTRY_ID.fullmatch(entry.Id or "") for entry in entries):
        return "InvalidBatchEntryId"
    return "BatchEntryIdsNotDistinct" if repeated_id(entries) is not None else None


def repeated_id(entries: Sequence[Any]) -> str | None:
    """Return the first id that two entries have, or None."""
    return next((id for id, count in Counter(entry.Id for entry in entries).items() if count > 1), None)
