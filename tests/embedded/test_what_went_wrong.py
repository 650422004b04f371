"""Mistakes made once, each test named after one."""

import pytest

from sqew import Policy, Queue
from sqew import operations as ops
from sqew.clock import ManualClock
from sqew.errors import BadBody, BadValue, Invalid
from sqew.rules.bodies import parse_json
from sqew.rules.limits import Limits


@pytest.fixture
def q(tmp_path):
    with Queue.open(tmp_path / "queue.db", durability="fast") as q:
        q.create("orders")
        yield q


def test_a_policy_changed_by_an_operation_is_stored_as_a_policy(q):
    """Check that plain data is stored as typed values: written as it came, it made the file unreadable."""
    q.run(ops.UpdateQueue("orders", {"lanes": ["normal", "y"], "backoff": {"base_ms": 5}}))

    assert q.info("orders").policy.lanes == {"normal": 1, "y": 1}
    assert q.info("orders").policy.backoff.base_ms == 5


@pytest.mark.parametrize(
    ("name", "policy"), [("bad name!", Policy()), ("", Policy()), ("x.fifo", Policy()), ("y", Policy(dead_letter="y"))]
)
def test_an_operation_makes_no_queue_that_create_would_refuse(q, name, policy):
    with pytest.raises(Invalid):
        q.run(ops.CreateQueue(name, policy))


def test_an_unclosed_string_behind_many_brackets_is_refused_at_once():
    """Check that such a body is refused quickly: to cut the strings out of invalid JSON took minutes."""
    body = b"[" * 65 + b'"' + b'\\"' * 200_000

    with pytest.raises(BadBody):
        parse_json(body, Limits())


def test_a_dead_letter_that_somebody_holds_is_not_requeued_by_its_id(q):
    q.enqueue("orders", 1)
    q.dead_letter(q.claim("orders"))
    held = q.claim("orders-dlq")

    assert q.requeue("orders", [held.id]) == 0
    q.ack(held)


def test_what_is_over_by_the_clock_is_not_counted_as_ready(tmp_path):
    clock = ManualClock()
    with Queue.open(tmp_path / "q.db", clock=clock) as q:
        q.create("orders")
        q.enqueue("orders", 1, ttl_seconds=1)
        clock.advance(5_000)

        assert q.stats("orders").depths.total() == 0


@pytest.mark.parametrize(
    "wrong", [{"lease_ms": -5}, {"lease_ms": "1s"}, {"limit": -1}, {"limit": 1.5}, {"after": 2, "done": 3}], ids=repr
)
def test_a_claim_that_is_refused_acks_nothing(wrong):
    """Check that a refused claim acks nothing: it acked the claims before, and then found the lease too long."""
    with Queue.open(":memory:") as q:
        q.create("orders")
        q.enqueue("orders", 1)
        epoch = q.consumers.open("orders", "billing", owner="me").epoch
        q.consumers.claim("orders", "billing", epoch, after=0)

        with pytest.raises(BadValue):
            q.consumers.claim("orders", "billing", epoch, **{"after": 1, **wrong})

        assert [message.value for message in q.consumers.read("orders", "billing", 1, part=0)] == [1]


@pytest.mark.parametrize("part", [None, "0", 1.5, [], -1], ids=repr)
def test_a_part_of_a_claim_that_is_no_number_was_a_mistake_in_the_code(part):
    with Queue.open(":memory:") as q:
        q.create("orders")

        with pytest.raises(BadValue, match="part can't be"):
            q.consumers.read("orders", "billing", 1, part)


@pytest.mark.parametrize(
    "act",
    [
        lambda q, id: q.ack(id),
        lambda q, id: q.ack_many([id]),
        lambda q, id: q.nack(id),
        lambda q, id: q.nack_many([id]),
        lambda q, id: q.dead_letter(id),
        lambda q, id: q.extend_lease(id, 60),
        lambda q, id: q.extend_many([id], 60),
    ],
)
def test_an_id_alone_settles_nothing(q, act):
    """Check that an id without a token is refused: ids can be guessed, and one acked a message never received."""
    id = q.enqueue("orders", 1)

    with pytest.raises(BadValue, match=f"Message {id} is named by its id alone"):
        act(q, id)

    assert q.claim("orders").attempts == 1
