"""Publishing from an event loop: envelopes for subscribers that want them are signed in a thread, outside the loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import structs

from sqew.core.broker import Broker
from sqew.envelopes.signing import SignatureVersion, new_signing_key
from sqew.envelopes.sns import EnvelopeSigner, check_base_url, new_message_id
from sqew.errors import EnvelopeNeeded
from sqew.model import CANCELLATION, Fired, NewEvent, Published, SigningKey, SubscriptionNotice
from sqew.operations import AddSigningKey, FireSchedule, Operation, Publish, ReadSigningKeys

_log = logging.getLogger("sqew.publisher")

R = TypeVar("R")


class Publisher:
    """A publisher of events, with the key that signs their envelopes."""

    def __init__(self, broker: Broker, account_id: str, base_url: str = "") -> None:
        self._broker = broker
        self._account_id = account_id
        self.base_url = base_url
        """The URL at which others reach this server: an envelope has the address of its certificate."""
        self.guesses_url = False
        """True if the URL is a guess, because no setting gives it."""
        self._making_key = asyncio.Lock()

    async def publish(
        self, events: Sequence[NewEvent], *, to_topics: bool = False, needed: EnvelopeNeeded | None = None
    ) -> list[Published]:
        """Send events to all their subscribers; each is on disk when this returns.

        ``to_topics``: publish as SNS does; see `sqew.operations.Publish`. ``needed``: the error of an earlier attempt,
        which names the envelopes to add.
        """
        if needed is not None:
            events = await self._in_envelopes(events, needed)
        return await self._run(events, lambda events: Publish(events, to_topics))

    async def fire(self, operation: FireSchedule) -> Fired:
        """Fire a schedule."""
        return await self._run(operation.events, lambda events: structs.replace(operation, events=events))

    async def _run(self, events: Sequence[NewEvent], with_events: Callable[[Sequence[NewEvent]], Operation[R]]) -> R:
        # To try costs less than to sign. Each round adds a version to every event, and there are two: it ends.
        while True:
            try:
                return await self._broker.run(with_events(events))
            except EnvelopeNeeded as needed:
                events = await self._in_envelopes(events, needed)

    async def confirmation_request(self, topic: str, token: str, version: SignatureVersion) -> SubscriptionNotice:
        """Return the signed message that asks an endpoint to confirm its subscription to a topic."""
        signer, id, now = await self._signer_in_use(), new_message_id(), self._broker.now()
        return SubscriptionNotice(id, await asyncio.to_thread(signer.confirmation, topic, id, token, version, now))

    async def unsubscribe_notice(
        self, topic: str, uuid: str, token: str, version: SignatureVersion
    ) -> SubscriptionNotice:
        """Return the signed notice that an endpoint's subscription to a topic has ended, and how to restore it."""
        signer, id, now = await self._signer_in_use(), new_message_id(), self._broker.now()
        body = await asyncio.to_thread(signer.cancellation, topic, uuid, id, token, version, now)
        return SubscriptionNotice(id, body, CANCELLATION)

    async def _signer_in_use(self) -> EnvelopeSigner:
        keys = await self.signing_keys()
        return EnvelopeSigner(keys[0], self.base_url, self._account_id, self._broker.limits.max_body_bytes)

    async def signing_keys(self) -> list[SigningKey]:
        """Return the signing key in use, then the earlier ones. The first is made when it is first needed."""
        if keys := await self._broker.run(ReadSigningKeys()):
            return keys
        # One at a time: to make one takes 0.1 s, and whoever asks for the certificate may do so without a token.
        async with self._making_key:
            return await self._broker.run(ReadSigningKeys()) or await self._add_key(None)

    def check_envelopes(self) -> None:
        """Raise unless this server can put events into envelopes."""
        check_base_url(self.base_url)

    async def rotate(self) -> list[SigningKey]:
        """Sign with a new key from now on. The certificates of the old ones stay at the addresses in envelopes."""
        keys = await self._broker.run(ReadSigningKeys())
        return await self._add_key(keys[0].id if keys else None)

    async def _add_key(self, instead_of: str | None) -> list[SigningKey]:
        key = await asyncio.to_thread(new_signing_key, self._broker.now())
        return await self._broker.run(AddSigningKey(key, instead_of))

    async def _in_envelopes(self, events: Sequence[NewEvent], needed: EnvelopeNeeded) -> list[NewEvent]:
        """Return the events with the envelopes that are needed."""
        self.check_envelopes()
        signer = await self._signer_in_use()
        if self.guesses_url:
            self.guesses_url = False
            _log.warning(
                "envelopes name a certificate that others may not be able to fetch: set base_url",
                extra={"fields": {"base_url": self.base_url}},
            )
        return await asyncio.to_thread(signer.all, events, needed, self._broker.now())
