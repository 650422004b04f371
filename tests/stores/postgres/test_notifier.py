"""Wake-ups between servers: none is lost with the connection that was to carry it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

import pytest

from sqew.stores.postgres import ListenNotifier, PostgresStore
from sqew.stores.postgres.notifier import Connect, _notices
from tests.stores.postgres.rivals import NOW, in_a_loop, until
from tests.stores.postgres.test_trouble import Wire, through
from tests.support.postgres import Reused, reused_database

__all__ = ["reused_database"]


class Woken:
    """A waiter that records the queues it was woken for."""

    def __init__(self) -> None:
        self.queues: set[str] = set()

    def wake(self, queues: Iterable[str]) -> None:
        self.queues.update(queues)

    def wake_all(self) -> None: ...


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqew.stores.postgres.notifier._TRY_AGAIN_S", 0.01)


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.open(url, now=NOW)
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def hanging(store: PostgresStore, connect: Connect | None = None) -> AsyncIterator[ListenNotifier]:
    """Yield a notifier that listens to others."""
    notifier = ListenNotifier(connect or store.connect_to_listen, store.notify, store.counters)
    try:
        await until(lambda: notifier._listens)
        yield notifier
    finally:
        notifier.close()
        await asyncio.wait({notifier._task})


@in_a_loop
async def test_a_ring_whose_connection_ends_on_the_way_is_told_by_the_next(reused_database: Reused) -> None:
    url, wire, woken = reused_database.url, Wire(reused_database.url), Woken()
    async with (
        wire.laid() as port,
        opened(through(url, port)) as far,
        opened(url) as near,
        hanging(near) as hears,
        hanging(far) as rings,
    ):
        hears.listen(woken)
        wire.cut()
        rings.notify(["jobs"])
        # Told, as far as it knows.
        await until(lambda: not rings._woken)
        wire.snap()

        await until(lambda: "jobs" in woken.queues)


@in_a_loop
async def test_a_bell_survives_whatever_it_meets(reused_database: Reused, caplog: pytest.LogCaptureFixture) -> None:
    meets = [ValueError("strange")]
    async with opened(reused_database.url) as store:

        async def stumble() -> object:
            if meets:
                raise meets.pop()
            return await store.connect_to_listen()

        async with hanging(store, stumble) as notifier:
            assert notifier.look_every_ms == 5_000

    assert "strange" in caplog.text


@in_a_loop
async def test_what_keeps_servers_from_waking_each_other_is_logged_without_the_password(
    caplog: pytest.LogCaptureFixture, reused_database: Reused
) -> None:
    url = "postgresql://sqew:tr0mb0ne@127.0.0.1:1/nothing?password=tr0mb0ne"
    store = PostgresStore(reused_database.url, listen_url=url)
    notifier = ListenNotifier(store.connect_to_listen, store.notify, store.counters)
    await until(lambda: caplog.records)
    notifier.close()

    [record] = caplog.records
    assert record.fields["error"].startswith("postgresql://sqew@127.0.0.1:1/nothing does not answer: ")
    assert "tr0mb0ne" not in record.fields["error"]


def test_a_notice_has_no_more_bytes_than_postgresql_takes() -> None:
    names = [f"{'é' * 100}{number}" for number in range(200)]

    notices = _notices(names)

    assert max(len(notice.encode()) for notice in notices) <= 7_000
    assert [name for notice in notices for name in notice.split("\x1f")] == names
