"""Consumers: claims that outlast who made them."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.driver import QUEUE, Driver, ids, states
from sqew.errors import ClaimNotFound, ConsumerInUse, ConsumerNotFound, Fenced
from sqew.model import Claim, ClaimPart, ConsumerInfo, OpenedConsumer, Ref, Same
from sqew.operations import (
    Ack,
    CloseConsumer,
    DeleteQueue,
    FinishClaims,
    GiveBackClaims,
    GrowClaim,
    ListConsumers,
    OpenConsumer,
    ReadClaim,
    ReadClaimColumns,
    RenewConsumer,
    SealClaim,
)

LEASE_MS = 60_000
HOLD_MS = 30_000


def opened(store: Driver, owner: str = "one", consumer: str = "c", queue: str = QUEUE) -> OpenedConsumer:
    return store.run(OpenConsumer(queue, consumer, owner, HOLD_MS))


def claim(store: Driver, epoch: int, number: int = 1, limit: int = 1000, queue: str = QUEUE) -> Claim:
    """Make a claim in steps of up to 1,000, as a server does."""
    taken = chunk = 0
    while taken < limit:
        grown = store.run(GrowClaim(queue, "c", epoch, number, chunk, min(limit - taken, 1000), LEASE_MS))
        if grown.done:
            break
        taken, chunk = taken + (grown.count if grown.after else 0), grown.after
    return store.run(SealClaim(queue, "c", epoch, number, LEASE_MS))


def finish(store: Driver, epoch: int, up_to: int, limit: int = 1000) -> int:
    count, done = 0, False
    while not done:
        progress = store.run(FinishClaims(QUEUE, "c", epoch, up_to, limit))
        count, done = count + progress.count, progress.done
    return count


def give_back(store: Driver, limit: int = 200) -> None:
    while not store.run(GiveBackClaims(QUEUE, "c", limit)).done:
        pass


def claimed(store: Driver, number: int = 1, chunk: int = 0, queue: str = QUEUE) -> list[int]:
    return ids(store.run(ReadClaim(queue, "c", number, chunk)) or [])


def consumers(store: Driver) -> list[ConsumerInfo]:
    return store.run(ListConsumers(QUEUE))


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


def test_another_owner_waits_until_the_hold_is_over(store: Driver) -> None:
    store.create()
    opened(store, "one")

    with pytest.raises(ConsumerInUse, match="is in the hands of 'one', for another 30 s") as refused:
        opened(store, "two")

    assert refused.value.retry_after_ms == HOLD_MS
    store.advance(HOLD_MS)
    assert opened(store, "two").epoch == 2


def test_the_same_owner_takes_over_at_once(store: Driver) -> None:
    store.create()

    first, second = opened(store), opened(store)

    assert second.epoch == first.epoch + 1


def test_whoever_had_the_consumer_before_is_fenced_off(store: Driver) -> None:
    store.create()
    store.send_many(2)
    stale = opened(store).epoch
    claim(store, stale)
    epoch = opened(store).epoch

    for operation in (
        FinishClaims(QUEUE, "c", stale, 1),
        GrowClaim(QUEUE, "c", stale, 2),
        SealClaim(QUEUE, "c", stale, 1),
        RenewConsumer(QUEUE, "c", stale),
    ):
        with pytest.raises(Fenced, match=f"its epoch is {epoch}, and not {stale}"):
            store.run(operation)

    assert store.total() == 2
    assert finish(store, epoch, 1) == 2


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


def test_claims_whose_lease_ends_are_given_back(store: Driver) -> None:
    store.create()
    sent = store.send_many(450)
    opened_ = opened(store)
    claim(store, opened_.epoch)
    store.advance(LEASE_MS - 1)
    store.sweep_all()
    assert states(store) == {"leased": 450}

    store.advance(1)
    store.sweep_all()

    assert states(store) == {"ready": 450}
    assert store.receive_ids(1000) == sent
    assert opened(store).claims == []


def test_sweeping_is_due_when_a_claims_lease_ends(store: Driver) -> None:
    store.create()
    store.send()
    claim(store, opened(store).epoch)

    assert store.sweep().next_at == store.now + LEASE_MS


def test_renewing_keeps_the_consumer_and_its_claims(store: Driver) -> None:
    store.create()
    store.send_many(3)
    epoch = opened(store).epoch
    claim(store, epoch)
    store.advance(HOLD_MS - 1)

    store.run(RenewConsumer(QUEUE, "c", epoch, None, LEASE_MS))

    store.advance(HOLD_MS - 1)
    with pytest.raises(ConsumerInUse):
        opened(store, "two")
    store.advance(LEASE_MS - HOLD_MS)
    store.sweep_all()
    assert states(store) == {"leased": 3}


def test_the_owner_may_come_back_for_a_claim_before_it_is_swept(store: Driver) -> None:
    store.create()
    store.send_many(3)
    epoch = opened(store).epoch
    claim(store, epoch)
    store.advance(LEASE_MS + 1)

    again = claim(store, epoch)

    store.sweep_all()
    assert again.count == 3
    assert states(store) == {"leased": 3}
    assert finish(store, epoch, 1) == 3


def test_a_claim_on_its_way_back_is_not_given_again(store: Driver) -> None:
    store.create()
    store.send_many(300)
    epoch = opened(store).epoch
    claim(store, epoch)
    store.advance(LEASE_MS)
    store.sweep(100)

    assert opened(store).claims == []
    made = claim(store, epoch + 1)

    assert made.count == 300
    assert finish(store, epoch + 1, 1) == 300
    assert store.total() == 0


def test_messages_that_were_given_back_too_often_die(store: Driver) -> None:
    store.create(max_attempts=1, dead_letter=None)
    store.send_many(2)
    claim(store, opened(store).epoch)
    store.advance(LEASE_MS)

    store.sweep_all()
    store.advance(1)
    store.sweep_all()

    assert store.total() == 0
    assert list(store.archive().values()) == ["dead", "dead"]


def test_releasing_gives_everything_back_and_forgets_the_consumer(store: Driver) -> None:
    store.create()
    sent = store.send_many(5)
    epoch = opened(store).epoch
    claim(store, epoch)

    with pytest.raises(ConsumerInUse):
        store.run(CloseConsumer(QUEUE, "c"))
    store.run(CloseConsumer(QUEUE, "c", force=True))
    with pytest.raises(ConsumerInUse, match="is just being released"):
        opened(store)
    with pytest.raises(Fenced):
        store.run(RenewConsumer(QUEUE, "c", epoch))
    give_back(store, 2)

    assert consumers(store) == []
    assert store.receive_ids(10) == sent


def test_a_release_that_was_interrupted_is_finished_by_sweeping(store: Driver) -> None:
    store.create()
    store.send_many(500)
    claim(store, opened(store).epoch)
    store.run(CloseConsumer(QUEUE, "c", force=True))

    store.reopen()
    store.sweep_all()

    assert consumers(store) == []
    assert states(store) == {"ready": 500}


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


def test_two_processes_share_a_consumer_by_its_epoch(store: Driver, neighbour: Driver) -> None:
    store.create()
    store.send_many(3)
    epoch = opened(store).epoch
    claim(store, epoch)

    taken_over = opened(neighbour)

    assert taken_over.claims == [1]
    with pytest.raises(Fenced):
        store.run(FinishClaims(QUEUE, "c", epoch, 1))
    assert finish(neighbour, taken_over.epoch, 1) == 3


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
