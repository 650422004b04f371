"""Subscriptions: making, confirming, changing, listing and ending them."""

from __future__ import annotations

import hmac
import secrets
import uuid
from typing import Literal, cast

from msgspec import Struct, structs

from sqew import operations as ops
from sqew.errors import MissingAuthenticationToken, SqewError, SubscriptionNotFound
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sns.arns import (
    arn_of_subscription,
    arn_of_topic,
    is_fifo,
    queue_of,
    subscription_of,
    topic_of,
)
from sqew.http.dialects.aws.sns.pages import PAGE, after_number, token_of
from sqew.http.dialects.aws.sns.refusals import invalid
from sqew.http.dialects.aws.sns.subscription_attributes import (
    AUTHENTICATE,
    AUTHENTICATED,
    Wanted,
    changed,
    endpoint_of,
    shown,
    wanted,
)
from sqew.http.dialects.aws.sns.topic_attributes import form_of
from sqew.http.exchange import Response
from sqew.model import Subscription, SubscriptionState

PENDING = "pending confirmation"
_IN_LISTS: dict[SubscriptionState, str] = {"pending": "PendingConfirmation", "deleted": "Deleted"}
"""What stands for the ARN of a subscription that is not confirmed."""
_ELSEWHERE = ("email", "email-json", "sms", "lambda", "application", "firehose")
_TOKEN_BYTES = 32


class Subscribe(Struct):
    TopicArn: str | None = None
    Protocol: str | None = None
    Endpoint: str | None = None
    Attributes: dict[str, str] | None = None
    ReturnSubscriptionArn: bool = False


class SubscriptionResult(Struct):
    SubscriptionArn: str


@SNS.action(Subscribe, "TopicArn", "Protocol")
async def subscribe(call: AwsCall, given: Subscribe) -> Response:
    topic, protocol = topic_of(given.TopicArn or ""), given.Protocol or ""
    _check_protocol(protocol, topic)
    info = await call.service.broker.run(ops.GetTopic(topic))
    found = wanted(given.Attributes or {}, topic, call.names, form_of(info))
    operation = ops.Subscribe(
        topic, "queue", given.Endpoint or "", found.form, str(uuid.uuid4()), found.details,
        exist_ok=not given.Attributes,
    )  # fmt: skip
    if protocol == "sqs":
        operation = structs.replace(operation, target=_queue(call, given.Endpoint or "", topic))
    else:
        operation = await _to_endpoint(call, operation, cast("Literal['http', 'https']", protocol), form_of(info))
    made = (await call.service.broker.run(operation)).subscription
    arn = arn_of_subscription(call.names, topic, made.uuid)
    return call.ok(SubscriptionResult(arn if made.confirmed or given.ReturnSubscriptionArn else PENDING))


def _check_protocol(protocol: str, topic: str) -> None:
    if protocol in _ELSEWHERE:
        raise invalid(
            f"Protocol Reason: {protocol} is not supported here. Subscribe a queue (sqs) or an endpoint (http, https)"
        )
    if protocol not in ("sqs", "http", "https"):
        raise invalid(f"Amazon SNS does not support this protocol string: {protocol[:100]}")
    if protocol != "sqs" and is_fifo(topic):
        raise invalid(f"Invalid parameter: Endpoint Reason: FIFO topics can't be subscribed to by {protocol}")


def _queue(call: AwsCall, arn: str, topic: str) -> str:
    queue = queue_of(call.names, arn, "SQS endpoint ARN")
    if is_fifo(queue) and not is_fifo(topic):
        raise invalid(
            "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics"
        )
    return queue


async def _to_endpoint(
    call: AwsCall, operation: ops.Subscribe, protocol: Literal["http", "https"], signed_by: int
) -> ops.Subscribe:
    """The same with a token, which its endpoint is asked to confirm it with."""
    service = call.service
    if not operation.target.lower().startswith(f"{protocol}://"):
        raise invalid("Endpoint must match the specified protocol")
    try:
        service.border.check_url(operation.target)
    except SqewError as error:
        raise invalid(f"Endpoint Reason: {error}") from error
    existing = await _to(call, operation)
    is_new = existing is None or existing.state == "deleted" or not existing.uuid
    token = _new_token(operation.uuid if existing is None or is_new else existing.uuid)
    version: Literal[1, 2] = 1 if signed_by == 1 else 2
    return structs.replace(
        operation,
        protocol=protocol,
        confirmed=False,
        details=structs.replace(operation.details, token=token),
        greeting=await service.publisher.greeting(operation.pattern, token, version),
    )


def _new_token(name: str) -> str:
    """What an endpoint confirms a subscription with. Its name comes first, so that it is found by its token."""
    return name.replace("-", "") + secrets.token_hex(_TOKEN_BYTES)


async def _to(call: AwsCall, operation: ops.Subscribe) -> Subscription | None:
    """The subscription to the same topic that leads to the same place, if there is one."""
    try:
        return await call.service.broker.run(ops.FindSubscription(operation.pattern, operation.target))
    except SubscriptionNotFound:
        return None


class ConfirmSubscription(Struct):
    TopicArn: str | None = None
    Token: str | None = None
    AuthenticateOnUnsubscribe: str | None = None


@SNS.action(ConfirmSubscription, "TopicArn", "Token")
async def confirm_subscription(call: AwsCall, given: ConfirmSubscription) -> Response:
    topic, token = topic_of(given.TopicArn or ""), given.Token or ""
    broker = call.service.broker
    await broker.run(ops.GetTopic(topic))
    try:
        found = await broker.run(ops.GetSubscription(str(uuid.UUID(hex=token[:32]))))
    except (ValueError, SubscriptionNotFound) as error:
        raise invalid("Token") from error
    if found.pattern != topic or not hmac.compare_digest(found.details.token.encode(), token.encode()):
        raise invalid("Token")
    if found.ends_at is not None and found.ends_at <= broker.now():
        raise invalid("Token")
    if not found.confirmed:
        kept = {**found.details.kept, AUTHENTICATED: "true" if call.is_signed else "false"}
        if call.is_signed and (given.AuthenticateOnUnsubscribe or "").lower() == "true":
            kept[AUTHENTICATE] = "true"
        details = structs.replace(found.details, kept=kept)
        await broker.run(ops.UpdateSubscription(found.uuid, details=details, state="confirmed"))
    return call.ok(SubscriptionResult(arn_of_subscription(call.names, topic, found.uuid)))


class Unsubscribe(Struct):
    SubscriptionArn: str | None = None


@SNS.action(Unsubscribe, "SubscriptionArn")
async def unsubscribe(call: AwsCall, given: Unsubscribe) -> Response:
    """Ends it. One that is gone already is gone: that is no error."""
    broker = call.service.broker
    try:
        found = await broker.run(ops.GetSubscription(subscription_of(given.SubscriptionArn or "").uuid))
        if call.is_signed:
            await broker.run(ops.Unsubscribe(found.id))
        else:
            await _unsubscribe_by_link(call, found)
    except SubscriptionNotFound:
        pass
    return call.ok()


async def _unsubscribe_by_link(call: AwsCall, found: Subscription) -> None:
    """Whoever follows the link need not be its owner: the endpoint is told, and can restore it for a while."""
    broker = call.service.broker
    if found.protocol == "queue" or found.details.kept.get(AUTHENTICATE):
        raise MissingAuthenticationToken("Whoever unsubscribes from this topic must sign the request")
    if found.state == "pending":
        await broker.run(ops.Unsubscribe(found.id))
    elif found.state == "confirmed":
        info = await broker.run(ops.GetTopic(found.pattern))
        token, version = _new_token(found.uuid), cast("Literal[1, 2]", form_of(info))
        parting = await call.service.publisher.parting(found.pattern, found.uuid, token, version)
        details = structs.replace(found.details, token=token)
        await broker.run(ops.UpdateSubscription(found.uuid, details=details, state="deleted", greeting=parting))


class ListSubscriptions(Struct):
    NextToken: str | None = None


class ListSubscriptionsByTopic(Struct):
    TopicArn: str | None = None
    NextToken: str | None = None


class ListedSubscription(Struct):
    SubscriptionArn: str
    Owner: str
    Protocol: str
    Endpoint: str
    TopicArn: str


class ListSubscriptionsResult(Struct, omit_defaults=True):
    Subscriptions: list[ListedSubscription]
    NextToken: str | None = None


@SNS.action(ListSubscriptions)
async def list_subscriptions(call: AwsCall, given: ListSubscriptions) -> Response:
    return await _page(call, None, given.NextToken)


@SNS.action(ListSubscriptionsByTopic, "TopicArn")
async def list_subscriptions_by_topic(call: AwsCall, given: ListSubscriptionsByTopic) -> Response:
    topic = topic_of(given.TopicArn or "")
    await call.service.broker.run(ops.GetTopic(topic))
    return await _page(call, topic, given.NextToken)


async def _page(call: AwsCall, topic: str | None, token: str | None) -> Response:
    """Subscriptions that SNS knows, of a topic or of all topics of the region."""
    last = after_number(token)
    found: list[Subscription] = []
    while len(found) <= PAGE:
        page = await call.service.broker.run(ops.ListSubscriptions(topic, None, last, PAGE + 1))
        found += [one for one in page if one.uuid and (topic or call.names.is_here(one.pattern))]
        if len(page) <= PAGE:
            break
        last = page[-1].id
    listed = [_listed(call, one) for one in found[:PAGE]]
    return call.ok(ListSubscriptionsResult(listed, token_of(str(found[PAGE - 1].id)) if len(found) > PAGE else None))


def _listed(call: AwsCall, one: Subscription) -> ListedSubscription:
    names = call.names
    protocol, endpoint = endpoint_of(one, names)
    arn = _IN_LISTS.get(one.state) or arn_of_subscription(names, one.pattern, one.uuid)
    return ListedSubscription(arn, names.account, protocol, endpoint, arn_of_topic(names, one.pattern))


class GetSubscriptionAttributes(Struct):
    SubscriptionArn: str | None = None


class SubscriptionAttributesResult(Struct):
    Attributes: dict[str, str]


@SNS.action(GetSubscriptionAttributes, "SubscriptionArn")
async def get_subscription_attributes(call: AwsCall, given: GetSubscriptionAttributes) -> Response:
    found = await _found(call, given.SubscriptionArn or "")
    return call.ok(SubscriptionAttributesResult(shown(found, call.names)))


async def _found(call: AwsCall, arn: str) -> Subscription:
    found = await call.service.broker.run(ops.GetSubscription(subscription_of(arn).uuid))
    if found.state == "deleted":
        raise SubscriptionNotFound(found.uuid)
    return found


class SetSubscriptionAttributes(Struct):
    SubscriptionArn: str | None = None
    AttributeName: str | None = None
    AttributeValue: str | None = None


@SNS.action(SetSubscriptionAttributes, "SubscriptionArn", "AttributeName")
async def set_subscription_attributes(call: AwsCall, given: SetSubscriptionAttributes) -> Response:
    broker = call.service.broker
    found = await _found(call, given.SubscriptionArn or "")
    info = await broker.run(ops.GetTopic(found.pattern))
    after = changed(
        Wanted(found.form, found.details), given.AttributeName or "", given.AttributeValue or "", found.pattern,
        call.names, form_of(info),
    )  # fmt: skip
    await broker.run(ops.UpdateSubscription(found.uuid, after.form, after.details))
    return call.ok()
