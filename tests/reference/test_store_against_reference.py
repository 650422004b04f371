"""Stores compared with the reference: see `reference.machine`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from sqew.stores.contract import Store
from sqew.stores.sqlite import SQLiteStore
from tests.reference.machine import StoreMachine
from tests.support.postgres import Awaited, Reused, reused_database

__all__ = ["reused_database"]


class OnSQLite(StoreMachine):
    def make_room(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sqew-model-"))

    def open_store(self) -> Store:
        return SQLiteStore(self.folder / "queue.db", now=self.now, durability="fast", random=Random(3))

    def clean_up(self) -> None:
        shutil.rmtree(self.folder)


class OnPostgres(StoreMachine):
    looks_again_within_ms = 1_000

    def __init__(self, database: Reused) -> None:
        self.database = database
        super().__init__()

    def make_room(self) -> None:
        self.database.empty()

    def open_store(self) -> Store:
        return Awaited(self.database.url, self.now, Random(3))


def test_a_store_does_what_the_reference_says():
    brief = settings(max_examples=100, stateful_step_count=50, report_multiple_bugs=False)
    run_state_machine_as_test(OnSQLite, settings=brief)


def test_a_store_on_postgresql_does_what_the_reference_says(reused_database):
    # What both have in common is tried harder above: a step takes ten times as long here.
    brief = settings(max_examples=20, stateful_step_count=50, report_multiple_bugs=False)
    run_state_machine_as_test(lambda: OnPostgres(reused_database), settings=brief)


@pytest.mark.soak
def test_a_store_does_what_the_reference_says_for_a_long_time():
    patient = settings(settings.get_profile("soak"), max_examples=5000, stateful_step_count=100)
    run_state_machine_as_test(OnSQLite, settings=patient)


@pytest.mark.soak
def test_a_store_on_postgresql_does_what_the_reference_says_for_a_long_time(reused_database):
    patient = settings(settings.get_profile("soak"), max_examples=1000, stateful_step_count=100)
    run_state_machine_as_test(lambda: OnPostgres(reused_database), settings=patient)
