"""Events: published under a routing key, in envelopes that are signed."""

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
"""Where a message says under which routing key it was published."""


class NewEvent(Struct, frozen=True):
    """A message to publish under a routing key."""

    routing_key: str
    message: NewMessage
    message_id: str
    """A UUID: the same for everybody whom the event reaches."""
    envelopes: dict[int, bytes] = {}  # msgspec copies it
    """The event in an envelope, by the version of the signature, where a subscription wants one."""
    unsubscribe_link: str = ""
    """The URL that unsubscribes, up to the UUID of the subscription. It comes with the envelopes."""
    attributes: dict[str, Any] = {}  # msgspec copies it
    """Message attributes as SNS has them: ``{"size": {"DataType": "Number", "StringValue": "5"}}``. Filters look at
    them; they become headers of the message, or a part of its envelope."""
    subject: str | None = None
    key: str | None = None
    """The idempotency key of the message in every queue that the event reaches."""
    numbered: bool = False
    """Whether it gets a number, in its envelope and in the answer: higher than all that were given before."""
    only: tuple[Protocol, ...] = ()
    """Whom it is for; nothing said: everybody."""


class Published(Struct, frozen=True):
    """Where an event went."""

    messages: list[tuple[str, int]]
    """The queues that it was sent to, and its id there."""
    deliveries: int
    """How many endpoints it will be posted to."""
    missing: list[str]
    """Queues that subscriptions name and that do not exist."""
    refused: list[SqewError] = []  # msgspec copies it
    """Why queues did not take it, where it was published without them."""
    number: int | None = None
    """Its number, where it gets one."""


class SigningKey(Discreet, frozen=True):
    """What envelopes are signed with, and the certificate that proves it."""

    hidden: ClassVar[tuple[str, ...]] = ("private_key", "certificate")
    id: str
    """The first 32 hexadecimal digits of the SHA-256 of the certificate."""
    private_key: bytes
    """PEM, PKCS#8."""
    certificate: bytes
    """PEM."""
    created_at: int


class Notice(Struct, frozen=True):
    """What a signed envelope says of an event."""

    message_id: str
    topic_arn: str
    message: str
    at_ms: int
    """When it was published."""
    subject: str | None = None
    attributes: dict[str, Any] = {}  # msgspec copies it
    """As `NewEvent` has them."""


class CertificateInfo(Struct, frozen=True):
    """A certificate that proves the signature of envelopes, and where a server has it."""

    id: str
    url: str
    created_at: int


class Publish(Operation[list[Published]], frozen=True):
    """Send events to every queue whose subscription matches, and have them posted to every endpoint. All, or none.

    ``to_topics``: as SNS does. There must be topics of the names of their routing keys, unless those are names that
    only keys can have (`sqew.rules.rules.is_keyed`); and a queue that refuses an
    event refuses it for itself alone. What it would have got goes to the dead-letter queue of its subscription.
    """

    events: Sequence[NewEvent]
    to_topics: bool = False


class ReadSalt(Operation[int], frozen=True):
    """The number that the store was made with: no other has the same. See `sqew.ids.MessageUuids`."""

    writes: ClassVar[bool] = False


class ReadSigningKeys(Operation[list[SigningKey]], frozen=True):
    """The keys that envelopes are and were signed with, the one in use first."""

    writes: ClassVar[bool] = False


class AddSigningKey(Operation[list[SigningKey]], frozen=True):
    """Sign with this key from now on, if the one in use is still ``instead_of`` (None: there is none)."""

    key: SigningKey
    instead_of: str | None = None
