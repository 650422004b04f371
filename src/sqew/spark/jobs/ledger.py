"""The server's record of the jobs that have written to a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqew.errors import WriterNotFound
from sqew.spark.source import calls

if TYPE_CHECKING:
    from sqew.spark.source.wire import Wire


def is_done(wire: Wire, queue: str, job_id: str) -> bool:
    """Return True if what the job has written is in the queue, or will be."""
    try:
        return wire.ask(calls.writer(queue, job_id)).epoch is not None
    except WriterNotFound:
        return False
