"""Round trips of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from sqew.model import NewEvent, NewMessage
from sqew.operations import ListDeliveries, Operation, Publish, Subscribe
from sqew.stores.postgres import connection
from tests.stores.postgres.rivals import Rivals, in_a_loop, rivals
from tests.support.postgres import Reused, reused_database

__all__ = ["reused_database"]


def publish(*keys: str) -> Publish:
    return Publish([NewEvent(key, NewMessage(b"1"), key) for key in keys])


@in_a_loop
async def test_events_for_endpoints_take_as_many_round_trips_as_one_event(
    reused_database: Reused, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rivals(reused_database) as both:
        for path in ("one", "other"):
            await both.run(Subscribe("#", "http", f"http://127.0.0.1/{path}"))
        await both.run(publish("warm"))

        one = await _round_trips(both, publish("a"), monkeypatch)
        many = await _round_trips(both, publish(*"bcdefghij"), monkeypatch)

        [listed] = await both.run(ListDeliveries())
        assert len(listed) == 2 * 11
        assert many == one


async def _round_trips(both: Rivals, operation: Operation[Any], monkeypatch: pytest.MonkeyPatch) -> int:
    waited: list[Awaitable[Any]] = []
    wait_for = connection.wait_for

    def note(awaitable: Awaitable[Any]) -> Any:
        waited.append(awaitable)
        return wait_for(awaitable)

    with monkeypatch.context() as patch:
        patch.setattr(connection, "wait_for", note)
        await both.run(operation)
    return len(waited)
