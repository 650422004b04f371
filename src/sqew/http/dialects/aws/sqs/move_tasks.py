"""Message move tasks: dead letters on their way back, moved by the server in the background."""

from __future__ import annotations

from uuid import uuid4

import msgspec
from msgspec import Struct

from sqew import operations as ops
from sqew.errors import QueueNotFound
from sqew.http.dialects.aws.binary import base64_of, binary_of
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.refusals import PREFIX, AwsError, invalid_value
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.wire.exchange import Response
from sqew.model import MoveTask
from sqew.rules.names import FIFO_SUFFIX

MOST_LISTED = 10
MOST_PER_SECOND = 500
_REASONS = {"queue_not_found": PREFIX + "NonExistentQueue", "no_origin": "CouldNotDetermineMessageSource"}


class StartMessageMoveTask(Struct):
    SourceArn: str | None = None
    DestinationArn: str | None = None
    MaxNumberOfMessagesPerSecond: int | None = None


class TaskHandleResult(Struct):
    TaskHandle: str


@SQS.action(StartMessageMoveTask, "SourceArn")
async def start_message_move_task(call: AwsCall, given: StartMessageMoveTask) -> Response:
    broker, per_second = call.service.broker, given.MaxNumberOfMessagesPerSecond
    if per_second is not None and not 1 <= per_second <= MOST_PER_SECOND:
        raise invalid_value(
            f"Value {per_second} for parameter MaxNumberOfMessagesPerSecond is invalid. "
            f"Reason: You must enter a value between 1 and {MOST_PER_SECOND}."
        )
    source = await _queue(call, given.SourceArn or "", "SourceArn")
    destination = None
    if given.DestinationArn:
        destination = await _queue(call, given.DestinationArn, "DestinationArn")
        _check_destination(source, destination)
    (depths,) = await broker.read(ops.Measure(source))
    task = await broker.run(ops.StartMove(str(uuid4()), source, destination, per_second, depths.total()))
    return call.ok(TaskHandleResult(_handle(call, task)))


async def _queue(call: AwsCall, arn: str, parameter: str) -> str:
    """Return the queue that an ARN names; raise unless it exists in this region."""
    queue = call.names.queue_of_arn(arn, parameter)
    try:
        if not call.names.is_here(queue):
            raise QueueNotFound(queue)
        await call.service.broker.run(ops.GetQueue(queue))
    except QueueNotFound as error:
        raise _no_resource(f"The resource that you specified for the {parameter} parameter doesn't exist.") from error
    return queue


def _check_destination(source: str, destination: str) -> None:
    if source == destination:
        raise invalid_value("Source queue arn and destination queue arn cannot be the same.")
    if source.endswith(FIFO_SUFFIX) != destination.endswith(FIFO_SUFFIX):
        raise invalid_value("Source queue and destination queue must be of the same type, standard or FIFO.")


class ListMessageMoveTasks(Struct):
    SourceArn: str | None = None
    MaxResults: int | None = None


class TaskView(Struct, omit_defaults=True):
    Status: str
    SourceArn: str
    ApproximateNumberOfMessagesMoved: int
    ApproximateNumberOfMessagesToMove: int
    StartedTimestamp: int
    TaskHandle: str | None = None
    DestinationArn: str | None = None
    MaxNumberOfMessagesPerSecond: int | None = None
    FailureReason: str | None = None


class TasksResult(Struct, omit_defaults=True):
    Results: list[TaskView] | None = None


@SQS.action(ListMessageMoveTasks, "SourceArn")
async def list_message_move_tasks(call: AwsCall, given: ListMessageMoveTasks) -> Response:
    limit = 1 if given.MaxResults is None else given.MaxResults
    if not 1 <= limit <= MOST_LISTED:
        raise invalid_value(
            f"Value {limit} for parameter MaxResults is invalid. Reason: Must be between 1 and {MOST_LISTED}, "
            "if provided."
        )
    source = await _queue(call, given.SourceArn or "", "SourceArn")
    tasks = await call.service.broker.run(ops.ListMoves(source, limit))
    return call.ok(TasksResult([_view(call, task) for task in tasks] or None))


def _view(call: AwsCall, task: MoveTask) -> TaskView:
    return TaskView(
        task.status.upper(),
        call.names.arn_of(task.source),
        task.moved,
        task.to_move,
        task.started_at,
        _handle(call, task) if task.status == "running" else None,
        None if task.destination is None else call.names.arn_of(task.destination),
        task.per_second,
        _REASONS.get(task.reason, task.reason) or None,
    )


class CancelMessageMoveTask(Struct):
    TaskHandle: str | None = None


class CancelledResult(Struct):
    ApproximateNumberOfMessagesMoved: int


@SQS.action(CancelMessageMoveTask, "TaskHandle")
async def cancel_message_move_task(call: AwsCall, given: CancelMessageMoveTask) -> Response:
    handle = _handle_of(given.TaskHandle or "")
    await _queue(call, handle.sourceArn, "SourceArn")
    task = await call.service.broker.run(ops.CancelMove(handle.taskId))
    return call.ok(CancelledResult(task.moved))


class _TaskHandle(Struct):
    taskId: str  # noqa: N815 (as it stands in the document)
    sourceArn: str  # noqa: N815


def _handle(call: AwsCall, task: MoveTask) -> str:
    """Return a task's handle, which names its source queue, as AWS's does."""
    handle = _TaskHandle(task.id, call.names.arn_of(task.source))
    return base64_of(msgspec.json.encode(handle))


def _handle_of(text: str) -> _TaskHandle:
    try:
        return msgspec.json.decode(binary_of(text) or b"", type=_TaskHandle)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise invalid_value("Value for parameter TaskHandle is invalid.") from error


def _no_resource(message: str) -> AwsError:
    return AwsError("ResourceNotFoundException", message, 404)
