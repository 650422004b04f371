"""Flows of events: publishing them, with envelopes for the subscribers that want them, and the keys that sign these."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from msgspec import structs

from sqew.core.flows import InThread, InTurn
from sqew.envelopes.signing import SignatureVersion, new_signing_key
from sqew.envelopes.sns import EnvelopeSigner, check_base_url, new_message_id
from sqew.errors import EnvelopeNeeded
from sqew.model import CANCELLATION, Fired, NewEvent, Published, SigningKey, SubscriptionNotice
from sqew.operations import AddSigningKey, FireSchedule, Operation, Publish, ReadSigningKeys

_log = logging.getLogger("sqew.publisher")

R = TypeVar("R")


class EventFlows:
    """The flows of a publisher, and what its envelopes say of it."""

    def __init__(self, account_id: str, max_body_bytes: int, now: Callable[[], int], base_url: str = "") -> None:
        self._account_id, self._max_body_bytes, self._now = account_id, max_body_bytes, now
        self.base_url = base_url
        """The URL at which others reach the server: an envelope has the address of its certificate."""
        self.guesses_url = False
        """True if the URL is a guess, because no setting gives it."""

    async def publish(
        self, events: Sequence[NewEvent], *, to_topics: bool = False, needed: EnvelopeNeeded | None = None
    ) -> list[Published]:
        """Send events to all their subscribers; each is on disk when this returns.

        ``to_topics``: publish as SNS does; see `sqew.operations.Publish`. ``needed``: the error of an earlier attempt,
        which names the envelopes to add.
        """
        if needed is not None:
            events = await self._in_envelopes(events, needed)
        return await self._with_envelopes(events, lambda events: Publish(events, to_topics))

    async def fire(self, operation: FireSchedule) -> Fired:
        """Fire a schedule."""
        return await self._with_envelopes(operation.events, lambda events: structs.replace(operation, events=events))

    async def _with_envelopes(
        self, events: Sequence[NewEvent], operation_of: Callable[[Sequence[NewEvent]], Operation[R]]
    ) -> R:
        # To try costs less than to sign. Each round adds a version to every event, and there are two: it ends.
        while True:
            try:
                return await operation_of(events)
            except EnvelopeNeeded as needed:
                events = await self._in_envelopes(events, needed)

    async def _in_envelopes(self, events: Sequence[NewEvent], needed: EnvelopeNeeded) -> list[NewEvent]:
        """Return the events with the envelopes that are needed."""
        check_base_url(self.base_url)
        signer = await self._signer_in_use()
        if self.guesses_url:
            self.guesses_url = False
            _log.warning(
                "envelopes name a certificate that others may not be able to fetch: set base_url",
                extra={"fields": {"base_url": self.base_url}},
            )
        return await InThread(partial(signer.all, events, needed, self._now()))

    async def confirmation_request(self, topic: str, token: str, version: SignatureVersion) -> SubscriptionNotice:
        """Return the signed message that asks an endpoint to confirm its subscription to a topic."""
        signer, id = await self._signer_in_use(), new_message_id()
        return SubscriptionNotice(
            id, await InThread(partial(signer.confirmation, topic, id, token, version, self._now()))
        )

    async def unsubscribe_notice(
        self, topic: str, uuid: str, token: str, version: SignatureVersion
    ) -> SubscriptionNotice:
        """Return the signed notice that an endpoint's subscription to a topic has ended, and how to restore it."""
        signer, id = await self._signer_in_use(), new_message_id()
        body = await InThread(partial(signer.cancellation, topic, uuid, id, token, version, self._now()))
        return SubscriptionNotice(id, body, CANCELLATION)

    async def signing_keys(self) -> list[SigningKey]:
        """Return the signing key in use, then the earlier ones. The first is made when it is first needed."""
        # In turn: to make one takes 0.1 s, and whoever asks for the certificate may do so without a token.
        return await ReadSigningKeys() or await InTurn(self._first_key)

    async def rotate(self) -> list[SigningKey]:
        """Sign with a new key from now on. The certificates of the old ones stay at the addresses in envelopes."""
        keys = await ReadSigningKeys()
        return await self._add_key(keys[0].id if keys else None)

    async def _first_key(self) -> list[SigningKey]:
        return await ReadSigningKeys() or await self._add_key(None)

    async def _add_key(self, instead_of: str | None) -> list[SigningKey]:
        return await AddSigningKey(await InThread(partial(new_signing_key, self._now())), instead_of)

    async def _signer_in_use(self) -> EnvelopeSigner:
        keys = await self.signing_keys()
        return EnvelopeSigner(keys[0], self.base_url, self._account_id, self._max_body_bytes)
