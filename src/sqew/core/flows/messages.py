"""Flows over a queue's messages: purging them, and showing and counting them as they are now."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import TypeVar, cast

from sqew.core.checks import check_operation
from sqew.core.flows import Read, StoreCounts
from sqew.core.flows.steps import in_steps
from sqew.errors import StoreError
from sqew.model import Depths, QueueStats, QueueTotals
from sqew.observe.meter import summarize
from sqew.operations import LastId, Measure, Operation, Purge, ReadActivity, Survey, Sweep, SweepDue
from sqew.rules.limits import Limits

R = TypeVar("R")
_SWEEP_S = 0.25
"""Longest time that a read sweeps before it: more than that is left to upkeep."""


async def purge(queue: str, limits: Limits) -> int:
    """Delete every message that is in the queue now; return how many there were."""
    check_operation(Purge(queue, 0, limits.max_batch), limits)
    return await in_steps(Purge(queue, await LastId(), limits.max_batch), limits)


async def catch_up(now: Callable[[], int]) -> None:
    """Sweep for a moment before a read: messages that have expired would be shown, and counted, as ready.

    Checking whether there is anything to sweep takes no lock. If another process has the lock, or the sweep fails (a
    damaged row, a full disk), the read goes on without: upkeep fails of it as well, and logs it.
    """
    enough = perf_counter() + _SWEEP_S
    with suppress(StoreError):
        is_due = await SweepDue()
        while is_due and perf_counter() < enough:
            next_at = (await Sweep()).next_at
            is_due = next_at is not None and next_at <= now()


async def inspect(operation: Operation[R], now: Callable[[], int], limits: Limits) -> R:
    """Run an operation that shows messages, after a sweep: an expired message must not be shown as ready."""
    check_operation(operation, limits)
    await catch_up(now)
    return await operation


async def depths(queue: str, now: Callable[[], int], limits: Limits) -> Depths:
    """Count a queue's messages by lane and state."""
    check_operation(Measure(queue), limits)
    await catch_up(now)
    (found,) = await Read(Measure(queue))
    return cast("Depths", found)


async def stats(queue: str, now: Callable[[], int], limits: Limits) -> QueueStats:
    """Return depths by lane and state, totals, rates and latencies."""
    check_operation(Measure(queue), limits)
    await StoreCounts()
    await catch_up(now)
    found, activity = await Read(Measure(queue), ReadActivity(queue))
    return summarize(queue, found, activity, now())


async def survey(now: Callable[[], int]) -> list[QueueTotals]:
    """Return depths and totals of all queues."""
    await StoreCounts()
    await catch_up(now)
    (found,) = await Read(Survey())
    return cast("list[QueueTotals]", found)
