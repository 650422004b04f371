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

# For each mode: 60 in the test command, and 12 more of a planted bug in test_planted_bugs.
KILLS = 30
ROLES: list[Role] = ["producer", "producer", "consumer", "consumer"]


def kill_and_judge(folder: Path, durability: Durability, kills: int, seed: int, store: str = "Sound") -> Verdict:
    with Children(folder, durability=durability, store=store) as children:
        killed = list(kill_at_random(children, ROLES, kills, Random(seed)))
        children.kill_all()
        assert len(killed) == kills
        assert not children.complaints()
        history = children.histories()
    assert not recorded_losses(str(children.path)), "a kill was taken for a loss"
    with closing(apsw.Connection(str(children.path))) as connection:
        assert not problems_of(connection)
    return check(history + drain(children.path))


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
    verdict = kill_and_judge(tmp_path, durability, KILLS, seed=1)

    with capsys.disabled():
        print(f"\n{durability}: {KILLS} kills: {verdict}")  # noqa: T201
    assert not verdict.violations
    # Otherwise the kills fell where nothing was at stake.
    assert verdict.unknown
    assert verdict.duplicated
    assert len(verdict.acked) > KILLS


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["durable", "fast"])
@pytest.mark.parametrize("seed", range(2, 7))
def test_hundreds_of_kills_lose_nothing(tmp_path: Path, durability: Durability, seed: int) -> None:
    verdict = kill_and_judge(tmp_path, durability, 200, seed)

    assert not verdict.violations
