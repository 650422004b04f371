"""What all batches have in common: entries with ids of their own, each with its own answer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from sqew.errors import SqewError
from sqew.http.aws_refusals import AwsError, in_aws_words

MOST_ENTRIES = 10
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")

E = TypeVar("E", bound=Any)
R = TypeVar("R")


class Failed(Struct, omit_defaults=True):
    Id: str
    SenderFault: bool
    Code: str
    Message: str | None = None


class DoneEntry(Struct):
    Id: str


def check_entries(entries: Sequence[Any] | None, kind: str) -> list[Any]:
    """The entries; raises unless there are one to ten of them and each can be told from the others."""
    found = list(entries or ())
    if not found:
        raise AwsError("EmptyBatchRequest", f"There should be at least one {kind} in the request.")
    if len(found) > MOST_ENTRIES:
        raise AwsError(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {MOST_ENTRIES}. You have sent {len(found)}.",
        )
    for entry in found:
        if not _ID.fullmatch(entry.Id or ""):
            raise AwsError(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                "It can be at most 80 letters long.",
            )
    repeated = next((id for id, count in Counter(entry.Id for entry in found).items() if count > 1), None)
    if repeated is not None:
        raise AwsError("BatchEntryIdsNotDistinct", f"Id {repeated} repeated.")
    return found


def each(entries: Sequence[E], convert: Callable[[E], R]) -> tuple[list[tuple[E, R]], list[Failed]]:
    """The entries that can be used, each as it is used, and what is wrong with the others."""
    good: list[tuple[E, R]] = []
    failed: list[Failed] = []
    for entry in entries:
        try:
            good.append((entry, convert(entry)))
        except SqewError as error:
            failed.append(failure(entry.Id, error))
    return good, failed


def failure(id: str, error: SqewError) -> Failed:
    said = in_aws_words(error)
    return Failed(id, said.status < 500, said.aws_code, str(said))
