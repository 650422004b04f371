"""Permissions: statements in a topic's policy, which we keep and show. Whoever may come in may do everything."""

from __future__ import annotations

from typing import Any

import msgspec

from sqew import operations as ops
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sns.arns import arn_of_topic, topic_of
from sqew.http.dialects.aws.sns.refusals import invalid
from sqew.http.dialects.aws.sns.topic_attributes import POLICY, policy_of
from sqew.http.dialects.aws.sns.topics import OnTopic
from sqew.http.exchange import Response
from sqew.model import TopicInfo

_ACTIONS = (
    "GetTopicAttributes", "SetTopicAttributes", "AddPermission", "RemovePermission", "DeleteTopic", "Subscribe",
    "ListSubscriptionsByTopic", "Publish", "Receive", "TagResource", "UntagResource", "ListTagsForResource",
)  # fmt: skip


class AddPermission(OnTopic):
    Label: str | None = None
    AWSAccountId: list[str] | None = None
    ActionName: list[str] | None = None


@SNS.action(AddPermission, "TopicArn", "Label", "AWSAccountId", "ActionName")
async def add_permission(call: AwsCall, given: AddPermission) -> Response:
    actions, accounts = given.ActionName or [], given.AWSAccountId or []
    if any(action not in _ACTIONS for action in actions):
        raise invalid("Policy statement action out of service scope!")
    info = await call.service.broker.run(ops.GetTopic(topic_of(given.TopicArn or "")))
    policy = _policy(call, info)
    if any(statement.get("Sid") == given.Label for statement in policy["Statement"]):
        raise invalid("Statement already exists")
    principals = [f"arn:aws:iam::{account}:root" for account in accounts]
    policy["Statement"].append(
        {
            "Sid": given.Label,
            "Effect": "Allow",
            "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
            "Action": [f"SNS:{action}" for action in actions] if len(actions) > 1 else f"SNS:{actions[0]}",
            "Resource": arn_of_topic(call.names, info.name),
        }
    )
    await _save(call, info, policy)
    return call.ok()


class RemovePermission(OnTopic):
    Label: str | None = None


@SNS.action(RemovePermission, "TopicArn", "Label")
async def remove_permission(call: AwsCall, given: RemovePermission) -> Response:
    info = await call.service.broker.run(ops.GetTopic(topic_of(given.TopicArn or "")))
    policy = _policy(call, info)
    policy["Statement"] = [one for one in policy["Statement"] if one.get("Sid") != given.Label]
    await _save(call, info, policy)
    return call.ok()


def _policy(call: AwsCall, info: TopicInfo) -> dict[str, Any]:
    policy: dict[str, Any] = msgspec.json.decode(policy_of(info, call.names))
    statements = policy.get("Statement", [])
    found = statements if isinstance(statements, list) else [statements]
    policy["Statement"] = [statement for statement in found if isinstance(statement, dict)]
    return policy


async def _save(call: AwsCall, info: TopicInfo, policy: dict[str, Any]) -> None:
    kept = msgspec.json.encode(policy).decode()
    await call.service.broker.run(ops.UpdateTopic(info.name, {POLICY: kept}))
