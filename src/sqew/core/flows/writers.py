"""Flows of writers: epochs of messages that are in the queue once, all of them, or none."""

from __future__ import annotations

from sqew.core.flows import Unchecked
from sqew.model import Promotion
from sqew.operations import Promote, StepPromotion


async def promote(operation: Promote) -> Promotion:
    """Put the messages that a writer has staged for an epoch into the queue, in steps, with others' in between."""
    promotion = await operation
    while not promotion.done:
        promotion = await Unchecked(StepPromotion(operation.queue, operation.writer, operation.epoch))
    return promotion
