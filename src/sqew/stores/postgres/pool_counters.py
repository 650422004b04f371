"""What a server counts of its dealings with the database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PoolCounters:
    """Counts from the start of the process on; what is in use or waiting is as of now."""

    in_use: int = 0
    waiting: int = 0
    acquire_timeouts: int = 0
    """How often no connection was free in time."""
    exhausted: int = 0
    """Operations that no connection was free for in time."""
    refused: int = 0
    """Operations that were refused because the database was away."""
    timeouts: int = 0
    """Operations that took too long."""
    contested: int = 0
    """Operations that others were in the way of again and again."""
    unknown: int = 0
    """Commits of which nobody knows whether they were done."""
    full: int = 0
    """Operations that there was no room for on the database's disk."""
    reconnects: int = 0
    retries: int = 0
    """How often a transaction was made again that others were in the way of."""
    notices_sent: int = 0
    notices_heard: int = 0
    oldest_snapshot_s: float = 0
    """For how long somebody has kept PostgreSQL from removing dead rows, when it was last looked at."""
