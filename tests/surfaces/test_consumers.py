"""Claims that outlast their reader."""

import pytest

from sqew.errors import BadValue, ClaimNotFound, ConsumerInUse, ConsumerNotFound, Fenced, QueueNotFound
from tests.surfaces.surface import refused


def test_a_queue_is_read_claim_by_claim(program, queue):
    program.create(queue)
    sent = [program.send(queue, value) for value in range(3)]

    epoch, claims = program.open_consumer(queue, "c", "me")
    assert claims == []
    assert program.claim(queue, "c", epoch, after=0, limit=2) == (1, 2, 1)
    assert [(one.id, one.value, one.attempts, one.state) for one in program.read(queue, "c", 1)] == [
        (sent[0], 0, 1, "leased"),
        (sent[1], 1, 1, "leased"),
    ]
    assert program.claim(queue, "c", epoch, after=0, limit=2) == (1, 2, 1)
    assert program.claim(queue, "c", epoch, after=1) == (2, 1, 1)
    assert program.consumers(queue) == [("c", [2])]
    assert program.claim(queue, "c", epoch, after=2)[1] == 0
    assert program.peek(queue) == []


def test_claims_are_finished_only_as_far_as_they_are_done(program, queue):
    program.create(queue)
    for value in range(3):
        program.send(queue, value)
    epoch, _ = program.open_consumer(queue, "c", "me")
    program.claim(queue, "c", epoch, after=0, limit=1)

    assert program.claim(queue, "c", epoch, after=1, limit=1, done=0) == (2, 1, 1)
    assert program.consumers(queue) == [("c", [1, 2])]
    assert program.open_consumer(queue, "c", "me")[1] == [1, 2]


@pytest.mark.parametrize(
    "wrong", [{"after": 1, "lease_ms": -5}, {"after": 1, "limit": -1}, {"after": 1, "done": 2}, {"after": -1}]
)
def test_a_claim_that_is_refused_acks_nothing(program, queue, wrong):
    program.create(queue)
    program.send(queue, 1)
    epoch, _ = program.open_consumer(queue, "c", "me")
    program.claim(queue, "c", epoch, after=0)

    with refused(BadValue):
        program.claim(queue, "c", epoch, **wrong)
    with refused(BadValue):
        program.claim(queue, "c", epoch + 7, **wrong)

    assert program.consumers(queue) == [("c", [1])]
    assert len(program.read(queue, "c", 1)) == 1


def test_an_earlier_epoch_is_fenced_off(program, queue):
    program.create(queue)
    program.send(queue, 1)
    epoch, _ = program.open_consumer(queue, "c", "me")
    program.claim(queue, "c", epoch, after=0)
    program.open_consumer(queue, "c", "me")

    with refused(Fenced):
        program.claim(queue, "c", epoch, after=1)
    with refused(Fenced):
        program.renew(queue, "c", epoch)
    program.renew(queue, "c", epoch + 1, hold_ms=60_000)
    with refused(ConsumerInUse):
        program.open_consumer(queue, "c", "somebody else")


def test_what_is_released_can_be_received_by_others(surface, queue, aside):
    surface.create(queue)
    for value in range(2):
        surface.send(queue, value)
    epoch, _ = aside.open_consumer(queue, "c", "me", hold_ms=60_000)
    aside.claim(queue, "c", epoch, after=0)

    assert (surface.consumers(queue), surface.stats(queue)["leased"]) == ([("c", [1])], 2)
    with refused(ConsumerInUse):
        surface.release(queue, "c")
    surface.release(queue, "c", force=True)

    assert (surface.consumers(queue), surface.stats(queue)["ready"]) == ([], 2)
    with refused(ConsumerNotFound):
        surface.release(queue, "c")
    assert [one.value for one in surface.receive(queue, 2)] == [0, 1]


def test_what_is_not_there_is_named(program, queue):
    program.create(queue)
    epoch, _ = program.open_consumer(queue, "c", "me")

    with refused(ClaimNotFound):
        program.read(queue, "c", 3)
    with refused(ConsumerNotFound):
        program.claim(queue, "x", epoch, after=0)
    with refused(ConsumerNotFound):
        program.renew(queue, "x", epoch)
    with refused(QueueNotFound):
        program.open_consumer("nowhere", "c", "me")
    with refused(QueueNotFound):
        program.claim("nowhere", "c", epoch, after=0)
