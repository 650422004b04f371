"""Worker that fires schedules when they are due."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from sqew.clock import SMALLEST_CORRECTION_MS
from sqew.core.broker import Broker
from sqew.core.publisher import Publisher
from sqew.errors import (
    Invalid,
    Limited,
    QueueNotFound,
    ScheduleChanged,
    ScheduleDamaged,
    SqewError,
    StoreDamaged,
    StoreError,
    TooWide,
)
from sqew.model import SCHEDULES, Schedule
from sqew.operations import ClockIsSlow, FailSchedule, FindDueSchedules, FireSchedule, ListSchedules, SaveSchedule
from sqew.schedules.changes import MOST_WEIGHT, fire_due, retry_at, set_right, weight_of

_log = logging.getLogger("sqew.scheduler")


class Scheduler:
    """A worker that fires schedules. Any number may be at one store: each slot is fired by one of them, and once."""

    def __init__(
        self,
        broker: Broker,
        publisher: Publisher,
        batch: int = 100,
        poll_ms: int = 1_000,
        observe: Callable[[bool], None] | None = None,
    ) -> None:
        self._broker, self._publisher = broker, publisher
        self._batch, self._poll_ms = batch, poll_ms
        self._observe = observe or (lambda has_fired: None)
        # The time when it last looked; None: not yet.
        self._looked_at: int | None = None
        self._woken = asyncio.Event()
        broker.wake_on(SCHEDULES, self._woken)

    async def run(self) -> None:
        """Fire what is due, for ever. It sleeps until the next slot, or until a schedule is made or changed."""
        while True:
            self._woken.clear()
            await self._set_right()
            next_due_at = await self.fire_due()
            wait_ms = self._poll_ms
            if next_due_at is not None:
                wait_ms = min(wait_ms, max(next_due_at - self._broker.now(), 0))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._woken.wait()

    async def _set_right(self) -> None:
        """Correct schedules after the clock was ahead.

        Those that fired meanwhile would stand still until the time that it showed.
        """
        now = self._broker.now()
        if not await self._may_have_been_ahead(now):
            self._looked_at = now
            return
        after = ""
        while page := await self._broker.run(ListSchedules(after=after)):
            for schedule in page:
                # What is damaged has no expression, or says so when it is stored.
                with contextlib.suppress(ScheduleChanged, ScheduleDamaged, Invalid):
                    right = set_right(schedule, now)
                    if right is not None:
                        await self._broker.run(SaveSchedule(right, schedule.version))
                        _log.warning(
                            "the clock was ahead: a schedule is set right", extra={"fields": {"name": right.name}}
                        )
            after = page[-1].name
        self._looked_at = now

    async def _may_have_been_ahead(self, now: int) -> bool:
        """Return True if time was set back since the last look; at the first look, unless the clock is slow."""
        if self._looked_at is None:
            return not await self._broker.run(ClockIsSlow())
        return now < self._looked_at - SMALLEST_CORRECTION_MS

    async def fire_due(self) -> int | None:
        """Fire everything that is due now; return when the next schedule is."""
        while True:
            due = await self._broker.run(FindDueSchedules(self._batch))
            if not due.schedules:
                return due.next_due_at
            await self._fire_all(due.schedules)

    async def _fire_all(self, schedules: Sequence[Schedule]) -> None:
        """Fire schedules together, as many as one transaction should hold, and then the next of them."""
        together: list[Awaitable[None]] = []
        weight = 0
        for schedule in schedules:
            now = self._broker.now()
            try:
                fire = fire_due(schedule, now)
            except Exception as error:  # noqa: BLE001 (see `_fire`)
                together.append(self._fail(schedule, error, now))
                continue
            together.append(self._fire(schedule, fire, now))
            weight += weight_of(fire)
            if weight >= MOST_WEIGHT:
                await asyncio.gather(*together)
                together, weight = [], 0
        await asyncio.gather(*together)

    async def _fire(self, schedule: Schedule, fire: FireSchedule, now: int) -> None:
        try:
            try:
                await self._publisher.fire(fire)
            except TooWide as error:
                await self._publisher.fire(fire_due(schedule, now, error.fits))
            except Limited:
                if len(fire.events) == 1:
                    raise
                # All that was missed is too much for the queue; one slot may not be, and the others stay due.
                await self._publisher.fire(fire_due(schedule, now, 1))
            self._observe(True)
        except ScheduleChanged:
            # Another server has fired it, or its owner has changed it: then it is due again, or not.
            pass
        except StoreDamaged as error:
            # What it sends to, it may be; the others have nothing to do with that.
            await self._fail(schedule, error, now)
        except StoreError:
            # Nothing is wrong with the schedule: its slot stays due.
            raise
        except Exception as error:  # noqa: BLE001 (whatever is wrong with one must not keep the others from firing)
            await self._fail(schedule, error, now)

    async def _fail(self, schedule: Schedule, error: Exception, now: int) -> None:
        self._observe(False)
        if not isinstance(error, SqewError):
            _log.error(
                "a schedule met a mistake in the code", exc_info=error, extra={"fields": {"schedule": schedule.name}}
            )
        if isinstance(error, QueueNotFound):
            # Without the nearest name: the schedule was right about it once, and what is stored is read much later.
            error = QueueNotFound(error.queue)
        sentence = str(error) or repr(error)
        with contextlib.suppress(ScheduleChanged):
            failed = await self._broker.run(
                FailSchedule(schedule.name, schedule.version, sentence, retry_at(schedule, now))
            )
            fields = {"schedule": schedule.name, "error": sentence, "paused": failed.status == "paused"}
            _log.warning("a schedule could not fire", extra={"fields": fields})
