"""Events in envelopes: what an event is called there, and where its certificate is."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from random import getrandbits
from typing import cast
from urllib.parse import urlsplit

from msgspec import structs

from sqew.errors import BadSetting, EnvelopeNeeded, TooLarge
from sqew.model import NewEvent, NewMessage, Notice, SigningKey
from sqew.signing import SignatureVersion, envelope

REGION = "us-east-1"
EVERYWHERE = ("0.0.0.0", "::")
"""Addresses to listen at that stand for all of them."""


def new_event(routing_key: str, message: NewMessage) -> NewEvent:
    """An event with an id of its own."""
    # uuid.uuid4() takes three times as long. Nobody gains by guessing it.
    bits = f"{getrandbits(128):032x}"
    return NewEvent(routing_key, message, f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-a{bits[17:20]}-{bits[20:]}")


def topic_arn(routing_key: str, account_id: str) -> str:
    """What SNS would call a routing key."""
    return f"arn:aws:sns:{REGION}:{account_id}:{routing_key}"


def certificate_path(key_id: str) -> str:
    """Where a server has the certificate of a key: each at its own address, so that it outlives the next key."""
    return f"/v1/certificates/SimpleNotificationService-{key_id}.pem"


def reachable(address: str) -> str:
    """The address that a server listens at as others could use it: by this machine's name where it listens everywhere.

    A unix socket is reached by no URL.

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
    """Raise unless an envelope can say where its certificate is."""
    if not base_url:
        raise BadSetting(
            "An envelope says where its certificate is, and a server at a unix socket has no address that others can "
            "reach. Set base_url, or subscribe without envelope."
        )


class Seal:
    """Puts events into envelopes. As the body of a message an envelope may have ``max_body_bytes``."""

    def __init__(self, key: SigningKey, base_url: str, account_id: str, max_body_bytes: int) -> None:
        self._key, self._account_id, self._max_body_bytes = key, account_id, max_body_bytes
        self._cert_url = base_url.rstrip("/") + certificate_path(key.id)

    def all(self, events: Sequence[NewEvent], needed: EnvelopeNeeded, now_ms: int) -> list[NewEvent]:
        """The events, with an envelope for each version of the signature. A signature takes half a millisecond."""
        sealed = [self._with_envelopes(event, needed.versions, now_ms) for event in events]
        for event in sealed:
            for version in needed.for_queues:
                self._check_size(event.envelopes[version])
        return sealed

    def _check_size(self, envelope: bytes) -> None:
        if len(envelope) > self._max_body_bytes:
            raise TooLarge(
                f"A queue subscribes to this event in an envelope, which has {len(envelope)} bytes; "
                f"{self._max_body_bytes} are allowed (max_body_bytes). Publish less in one event."
            )

    def _with_envelopes(self, event: NewEvent, versions: Iterable[int], now_ms: int) -> NewEvent:
        arn = topic_arn(event.routing_key, self._account_id)
        notice = Notice(event.message_id, arn, event.message.body.decode(), now_ms)
        made = {
            version: envelope(notice, self._key, self._cert_url, cast("SignatureVersion", version))
            for version in versions
        }
        return structs.replace(event, envelopes={**event.envelopes, **made})
