"""Flows of deliveries to webhooks: retrying and dropping those that were given up."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from sqew.core.flows import Read
from sqew.core.flows.steps import in_steps
from sqew.errors import Conflict, DeliveryNotFound, SubscriptionNotFound
from sqew.model import NO_REASON, Delivery, Retried
from sqew.operations import CountDeliveries, DropDeliveries, GetDelivery, ListSubscriptions, RetryDeliveries
from sqew.rules.limits import Limits
from sqew.rules.values import check_id


async def retry(id: int, now: Callable[[], int], limits: Limits) -> Delivery:
    """Have an exhausted delivery retried, as often as a new one; return it as it is then."""
    delivery = await GetDelivery(id)
    if delivery.state != "exhausted":
        raise Conflict(f"Delivery {id} is {delivery.state}: it will be tried by itself. Retry only exhausted ones.")
    if not await _is_subscription(delivery.subscription_id):
        # It would be dropped instead of posted.
        raise Conflict(
            f"Delivery {id} belongs to subscription {delivery.subscription_id}, which was deleted. "
            "Subscribe again and publish again, or drop the delivery."
        )
    if not await in_steps(RetryDeliveries((id,)), limits):
        raise Conflict(f"Somebody else has just retried or dropped delivery {id}. Look at it again.")
    # A server may have delivered it already, and then it is gone: it can't be read again.
    return structs.replace(delivery, state="pending", attempts=0, due_at=now(), status=None, error=NO_REASON)


async def retry_all(subscription_id: int | None, limits: Limits) -> Retried:
    """Have all exhausted deliveries (of a subscription) retried; return how many are, and how many can't be.

    Deliveries whose subscription is gone are left as they are.
    """
    if subscription_id is not None:
        check_id(subscription_id)
        if not await _is_subscription(subscription_id):
            raise SubscriptionNotFound(subscription_id)
    retried = await in_steps(RetryDeliveries(None, subscription_id, limits.max_batch), limits)
    left = 0
    if subscription_id is None:
        # Beside the loop: it counts all that are exhausted.
        (counts,) = await Read(CountDeliveries())
        left = counts.unsubscribed
    return Retried(retried, left)


async def drop(id: int, limits: Limits) -> None:
    """Delete a delivery, exhausted or not: it is not posted any more, unless it is being posted right now."""
    if not await in_steps(DropDeliveries((id,)), limits):
        raise DeliveryNotFound(id)


async def drop_all(subscription_id: int | None, limits: Limits) -> int:
    """Delete all exhausted deliveries (of a subscription); return how many there were."""
    return await in_steps(DropDeliveries(None, subscription_id, limits.max_batch), limits)


async def _is_subscription(id: int) -> bool:
    found = await ListSubscriptions(after=id - 1, limit=1)
    return bool(found) and found[0].id == id
