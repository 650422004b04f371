"""What a server counts of its dealings with the database."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts from the start of the process on; what is in use or waiting is as of now."""

    in_use: int = 0
    waiting: int = 0
    exhausted: int = 0
    """How often there was no connection to be had in time."""
    refused: int = 0
    """How often something was refused at once because the database was away."""
    reconnects: int = 0
    retries: int = 0
    """How often a transaction was made again that others were in the way of."""
    timeouts: int = 0
    notices_sent: int = 0
    notices_heard: int = 0
    oldest_snapshot_s: float = 0
    """For how long somebody has kept PostgreSQL from removing dead rows, when it was last looked at."""
