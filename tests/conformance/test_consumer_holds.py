"""Holds: the time for which a consumer and its claims are kept for its owner, and the end of that time."""

from __future__ import annotations

import pytest

from sqew.errors import ConsumerInUse, Fenced
from sqew.operations import (
    CloseConsumer,
    DeleteQueue,
    FinishClaims,
    GrowClaim,
    RenewConsumer,
    SealClaim,
)
from tests.conformance.claiming import HOLD_MS, LEASE_MS, claim, consumers, finish, give_back, opened
from tests.conformance.driver import QUEUE, Driver, states


def test_another_owner_waits_until_the_hold_is_over(store: Driver) -> None:
    store.create()
    before = opened(store, "one")

    with pytest.raises(ConsumerInUse, match="is in the hands of 'one', for another 30 s") as refused:
        opened(store, "two")

    assert refused.value.retry_after_ms == HOLD_MS
    store.advance(HOLD_MS)
    assert opened(store, "two").epoch == before.epoch + 1


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


def test_whoever_had_a_consumer_that_was_released_is_not_taken_for_who_has_it_now(store: Driver) -> None:
    store.create()
    stale = opened(store, "one").epoch
    store.run(CloseConsumer(QUEUE, "c", force=True))
    store.send_many(2)
    epoch = opened(store, "two").epoch
    claim(store, epoch)

    with pytest.raises(Fenced):
        finish(store, stale, 1)

    assert store.total() == 2
    assert finish(store, epoch, 1) == 2


def test_whoever_read_a_queue_that_was_deleted_is_not_taken_for_who_reads_the_new_one(store: Driver) -> None:
    store.create()
    stale = opened(store, "one").epoch
    store.run(DeleteQueue(QUEUE))
    store.create()
    store.send_many(2)
    claim(store, opened(store, "two").epoch)

    with pytest.raises(Fenced):
        finish(store, stale, 1)

    assert store.total() == 2


def test_claims_on_a_deleted_queue_hold_up_no_others(store: Driver) -> None:
    store.create("gone")
    store.create()
    for queue, count in (("gone", 20), (QUEUE, 1)):
        store.send_many(count, queue)
        epoch = opened(store, queue=queue).epoch
        for number in range(1, count + 1):
            claim(store, epoch, number, 1, queue)
    store.run(DeleteQueue("gone"))
    store.advance(LEASE_MS)

    store.sweep(5)
    store.sweep(5)

    assert states(store) == {"ready": 1}


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


def test_what_is_left_of_a_claim_on_its_way_back_is_not_acked(store: Driver) -> None:
    store.create()
    sent = store.send_many(300)
    claim(store, opened(store).epoch)
    store.advance(LEASE_MS)
    store.sweep(100)

    finish(store, opened(store).epoch, 1)

    assert states(store) == {"ready": 300}
    assert sorted(store.receive_ids(300)) == sent


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
