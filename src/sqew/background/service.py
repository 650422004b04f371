"""Loops that run beside a server: firing schedules, moving dead letters, promoting and posting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from sqew.background.moves import MoveTaskRunner
from sqew.background.promotions import Promoter
from sqew.background.scheduler import Scheduler
from sqew.background.webhooks.poster import Poster
from sqew.background.webhooks.sender import WebhookSender
from sqew.core.broker import Broker
from sqew.core.publisher import Publisher
from sqew.envelopes.sns import EVERYWHERE
from sqew.errors import SqewError, StoreClosed, StoreUnavailable
from sqew.model import Delivered
from sqew.rules.webhook_addresses import WebhookAddresses
from sqew.settings import Settings, durations

_log = logging.getLogger("sqew.server")
_TRY_AGAIN_S = 1.0


class Counters(Protocol):
    """The counters of a server that its background updates."""

    def delivery(self, is_delivered: bool, seconds: float, ended: Delivered) -> None: ...

    def fire(self, has_fired: bool) -> None: ...


class BackgroundHost(Protocol):
    """The server that the loops run beside, as far as they know it."""

    broker: Broker
    publisher: Publisher
    settings: Settings
    webhook_addresses: WebhookAddresses

    @property
    def counters(self) -> Counters: ...


class Background:
    """The workers of a server, running from the start. A task that ends has met a store that was closed for good."""

    def __init__(self, service: BackgroundHost) -> None:
        settings, broker = service.settings, service.broker
        service.publisher.flows.guesses_url = not settings.base_url and settings.host in EVERYWHERE
        self._webhooks: WebhookSender | None = None
        self.tasks: list[asyncio.Task[None]] = []
        if settings.schedule_enabled:
            scheduler = Scheduler(
                broker,
                service.publisher,
                settings.schedule_batch_size,
                settings.schedule_poll_ms,
                service.counters.fire,
            )
            self.tasks.append(asyncio.create_task(for_ever("schedules", scheduler.run)))
        self.tasks.append(asyncio.create_task(for_ever("moves of dead letters", MoveTaskRunner(broker).run)))
        self.tasks.append(asyncio.create_task(for_ever("promotions", Promoter(broker).run)))
        if settings.delivery_enabled:
            self._webhooks = WebhookSender(
                broker,
                Poster(service.webhook_addresses, settings.delivery_timeout_ms / 1000),
                settings.account_id,
                durations("delivery_retries", settings.delivery_retries),
                timeout_ms=settings.delivery_timeout_ms,
                batch=settings.delivery_batch_size,
                concurrency=settings.delivery_concurrency,
                per_subscription=settings.delivery_per_subscription,
                poll_ms=settings.delivery_poll_ms,
                observe=service.counters.delivery,
                base_url=service.publisher.flows.base_url,
            )
            self.tasks.append(asyncio.create_task(for_ever("deliveries", self._webhooks.run)))

    @property
    def deliveries(self) -> int:
        """Number of deliveries that are being posted just now."""
        return 0 if self._webhooks is None else self._webhooks.under_way

    async def stop(self, within_s: float) -> None:
        """Start nothing new, and finish what was begun as far as there is time."""
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks)
        if self._webhooks is not None:
            with contextlib.suppress(SqewError):
                # Where it can't be given back, it is tried again when its claim has run out.
                await self._webhooks.stop(within_s)


async def for_ever(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run a worker, again after every error, unless the store is closed: it never comes back."""
    while True:
        try:
            await work()
        except StoreClosed:
            raise
        except StoreUnavailable as error:
            # The store says so itself, once and not every second.
            _log.debug("%s have to wait: %s", name, error)
        except SqewError as error:
            _log.warning("%s have to wait", name, extra={"fields": {"error": str(error), "code": error.code}})
        except Exception:  # noqa: BLE001 (a mistake in the code must not take down a server that answers requests)
            _log.exception("%s met a mistake in the code and have to wait", name)
        await asyncio.sleep(_TRY_AGAIN_S)
