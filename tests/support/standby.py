"""A synchronous standby that does not exist: every commit waits for it until the wait is cut short."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Iterator

from tests.support.postgres import fetch_column

_WAITING = "pg_stat_activity WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'"
_NAMES = "SELECT 1 WHERE current_setting('synchronous_standby_names') = '{}'"


def name_standby(url: str, name: str) -> None:
    """Make all commits of a cluster wait for a standby; an empty name: for none any more."""
    fetch_column(url, f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    while True:
        fetch_column(url, "SELECT pg_reload_conf()")
        # Each connection reads it anew; the checkpointer tells the others whether there is one at all.
        if fetch_column(url, _NAMES.format(name)) and not _waits(url):
            return


def _waits(url: str) -> list[int]:
    return fetch_column(url, f"SELECT pid FROM {_WAITING}")


@contextlib.asynccontextmanager
async def standing_by(url: str) -> AsyncIterator[None]:
    """Make all commits of a cluster wait for a standby that does not exist, until the block ends."""
    await asyncio.to_thread(name_standby, url, "nobody")
    try:
        yield
    finally:
        await asyncio.to_thread(name_standby, url, "")


def until_it_waits(url: str) -> int:
    """Wait until a commit waits for the standby, and return the id of its process."""
    while not (waiting := _waits(url)):
        time.sleep(0.02)
    return waiting[0]


@contextlib.contextmanager
def impatience(url: str) -> Iterator[None]:
    """Make every wait for the standby be cut short, as an impatient operator may."""
    over = threading.Event()

    def cut_short() -> None:
        while not over.wait(0.02):
            fetch_column(url, f"SELECT pg_cancel_backend(pid) FROM {_WAITING}")

    name_standby(url, "nobody")
    thread = threading.Thread(target=cut_short)
    thread.start()
    try:
        yield
    finally:
        name_standby(url, "")
        over.set()
        thread.join(20)
