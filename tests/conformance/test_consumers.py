"""Consumers: claims that outlast the process that made them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sqew.errors import ClaimNotFound, ConsumerNotFound
from sqew.model import Claim, ClaimPart, OpenedConsumer, Ref, Same
from sqew.operations import (
    Ack,
    CloseConsumer,
    DeleteQueue,
    FinishClaims,
    GrowClaim,
    ListArchive,
    ReadClaim,
    ReadClaimColumns,
    RenewConsumer,
)
from tests.conformance.claiming import HOLD_MS, LEASE_MS, claim, claimed, consumers, finish, opened
from tests.conformance.driver import QUEUE, Driver, states


def test_a_claim_holds_what_was_ready_and_nobody_else_gets_it(store: Driver) -> None:
    store.create()
    sent = store.send_many(5)
    store.send(delay_ms=1_000)

    made = claim(store, opened(store).epoch)

    assert made == Claim(1, 5, [ClaimPart(0, 5)])
    assert claimed(store) == sent
    assert store.receive(10) == []
    assert states(store) == {"leased": 5, "delayed": 1}


def test_claimed_messages_are_read_column_by_column_in_the_order_of_receiving(store: Driver) -> None:
    store.create()
    low, high = store.send(b'"low"', priority=1), store.send(b'"high"', priority=9)
    claim(store, opened(store).epoch)

    part = store.run(ReadClaimColumns(QUEUE, "c", 1, 0))

    assert part.values["id"] == (high, low)
    assert part.values["body"] == (b'"high"', b'"low"')
    assert part.values["attempts"] == (1, 1)
    assert part.values["state"] == Same("leased")
    assert store.run(ReadClaimColumns(QUEUE, "c", 1, 1)).after is None


def test_where_nothing_is_ready_there_is_no_claim(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch

    made = claim(store, epoch)

    assert made == Claim(1, 0, [])
    assert consumers(store)[0].claims == []
    assert opened(store).last == 0


def test_an_open_claim_is_given_again_as_it_is(store: Driver) -> None:
    store.create()
    store.send_many(3)
    first = claim(store, opened(store).epoch)
    store.send_many(3)

    again = claim(store, opened(store).epoch)

    assert again == first
    assert opened(store).claims == [1]


def test_large_claims_have_parts_of_five_thousand(store: Driver) -> None:
    store.create()
    sent = [id for _ in range(7) for id in store.send_many(1000)]

    made = claim(store, opened(store).epoch, limit=6_500)

    assert made.parts == [ClaimPart(0, 5_000), ClaimPart(1, 1_500)]
    read = [id for chunk in range(7) for id in claimed(store, chunk=chunk)]
    assert read == sent[:6_500]
    assert store.run(ReadClaim(QUEUE, "c", 1, 7)) is None


def test_finishing_acks_all_claims_up_to_a_number(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    for number in (1, 2, 3):
        store.send_many(2)
        claim(store, epoch, number)

    assert finish(store, epoch, 2) == 4

    assert store.total() == 2
    assert opened(store) == OpenedConsumer(epoch + 1, [3], 3)
    with pytest.raises(ClaimNotFound, match="has no open claim 2"):
        claimed(store, 2)
    assert len(claimed(store, 3)) == 2


@pytest.mark.parametrize("keep", ["delete", "archive"])
def test_finishing_in_steps_goes_on_where_it_stopped(store: Driver, keep: str) -> None:
    store.create(keep=keep)
    store.send_many(10)
    epoch = opened(store).epoch
    claim(store, epoch)

    step = store.run(FinishClaims(QUEUE, "c", epoch, 1, 4))
    store.reopen()

    assert step.count == 4
    assert finish(store, epoch, 1, 4) == 6
    assert store.total() == 0
    assert len(store.archive()) == (10 if keep == "archive" else 0)


@pytest.mark.parametrize("finished", [4, 1000])
def test_what_is_left_of_a_claim_that_is_being_finished_is_not_read(store: Driver, finished: int) -> None:
    store.create()
    store.send_many(1_010)
    epoch = opened(store).epoch
    claim(store, epoch, limit=1_010)
    assert len(claimed(store, chunk=1)) == 10

    store.run(FinishClaims(QUEUE, "c", epoch, 1, finished))

    for operation in (ReadClaim(QUEUE, "c", 1, 0), ReadClaimColumns(QUEUE, "c", 1, 0)):
        with pytest.raises(ClaimNotFound, match="it was finished"):
            store.run(operation)


def test_what_is_finished_and_kept_is_in_the_archive_as_if_it_was_acked(store: Driver) -> None:
    store.create(keep="archive", lanes={"a": 1, "b": 1}, archive_retention_ms=5_000, quota=10)
    fields: list[dict[str, Any]] = [
        {"lane": "b", "priority": 3, "headers": {"h": 1}},
        {"format": "text", "body": b"x" * 5_000, "lane": "a"},
    ]
    for number, one in enumerate(fields * 2):
        store.send(**one, key=f"k{number}")
    for message in store.receive(2):
        store.ack(message)
    epoch = opened(store).epoch
    claim(store, epoch)

    finish(store, epoch, 1)

    found = store.run(ListArchive(QUEUE, 10)).messages
    acked = {one.message.lane: one for one in found[:2]}
    for one in found[2:]:
        like = acked[one.message.lane]
        assert replace(one, message=replace(one.message, id=0, key=None)) == replace(
            like, message=replace(like.message, id=0, key=None)
        )
    assert (len(found), store.total()) == (4, 0)
    store.send_many(10)
    store.advance(5_000)
    store.sweep_all()
    assert store.archive() == {}


def test_finishing_twice_changes_nothing(store: Driver) -> None:
    store.create()
    store.send_many(3)
    epoch = opened(store).epoch
    claim(store, epoch)
    finish(store, epoch, 1)
    later = store.send()

    assert finish(store, epoch, 1) == 0

    assert claim(store, epoch, 2).count == 1
    assert claimed(store, 2) == [later]


def test_messages_that_others_removed_are_missing_and_hold_nobody_up(store: Driver) -> None:
    store.create()
    sent = store.send_many(4)
    epoch = opened(store).epoch
    claim(store, epoch)
    store.run(Ack(QUEUE, [Ref(sent[1])]))

    assert claimed(store) == [sent[0], sent[2], sent[3]]
    assert finish(store, epoch, 1) == 4
    assert store.total() == 0


def test_a_claim_that_somebody_asked_for_again_does_not_grow_behind_their_back(store: Driver) -> None:
    store.create()
    store.send_many(10)
    epoch = opened(store).epoch
    slow = store.run(GrowClaim(QUEUE, "c", epoch, 1, 0, 4, LEASE_MS))

    answered = claim(store, epoch)
    late = store.run(GrowClaim(QUEUE, "c", epoch, 1, slow.after, 4, LEASE_MS))

    assert (late.count, late.done) == (0, True)
    assert answered.count == len(claimed(store)) == 4
    finish(store, epoch, 1)
    assert store.total() == 6


def test_consumers_are_listed_with_what_they_have(store: Driver) -> None:
    store.create()
    store.send_many(4)
    epoch = opened(store, "query-7").epoch
    claim(store, epoch, 1, 3)

    [found] = consumers(store)

    assert (found.name, found.queue, found.owner, found.epoch, found.last) == ("c", QUEUE, "query-7", 1, 1)
    assert found.held_until == store.now + HOLD_MS
    [open_claim] = found.claims
    assert (open_claim.number, open_claim.count, open_claim.lease_until) == (1, 3, store.now + LEASE_MS)
    store.advance(HOLD_MS)
    assert consumers(store)[0].held_until is None


def test_fifo_groups_stay_in_order_and_are_blocked_while_claimed(store: Driver) -> None:
    store.create("q.fifo", fifo=True)
    sent = [store.send(group=group, queue="q.fifo") for group in ("a", "b", "a")]
    epoch = opened(store, queue="q.fifo").epoch

    made = claim(store, epoch, queue="q.fifo")

    assert made.count == 3
    order = claimed(store, queue="q.fifo")
    assert order.index(sent[0]) < order.index(sent[2])
    store.send(group="a", queue="q.fifo")
    assert store.receive(10, "q.fifo") == []
    store.advance(LEASE_MS)
    store.sweep_all()
    assert min(store.receive_ids(2, "q.fifo")) == sent[0]


def test_a_deleted_queue_takes_its_consumers_with_it(store: Driver) -> None:
    store.create()
    store.send_many(3)
    claim(store, opened(store).epoch)

    store.run(DeleteQueue(QUEUE))
    store.sweep_all()

    store.create()
    assert consumers(store) == []
    assert store.sweep().next_at is None


@pytest.mark.parametrize(
    "operation",
    [
        RenewConsumer(QUEUE, "d", 1),
        ReadClaim(QUEUE, "d", 1, 0),
        CloseConsumer(QUEUE, "d"),
        FinishClaims(QUEUE, "d", 1, 1),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_a_consumer_that_is_not_there_is_named(store: Driver, operation: Any) -> None:
    store.create()
    opened(store, consumer="dd")

    with pytest.raises(ConsumerNotFound, match="has no consumer 'd' "):
        store.run(operation)
