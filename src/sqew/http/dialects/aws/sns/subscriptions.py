"""Subscriptions: making, confirming, changing, listing and ending them."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import uuid
from functools import partial
from typing import Any, Literal, cast

from msgspec import Struct, structs

from sqew import operations as ops
from sqew.errors import MissingAuthenticationToken, SqewError, SubscriptionExists, SubscriptionNotFound
from sqew.http.dialects.aws.calls import AwsCall
from sqew.http.dialects.aws.pages import first_of, token_of
from sqew.http.dialects.aws.sns.api import SNS
from sqew.http.dialects.aws.sns.arns import (
    SubscriptionName,
    arn_of_subscription,
    arn_of_topic,
    is_fifo,
    is_queue_url,
    queue_at,
    subscription_of,
    topic_of,
)
from sqew.http.dialects.aws.sns.delivery_policies import EFFECTIVE, effective_of_subscription
from sqew.http.dialects.aws.sns.pages import PAGE, after_number
from sqew.http.dialects.aws.sns.refusals import MOST_FOR_LARGE, invalid, too_large_for_subscribers
from sqew.http.dialects.aws.sns.subscription_attributes import (
    AUTHENTICATE,
    AUTHENTICATED,
    ENDPOINT,
    WantedSubscription,
    changed,
    endpoint_of,
    is_same,
    shown,
    wanted,
)
from sqew.http.dialects.aws.sns.topic_attributes import USUAL_SIZE, form_of, most_bytes
from sqew.http.wire.exchange import Response
from sqew.model import Subscription, SubscriptionState, TopicInfo
from sqew.rules.names import is_keyed

PENDING = "pending confirmation"
_IN_LISTS: dict[SubscriptionState, str] = {"pending": "PendingConfirmation", "deleted": "Deleted"}
"""The words that stand for the ARN of a subscription that is pending or deleted."""
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
    topic, protocol = topic_of(call, given.TopicArn), given.Protocol or ""
    _check_protocol(protocol, topic)
    if is_keyed(topic):
        # It need not be made first; but a wrong endpoint must leave none behind.
        await _target(call, given.Endpoint or "", protocol, topic)
        await call.service.broker.run(ops.CreateTopic(topic))
    subscribing = partial(_subscribing, call, given, protocol)
    made = (await call.service.edits.make(ops.GetTopic(topic), subscribing)).subscription
    arn = arn_of_subscription(call.names, topic, made.uuid)
    return call.ok(SubscriptionResult(arn if made.confirmed or given.ReturnSubscriptionArn else PENDING))


async def _subscribing(call: AwsCall, given: Subscribe, protocol: str, info: TopicInfo) -> ops.Subscribe:
    topic, attributes = info.name, given.Attributes or {}
    found = wanted(attributes, topic, call.names, form_of(info))
    target = await _target(call, given.Endpoint or "", protocol, topic)
    existing = await _to(call, topic, target)
    if existing is not None:
        before = WantedSubscription(existing.form, existing.details)
        if not is_same(before, wanted(attributes, topic, call.names, form_of(info), before)):
            raise SubscriptionExists(existing.id, topic, None)
    if existing is None and most_bytes(info) > USUAL_SIZE:
        await _check_large(call, protocol, topic)
    name, details = str(uuid.uuid4()), found.details
    if protocol == "sqs" and is_queue_url(given.Endpoint or ""):
        # beyond-queue's clients look for the queue in both.
        name = f"{call.names.name(target)}-{name}"
        details = structs.replace(details, kept={**details.kept, ENDPOINT: given.Endpoint or ""})
    operation = ops.Subscribe(
        topic, "queue", target, found.form, name, details,
        exist_ok=existing is not None or not attributes, topic=info,
    )  # fmt: skip
    if protocol == "sqs":
        return operation
    operation = structs.replace(operation, protocol=protocol)
    # As in beyond-queue, and as any endpoint is subscribed under /v1.
    return operation if is_keyed(topic) else await _to_endpoint(call, operation, existing, form_of(info))


async def _target(call: AwsCall, endpoint: str, protocol: str, topic: str) -> str:
    """Return the queue or the URL that a subscription leads to."""
    return await _queue(call, endpoint, topic) if protocol == "sqs" else _url(call, endpoint, protocol)


async def _check_large(call: AwsCall, protocol: str, topic: str) -> None:
    """Raise unless a topic of large messages may have one more subscription with this protocol."""
    audience = await call.service.broker.run(ops.CountSubscriptions(topic))
    if protocol != "sqs" or audience.confirmed >= MOST_FOR_LARGE:
        raise too_large_for_subscribers()


def _check_protocol(protocol: str, topic: str) -> None:
    if protocol in _ELSEWHERE:
        raise invalid(
            f"Protocol Reason: {protocol} is not supported here. Subscribe a queue (sqs) or an endpoint (http, https)"
        )
    if protocol not in ("sqs", "http", "https"):
        raise invalid(f"Amazon SNS does not support this protocol string: {protocol[:100]}")
    if protocol != "sqs" and is_fifo(topic):
        raise invalid(f"Invalid parameter: Endpoint Reason: FIFO topics can't be subscribed to by {protocol}")


async def _queue(call: AwsCall, endpoint: str, topic: str) -> str:
    queue = queue_at(call.names, endpoint)
    if is_keyed(topic):
        # As under /v1: beyond-queue's clients call a FIFO queue by its bare name, and it may subscribe.
        return await call.service.meant(queue)
    if is_fifo(queue) and not is_fifo(topic):
        raise invalid(
            "Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics"
        )
    return queue


def _url(call: AwsCall, endpoint: str, protocol: str) -> str:
    if not endpoint.lower().startswith(f"{protocol}://"):
        raise invalid("Endpoint must match the specified protocol")
    try:
        call.service.webhook_addresses.check_url(endpoint)
    except SqewError as error:
        raise invalid(f"Endpoint Reason: {error}") from error
    return endpoint


async def _to_endpoint(
    call: AwsCall, operation: ops.Subscribe, existing: Subscription | None, signed_by: int
) -> ops.Subscribe:
    """Return the operation with a token, which the endpoint must confirm with: its present one, while that holds."""
    token = _new_token(operation.uuid if existing is None else existing.uuid)
    if existing is not None and not _is_over(call, existing):
        token = existing.details.token or token
    version: Literal[1, 2] = 1 if signed_by == 1 else 2
    return structs.replace(
        operation,
        confirmed=False,
        details=structs.replace(operation.details, token=token),
        notice=await call.service.publisher.confirmation_request(operation.pattern, token, version),
    )


def _new_token(name: str) -> str:
    """Return a token for an endpoint to confirm with. It begins with the subscription's name, to find it by."""
    return name.replace("-", "") + secrets.token_hex(_TOKEN_BYTES)


def _is_over(call: AwsCall, subscription: Subscription) -> bool:
    """Return True if a subscription can't be confirmed any more."""
    return subscription.ends_at is not None and subscription.ends_at <= call.service.broker.now()


async def _to(call: AwsCall, topic: str, target: str) -> Subscription | None:
    """Return the subscription of a topic to a target, if SNS knows one and it is not deleted."""
    try:
        found = await call.service.broker.run(ops.FindSubscription(topic, target))
    except SubscriptionNotFound:
        return None
    return found if found.uuid and found.state != "deleted" else None


class ConfirmSubscription(Struct):
    TopicArn: str | None = None
    Token: str | None = None
    AuthenticateOnUnsubscribe: str | None = None


@SNS.action(ConfirmSubscription, "TopicArn", "Token")
async def confirm_subscription(call: AwsCall, given: ConfirmSubscription) -> Response:
    topic, token = topic_of(call, given.TopicArn), given.Token or ""
    await call.service.broker.run(ops.GetTopic(topic))
    try:
        look = ops.GetSubscription(str(uuid.UUID(hex=token[:32])))
        found = await call.service.edits.make(look, partial(_confirming, call, given, topic))
    except (ValueError, SubscriptionNotFound) as error:
        # Whoever only follows a link must not learn the name of a subscription: with it they could end it.
        confirmed = await _never_asked(call, topic) if call.is_signed else None
        if confirmed is None:
            raise invalid("Token") from error
        found = confirmed
    return call.ok(SubscriptionResult(arn_of_subscription(call.names, topic, found.uuid)))


async def _never_asked(call: AwsCall, topic: str) -> Subscription | None:
    """Find a subscription that beyond-queue's clients made, and may confirm by any token; None if one is pending."""
    found = await call.service.broker.run(ops.ListSubscriptions(topic, None, 0, PAGE))
    if any(one.state == "pending" for one in found):
        return None
    theirs = (one for one in found if one.uuid and (is_keyed(topic) or ENDPOINT in one.details.kept))
    return next(theirs, None)


async def _confirming(
    call: AwsCall, given: ConfirmSubscription, topic: str, found: Subscription
) -> ops.Operation[Subscription]:
    token = given.Token or ""
    if found.pattern != topic or not hmac.compare_digest(found.details.token.encode(), token.encode()):
        raise invalid("Token")
    if _is_over(call, found):
        raise invalid("Token")
    if found.confirmed:
        return ops.GetSubscription(found.uuid)
    kept = {**found.details.kept, AUTHENTICATED: "true" if call.is_signed else "false"}
    if call.is_signed and (given.AuthenticateOnUnsubscribe or "").lower() == "true":
        kept[AUTHENTICATE] = "true"
    details = structs.replace(found.details, kept=kept)
    return ops.UpdateSubscription(found.uuid, details=details, state="confirmed", known=found)


class Unsubscribe(Struct):
    SubscriptionArn: str | None = None


@SNS.action(Unsubscribe, "SubscriptionArn")
async def unsubscribe(call: AwsCall, given: Unsubscribe) -> Response:
    """End a subscription. If it is gone already, that is no error."""
    name = subscription_of(call, given.SubscriptionArn)
    with contextlib.suppress(SubscriptionNotFound):
        await call.service.edits.make(ops.GetSubscription(name.uuid), partial(_ending, call, name.topic))
    return call.ok()


async def _ending(call: AwsCall, topic: str, found: Subscription) -> ops.Operation[Any]:
    # A link in what was published under a key names that key, and not the pattern.
    if found.pattern != topic and not is_keyed(found.pattern):
        raise SubscriptionNotFound(found.uuid)
    return ops.Unsubscribe(found.id) if call.is_signed else await _ending_by_link(call, found)


async def _ending_by_link(call: AwsCall, found: Subscription) -> ops.Operation[Any]:
    """End a subscription by its link. Anybody may follow it: the endpoint is told, and can restore it for a while."""
    if found.protocol == "queue" or found.details.kept.get(AUTHENTICATE):
        raise MissingAuthenticationToken("Whoever unsubscribes from this topic must sign the request")
    if found.state == "pending":
        return ops.Unsubscribe(found.id)
    if found.state == "deleted":
        return ops.GetSubscription(found.uuid)
    info = await call.service.broker.run(ops.GetTopic(found.pattern))
    token, version = _new_token(found.uuid), cast("Literal[1, 2]", form_of(info))
    unsubscribe_notice = await call.service.publisher.unsubscribe_notice(found.pattern, found.uuid, token, version)
    details = structs.replace(found.details, token=token)
    return ops.UpdateSubscription(found.uuid, details=details, state="deleted", notice=unsubscribe_notice, known=found)


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
    topic = topic_of(call, given.TopicArn)
    await call.service.broker.run(ops.GetTopic(topic))
    return await _page(call, topic, given.NextToken)


async def _page(call: AwsCall, topic: str | None, token: str | None) -> Response:
    """Return a page of the subscriptions that SNS knows, of a topic or of all topics of the region."""

    async def read(last: int, limit: int) -> list[Subscription]:
        return await call.service.broker.run(ops.ListSubscriptions(topic, None, last, limit))

    def is_meant(one: Subscription) -> bool:
        return one.uuid != "" and (topic is not None or call.names.is_here(one.pattern))

    found = await first_of(read, is_meant, lambda one: one.id, after_number(token), PAGE)
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
    name, broker = subscription_of(call, given.SubscriptionArn), call.service.broker
    found = _not_left(await broker.run(ops.GetSubscription(name.uuid)), name)
    attributes = shown(found, call.names)
    if found.protocol != "queue":
        info = await broker.run(ops.GetTopic(found.pattern))
        attributes[EFFECTIVE] = effective_of_subscription(found, info, call.service.settings)
    return call.ok(SubscriptionAttributesResult(attributes))


def _not_left(found: Subscription, name: SubscriptionName) -> Subscription:
    if found.state == "deleted" or found.pattern != name.topic:
        raise SubscriptionNotFound(found.uuid)
    return found


class SetSubscriptionAttributes(Struct):
    SubscriptionArn: str | None = None
    AttributeName: str | None = None
    AttributeValue: str | None = None


@SNS.action(SetSubscriptionAttributes, "SubscriptionArn", "AttributeName")
async def set_subscription_attributes(call: AwsCall, given: SetSubscriptionAttributes) -> Response:
    named = subscription_of(call, given.SubscriptionArn)

    async def update(found: Subscription) -> ops.UpdateSubscription:
        before = WantedSubscription(_not_left(found, named).form, found.details)
        info = await call.service.broker.run(ops.GetTopic(found.pattern))
        after = changed(
            before, given.AttributeName or "", given.AttributeValue or "", found.pattern, call.names, form_of(info)
        )
        return ops.UpdateSubscription(found.uuid, after.form, after.details, known=found, topic=info)

    await call.service.edits.make(ops.GetSubscription(named.uuid), update)
    return call.ok()
