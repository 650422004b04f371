"""Worker that posts events to the endpoints that subscribe to them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from time import perf_counter

from msgspec.structs import replace

from sqew.background.webhooks.poster import Poster
from sqew.core.broker import Broker
from sqew.envelopes.sns import topic_arn, unsubscribe_link, with_link
from sqew.errors import DeliveryFailed, NotTried, StoreClosed, StoreError
from sqew.model import CONFIRMATION, DELIVERIES, NOTIFICATION, RAW, Claimed, Delivered, DeliveryOutcome, DueDelivery
from sqew.operations import ClaimDeliveries, NextDelivery, RenewDeliveries, SettleDeliveries
from sqew.rules.names import is_keyed

_log = logging.getLogger("sqew.courier")

_SHORTEST_CLAIM_MS, _LONGEST_CLAIM_MS = 1_000, 5_000
"""Milliseconds that a delivery is claimed for: so long it waits if its server is killed. A longer attempt renews it."""
_RENEWALS = 4
"""Renewals in the life of a claim: a loop that stalls for half of that life loses no claim."""
_SETTLE_WITHIN_MS = 10_000
"""Milliseconds for which a store that can't write the outcome is asked again."""
_LONGEST_ERROR = 500
_TRY_AGAIN_S = 0.5
_NOT_TRIED_MS = 1_000
"""Milliseconds until the next try for an endpoint whose name could not even be looked up."""
_WALK_ON_MS = 10
_KEPT_SHARE = 4
"""Divisor of the places: one of so many is kept for endpoints' servers that have none, so that a slow one with many
subscriptions leaves those free."""

Observe = Callable[[bool, float, Delivered], None]
"""Function that gets True if an attempt went well, the seconds it took, and what became of the delivery."""


class WebhookSender:
    """A worker that posts deliveries. Any number may be at one store: each delivery is tried by one at a time.

    A server that is killed leaves its deliveries claimed for a moment, because living ones renew their claims; then
    another server takes them over. So an endpoint gets every event at least once.
    """

    def __init__(
        self,
        broker: Broker,
        poster: Poster,
        account_id: str,
        retries_ms: tuple[int, ...],
        *,
        timeout_ms: int = 5_000,
        batch: int = 50,
        concurrency: int = 256,
        per_subscription: int = 16,
        poll_ms: int = 1_000,
        observe: Observe | None = None,
        base_url: str = "",
    ) -> None:
        self._broker, self._poster, self._account_id = broker, poster, account_id
        # Where others reach this server: what SNS's subscribers get says where they can unsubscribe.
        self._base_url = base_url
        self._retries_ms = retries_ms
        self._lease_ms = min(max(timeout_ms, _SHORTEST_CLAIM_MS), _LONGEST_CLAIM_MS)
        self._batch, self._concurrency, self._per_subscription = batch, concurrency, per_subscription
        self._poll_ms = poll_ms
        self._observe = observe
        self._cursor = 0
        self._under_way: dict[asyncio.Task[None], DueDelivery] = {}
        # By the ids of those: what each was claimed until, and is known to the store by.
        self._claims: dict[int, int] = {}
        self._keeper: asyncio.Task[None] | None = None
        # Subscriptions whose last attempt failed, and when: they get one at a time, so that slow ones don't take all
        # the places. One that is not tried again within the longest usual wait has nothing more to deliver, or is
        # gone, or waits as its own policy says.
        self._failing: dict[int, int] = {}
        self._remembered_ms = max(retries_ms, default=0) + 2 * (timeout_ms + _SETTLE_WITHIN_MS)
        self._woken = asyncio.Event()
        broker.wake_on(DELIVERIES, self._woken)

    async def run(self) -> None:
        """Post what is due, for ever. It sleeps until the next delivery is due, or until one is made."""
        while True:
            was_woken = self._woken.is_set()
            self._woken.clear()
            # Unless woken, look first: that holds up no writer, as a claim would.
            next_due_at = None if was_woken else await self._broker.run(NextDelivery())
            if was_woken or (next_due_at is not None and next_due_at <= self._broker.now()):
                next_due_at = await self._take()
            wait_ms = self._poll_ms
            if next_due_at is not None:
                wait_ms = min(wait_ms, max(next_due_at - self._broker.now(), 1))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._woken.wait()

    @property
    def under_way(self) -> int:
        """Number of deliveries that are being posted just now."""
        return len(self._under_way)

    async def stop(self, within_s: float) -> None:
        """Finish what is under way, and give back what takes longer. Call it when `run` has ended."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=within_s)
        unfinished, claims = list(self._under_way), dict(self._claims)
        for task in unfinished:
            task.cancel()
        try:
            if unfinished:
                await asyncio.wait(unfinished)
                await self._give_back(claims)
        finally:
            if self._keeper is not None:
                self._keeper.cancel()
            await self._poster.close()

    async def _give_back(self, claims: Mapping[int, int]) -> None:
        undone = [_undone(id, claimed_until) for id, claimed_until in claims.items()]
        most = self._broker.limits.max_batch
        for start in range(0, len(undone), most):
            await self._broker.run(SettleDeliveries(undone[start : start + most]))

    async def _take(self) -> int | None:
        """Claim as many as there is room for, and begin with them; return when the next will be due."""
        while True:
            room = min(self._concurrency - len(self._under_way), self._batch)
            if room <= 0:
                return None
            claimed = await self._claim(room)
            self._cursor = claimed.cursor
            if len(claimed.deliveries) >= room or (claimed.is_cut and claimed.deliveries):
                continue
            # What took nothing of very many comes back soon, with others in between: to walk past all of a hundred
            # thousand that wait takes 0.2 s, and each delivery that ends would have it done again.
            return self._broker.now() + _WALK_ON_MS if claimed.is_cut else claimed.next_due_at

    async def _claim(self, room: int) -> Claimed:
        promise: asyncio.Future[Claimed] = asyncio.get_running_loop().create_future()

        def begin(claimed: Claimed | Exception) -> None:
            # Not when the promise is awaited: who waits may have been cancelled, and `stop` must know of these too.
            if isinstance(claimed, Claimed):
                for delivery in claimed.deliveries:
                    self._begin(delivery)
            if promise.cancelled():
                return
            if isinstance(claimed, Claimed):
                promise.set_result(claimed)
            else:
                promise.set_exception(claimed)

        operation = ClaimDeliveries(
            room,
            self._per_subscription,
            self._lease_ms,
            self._busy(),
            self._cursor,
            frozenset(delivery.origin for delivery in self._under_way.values()),
            max(self._concurrency - self._concurrency // _KEPT_SHARE - len(self._under_way), 0),
        )
        self._broker.submit(operation, begin)
        return await promise

    def _begin(self, delivery: DueDelivery) -> None:
        is_under_way = delivery.id in self._claims
        self._claims[delivery.id] = delivery.claimed_until
        if is_under_way:
            # Its claim had run out, because the store was away: it is ours again, and must not be posted a second time.
            return
        task = asyncio.create_task(self._deliver(delivery))
        self._under_way[task] = delivery
        task.add_done_callback(self._over)
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep_claims())

    async def _keep_claims(self) -> None:
        """Renew the claims of what takes long, for as long as anything is under way."""
        step_ms, most = self._lease_ms // _RENEWALS, self._broker.limits.max_batch
        while self._under_way:
            await asyncio.sleep(step_ms / 1000)
            young = self._broker.now() + self._lease_ms - step_ms
            old = [(id, until) for id, until in self._claims.items() if until <= young]
            try:
                for start in range(0, len(old), most):
                    await self._broker.run(RenewDeliveries(dict(old[start : start + most]), self._lease_ms))
            except StoreClosed:
                return
            except StoreError as error:
                _log.debug("claims of deliveries could not be renewed: %s", error)

    def _busy(self) -> dict[int, int]:
        self._forget_failures()
        busy = Counter(delivery.subscription_id for delivery in self._under_way.values())
        # Those that fail have half of the places between them: hundreds of them must leave the others room.
        has_room = sum(busy[subscription_id] for subscription_id in self._failing) < max(self._concurrency // 2, 1)
        for subscription_id in self._failing:
            busy[subscription_id] += self._per_subscription - has_room
        return dict(busy)

    def _forget_failures(self) -> None:
        too_old = self._broker.now() - self._remembered_ms
        # The oldest is first.
        while self._failing and (oldest := next(iter(self._failing.items())))[1] < too_old:
            del self._failing[oldest[0]]

    def _over(self, task: asyncio.Task[None]) -> None:
        """Free the place of a delivery for another."""
        del self._claims[self._under_way.pop(task).id]
        self._woken.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # It is tried again when its claim has run out.
            _log.error("a delivery could not be settled", exc_info=error)

    async def _deliver(self, delivery: DueDelivery) -> None:
        began = perf_counter()
        try:
            status, error = await self._post(delivery)
        except NotTried:
            await self._settle(_undone(delivery.id, self._claims[delivery.id], self._broker.now() + _NOT_TRIED_MS))
            return
        took_s = perf_counter() - began
        self._failing.pop(delivery.subscription_id, None)
        if error:
            self._failing[delivery.subscription_id] = self._broker.now()
        outcome = DeliveryOutcome(
            delivery.id,
            self._claims[delivery.id],
            delivered=not error,
            status=status,
            error=error[:_LONGEST_ERROR],
            retry_at=self._retry_at(delivery),
            posted=self._body(delivery) if error else None,
        )
        if error and delivery.kind == CONFIRMATION and delivery.attempts == 0:
            _warn_of_pending(delivery, outcome.error)
        ended = await self._settle(outcome)
        if self._observe is not None:
            self._observe(not error, took_s, ended)

    async def _settle(self, outcome: DeliveryOutcome) -> Delivered:
        """Store how an attempt ended. If the store can't, ask it again: else what has arrived is posted again.

        Not for ever, as its place is wanted: after that, the delivery is tried again when its claim has run out.
        """
        enough = self._broker.now() + _SETTLE_WITHIN_MS
        while True:
            try:
                (ended,) = await self._broker.run(SettleDeliveries([outcome]))
                return ended
            except StoreClosed:
                raise
            except StoreError:
                if self._broker.now() >= enough:
                    raise
                await asyncio.sleep(_TRY_AGAIN_S)
            # It may have run out meanwhile, and be claimed anew.
            outcome = replace(outcome, claimed_until=self._claims[outcome.id])

    async def _post(self, delivery: DueDelivery) -> tuple[int | None, str]:
        """Return what the endpoint answered, and what was wrong with it, if anything."""
        try:
            answer = await self._poster.post(delivery.endpoint, self._body(delivery), self._headers(delivery))
        except NotTried:
            raise
        except DeliveryFailed as error:
            return None, str(error)
        except Exception as error:  # noqa: BLE001 (it counts as an attempt, or it would be tried for ever)
            _log.exception("a delivery met a mistake in the code")
            return None, f"It could not be posted: {error!r}. The server's log says more."
        if 200 <= answer.status < 300:
            return answer.status, ""
        sentence = f"The endpoint answered {answer.status}."
        if 300 <= answer.status < 400:
            sentence += " Redirects are not followed: subscribe the address that it leads to."
        return answer.status, sentence

    def _retry_at(self, delivery: DueDelivery) -> int | None:
        retries_ms = self._retries_ms if delivery.retries_ms is None else delivery.retries_ms
        if delivery.attempts >= len(retries_ms):
            return None
        return self._broker.now() + retries_ms[delivery.attempts]

    def _body(self, delivery: DueDelivery) -> bytes:
        if delivery.form == RAW or not delivery.subscription_uuid or delivery.kind != NOTIFICATION:
            return delivery.body
        arn = topic_arn(delivery.routing_key, self._account_id)
        return with_link(delivery.body, unsubscribe_link(self._base_url, arn) + delivery.subscription_uuid)

    def _headers(self, delivery: DueDelivery) -> dict[str, str]:
        arn = topic_arn(delivery.routing_key, self._account_id)
        headers = {
            "x-sqew-routing-key": delivery.routing_key,
            "x-sqew-delivery": str(delivery.id),
            "x-sqew-attempt": str(delivery.attempts + 1),
            "x-amz-sns-message-type": delivery.kind,
            "x-amz-sns-message-id": delivery.message_id,
            "x-amz-sns-topic-arn": arn,
        }
        if delivery.subscription_uuid and delivery.kind != CONFIRMATION:
            headers["x-amz-sns-subscription-arn"] = f"{arn}:{delivery.subscription_uuid}"
        if delivery.form == RAW and delivery.kind == NOTIFICATION:
            headers["x-amz-sns-rawdelivery"] = "true"
            headers["content-type"] = "application/json" if delivery.format == "json" else "text/plain; charset=utf-8"
        elif delivery.subscription_uuid and not is_keyed(delivery.routing_key):
            # So AWS calls it, although it is JSON.
            headers["content-type"] = "text/plain; charset=utf-8"
        else:
            headers["content-type"] = "application/json"
        return headers


def _warn_of_pending(delivery: DueDelivery, error: str) -> None:
    """Warn without the whole endpoint: its path and query may hold a secret."""
    fields = {
        "topic": delivery.routing_key,
        "endpoint": delivery.origin,
        "error": error,
        "see": "`sqew delivery list`",
    }
    _log.warning("an endpoint could not be asked to confirm its subscription", extra={"fields": fields})


def _undone(id: int, claimed_until: int, again_at: int | None = None) -> DeliveryOutcome:
    return DeliveryOutcome(id, claimed_until, delivered=False, retry_at=again_at, undone=True)
