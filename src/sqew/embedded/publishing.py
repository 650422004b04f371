"""Publishing from threads: envelopes for subscribers that want them are signed before a second attempt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from sqew.clock import Clock
from sqew.core.flows import Flow
from sqew.core.flows.events import EventFlows
from sqew.envelopes.sns import reachable
from sqew.model import Fired, NewEvent, Published, SigningKey
from sqew.operations import FireSchedule, Operation
from sqew.settings import Settings

R = TypeVar("R")


class ExecuteOperation(Protocol):
    """A callable that executes an operation: `sqew.Queue.run`."""

    def __call__(self, operation: Operation[R], /) -> R: ...


class RunFlow(Protocol):
    """A callable that runs a flow to its end in this thread."""

    def __call__(self, flow: Flow[R], /) -> R: ...


class EmbeddedPublisher:
    """A publisher of events, with the key that signs their envelopes."""

    def __init__(self, run_flow: RunFlow, clock: Clock, settings: Settings) -> None:
        self._run_flow = run_flow
        base_url = settings.base_url or _server_url(settings)
        self.flows = EventFlows(settings.account_id, settings.max_body_bytes, clock.now, base_url)

    def publish(self, events: Sequence[NewEvent]) -> list[Published]:
        """Send events to all their subscribers."""
        return self._run_flow(self.flows.publish(events))

    def fire(self, operation: FireSchedule) -> Fired:
        """Fire a schedule."""
        return self._run_flow(self.flows.fire(operation))

    def signing_keys(self) -> list[SigningKey]:
        """Return the signing key in use, then the earlier ones. The first is made when it is first needed."""
        return self._run_flow(self.flows.signing_keys())

    def rotate(self) -> list[SigningKey]:
        """Sign with a new key from now on."""
        return self._run_flow(self.flows.rotate())


def _server_url(settings: Settings) -> str:
    """Return the URL of a server with these settings, or an empty string if it listens on a unix socket."""
    if settings.unix_socket:
        return ""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return reachable(f"{'https' if settings.tls_cert else 'http'}://{host}:{settings.port}")
