"""Permissions: statements in a queue's policy, stored and shown only. A caller that is let in may do everything."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from sqew import operations as ops
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.policies import Statement, permission, without
from sqew.http.dialects.aws.refusals import AwsError, invalid_value
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.dialects.aws.sqs.attributes import EXTRA, document_of
from sqew.http.dialects.aws.sqs.queues import OnQueue
from sqew.http.wire.exchange import Response
from sqew.model import QueueInfo

MOST_ACTIONS = 7
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ACCOUNT = re.compile(r"[0-9]{12}")
_ACTIONS = (
    "*", "SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes",
    "GetQueueUrl",
)  # fmt: skip
"""The actions that AWS lets others than the owner be allowed to do."""


class AddPermission(OnQueue):
    Label: str | None = None
    AWSAccountIds: list[str] | None = None
    Actions: list[str] | None = None


@SQS.action(AddPermission, "Label", "AWSAccountIds", "Actions")
async def add_permission(call: AwsCall, given: AddPermission) -> Response:
    label, accounts, actions = given.Label or "", given.AWSAccountIds or [], given.Actions or []
    _check(label, accounts, actions)
    queue = call.queue(given.QueueUrl)
    added = permission("SQS", label, accounts, actions, call.names.arn(queue))

    def add(statements: list[Statement]) -> list[Statement]:
        if len(without(statements, label)) < len(statements):
            raise invalid_value(f"Value {label} for parameter Label is invalid. Reason: Already exists.")
        return [*statements, added]

    await _change(call, queue, add)
    return call.ok()


def _check(label: str, accounts: list[str], actions: list[str]) -> None:
    if len(actions) > MOST_ACTIONS:
        raise AwsError("OverLimit", f"{len(actions)} Actions were found, maximum allowed is {MOST_ACTIONS}.", 403)
    if not _LABEL.fullmatch(label):
        raise invalid_value(
            f"Value {label[:100]} for parameter Label is invalid. Reason: letters, digits, - and _ only."
        )
    for action in actions:
        if action not in _ACTIONS:
            raise invalid_value(
                f"Value SQS:{action[:100]} for parameter ActionName is invalid. "
                "Reason: Only the queue owner is allowed to invoke this action."
            )
    for account in accounts:
        if not _ACCOUNT.fullmatch(account):
            raise invalid_value(
                f"Value [{account[:100]}] for parameter PrincipalId is invalid. Reason: Unable to verify."
            )


class RemovePermission(OnQueue):
    Label: str | None = None


@SQS.action(RemovePermission, "Label")
async def remove_permission(call: AwsCall, given: RemovePermission) -> Response:

    def remove(statements: list[Statement]) -> list[Statement]:
        kept = without(statements, given.Label)
        if len(kept) == len(statements):
            label = (given.Label or "")[:100]
            raise invalid_value(f"Value {label} for parameter Label is invalid. Reason: can't find label.")
        return kept

    await _change(call, call.queue(given.QueueUrl), remove)
    return call.ok()


async def _change(call: AwsCall, queue: str, change: Callable[[list[Statement]], list[Statement]]) -> None:
    """Change the statements of a queue's policy. A policy without statements is removed."""

    async def update(info: QueueInfo) -> ops.UpdateQueue:
        kept = info.extras.get(EXTRA, {})
        policy = document_of(kept.get("Policy") or '{"Version":"2012-10-17"}')
        policy.setdefault("Id", f"{call.names.arn(queue)}/SQSDefaultPolicy")
        policy["Statement"] = change(policy["Statement"])
        written = msgspec.json.encode(policy).decode() if policy["Statement"] else ""
        return ops.UpdateQueue(queue, {}, {EXTRA: {**kept, "Policy": written}}, info)

    await call.service.edits.make(ops.GetQueue(queue), update)
