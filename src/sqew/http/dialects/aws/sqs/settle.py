"""The actions DeleteMessage and ChangeMessageVisibility, and their batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Struct

from sqew import operations as ops
from sqew.errors import LeaseTooLong, SqewError, StaleLease
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.refusals import JSON_TYPE, invalid_value, missing
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.dialects.aws.sqs.batches import DoneEntry, FailedEntry, check_entries, each, failure, none_left
from sqew.http.dialects.aws.sqs.receipt_handles import ref_of
from sqew.http.dialects.aws.sqs.receive import MOST_VISIBILITY_S
from sqew.http.wire.exchange import Call, Request, Response, SharedCall
from sqew.model import Extension, Ref, Settled
from sqew.rules.names import FIFO_SUFFIX

_MOST_HELD_MS = MOST_VISIBILITY_S * 1000 + 999
"""The most milliseconds that a message may be held in all. Only whole seconds count, as in requests."""


class DeleteMessage(Struct):
    QueueUrl: str | None = None
    ReceiptHandle: str | None = None


_decode = msgspec.json.Decoder(DeleteMessage).decode


def _delete_batch(call: AwsCall, requests: Sequence[Request]) -> SharedCall | None:
    given = [_decode(request.body) for request in requests]
    urls = {one.QueueUrl for one in given}
    if len(urls) > 1:
        return None
    queue = call.queue(urls.pop())
    if queue.endswith(FIFO_SUFFIX):
        return None
    refs = [ref_of(one.ReceiptHandle or "", queue) for one in given]
    return SharedCall(ops.Ack(queue, refs), _deleted_batch)


def _deleted_batch(_results: list[Settled | SqewError], requests: Sequence[Request]) -> list[Response]:
    """Answer that every message is deleted, whatever the results: one that was gone already is deleted, too."""
    return [Response(200, b"", JSON_TYPE, ((b"x-amzn-requestid", request.id),)) for request in requests]


@SQS.action(DeleteMessage, "ReceiptHandle", batched=_delete_batch)
def delete_message(call: AwsCall, given: DeleteMessage) -> Call:
    queue = call.queue(given.QueueUrl)
    ref = ref_of(given.ReceiptHandle or "", queue)
    call.request.rows = 1
    return Call(
        ops.Ack(queue, (ref,), queue.endswith(FIFO_SUFFIX)), partial(_deleted, call, queue, given.ReceiptHandle or "")
    )


def _deleted(call: AwsCall, queue: str, handle: str, results: list[Settled | SqewError]) -> Response:
    refused = _delete_refusal(queue, handle, results[0])
    return call.ok() if refused is None else call.refuse(refused)


def _delete_refusal(queue: str, handle: str, result: Settled | SqewError) -> SqewError | None:
    """Return the error of a delete, or None: a missing message is deleted; only FIFO queues mind expired handles."""
    if isinstance(result, StaleLease) and queue.endswith(FIFO_SUFFIX):
        return invalid_value(
            f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
        )
    return None


class DeleteEntry(Struct):
    Id: str | None = None
    ReceiptHandle: str | None = None


class DeleteMessageBatch(Struct):
    QueueUrl: str | None = None
    Entries: list[DeleteEntry] | None = None


class DeleteMessageBatchResultEntry(DoneEntry):
    pass


class DeleteMessageBatchResult(Struct, omit_defaults=True):
    Successful: list[DeleteMessageBatchResultEntry]
    Failed: list[FailedEntry] | None = None


@SQS.action(DeleteMessageBatch)
def delete_message_batch(call: AwsCall, given: DeleteMessageBatch) -> Call:
    queue = call.queue(given.QueueUrl)
    entries = check_entries(given.Entries, "DeleteMessageBatchRequestEntry")
    ready, failed = each(entries, partial(_entry_ref, queue=queue))
    if not ready:
        return none_left(call, queue, DeleteMessageBatchResult([], failed))
    call.request.rows = len(ready)
    operation = ops.Ack(queue, [ref for _, ref in ready], queue.endswith(FIFO_SUFFIX))
    return Call(operation, partial(_all_deleted, call, queue, ready, failed))


def _entry_ref(entry: DeleteEntry | VisibilityEntry, queue: str) -> Ref:
    if not entry.ReceiptHandle:
        raise missing("ReceiptHandle")
    return ref_of(entry.ReceiptHandle, queue)


def _all_deleted(
    call: AwsCall,
    queue: str,
    ready: list[tuple[DeleteEntry, Ref]],
    failed: list[FailedEntry],
    results: list[Settled | SqewError],
) -> Response:
    done = []
    for (entry, _), result in zip(ready, results, strict=True):
        refused = _delete_refusal(queue, entry.ReceiptHandle or "", result)
        if refused is None:
            done.append(DeleteMessageBatchResultEntry(entry.Id or ""))
        else:
            failed.append(failure(entry.Id or "", refused))
    return call.ok(DeleteMessageBatchResult(done, failed or None))


class ChangeMessageVisibility(Struct):
    QueueUrl: str | None = None
    ReceiptHandle: str | None = None
    VisibilityTimeout: int | None = None


@SQS.action(ChangeMessageVisibility, "ReceiptHandle")
def change_message_visibility(call: AwsCall, given: ChangeMessageVisibility) -> Call:
    queue = call.queue(given.QueueUrl)
    if given.VisibilityTimeout is None:
        raise missing("VisibilityTimeout")
    extension = Extension(ref_of(given.ReceiptHandle or "", queue), _visibility_ms(given.VisibilityTimeout))
    operation = ops.Extend(queue, (extension,), in_time=True, most_ms=_MOST_HELD_MS)
    return Call(operation, partial(_changed, call, given))


def _visibility_ms(seconds: int) -> int:
    if not 0 <= seconds <= MOST_VISIBILITY_S:
        raise invalid_value(
            f"Value {seconds} for parameter VisibilityTimeout is invalid. "
            f"Reason: VisibilityTimeout must be an integer between 0 and {MOST_VISIBILITY_S}."
        )
    return seconds * 1000


def _changed(call: AwsCall, given: ChangeMessageVisibility, results: list[Settled | SqewError]) -> Response:
    (result,) = results
    return call.refuse(_change_refusal(given, result)) if isinstance(result, SqewError) else call.ok()


def _change_refusal(given: ChangeMessageVisibility | VisibilityEntry, error: SqewError) -> SqewError:
    if isinstance(error, LeaseTooLong):
        return invalid_value(
            f"Value {given.VisibilityTimeout} for parameter VisibilityTimeout is invalid. "
            f"Reason: Total VisibilityTimeout for the message is beyond the limit [{MOST_VISIBILITY_S} seconds]."
        )
    return invalid_value(
        f"Value {given.ReceiptHandle} for parameter ReceiptHandle is invalid. "
        "Reason: Message does not exist or is not available for visibility timeout change."
    )


class VisibilityEntry(Struct):
    Id: str | None = None
    ReceiptHandle: str | None = None
    VisibilityTimeout: int | None = None


class ChangeMessageVisibilityBatch(Struct):
    QueueUrl: str | None = None
    Entries: list[VisibilityEntry] | None = None


class ChangeMessageVisibilityBatchResultEntry(DoneEntry):
    pass


class ChangeMessageVisibilityBatchResult(Struct, omit_defaults=True):
    Successful: list[ChangeMessageVisibilityBatchResultEntry]
    Failed: list[FailedEntry] | None = None


@SQS.action(ChangeMessageVisibilityBatch)
def change_message_visibility_batch(call: AwsCall, given: ChangeMessageVisibilityBatch) -> Call:
    queue = call.queue(given.QueueUrl)
    entries = check_entries(given.Entries, "ChangeMessageVisibilityBatchRequestEntry")
    ready, failed = each(entries, partial(_entry_extension, queue=queue))
    if not ready:
        return none_left(call, queue, ChangeMessageVisibilityBatchResult([], failed))
    extensions = [extension for _, extension in ready]
    operation = ops.Extend(queue, extensions, in_time=True, most_ms=_MOST_HELD_MS)
    return Call(operation, partial(_all_changed, call, ready, failed))


def _entry_extension(entry: VisibilityEntry, queue: str) -> Extension:
    ref = _entry_ref(entry, queue)
    return Extension(ref, _visibility_ms(entry.VisibilityTimeout or 0))


def _all_changed(
    call: AwsCall,
    ready: list[tuple[VisibilityEntry, Extension]],
    failed: list[FailedEntry],
    results: list[Settled | SqewError],
) -> Response:
    done = []
    for (entry, _), result in zip(ready, results, strict=True):
        if isinstance(result, SqewError):
            failed.append(failure(entry.Id or "", _change_refusal(entry, result)))
        else:
            done.append(ChangeMessageVisibilityBatchResultEntry(entry.Id or ""))
    return call.ok(ChangeMessageVisibilityBatchResult(done, failed or None))
