"""Exports: queues read column by column, by the range of ids."""

from __future__ import annotations

from typing import Any

import pytest

from sqew.errors import QueueNotFound, UnknownLane
from sqew.model import MESSAGE_COLUMNS, Bounds, Columns, NewMessage, Same
from sqew.operations import ReadBounds, ReadColumns, Send
from tests.conformance.driver import QUEUE, START, Driver, ids

EVERYTHING = 1 << 60


def read(store: Driver, **fields: Any) -> list[Columns]:
    """Read all parts of a range."""
    fields = {"after": 0, "up_to": EVERYTHING, "limit": 1000, **fields}
    parts: list[Columns] = []
    while not parts or parts[-1].after is not None:
        after = parts[-1].after if parts else fields["after"]
        parts.append(store.run(ReadColumns(QUEUE, **{**fields, "after": after})))
    return parts


def column(parts: list[Columns], name: str) -> list[Any]:
    """Return one column of all parts."""
    values: list[Any] = []
    for part in parts:
        if part.count:
            found = part.values[name]
            values += [found.value] * part.count if isinstance(found, Same) else found
    return values


def test_messages_are_read_as_they_are_shown(store: Driver) -> None:
    store.create(lanes={"fast": 3, "slow": 1})
    store.send(b'{"a":1}', lane="slow", priority=7, key="k", headers={"x": "y", "n": 1}, ttl_ms=60_000)
    store.send(b"text", format="text", lane="fast", delay_ms=5_000)
    store.advance(10)

    parts = read(store)

    shown = [store.get(id) for id in column(parts, "id")]
    assert len(shown) == 2
    for name in MESSAGE_COLUMNS:
        expected = [getattr(message, name) for message in shown]
        if name.endswith("_at"):
            expected = [None if at is None else at * 1000 for at in expected]
        assert column(parts, name) == expected, name


def test_states_are_those_of_now(store: Driver) -> None:
    store.create("jobs.fifo", fifo=True)
    store.create()
    for _ in range(3):
        store.send()
    store.send(delay_ms=60_000)
    [leased] = store.receive_ids(lease_ms=1_000)
    [expired] = store.receive_ids(lease_ms=10)
    store.advance(500)

    parts = read(store)

    states = dict(zip(column(parts, "id"), column(parts, "state"), strict=True))
    assert states.pop(leased) == "leased"
    assert states.pop(expired) == "ready"
    assert sorted(states.values()) == ["delayed", "ready"]
    available = dict(zip(column(parts, "id"), column(parts, "available_at"), strict=True))
    assert available[expired] == (START + 10) * 1000
    assert available[leased] == START * 1000


def test_followers_of_a_group_are_blocked(store: Driver) -> None:
    store.create("q.fifo", fifo=True)
    store.run(Send("q.fifo", [NewMessage(b"1", group="g"), NewMessage(b"2", group="g")]))

    part = store.run(ReadColumns("q.fifo", 0, EVERYTHING, 10))

    assert part.values["state"] == ["ready", "blocked"]
    assert part.values["group"] == ("g", "g")
    assert store.run(ReadBounds("q.fifo")).count == 2


def test_a_range_ends_where_it_is_to_end(store: Driver) -> None:
    store.create()
    sent = store.send_many(10)

    parts = read(store, after=sent[1], up_to=sent[7], limit=4)

    assert column(parts, "id") == sent[2:8]
    assert len(parts) > 1


def test_what_belongs_to_other_queues_is_passed_over(store: Driver) -> None:
    store.create()
    store.create("other")
    own = []
    for _ in range(5):
        own.append(store.send())
        store.send_many(7, "other")

    parts = read(store, limit=3)

    assert column(parts, "id") == own


def test_lane_and_state_are_filters(store: Driver) -> None:
    store.create(lanes={"fast": 1, "slow": 1})
    fast, slow = store.send(lane="fast"), store.send(lane="slow")
    later = store.send(lane="fast", delay_ms=1_000)

    assert column(read(store, lane="fast"), "id") == [fast, later]
    assert column(read(store, state="delayed"), "id") == [later]
    assert column(read(store, lane="slow", state="ready", columns=("id",)), "id") == [slow]
    with pytest.raises(UnknownLane):
        read(store, lane="fats")


def test_large_bodies_are_read_and_shorten_the_step(store: Driver) -> None:
    store.create()
    bodies = [b'"%b"' % (b"x" * size) for size in (10, 3_000_000, 3_000_000, 3_000_000, 20)]
    for body in bodies:
        store.run(Send(QUEUE, [NewMessage(body)]))

    parts = read(store)

    assert column(parts, "body") == bodies
    assert len(parts) > 1


@pytest.mark.parametrize(
    "odd",
    [
        {"priority": 1},
        {"lane": "b"},
        {"key": "k"},
        {"headers": {"x": "y"}},
        {"delay_ms": 1_000},
        {"ttl_ms": 60_000},
        {"format": "text"},
        {"body": b'"%b"' % (b"x" * 5_000)},
        {},
    ],
    ids=lambda fields: next(iter(fields), "nothing"),
)
def test_one_message_that_is_not_like_all_others_is_read_as_it_is(store: Driver, odd: dict[str, Any]) -> None:
    store.create(lanes={"a": 1, "b": 1})
    before, special, after = store.send(), store.send(**odd), store.send()
    store.advance(1)

    parts = read(store)

    shown = [store.get(id) for id in (before, special, after)]
    for name in MESSAGE_COLUMNS:
        expected = [getattr(message, name) for message in shown]
        if name.endswith("_at"):
            expected = [None if at is None else at * 1000 for at in expected]
        assert column(parts, name) == expected, name


def test_few_columns_hold_the_same_as_all(store: Driver) -> None:
    store.create()
    store.send(b'{"a":1}', headers={"x": "y"})
    store.send(b"plain", format="text")

    narrow, wide = read(store, columns=("id", "body", "headers")), read(store)

    for name in ("id", "body", "headers", "format", "queue"):
        assert column(narrow, name) == column(wide, name)


def test_an_archive_is_read_with_how_each_message_ended(store: Driver) -> None:
    store.create(keep="archive", max_attempts=3, dead_letter=None)
    done = [store.send(b'{"n":%d}' % number, priority=number, key=f"k{number}") for number in range(4)]
    dead = store.kill(reason="no use")
    for message in store.receive(4):
        store.ack(message)

    parts = read(store, archive=True, limit=2)

    assert column(parts, "id") == sorted([*done, dead])
    assert dict(zip(column(parts, "id"), column(parts, "outcome"), strict=True))[dead] == "dead"
    assert column(parts, "reason").count("no use") == 1
    assert column(parts, "finished_at") == [store.now * 1000] * 5
    assert column(parts, "priority")[:4] == [0, 1, 2, 3]
    assert column(parts, "state") == column(parts, "expires_at") == [None] * 5
    assert column(read(store, archive=True, after=done[0], up_to=done[2]), "id") == done[1:3]
    assert store.run(ReadBounds(QUEUE, archive=True)) == Bounds(done[0], dead, 5)


def test_bounds_are_the_first_and_the_last_id_and_the_number(store: Driver) -> None:
    store.create()
    assert store.run(ReadBounds(QUEUE)) == Bounds(None, None, 0)

    sent = [store.send(), store.send(priority=9), store.send(delay_ms=1_000)]
    [taken] = store.receive()

    assert store.run(ReadBounds(QUEUE)) == Bounds(sent[0], sent[-1], 3)
    assert taken.id in sent
    assert ids(store.peek())


def test_a_queue_that_is_not_there_is_named(store: Driver) -> None:
    store.create()

    with pytest.raises(QueueNotFound):
        store.run(ReadBounds("job"))
    with pytest.raises(QueueNotFound):
        store.run(ReadColumns("job", 0, 1, 1))
