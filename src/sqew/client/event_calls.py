"""Requests and answers about events, subscriptions, deliveries and certificates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from sqew.client import wire
from sqew.client.calls import SENDABLE, ApiCall, as_json, nothing, query_of, reads
from sqew.client.native import epoch_ms, epoch_ms_or_none, given, path, seconds
from sqew.errors import BadValue
from sqew.matching.routing import check_pattern, check_routing_key
from sqew.model import (
    RAW,
    CertificateInfo,
    Delivery,
    DeliveryState,
    Form,
    Format,
    NewMessage,
    Protocol,
    Published,
    Retried,
    Subscription,
)
from sqew.rules.messages import check_new_message
from sqew.rules.names import check_queue_name
from sqew.rules.values import check_id

# Publishing


class PublishedMessageDocument(Struct):
    queue: str
    id: int


class PublishedDocument(Struct):
    messages: list[PublishedMessageDocument]
    deliveries: int
    missing: list[str] = []

    def published(self) -> Published:
        return Published([(one.queue, one.id) for one in self.messages], self.deliveries, self.missing)


_published = reads(list[PublishedDocument])


def publish(routing_key: str, messages: Sequence[NewMessage]) -> ApiCall[list[Published]]:
    check_routing_key(routing_key)
    items = [_event(message) for message in messages]

    def parse(body: bytes) -> list[Published]:
        documents = _published(body)
        if len(documents) != len(items):
            raise msgspec.ValidationError(f"{len(documents)} entries instead of {len(items)}")
        return [document.published() for document in documents]

    # Published twice, an event is there twice.
    return ApiCall("POST", path("events", routing_key), parse, body=as_json(items))


def _event(message: NewMessage) -> dict[str, Any]:
    check_new_message(message, SENDABLE)
    if message.key is not None or message.lane is not None:
        what = "key" if message.key is not None else "lane"
        raise BadValue(f"An event can't have a {what}: each queue that it reaches has its own. Leave it out.")
    return {
        "message": wire.payload_of(message),
        "format": message.format,
        "priority": message.priority,
        **given(
            headers=message.headers,
            delay=seconds(message.delay_ms),
            group_id=message.group,
            ttl=seconds(message.ttl_ms),
        ),
    }


# Subscriptions


class SubscriptionDocument(Struct):
    id: int
    pattern: str
    protocol: Literal["sqs", "http", "https"]
    envelope: bool
    created_at: str
    queue: str = ""
    endpoint: str = ""
    signature_version: int = 2
    problem: str = ""

    def subscription(self) -> Subscription:
        protocol: Protocol = "queue" if self.protocol == "sqs" else self.protocol
        target = self.queue if protocol == "queue" else self.endpoint
        form = _form(self.envelope, self.signature_version)
        return Subscription(self.id, self.pattern, protocol, target, form, epoch_ms(self.created_at), self.problem)


def _form(envelope: bool, signature_version: int) -> Form:
    if not envelope:
        return RAW
    return 1 if signature_version == 1 else 2


_subscription_document = reads(SubscriptionDocument)
_subscription_documents = reads(list[SubscriptionDocument])


def _subscription(body: bytes) -> Subscription:
    return _subscription_document(body).subscription()


def _subscriptions(body: bytes) -> list[Subscription]:
    return [document.subscription() for document in _subscription_documents(body)]


def subscribe(
    pattern: str, queue: str | None, endpoint: str | None, envelope: bool, signature_version: int | None
) -> ApiCall[Subscription]:
    check_pattern(pattern)
    if (queue is None) == (endpoint is None):
        raise BadValue("A subscription leads to one place. Give queue='orders', or endpoint='https://…'.")
    target = given(queue_name=queue, endpoint=endpoint)
    return ApiCall(
        "POST",
        path("events", pattern, "subscriptions"),
        _subscription,
        body=as_json({**target, "envelope": envelope, **given(signature_version=signature_version)}),
        repeatable=True,
        about={"pattern": pattern, "queue": queue},
    )


def unsubscribe(id: int) -> ApiCall[None]:
    check_id(id)
    return ApiCall("DELETE", path("subscriptions", id), nothing, about={"id": id})


def subscriptions(pattern: str | None, queue: str | None, limit: int | None, after: int) -> ApiCall[list[Subscription]]:
    if pattern is not None and queue is not None:
        raise BadValue("Subscriptions are listed by pattern or by queue. Give one of the two.")
    place = path("subscriptions")
    if pattern is not None:
        check_pattern(pattern)
        place = path("events", pattern, "subscriptions")
    elif queue is not None:
        check_queue_name(queue)
        place = path("queues", queue, "subscriptions")
    return ApiCall(
        "GET",
        place,
        _subscriptions,
        query_of(limit=limit, after=after or None),
        repeatable=True,
        about={"queue": queue},
    )


# Deliveries


class DeliveryDocument(Struct):
    id: int
    subscription_id: int
    endpoint: str
    routing_key: str
    message_id: str
    envelope: bool
    state: DeliveryState
    attempts: int
    created_at: str
    due_at: str | None
    tried_at: str | None
    status: int | None
    error: str | None
    signature_version: int = 2
    message: Raw = Raw(b"")
    format: Format = "json"

    def delivery(self) -> Delivery:
        return Delivery(
            self.id, self.subscription_id, self.endpoint, self.routing_key, self.message_id,
            _form(self.envelope, self.signature_version), self.state, self.attempts, epoch_ms(self.created_at),
            epoch_ms_or_none(self.due_at), epoch_ms_or_none(self.tried_at), self.status, self.error or "",
            self.format, wire.body_of(self.message, self.format),
        )  # fmt: skip


class DroppedDocument(Struct):
    dropped: int


_delivery_document = reads(DeliveryDocument)
_delivery_documents = reads(list[DeliveryDocument])
_retried = reads(Retried)
_dropped = reads(DroppedDocument)


def _delivery(body: bytes) -> Delivery:
    return _delivery_document(body).delivery()


def _deliveries(body: bytes) -> list[Delivery]:
    return [document.delivery() for document in _delivery_documents(body)]


def deliveries(
    state: DeliveryState | None, subscription_id: int | None, limit: int, after: int
) -> ApiCall[list[Delivery]]:
    query = query_of(state=state, subscription_id=subscription_id, limit=limit, after=after or None)
    return ApiCall("GET", path("deliveries"), _deliveries, query, repeatable=True)


def delivery(id: int) -> ApiCall[Delivery]:
    check_id(id)
    return ApiCall("GET", path("deliveries", id), _delivery, repeatable=True, about={"id": id})


def retry(id: int) -> ApiCall[Delivery]:
    check_id(id)
    return ApiCall("POST", path("deliveries", id, "retry"), _delivery, about={"id": id})


def retry_all(subscription_id: int | None) -> ApiCall[Retried]:
    return ApiCall(
        "POST",
        path("deliveries", "retry"),
        _retried,
        query_of(subscription_id=subscription_id),
        long=True,
    )


def drop(id: int) -> ApiCall[None]:
    check_id(id)
    return ApiCall("DELETE", path("deliveries", id), nothing, about={"id": id})


def drop_all(subscription_id: int | None) -> ApiCall[int]:
    return ApiCall(
        "DELETE",
        path("deliveries"),
        lambda body: _dropped(body).dropped,
        query_of(subscription_id=subscription_id),
        long=True,
    )


# Certificates


class CertificateDocument(Struct):
    id: str
    url: str
    created_at: str

    def info(self) -> CertificateInfo:
        return CertificateInfo(self.id, self.url, epoch_ms(self.created_at))


_certificate = reads(CertificateDocument)
_certificates = reads(list[CertificateDocument])


def certificate_pem() -> ApiCall[str]:
    return ApiCall("GET", path("cert"), bytes.decode, repeatable=True)


def certificates() -> ApiCall[list[CertificateInfo]]:
    return ApiCall(
        "GET",
        path("certificates"),
        lambda body: [document.info() for document in _certificates(body)],
        repeatable=True,
    )


def rotate() -> ApiCall[CertificateInfo]:
    return ApiCall("POST", path("certificates"), lambda body: _certificate(body).info())
