"""Waiting for the disk: each send's own choice, whatever the store is set to."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqew import operations as ops
from sqew.errors import StoreError
from sqew.model import NewMessage, Policy
from sqew.operations import Ack, CreateQueue, Measure, Operation, Send
from sqew.stores.postgres import PostgresStore
from sqew.stores.sqlite import SQLiteStore
from tests.faults.failing import FailingDisk
from tests.support.postgres import fetch_column, reused_database

__all__ = ["reused_database"]

NOW = 1_000_000
NOTED = """
DO $do$ BEGIN
  CREATE TABLE waited (setting text);
  CREATE FUNCTION note_waiting() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO waited VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
  CREATE TRIGGER waiting AFTER INSERT ON sqew_message FOR EACH STATEMENT EXECUTE FUNCTION note_waiting();
END $do$
"""


def send(sync_commit: bool | None, **fields: object) -> Send:
    return Send("jobs", (NewMessage(b"1", **fields),), sync_commit=sync_commit)


@pytest.mark.parametrize(
    ("wishes", "together"),
    [
        ((), None),
        ((None,), None),
        ((False, False), False),
        ((False, None), None),
        ((False, True, None), True),
    ],
)
def test_what_goes_together_waits_if_one_insists_and_not_if_all_can_do_without(wishes, together):
    assert ops.sync_commit_of_all(wishes) is together
    assert ops.sync_wish([send(wish) for wish in wishes]) is together


def test_only_sends_choose_and_those_that_only_read_have_no_say():
    assert ops.sync_wish([send(False), Ack("jobs", ())]) is None
    assert ops.sync_wish([send(False), Measure("jobs")]) is False


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FailingDisk]:
    disk = FailingDisk(f"failing-{tmp_path.name}")
    yield disk
    disk.unregister()


@pytest.mark.parametrize("durability", ["durable", "fast"])
@pytest.mark.parametrize("operations", [1, 2])
def test_on_a_file_only_those_that_wait_notice_that_the_disk_can_not_sync(tmp_path, disk, durability, operations):
    store = SQLiteStore(tmp_path / "queue.db", now=NOW, durability=durability, vfs=disk.name)
    store.run([CreateQueue("jobs", Policy())], NOW)
    store.run([send(None)], NOW)
    disk.syncs_fail = True

    commit = store.run([send(False)] * operations, NOW)
    assert len(commit.results) == operations

    with pytest.raises(StoreError):
        store.run([send(True), send(False)][:operations], NOW)
    disk.syncs_fail = False
    store.close()


def test_on_a_file_the_next_send_is_as_the_store_is_set(tmp_path, disk):
    store = SQLiteStore(tmp_path / "queue.db", now=NOW, durability="durable", vfs=disk.name)
    store.run([CreateQueue("jobs", Policy())], NOW)
    store.run([send(False)], NOW)
    disk.syncs_fail = True

    with pytest.raises(StoreError):
        store.run([send(None)], NOW)
    disk.syncs_fail = False
    store.close()


def settings_of_inserts(url: str, synchronous: bool, operations: list[Operation[object]]) -> list[str]:
    """Return the values of `synchronous_commit` under which the operations stored their messages."""

    async def run() -> None:
        store = await PostgresStore.open(url, now=NOW, synchronous=synchronous)
        # The second send of a queue may take the short way.
        await store.run([CreateQueue("jobs", Policy())], NOW)
        await store.run([send(None)], NOW)
        connection = await store.connect()
        await connection.execute(NOTED)
        await store.run(operations, NOW)
        await connection.close()
        await store.close()

    asyncio.run(run())
    try:
        return fetch_column(url, "SELECT setting FROM waited")
    finally:
        fetch_column(url, "DROP FUNCTION note_waiting CASCADE")
        fetch_column(url, "DROP TABLE waited")


@pytest.mark.parametrize(
    ("synchronous", "operations", "setting"),
    [
        (True, [send(None)], "on"),
        (True, [send(False)], "off"),
        (True, [send(False), send(None)], "on"),
        (False, [send(None)], "off"),
        (False, [send(True)], "on"),
        (False, [send(True), send(False, headers={"a": 1})], "on"),
        # The long way: nobody has used the key before.
        (True, [send(False, key="k")], "off"),
        (False, [send(True, key="k")], "on"),
    ],
)
def test_in_a_database_each_transaction_waits_as_its_sends_say(reused_database, synchronous, operations, setting):
    reused_database.empty()

    assert set(settings_of_inserts(reused_database.url, synchronous, operations)) == {setting}
