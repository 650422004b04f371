"""Producers and consumers killed (kill -9) under load, judged by Jepsen's total-queue."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import apsw
import pytest

from sqew.clock import Clock
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.connection import Durability
from sqew.stores.sqlite.lost_transactions import recorded_losses
from tests.faults.children import Children, Role, kill_at_random
from tests.faults.client import Client
from tests.faults.consistency import problems_of
from tests.faults.history import Event, Verdict, check

KILLS = 30
"""For each mode. A planted bug gets 12 more in test_planted_bugs."""
MOST_KILLS = 4 * KILLS
"""The most there may be until some have fallen where something was at stake."""
ROLES: list[Role] = ["producer", "producer", "consumer", "consumer"]


def kill_and_judge(
    folder: Path, durability: Durability, kills: int, seed: int, store: str = "Sound", most_kills: int | None = None
) -> tuple[int, Verdict]:
    """Kill so often, and on until it mattered or ``most_kills`` is reached. Return how often, and what came of it."""
    most_kills, killed = most_kills or kills, 0
    with Children(folder, durability=durability, store=store) as children:
        for _ in kill_at_random(children, ROLES, most_kills, Random(seed)):
            killed += 1
            if killed >= kills and (killed == most_kills or mattered(check(children.histories_of_the_dead()), kills)):
                break
        children.kill_all()
        assert killed >= kills
        assert not children.complaints()
        history = children.histories()
    assert not recorded_losses(str(children.path)), "a kill was taken for a loss"
    with closing(apsw.Connection(str(children.path))) as connection:
        assert not problems_of(connection)
    return killed, check(history + drain(children.path))


def mattered(verdict: Verdict, kills: int) -> bool:
    """Return True if sends were cut off, and messages came again whose receivers had been killed."""
    return bool(verdict.unknown and verdict.duplicated and len(verdict.acked) > kills)


def drain(path: Path) -> list[Event]:
    events: list[Event] = []
    clock = Clock()
    with closing(SQLiteStore(path, now=clock.now())) as store:
        Client(store, events.append, "drain", clock.now).drain()
    return events


@pytest.mark.parametrize("durability", ["durable", "fast"])
def test_killed_producers_and_consumers_lose_nothing(
    tmp_path: Path, durability: Durability, capsys: pytest.CaptureFixture[str]
) -> None:
    killed, verdict = kill_and_judge(tmp_path, durability, KILLS, seed=1, most_kills=MOST_KILLS)

    with capsys.disabled():
        print(f"\n{durability}: {killed} kills: {verdict}")  # noqa: T201
    assert not verdict.violations
    assert mattered(verdict, KILLS), f"{killed} kills fell where nothing was at stake: {verdict}"


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["durable", "fast"])
@pytest.mark.parametrize("seed", range(2, 7))
def test_hundreds_of_kills_lose_nothing(tmp_path: Path, durability: Durability, seed: int) -> None:
    _, verdict = kill_and_judge(tmp_path, durability, 200, seed)

    assert not verdict.violations
