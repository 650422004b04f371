"""Fires schedules when their time has come."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from sqew.broker import Broker
from sqew.errors import ScheduleChanged, SqewError, StoreError
from sqew.model import SCHEDULES, Schedule
from sqew.operations import FailSchedule, FindDueSchedules
from sqew.publisher import Publisher
from sqew.timetable import fire_due, retry_at

_log = logging.getLogger("sqew.scheduler")


class Scheduler:
    """Any number of them may be at one store: each slot is fired by one of them, and once."""

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
        self._stirred = asyncio.Event()
        broker.ring(SCHEDULES, self._stirred)

    async def run(self) -> None:
        """Fire what is due, for ever. It sleeps until the next slot, or until a schedule is made or changed."""
        while True:
            self._stirred.clear()
            next_due_at = await self.fire_due()
            wait_ms = self._poll_ms
            if next_due_at is not None:
                wait_ms = min(wait_ms, max(next_due_at - self._broker.now(), 0))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_ms / 1000):
                    await self._stirred.wait()

    async def fire_due(self) -> int | None:
        """Fire everything that is due now; when the next schedule is."""
        while True:
            due = await self._broker.run(FindDueSchedules(self._batch))
            if not due.schedules:
                return due.next_due_at
            await asyncio.gather(*(self._fire(schedule) for schedule in due.schedules))

    async def _fire(self, schedule: Schedule) -> None:
        now = self._broker.now()
        try:
            await self._publisher.fire(fire_due(schedule, now))
            self._observe(True)
        except ScheduleChanged:
            # Another server has fired it, or its owner has changed it: then it is due again, or not.
            pass
        except StoreError:
            # Nothing is wrong with the schedule: its slot stays due.
            raise
        except Exception as error:  # noqa: BLE001 (whatever is wrong with one must not keep the others from firing)
            self._observe(False)
            if not isinstance(error, SqewError):
                _log.exception("a schedule met a mistake in the code", extra={"fields": {"schedule": schedule.name}})
            await self._fail(schedule, str(error) or repr(error), now)

    async def _fail(self, schedule: Schedule, error: str, now: int) -> None:
        with contextlib.suppress(ScheduleChanged):
            failed = await self._broker.run(
                FailSchedule(schedule.name, schedule.version, error, retry_at(schedule, now))
            )
            fields = {"schedule": schedule.name, "error": error, "paused": failed.status == "paused"}
            _log.warning("a schedule could not fire", extra={"fields": fields})
