"""`Queue.deliveries`: events on their way to endpoints, and those that never reached them."""

from __future__ import annotations

from sqew.clock import Clock
from sqew.core.flows import deliveries
from sqew.embedded.publishing import ExecuteOperation, RunFlow
from sqew.model import Delivery, DeliveryState, Retried
from sqew.operations import (
    GetDelivery,
    ListDeliveries,
)
from sqew.rules.limits import Limits

Found = list[Delivery]


class EmbeddedDeliveries:
    """Deliveries of the file's events. A server on the file makes the attempts."""

    def __init__(self, run: ExecuteOperation, run_flow: RunFlow, clock: Clock, limits: Limits) -> None:
        self._run, self._run_flow, self._clock, self._limits = run, run_flow, clock, limits

    def list(
        self,
        state: DeliveryState | None = None,
        subscription_id: int | None = None,
        *,
        limit: int = 100,
        after: int = 0,
    ) -> Found:
        """Return deliveries by id, after the given one, without their bodies."""
        return self._run(ListDeliveries(state, subscription_id, after, limit))

    def get(self, id: int) -> Delivery:
        """Return one delivery, with the body to be posted."""
        return self._run(GetDelivery(id))

    def retry(self, id: int) -> Delivery:
        """Have an exhausted delivery retried from the start."""
        return self._run_flow(deliveries.retry(id, self._clock.now, self._limits))

    def retry_all(self, subscription_id: int | None = None) -> Retried:
        """Have all exhausted deliveries (of a subscription) retried; return how many are, and how many can't be.

        Deliveries whose subscription is gone are left as they are.
        """
        return self._run_flow(deliveries.retry_all(subscription_id, self._limits))

    def drop(self, id: int) -> None:
        """Delete a delivery, exhausted or not."""
        self._run_flow(deliveries.drop(id, self._limits))

    def drop_all(self, subscription_id: int | None = None) -> int:
        """Delete all exhausted deliveries (of a subscription); return how many there were."""
        return self._run_flow(deliveries.drop_all(subscription_id, self._limits))
