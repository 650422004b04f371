"""Batches of SQS: entries with ids of their own, each with its own answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from sqew import operations as ops
from sqew.errors import SqewError
from sqew.http.dialects.aws.batches import MOST_ENTRIES, Fault, fault_in, repeated_id
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.refusals import AwsError, in_aws_words
from sqew.http.wire.exchange import Call

E = TypeVar("E", bound=Any)
R = TypeVar("R")


class FailedEntry(Struct, omit_defaults=True):
    Id: str
    SenderFault: bool
    Code: str
    Message: str | None = None


class DoneEntry(Struct):
    Id: str


def check_entries(entries: Sequence[Any] | None, kind: str) -> list[Any]:
    """Return the entries; raise unless there are one to ten of them, with valid and distinct ids."""
    found = list(entries or ())
    fault = fault_in(found)
    if fault is not None:
        raise AwsError(fault, _said_of(fault, found, kind))
    return found


def _said_of(fault: Fault, entries: Sequence[Any], kind: str) -> str:
    match fault:
        case "EmptyBatchRequest":
            return f"There should be at least one {kind} in the request."
        case "TooManyEntriesInBatchRequest":
            return f"Maximum number of entries per request are {MOST_ENTRIES}. You have sent {len(entries)}."
        case "InvalidBatchEntryId":
            return (
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                "It can be at most 80 letters long."
            )
        case "BatchEntryIdsNotDistinct":
            return f"Id {repeated_id(entries)} repeated."


def each(entries: Sequence[E], convert: Callable[[E], R]) -> tuple[list[tuple[E, R]], list[FailedEntry]]:
    """Return the entries that can be used, each with what it converts to, and the failures of the others."""
    good: list[tuple[E, R]] = []
    failed: list[FailedEntry] = []
    for entry in entries:
        try:
            good.append((entry, convert(entry)))
        except SqewError as error:
            failed.append(failure(entry.Id, error))
    return good, failed


def none_left(call: AwsCall, queue: str, result: Struct) -> Call:
    """Return the answer that every entry is bad, unless there is no such queue, which is worse."""
    return Call(ops.GetQueue(queue), lambda _queue: call.ok(result))


def failure(id: str, error: SqewError) -> FailedEntry:
    said = in_aws_words(error)
    return FailedEntry(id, said.status < 500, said.aws_code, str(said))
