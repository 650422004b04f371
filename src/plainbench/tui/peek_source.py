"""A look into the queue of a run that takes nothing: while it goes on, or at its state now."""

from __future__ import annotations

from pathlib import Path

from plainbench.drivers.base import NotOffered
from plainbench.record.manifest import Manifest
from plainbench.run.clock import EPOCH_MS
from sqew.client import Client
from sqew.clock import Clock
from sqew.embedded import Queue
from sqew.errors import NotFound
from sqew.model import Message

_TIMEOUT_S = 5.0


def peek(recorded: Manifest, run: Path, topic: str, lane: str, limit: int, now_us: int) -> list[Message]:
    """Return the next messages of a topic or of one of its lanes, in every state. ``now_us``: the time in the run."""
    with _queue_of(recorded, run, now_us) as queue:
        return queue.peek(topic, limit, lane=lane or None)


def _queue_of(recorded: Manifest, run: Path, now_us: int) -> Queue | Client:
    target = recorded.config.target
    if target.driver not in ("sqew", "sqew-http"):
        raise NotOffered(f"The driver {target.driver} can't show messages without taking them: sqew and sqew-http can.")
    options = target.opened()
    if url := options.get("url"):
        return Client(url, token=options.get("token"), timeout_seconds=_TIMEOUT_S, retries=0)
    if database := options.get("database_url"):
        return Queue.open(str(database), create=False)
    path = _file_of(recorded, run)
    if not path.is_file():
        raise NotFound(f"The queue of this run, {path}, is not there (any more).")
    # In virtual time, what is due is so by the clock of the run.
    clock = None
    if recorded.config.mode == "virtual":
        clock = Clock(wall_ns=lambda: EPOCH_MS * 1_000_000 + now_us * 1000, steady_ns=lambda: 0)
    return Queue.open(path, clock=clock, create=False)


def _file_of(recorded: Manifest, run: Path) -> Path:
    """Return the queue's file: runs in virtual time and repeated ones work on a copy in their folder."""
    own = run / "queue.db"
    if own.is_file() or recorded.config.mode == "virtual" or recorded.replay_of:
        return own
    return Path(recorded.folder) / recorded.config.sqlite.queue_file
