"""Permissions: statements in a queue's policy, which we keep and show. Whoever may come in may do everything."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from sqew import operations as ops
from sqew.http.aws_refusals import AwsError, invalid_value
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.sqs.api import SQS
from sqew.http.dialects.aws.sqs.attributes import EXTRA
from sqew.http.dialects.aws.sqs.queues import OnQueue
from sqew.http.exchange import Response

MOST_ACTIONS = 7
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")


class AddPermission(OnQueue):
    Label: str | None = None
    AWSAccountIds: list[str] | None = None
    Actions: list[str] | None = None


@SQS.action(AddPermission, "Label", "AWSAccountIds", "Actions")
async def add_permission(call: AwsCall, given: AddPermission) -> Response:
    label, actions = given.Label or "", given.Actions or []
    if len(actions) > MOST_ACTIONS:
        raise AwsError("OverLimit", f"{len(actions)} Actions were found, maximum allowed is {MOST_ACTIONS}.", 403)
    if not _LABEL.fullmatch(label):
        raise invalid_value(
            f"Value {label[:100]} for parameter Label is invalid. Reason: letters, digits, - and _ only."
        )
    queue = call.queue(given.QueueUrl)
    policy = await _policy(call, queue)
    if any(statement.get("Sid") == label for statement in policy["Statement"]):
        raise invalid_value(f"Value {label} for parameter Label is invalid. Reason: Already exists.")
    principals = [f"arn:aws:iam::{account}:root" for account in given.AWSAccountIds or []]
    policy["Statement"].append(
        {
            "Sid": label,
            "Effect": "Allow",
            "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
            "Action": [f"SQS:{action}" for action in actions] if len(actions) > 1 else f"SQS:{actions[0]}",
            "Resource": call.names.arn(queue),
        }
    )
    await _save(call, queue, policy)
    return call.ok()


class RemovePermission(OnQueue):
    Label: str | None = None


@SQS.action(RemovePermission, "Label")
async def remove_permission(call: AwsCall, given: RemovePermission) -> Response:
    queue = call.queue(given.QueueUrl)
    policy = await _policy(call, queue)
    kept = [statement for statement in policy["Statement"] if statement.get("Sid") != given.Label]
    if len(kept) == len(policy["Statement"]):
        raise invalid_value(f"Value {given.Label} for parameter Label is invalid. Reason: can't find label.")
    await _save(call, queue, {**policy, "Statement": kept} if kept else None)
    return call.ok()


async def _policy(call: AwsCall, queue: str) -> dict[str, Any]:
    info = await call.service.broker.run(ops.GetQueue(queue))
    stored = info.extras.get(EXTRA, {}).get("Policy") or '{"Version":"2012-10-17","Statement":[]}'
    policy: dict[str, Any] = msgspec.json.decode(stored)
    policy.setdefault("Id", f"{call.names.arn(queue)}/SQSDefaultPolicy")
    statements = policy.get("Statement", [])
    policy["Statement"] = statements if isinstance(statements, list) else [statements]
    return policy


async def _save(call: AwsCall, queue: str, policy: dict[str, Any] | None) -> None:
    broker = call.service.broker
    info = await broker.run(ops.GetQueue(queue))
    extras = {**info.extras.get(EXTRA, {}), "Policy": "" if policy is None else msgspec.json.encode(policy).decode()}
    await broker.run(ops.UpdateQueue(queue, {}, {EXTRA: extras}))
