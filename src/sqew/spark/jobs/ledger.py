"""What the server knows of jobs that have written to a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqew.errors import WriterNotFound
from sqew.spark.source import calls

if TYPE_CHECKING:
    from sqew.spark.source.wire import Wire

_EPOCH = 0
"""A job has but one."""


def is_done(wire: Wire, queue: str, job_id: str) -> bool:
    """Whether what the job has written is in the queue, or will be."""
    try:
        return wire.ask(calls.writer(queue, job_id)).epoch is not None
    except WriterNotFound:
        return False


def note_done(wire: Wire, queue: str, job_id: str) -> None:
    """Have the server know the job as one that is done, with nothing written by itself."""
    wire.ask(calls.promote(queue, job_id, _EPOCH, {}))
