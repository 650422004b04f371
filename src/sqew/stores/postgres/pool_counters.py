"""Counters of a server's use of the database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class PoolCounters:
    """Counts from the start of the process on; ``in_use`` and ``waiting`` are as of now."""

    in_use: int = 0
    waiting: int = 0
    acquire_timeouts: int = 0
    """Times that no connection was free in time."""
    exhausted: int = 0
    """Operations that failed because no connection was free in time."""
    refused: int = 0
    """Operations that were refused because the database was away."""
    timeouts: int = 0
    """Operations that took too long."""
    contested: int = 0
    """Operations that conflicted with others again and again."""
    unknown: int = 0
    """Commits whose outcome is unknown."""
    full: int = 0
    """Operations that found no room on the database's disk."""
    reconnects: int = 0
    retries: int = 0
    """Times that a transaction was made again, because it conflicted with others or its statements were outdated."""
    notices_sent: int = 0
    notices_heard: int = 0
    oldest_snapshot_s: float = 0
    """Seconds for which a snapshot had kept PostgreSQL from removing dead rows when that was last measured."""
