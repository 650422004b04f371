"""Spent claims: a late request never makes one again, with messages in it that its reader never gets."""

from __future__ import annotations

import pytest

from sqew.errors import ClaimSpent
from sqew.model import Claim
from sqew.operations import FinishClaims, GrowClaim, RenewConsumer
from tests.conformance.claiming import LEASE_MS, claim, claimed, consumers, finish, opened
from tests.conformance.driver import QUEUE, Driver, states


def late(store: Driver, epoch: int, number: int) -> Claim:
    """Make a claim whose request was held up on its way."""
    return claim(store, epoch, number)


def test_a_late_request_for_a_finished_claim_gets_no_message_acked_that_nobody_has_read(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    store.send()
    claim(store, epoch)
    finish(store, epoch, 1)
    unread = store.send()

    with pytest.raises(ClaimSpent, match=f"Claim 1 of consumer 'c' of queue '{QUEUE}' is over"):
        late(store, epoch, 1)

    assert states(store) == {"ready": 1}
    assert consumers(store)[0].claims == []
    finish(store, epoch, 1)
    claim(store, epoch, 2)
    assert claimed(store, 2) == [unread]


def test_a_number_is_spent_with_the_first_step_of_finishing_it(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    store.send_many(4)
    claim(store, epoch)

    store.run(FinishClaims(QUEUE, "c", epoch, 1, 4))
    store.run(FinishClaims(QUEUE, "c", epoch, 1, 4))
    store.send()

    with pytest.raises(ClaimSpent):
        late(store, epoch, 1)


def test_a_claim_that_was_answered_and_whose_lease_ran_out_is_not_made_again(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    store.send()
    claim(store, epoch)
    store.advance(LEASE_MS)
    store.sweep_all()
    store.ack(store.take())
    store.send()

    with pytest.raises(ClaimSpent, match="its lease ran out and its messages are in the queue again"):
        late(store, epoch, 1)

    assert finish(store, epoch, 1) == 0
    assert states(store) == {"ready": 1}
    assert claim(store, epoch, 2).count == 1


def test_a_claim_that_is_open_is_given_again_to_who_lost_the_answer(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    store.send_many(3)
    first = claim(store, epoch)
    ahead = (store.send(), claim(store, epoch, 2))[1]

    assert (claim(store, epoch), claim(store, epoch, 2)) == (first, ahead)


def test_a_claim_that_was_begun_and_never_answered_may_be_begun_again(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    sent = store.send_many(2)
    store.run(GrowClaim(QUEUE, "c", epoch, 1, 0, 10, LEASE_MS))
    store.advance(LEASE_MS)
    store.sweep_all()

    assert claim(store, epoch).count == 2
    assert claimed(store) == sent


def test_an_empty_answer_spends_no_number(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    assert claim(store, epoch).count == 0
    store.send()

    assert claim(store, epoch).count == 1


def test_a_new_epoch_may_begin_at_any_number(store: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    store.send()
    claim(store, epoch)
    finish(store, epoch, 1)
    store.send()

    assert claim(store, opened(store).epoch).count == 1


def test_what_is_spent_is_known_after_a_restart_and_to_other_processes(store: Driver, neighbour: Driver) -> None:
    store.create()
    epoch = opened(store).epoch
    store.send()
    claim(store, epoch)
    finish(store, epoch, 1)
    store.run(RenewConsumer(QUEUE, "c", epoch))
    store.send()

    with pytest.raises(ClaimSpent):
        late(neighbour, epoch, 1)

    assert states(neighbour) == {"ready": 1}
