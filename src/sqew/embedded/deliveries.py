"""`Queue.deliveries`: events on their way to endpoints, and those that never reached them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from sqew.clock import Clock
from sqew.core.engine import Stepwise
from sqew.embedded.publishing import ExecuteOperation
from sqew.errors import Conflict, DeliveryNotFound, SubscriptionNotFound
from sqew.model import NO_REASON, Delivery, DeliveryState, Retried
from sqew.operations import (
    CountDeliveries,
    DropDeliveries,
    GetDelivery,
    ListDeliveries,
    ListSubscriptions,
    RetryDeliveries,
)
from sqew.rules.values import check_id

Found = list[Delivery]


class EmbeddedDeliveries:
    """Deliveries of the file's events. A server on the file makes the attempts."""

    def __init__(self, run: ExecuteOperation, in_steps: Callable[[Stepwise], int], clock: Clock) -> None:
        self._run, self._in_steps, self._clock = run, in_steps, clock

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
        delivery = self.get(id)
        if delivery.state != "exhausted":
            raise Conflict(f"Delivery {id} is {delivery.state}: it will be tried by itself. Retry only exhausted ones.")
        self._check_subscription(delivery)
        if not self._in_steps(RetryDeliveries((id,))):
            raise Conflict(f"Somebody else has just retried or dropped delivery {id}. Look at it again.")
        # A server may have delivered it already, and then it is gone: it can't be read again.
        return structs.replace(
            delivery, state="pending", attempts=0, due_at=self._clock.now(), status=None, error=NO_REASON
        )

    def _check_subscription(self, delivery: Delivery) -> None:
        """Raise `Conflict` if the delivery's subscription is gone: it would be dropped instead of posted."""
        if not self._is_subscription(delivery.subscription_id):
            raise Conflict(
                f"Delivery {delivery.id} belongs to subscription {delivery.subscription_id}, which was deleted. "
                "Subscribe again and publish again, or drop the delivery."
            )

    def _is_subscription(self, id: int) -> bool:
        found = self._run(ListSubscriptions(after=id - 1, limit=1))
        return bool(found) and found[0].id == id

    def retry_all(self, subscription_id: int | None = None) -> Retried:
        """Have all exhausted deliveries (of a subscription) retried; return how many are, and how many can't be.

        Deliveries whose subscription is gone are left as they are.
        """
        if subscription_id is not None:
            check_id(subscription_id)
            if not self._is_subscription(subscription_id):
                raise SubscriptionNotFound(subscription_id)
        retried = self._in_steps(RetryDeliveries(subscription_id=subscription_id))
        left = self._run(CountDeliveries()).unsubscribed if subscription_id is None else 0
        return Retried(retried, left)

    def drop(self, id: int) -> None:
        """Delete a delivery, exhausted or not."""
        if not self._in_steps(DropDeliveries((id,))):
            raise DeliveryNotFound(id)

    def drop_all(self, subscription_id: int | None = None) -> int:
        """Delete all exhausted deliveries (of a subscription); return how many there were."""
        return self._in_steps(DropDeliveries(subscription_id=subscription_id))
