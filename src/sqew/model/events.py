"""Events: messages published under a routing key, and the signed envelopes they may come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec import Struct

from sqew.errors import SqewError
from sqew.model.keys import Discreet
from sqew.model.messages import NewMessage
from sqew.model.operation import Operation
from sqew.model.subscriptions import Protocol

EVENT_HEADER = "_event"
"""The header that has the routing key under which a message was published."""


class NewEvent(Struct, frozen=True):
    """A message to publish under a routing key."""

    routing_key: str
    message: NewMessage
    message_id: str
    """A UUID: the same for all subscribers."""
    envelopes: dict[int, bytes] = {}  # msgspec copies it
    """The event in envelopes, by the version of their signature, if subscriptions want them."""
    unsubscribe_link: str = ""
    """The URL that unsubscribes, up to the UUID of the subscription. It comes with the envelopes."""
    attributes: dict[str, Any] = {}  # msgspec copies it
    """Message attributes as SNS has them: ``{"size": {"DataType": "Number", "StringValue": "5"}}``. Filters match
    them; they become headers of the message, or a part of its envelope."""
    subject: str | None = None
    key: str | None = None
    """The idempotency key of the message in every queue that the event reaches."""
    numbered: bool = False
    """True if it gets a number, in its envelope and in the answer: higher than all numbers before."""
    only: tuple[Protocol, ...] = ()
    """The protocols of the subscriptions that get it; empty: all."""


class Published(Struct, frozen=True):
    """The result of publishing an event."""

    messages: list[tuple[str, int]]
    """The queues it was sent to, each with the message's id there."""
    deliveries: int
    """The number of endpoints it will be posted to."""
    missing: list[str]
    """Queues that subscriptions name and that do not exist."""
    refused: list[SqewError] = []  # msgspec copies it
    """The errors of queues that refused it, if it was published to the others."""
    number: int | None = None
    """The event's number, if it is numbered."""


class SigningKey(Discreet, frozen=True):
    """A key that signs envelopes, and the certificate that proves it."""

    hidden: ClassVar[tuple[str, ...]] = ("private_key", "certificate")
    id: str
    """The first 32 hexadecimal digits of the SHA-256 of the certificate."""
    private_key: bytes
    """PEM, PKCS#8."""
    certificate: bytes
    """PEM."""
    created_at: int


class Notice(Struct, frozen=True):
    """The content of an event's signed envelope."""

    message_id: str
    topic_arn: str
    message: str
    at_ms: int
    """The time of publishing."""
    subject: str | None = None
    attributes: dict[str, Any] = {}  # msgspec copies it
    """Message attributes, as in `NewEvent`."""


class CertificateInfo(Struct, frozen=True):
    """A certificate that proves the signature of envelopes, and the URL at which a server has it."""

    id: str
    url: str
    created_at: int


class Publish(Operation[list[Published]], frozen=True):
    """Send events to every queue with a matching subscription, and have them posted to such endpoints. All, or none.

    ``to_topics``: publish as SNS does. Topics named like the routing keys must exist, except for names that only
    routing keys can have (`sqew.rules.names.is_keyed`); and a queue that refuses an event refuses it for itself alone:
    its message goes to the dead-letter queue of its subscription.
    """

    events: Sequence[NewEvent]
    to_topics: bool = False


class ReadSalt(Operation[int], frozen=True):
    """Return the store's random number: no other store has the same. See `sqew.ids.MessageUuids`."""

    writes: ClassVar[bool] = False


class ReadSigningKeys(Operation[list[SigningKey]], frozen=True):
    """Return the keys that sign or have signed envelopes, the one in use first."""

    writes: ClassVar[bool] = False


class AddSigningKey(Operation[list[SigningKey]], frozen=True):
    """Sign with this key from now on, if the one in use is still ``instead_of`` (None: there is none)."""

    key: SigningKey
    instead_of: str | None = None
