"""Flows of consumers: claims of thousands of messages that outlast the process that made them."""

from __future__ import annotations

from sqew.core.flows import IfWanted
from sqew.core.flows.steps import in_steps
from sqew.model import CLAIMED_AT_ONCE, Claim
from sqew.operations import CloseConsumer, FinishClaims, GiveBackClaims, GrowClaim, SealClaim
from sqew.rules.limits import Limits
from sqew.rules.values import check_claiming, claims_done


async def claim(
    queue: str, consumer: str, epoch: int, *, after: int, limit: int, lease_ms: int, done: int | None, limits: Limits
) -> Claim:
    """Ack the claims up to ``after``, or only up to ``done``; then fill and seal the next, or return the open one."""
    check_claiming(limit, lease_ms)
    finished, number = claims_done(after, done), after + 1
    most = min(limits.max_batch, CLAIMED_AT_ONCE)
    await in_steps(FinishClaims(queue, consumer, epoch, finished, most), limits)
    taken = chunk = 0
    while taken < limit:
        grown = await IfWanted(GrowClaim(queue, consumer, epoch, number, chunk, min(most, limit - taken), lease_ms))
        if grown.done:
            break
        # A step that gives back what was there before adds nothing.
        taken, chunk = taken + (grown.count if grown.after else 0), grown.after
    return await SealClaim(queue, consumer, epoch, number, lease_ms)


async def release(queue: str, consumer: str, limits: Limits, *, force: bool = False) -> int:
    """Forget a consumer and give back the messages it has claimed; return how many there were."""
    await CloseConsumer(queue, consumer, force)
    return await in_steps(GiveBackClaims(queue, consumer), limits)
