"""Permissions: statements in a topic's policy."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sqew import operations as ops
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.documents import object_of
from sqew.http.dialects.aws.policies import Statement, permission, statements_of, without
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sns.arns import arn_of_topic, topic_of
from sqew.http.dialects.aws.sns.refusals import invalid
from sqew.http.dialects.aws.sns.topic_attributes import POLICY, policy_of
from sqew.http.dialects.aws.sns.topics import OnTopic
from sqew.http.wire.exchange import Response
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
    topic, label, actions = topic_of(call, given.TopicArn), given.Label or "", given.ActionName or []
    if any(action not in _ACTIONS for action in actions):
        raise invalid("Policy statement action out of service scope!")
    added = permission("SNS", label, given.AWSAccountId or [], actions, arn_of_topic(call.names, topic))

    def add(statements: list[Statement]) -> list[Statement]:
        if len(without(statements, label)) < len(statements):
            raise invalid("Statement already exists")
        return [*statements, added]

    return await _change(call, topic, add)


class RemovePermission(OnTopic):
    Label: str | None = None


@SNS.action(RemovePermission, "TopicArn", "Label")
async def remove_permission(call: AwsCall, given: RemovePermission) -> Response:
    return await _change(call, topic_of(call, given.TopicArn), lambda statements: without(statements, given.Label))


async def _change(call: AwsCall, topic: str, change: Callable[[list[Statement]], list[Statement]]) -> Response:
    async def update(info: TopicInfo) -> ops.UpdateTopic:
        policy = object_of(policy_of(info, call.names)) or {}
        statements = [statement for statement in statements_of(policy) if isinstance(statement, dict)]
        kept = msgspec.json.encode({**policy, "Statement": change(statements)}).decode()
        return ops.UpdateTopic(topic, {POLICY: kept}, known=info)

    await call.service.edits.make(ops.GetTopic(topic), update)
    return call.ok()
