"""The handlers' service: the broker, the settings, and the few things that several dialects do alike."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from sqew.core.broker import Broker
from sqew.core.engine import creation
from sqew.core.publisher import Publisher
from sqew.errors import BadBody, Forbidden, MethodNotAllowed, QueueNotFound, SqewError, StoreFull, StoreUnavailable
from sqew.http.dialects.aws.cooldowns import Strictness
from sqew.http.dialects.aws.identity import Identities
from sqew.http.edit import Edits
from sqew.http.router import Router
from sqew.http.security.backpressure import Backpressure
from sqew.http.security.keychain import Keychain
from sqew.http.telemetry.counters import RequestCounters
from sqew.http.telemetry.metrics import Scraper
from sqew.http.wire.exchange import Headers, Request
from sqew.ids import MessageUuids
from sqew.model import Format, Message, QueueInfo, Received
from sqew.observe.labels import QueueLabels
from sqew.observe.tracing import Tracing
from sqew.operations import GetQueue, LastId
from sqew.rules.names import dead_letter_name, names_meant
from sqew.rules.values import check_int, check_ms
from sqew.rules.webhook_addresses import WebhookAddresses
from sqew.settings import Settings

NO_STORE: Headers = ((b"cache-control", b"no-store"),)
"""Headers for a GET that takes messages, and for secrets: no cache on the way may answer it a second time."""

_log = logging.getLogger("sqew.server")

_CHECKED_WITHIN_S = 1.5
"""Seconds that a store may take to answer before it counts as away: a load balancer waits no longer."""

_encode_text = msgspec.json.Encoder().encode
_decode_text = msgspec.json.Decoder(str).decode


class Service:
    """A running server, as its handlers see it."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        router: Router,
        keys: Keychain,
        backpressure: Backpressure,
        uuids: MessageUuids,
        tracing: Tracing | None = None,
    ) -> None:
        self.broker = broker
        self.publisher = Publisher(broker, settings.account_id)
        self.webhook_addresses = WebhookAddresses(settings.delivery_allow)
        self.identities = Identities(settings, self.publisher)
        self.strictness = Strictness(settings.aws_strict)
        self.edits = Edits(broker)
        self.settings = settings
        self.router = router
        self.keys = keys
        self.backpressure = backpressure
        self.uuids = uuids
        self._check: asyncio.Task[SqewError | None] | None = None
        self.reading_in_turn = asyncio.Lock()
        """Lock for reads of millions of messages: they take turns, so that one thread serves them all."""
        labels = QueueLabels(settings.metrics_queues)
        self.counters = RequestCounters(settings, labels, tracing)
        self.scraper = Scraper(broker, self.counters, labels)

    def batch(self, given: int | None, name: str = "batch", default: int = 1) -> int:
        """Return the number of messages to receive: the default, or the one asked for if it is allowed."""
        if given is None:
            return default
        check_int(name, given, 1, self.settings.max_batch)
        return given

    def wait_ms(self, given: int, name: str = "wait_ms") -> int:
        """Return the milliseconds that a receive may wait: as asked for, or as long as the server allows."""
        check_ms(name, given)
        # An empty answer is better than the one that says that the request took too long.
        return min(given, self.settings.max_wait_ms, self.settings.request_timeout_ms * 9 // 10)

    def patience_ms(self, chosen: int | None, received: Received) -> int:
        """Return the milliseconds that a receive waits if it found nothing: its own choice, or its queue's policy."""
        return self.wait_ms(received.wait_ms) if chosen is None else chosen

    def check_dead_letter(self, request: Request, queue: str, fields: Mapping[str, Any]) -> None:
        """Raise unless the caller may send a queue's dead letters to where these fields of a policy say.

        A key opens one queue: with another queue's name there, it would send messages to that queue.
        """
        target = fields.get("dead_letter")
        if request.key_id and target is not None and target != dead_letter_name(queue):
            raise Forbidden(
                f"Key '{request.key_id}' is for queue '{queue}', whose dead letters it may send to "
                f"'{dead_letter_name(queue)}' or nowhere. Use the server's token to send them elsewhere."
            )

    async def check_store(self) -> None:
        """Raise unless the store can be read, as every request does and as a program would that opens the file anew.
        For a database, raise as well unless it has the room and gives the rights to be written to.

        SQLite remembers what it has read, and would go on answering from that. Calls share a check that is under
        way, and wait for a moment only.
        """
        if self._check is None:
            self._check = asyncio.create_task(self._check_store())
        # What is under way goes on: to end it would take as long, where the database does not answer.
        done, _ = await asyncio.wait({self._check}, timeout=_CHECKED_WITHIN_S)
        if not done:
            raise StoreUnavailable(f"The store has not answered within {_CHECKED_WITHIN_S:g} s.")
        if (error := done.pop().result()) is not None:
            raise error

    async def _check_store(self) -> SqewError | None:
        try:
            await self.broker.run(LastId())
            await self.broker.read(LastId())
            await self.broker.check()
        except SqewError as error:
            if not isinstance(error, StoreUnavailable | StoreFull):
                # Of those the store has told itself, once.
                _log.warning("the store does not answer: %s", error)
            return error
        finally:
            self._check = None
        return None

    async def ensure_queue(self, name: str, **policy: Any) -> QueueInfo:
        """Return the queue of that name; make it if there is none."""
        return await self.broker.run(creation(self.settings, name, policy, exist_ok=True))

    async def meant(self, queue: str) -> str:
        """Find the full name of a queue named in a body: the suffix of a FIFO queue may be left out, as in a path."""
        for name in names_meant(queue):
            with contextlib.suppress(QueueNotFound):
                return (await self.broker.run(GetQueue(name))).name
        return queue


def in_seconds(ms: int) -> float:
    """Convert milliseconds to seconds, as an int if they are whole."""
    return ms // 1000 if ms % 1000 == 0 else ms / 1000


def refuse_head(request: Request) -> None:
    """Raise on HEAD where GET takes messages: they would be gone without having been seen."""
    if request.method == b"HEAD":
        raise MethodNotAllowed("HEAD", request.path.decode("latin-1")[:100], ("GET",))


def as_json(message: Message) -> msgspec.Raw:
    """Return a body for a JSON document: JSON as it was sent, text as a string, and null where it is damaged."""
    if message.damaged:
        return msgspec.Raw(b"null")
    return msgspec.Raw(message.body if message.format == "json" else _encode_text(message.body.decode()))


def json_body(raw: msgspec.Raw) -> bytes:
    """Return the JSON in a field of a request, byte for byte."""
    body = bytes(raw)
    if not body:
        raise BadBody("There is no body to send.")
    return body


def body_in(raw: msgspec.Raw, format: Format) -> bytes:
    """Return the body in a field of a request: its JSON byte for byte, or the text in a JSON string."""
    body = json_body(raw)
    return body if format == "json" else text_in(body)


def text_in(body: bytes) -> bytes:
    """Return the text in a JSON string."""
    try:
        return _decode_text(body).encode()
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadBody(f"A text body must be a JSON string: {error}.") from error
