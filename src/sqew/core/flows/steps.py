"""Operations on any number of messages, executed in steps so that others' operations come in between."""

from __future__ import annotations

from msgspec.structs import replace

from sqew.core.checks import check_operation
from sqew.core.flows import Unchecked
from sqew.model import Progress
from sqew.operations import (
    DropDeliveries,
    FinishClaims,
    GiveBackClaims,
    Purge,
    PurgeDead,
    Redrive,
    RequeueDead,
    RetryDeliveries,
)
from sqew.rules.limits import Limits

Stepwise = DropDeliveries | FinishClaims | GiveBackClaims | Purge | PurgeDead | Redrive | RequeueDead | RetryDeliveries
"""Operations that are executed in steps, with others' operations in between, until they report that they are done."""


async def in_steps(operation: Stepwise, limits: Limits) -> int:
    """Execute an operation to its end; return the number of messages (or deliveries) that it changed."""
    check_operation(operation, limits)
    return await each_step(operation)


async def each_step(operation: Stepwise) -> int:
    """Execute an operation that was checked to its end; return the number of messages that it changed."""
    count = 0
    for part in _split(operation):
        done = False
        while not done:
            progress = await Unchecked(part)
            part, done = following(part, progress), progress.done
            count += progress.count
    return count


def _split(operation: Stepwise) -> list[Stepwise]:
    """Split an operation on messages by their ids into several of one step each; return any other as it is."""
    if isinstance(operation, FinishClaims | GiveBackClaims | Purge | Redrive) or operation.ids is None:
        return [operation]
    ids, size = list(operation.ids), operation.limit
    # A limit of one more than there are: so each knows that it is done.
    return [replace(operation, ids=ids[start : start + size], limit=size + 1) for start in range(0, len(ids), size)]


def following(operation: Stepwise, progress: Progress) -> Stepwise:
    """Return the next step: it starts where the last one ended if that looked at messages that it left behind."""
    if isinstance(operation, RequeueDead | RetryDeliveries | Redrive) and progress.after:
        return replace(operation, after=progress.after)
    if isinstance(operation, Purge):
        return replace(operation, keys_below=progress.keys_below, after_key=progress.after_key)
    return operation
