"""Publishing from an event loop: envelopes for subscribers that want them are signed in a thread."""

from __future__ import annotations

from collections.abc import Sequence

from sqew.core.broker import Broker
from sqew.core.flows.events import EventFlows
from sqew.envelopes.signing import SignatureVersion
from sqew.envelopes.sns import check_base_url
from sqew.errors import EnvelopeNeeded
from sqew.model import Fired, NewEvent, Published, SigningKey, SubscriptionNotice
from sqew.operations import FireSchedule


class Publisher:
    """A publisher of events, with the key that signs their envelopes."""

    def __init__(self, broker: Broker, account_id: str, base_url: str = "") -> None:
        self._broker = broker
        self.flows = EventFlows(account_id, broker.limits.max_body_bytes, broker.now, base_url)

    async def publish(
        self, events: Sequence[NewEvent], *, to_topics: bool = False, needed: EnvelopeNeeded | None = None
    ) -> list[Published]:
        """Send events to all their subscribers; each is on disk when this returns. See `EventFlows.publish`."""
        return await self._broker.run_flow(self.flows.publish(events, to_topics=to_topics, needed=needed))

    async def fire(self, operation: FireSchedule) -> Fired:
        """Fire a schedule."""
        return await self._broker.run_flow(self.flows.fire(operation))

    async def confirmation_request(self, topic: str, token: str, version: SignatureVersion) -> SubscriptionNotice:
        """Return the signed message that asks an endpoint to confirm its subscription to a topic."""
        return await self._broker.run_flow(self.flows.confirmation_request(topic, token, version))

    async def unsubscribe_notice(
        self, topic: str, uuid: str, token: str, version: SignatureVersion
    ) -> SubscriptionNotice:
        """Return the signed notice that an endpoint's subscription to a topic has ended, and how to restore it."""
        return await self._broker.run_flow(self.flows.unsubscribe_notice(topic, uuid, token, version))

    async def signing_keys(self) -> list[SigningKey]:
        """Return the signing key in use, then the earlier ones. The first is made when it is first needed."""
        return await self._broker.run_flow(self.flows.signing_keys())

    async def rotate(self) -> list[SigningKey]:
        """Sign with a new key from now on. The certificates of the old ones stay at the addresses in envelopes."""
        return await self._broker.run_flow(self.flows.rotate())

    def check_envelopes(self) -> None:
        """Raise unless this server can put events into envelopes."""
        check_base_url(self.flows.base_url)
