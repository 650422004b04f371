"""Publishing from threads: envelopes for subscribers that want them are signed before a second attempt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from msgspec import structs

from sqew.clock import Clock
from sqew.envelopes.signing import new_signing_key
from sqew.envelopes.sns import EnvelopeSigner, check_base_url, reachable
from sqew.errors import EnvelopeNeeded
from sqew.model import Fired, NewEvent, Published, SigningKey
from sqew.operations import AddSigningKey, FireSchedule, Operation, Publish, ReadSigningKeys
from sqew.settings import Settings

R = TypeVar("R")


class ExecuteOperation(Protocol):
    """A callable that executes an operation: `sqew.Queue.run`."""

    def __call__(self, operation: Operation[R], /) -> R: ...


class EmbeddedPublisher:
    """A publisher of events, with the key that signs their envelopes."""

    def __init__(self, run: ExecuteOperation, clock: Clock, settings: Settings) -> None:
        self._run, self._clock = run, clock
        self._account_id, self._max_body_bytes = settings.account_id, settings.max_body_bytes
        self.base_url = settings.base_url or _server_url(settings)
        """The URL at which others reach the server on this file: an envelope has the address of its certificate."""

    def publish(self, events: Sequence[NewEvent]) -> list[Published]:
        """Send events to all their subscribers."""
        return self._run_with_envelopes(events, Publish)

    def fire(self, operation: FireSchedule) -> Fired:
        """Fire a schedule."""
        return self._run_with_envelopes(operation.events, lambda events: structs.replace(operation, events=events))

    def _run_with_envelopes(
        self, events: Sequence[NewEvent], with_events: Callable[[Sequence[NewEvent]], Operation[R]]
    ) -> R:
        # To try costs less than to sign. There are two versions to be added at most: it ends.
        while True:
            try:
                return self._run(with_events(events))
            except EnvelopeNeeded as needed:
                events = self._with_envelopes(events, needed)

    def signing_keys(self) -> list[SigningKey]:
        """Return the signing key in use, then the earlier ones. The first is made when it is first needed."""
        return self._run(ReadSigningKeys()) or self._add_key(None)

    def rotate(self) -> list[SigningKey]:
        """Sign with a new key from now on."""
        keys = self._run(ReadSigningKeys())
        return self._add_key(keys[0].id if keys else None)

    def _add_key(self, instead_of: str | None) -> list[SigningKey]:
        return self._run(AddSigningKey(new_signing_key(self._clock.now()), instead_of))

    def _with_envelopes(self, events: Sequence[NewEvent], needed: EnvelopeNeeded) -> list[NewEvent]:
        check_base_url(self.base_url)
        signer = EnvelopeSigner(self.signing_keys()[0], self.base_url, self._account_id, self._max_body_bytes)
        return signer.all(events, needed, self._clock.now())


def _server_url(settings: Settings) -> str:
    """Return the URL of a server with these settings, or an empty string if it listens on a unix socket."""
    if settings.unix_socket:
        return ""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return reachable(f"{'https' if settings.tls_cert else 'http'}://{host}:{settings.port}")
