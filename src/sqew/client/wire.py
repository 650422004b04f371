"""The Sqew dialect on the client's side: the bodies that are sent and received, and their meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, Struct

from sqew.errors import SqewError
from sqew.model import (
    ArchivedMessage,
    Backoff,
    Death,
    Discreet,
    Format,
    Keep,
    KeyInfo,
    KeyScope,
    Lease,
    Message,
    NewMessage,
    Outcome,
    Policy,
    QueueInfo,
    Settled,
    State,
)
from sqew.rules.policies import MOST_ATTEMPTS

encode = msgspec.json.Encoder().encode
_decode_text = msgspec.json.Decoder(str).decode


# What goes out


class SendItem(Struct, omit_defaults=True):
    """A message to send."""

    payload: Raw
    priority: int = 0
    delay_ms: int | None = None
    ttl_ms: int | None = None
    idempotency_key: str | None = None
    lane: str | None = None
    group: str | None = None
    headers: dict[str, Any] | None = None
    format: Format = "json"
    sync_commit: bool | None = None


def payload_of(message: NewMessage) -> Raw:
    """Return a body as it stands in a request."""
    return Raw(message.body if message.format == "json" else encode(message.body.decode()))


def item_of(message: NewMessage, sync_commit: bool | None = None) -> SendItem:
    return SendItem(
        payload_of(message), message.priority, message.delay_ms, message.ttl_ms, message.key, message.lane,
        message.group, message.headers, message.format, sync_commit,
    )  # fmt: skip


class Settling(Struct, omit_defaults=True):
    """A message to ack, nack or extend."""

    id: int
    token: str | None = None
    consumer: str | None = None
    delay_ms: int | None = None
    dead: bool = False
    reason: str = ""
    ms: int | None = None


# What comes back


class ErrorDocument(Struct):
    code: str
    message: str


class FailureDocument(Struct):
    error: ErrorDocument | str
    """The error as sent. A server that is not ready sends only a sentence."""


class QueueDocument(Struct):
    name: str
    created_at: int
    max_attempts: int | None
    visibility_ms: int
    dlq: str | None
    fifo: bool
    backoff: Backoff
    delay_ms: int
    ttl_ms: int | None
    deduplicate: str
    deduplicate_within: str
    key_retention_ms: int
    key_retention_from: str
    lanes: dict[str, int]
    keep: Keep
    archive_retention_ms: int | None
    rate_limit: float | None
    quota: int | None
    max_body_bytes: int | None
    receive_wait_ms: int
    id: int = 0

    def info(self) -> QueueInfo:
        fields = {name: getattr(self, name) for name in Policy.__struct_fields__ if name != "dead_letter"}
        if self.max_attempts is not None and self.max_attempts > MOST_ATTEMPTS:
            # No limit has a number of its own there, for hq's clients.
            fields["max_attempts"] = None
        return QueueInfo(self.name, Policy(dead_letter=self.dlq, **fields), self.created_at, id=self.id)


class SentDocument(Struct):
    message_id: int
    duplicate: bool = False


class SentBatchDocument(Struct):
    messages: list[SentDocument]


class ReceivedDocument(Struct):
    """A message that was taken."""

    id: int
    payload: Raw
    attempts: int
    lease_expires_at: int
    token: str
    created_at: int
    available_at: int
    priority: int = 0
    lane: str = ""
    group: str | None = None
    idempotency_key: str | None = None
    headers: dict[str, Any] = {}
    expires_at: int | None = None
    format: Format = "json"

    def message(self, queue: str, by: str | None) -> Message:
        lease = Lease(self.token, self.lease_expires_at, by)
        return Message(
            self.id, queue, body_of(self.payload, self.format), self.format, self.headers, self.priority, self.lane,
            self.group, self.idempotency_key, self.attempts, self.created_at, self.available_at, self.expires_at,
            "leased", lease,
        )  # fmt: skip


class ReceivedBatch(Struct):
    messages: list[ReceivedDocument]
    lease_ms: int = 0


class Stored(Struct):
    """A message that was looked at."""

    id: int
    payload: Raw
    attempts: int
    created_at: int
    available_at: int
    state: State = "ready"
    priority: int = 0
    lane: str = ""
    group: str | None = None
    idempotency_key: str | None = None
    headers: dict[str, Any] = {}
    expires_at: int | None = None
    lease_expires_at: int | None = None
    leased_by: str | None = None
    died_in: str | None = None
    reason: str | None = None
    died_at: int | None = None
    damaged: bool = False
    queue: str = ""
    format: Format = "json"

    def message(self, queue: str) -> Message:
        lease = None if self.lease_expires_at is None else Lease("", self.lease_expires_at, self.leased_by)
        death = None
        if self.died_in is not None and self.died_at is not None:
            death = Death(self.died_in, self.reason or "", self.died_at)
        body = b"" if self.damaged else body_of(self.payload, self.format)
        return Message(
            self.id, self.queue or queue, body, self.format, self.headers, self.priority, self.lane, self.group,
            self.idempotency_key, self.attempts, self.created_at, self.available_at, self.expires_at, self.state, lease,
            death, self.damaged,
        )  # fmt: skip


class StoredBatch(Struct):
    messages: list[Stored]
    after: int | None = None


class ArchivedDocument(Stored, kw_only=True):
    """A finished message."""

    outcome: Outcome
    finished_at: int

    def archived(self, queue: str) -> ArchivedMessage:
        return ArchivedMessage(self.message(queue), self.outcome, self.finished_at, self.reason or "")


class ArchivedBatch(Struct):
    messages: list[ArchivedDocument]
    after: int | None = None


class SettledDocument(Struct):
    id: int
    ok: bool
    due_at: int | None = None
    dead: bool = False
    error: ErrorDocument | None = None

    def result(self, queue: str) -> Settled | SqewError:
        if self.error is not None:
            return error_of(self.error, {"id": self.id, "queue": queue})
        return Settled(self.id, self.due_at, self.dead)


class SettledBatchDocument(Struct):
    results: list[SettledDocument]


class CreatedKeyDocument(Discreet, frozen=True):
    hidden: ClassVar[tuple[str, ...]] = ("key", "signing_secret")
    id: str
    queue: str
    scopes: tuple[KeyScope, ...]
    label: str
    signing: bool
    created_at: int
    key: str
    signing_secret: str | None = None

    def made(self) -> tuple[KeyInfo, str, str | None]:
        info = KeyInfo(self.id, self.queue, self.scopes, self.label, self.signing, self.created_at)
        return info, self.key, self.signing_secret


class KeysDocument(Struct):
    keys: list[KeyInfo]


class CountDocument(Struct):
    count: int


class ImportedDocument(Struct):
    imported: int


class PurgedDocument(Struct):
    deleted: int


class CompactedDocument(Struct):
    """The bytes of the file that holds the queues, before and after."""

    bytes_before: int
    bytes_after: int


def body_of(payload: Raw, format: Format) -> bytes:
    """Return a body as it was sent, from the form that it has in an answer."""
    return bytes(payload) if format == "json" else _decode_text(payload).encode()


def _kinds(kind: type[SqewError]) -> Iterator[type[SqewError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)


_BY_CODE = {kind.code: kind for kind in _kinds(SqewError)}


def error_of(document: ErrorDocument, known: Mapping[str, Any]) -> SqewError:
    """Return the error that the server met, of its class and in its words. ``known``: its attributes."""
    kind = _BY_CODE.get(document.code, SqewError)
    error = error_like(kind, document.message, known)
    if kind is SqewError:
        error.code = document.code
    return error


def error_like(kind: type[SqewError], sentence: str, known: Mapping[str, Any]) -> SqewError:
    """Return an error of a class, in the server's words."""
    # Not by calling the class: each makes up its own sentence, and the server has done that already.
    error = kind.__new__(kind, sentence)
    for name, value in known.items():
        setattr(error, name, value)
    return error
