"""Events in SNS envelopes: their ARNs, numbers and links, and the addresses of certificates."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from random import getrandbits
from typing import cast
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import structs

from sqew.envelopes.signing import SignatureVersion, confirmation, envelope
from sqew.errors import BadSetting, EnvelopeNeeded, TooLarge
from sqew.model import CANCELLATION, CONFIRMATION, NewEvent, NewMessage, Notice, SigningKey
from sqew.rules.regions import region_and_name

EVERYWHERE = ("0.0.0.0", "::")
"""Listening addresses that mean every interface."""


def new_event(routing_key: str, message: NewMessage) -> NewEvent:
    """Make an event with an id of its own."""
    return NewEvent(routing_key, message, new_message_id())


def new_message_id() -> str:
    """Make a UUID. uuid.uuid4() takes three times as long, and there is nothing to gain by guessing this id."""
    bits = f"{getrandbits(128):032x}"
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}"


def topic_arn(routing_key: str, account_id: str) -> str:
    """Return the ARN that SNS would give a routing key.

    >>> topic_arn("eu-west-1:orders", "000000000000")
    'arn:aws:sns:eu-west-1:000000000000:orders'
    """
    region, name = region_and_name(routing_key)
    return f"arn:aws:sns:{region}:{account_id}:{name}"


def unsubscribe_link(base_url: str, arn: str) -> str:
    """Return the URL that ends a subscription to a topic, up to the subscription's UUID."""
    query = urlencode({"Action": "Unsubscribe", "SubscriptionArn": f"{arn}:"}, safe=":")
    return f"{base_url.rstrip('/')}/?{query}"


def with_link(envelope: bytes, url: str) -> bytes:
    """Add the unsubscribe link to an envelope. It is not signed.

    >>> with_link(b'{"Type":"Notification"}', "http://localhost/?Action=Unsubscribe")
    b'{"Type":"Notification","UnsubscribeURL":"http://localhost/?Action=Unsubscribe"}'
    """
    return _with(envelope, "UnsubscribeURL", url)


def addressed(event: NewEvent, version: int, number: int | None = None, uuid: str = "") -> bytes:
    """Return an event's envelope for one subscription: with its number, and an unsubscribe link if SNS made it.

    Neither is signed: the number is not known before the event is written, and the link differs for each.
    """
    envelope = event.envelopes[version]
    if number is not None:
        envelope = _with(envelope, "SequenceNumber", sequence_number(number))
    return with_link(envelope, event.unsubscribe_link + uuid) if uuid and event.unsubscribe_link else envelope


def sequence_number(number: int) -> str:
    """Format a number as FIFO topics and queues write it.

    >>> sequence_number(7)
    '00000000000000000007'
    """
    return f"{number:020}"


def _with(envelope: bytes, name: str, value: str) -> bytes:
    return b'%s,"%s":%s}' % (envelope[:-1], name.encode(), msgspec.json.encode(value))


def certificate_path(key_id: str) -> str:
    """Return the path of a key's certificate: each key has its own, so that a certificate outlives the next key."""
    return f"/v1/certificates/SimpleNotificationService-{key_id}.pem"


def reachable(address: str) -> str:
    """Return a server's address as others can use it: with this machine's name if it listens on every interface.

    A unix socket can't be reached by a URL.

    >>> reachable("http://127.0.0.1:8888")
    'http://127.0.0.1:8888'
    >>> reachable("unix:/run/sqew.sock")
    ''
    """
    parts = urlsplit(address)
    if parts.scheme == "unix":
        return ""
    return f"{parts.scheme}://{socket.gethostname()}:{parts.port}" if parts.hostname in EVERYWHERE else address


def check_base_url(base_url: str) -> None:
    """Raise unless an envelope can have the address of its certificate."""
    if not base_url:
        raise BadSetting(
            "An envelope says where its certificate is, and a server at a unix socket has no address that others can "
            "reach. Set base_url, or subscribe without envelope."
        )


class EnvelopeSigner:
    """Maker of envelopes for events. As the body of a message, an envelope may have ``max_body_bytes``."""

    def __init__(self, key: SigningKey, base_url: str, account_id: str, max_body_bytes: int) -> None:
        self._key, self._account_id, self._max_body_bytes = key, account_id, max_body_bytes
        self._base_url = base_url.rstrip("/")
        self._cert_url = self._base_url + certificate_path(key.id)

    def all(self, events: Sequence[NewEvent], needed: EnvelopeNeeded, now_ms: int) -> list[NewEvent]:
        """Return the events with an envelope for each version of the signature. Each signature takes half a
        millisecond."""
        wrapped = [self._with_envelopes(event, needed.versions, now_ms) for event in events]
        for event in wrapped:
            for version in needed.for_queues:
                self._check_size(event.envelopes[version])
        return wrapped

    def _check_size(self, envelope: bytes) -> None:
        if len(envelope) > self._max_body_bytes:
            raise TooLarge(
                f"A queue subscribes to this event in an envelope, which has {len(envelope)} bytes; "
                f"{self._max_body_bytes} are allowed (max_body_bytes). Publish less in one event."
            )

    def _with_envelopes(self, event: NewEvent, versions: Iterable[int], now_ms: int) -> NewEvent:
        arn = topic_arn(event.routing_key, self._account_id)
        text = event.message.body.decode()
        notice = Notice(event.message_id, arn, text, now_ms, event.subject, event.attributes)
        made = {
            version: envelope(notice, self._key, self._cert_url, cast("SignatureVersion", version))
            for version in versions
        }
        return structs.replace(
            event, envelopes={**event.envelopes, **made}, unsubscribe_link=unsubscribe_link(self._base_url, arn)
        )

    def confirmation(self, topic: str, message_id: str, token: str, version: SignatureVersion, now_ms: int) -> bytes:
        """Return the request to an endpoint to confirm its subscription to a topic."""
        arn = topic_arn(topic, self._account_id)
        text = (
            f"You have chosen to subscribe to the topic {arn}.\n"
            "To confirm the subscription, visit the SubscribeURL included in this message."
        )
        return self._asking(CONFIRMATION, Notice(message_id, arn, text, now_ms), token, version)

    def cancellation(
        self, topic: str, uuid: str, message_id: str, token: str, version: SignatureVersion, now_ms: int
    ) -> bytes:
        """Return the notice to an endpoint that its subscription to a topic has ended, with the link to restore it."""
        arn = topic_arn(topic, self._account_id)
        text = (
            f"You have chosen to deactivate subscription {arn}:{uuid}.\n"
            "To cancel this operation and restore the subscription, visit the SubscribeURL included in this message."
        )
        return self._asking(CANCELLATION, Notice(message_id, arn, text, now_ms), token, version)

    def _asking(self, kind: str, notice: Notice, token: str, version: SignatureVersion) -> bytes:
        query = urlencode({"Action": "ConfirmSubscription", "TopicArn": notice.topic_arn, "Token": token}, safe=":")
        return confirmation(kind, notice, token, f"{self._base_url}/?{query}", self._key, self._cert_url, version)
