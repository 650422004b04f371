"""The cost of an operation for SQLite: the same, however many messages the queue holds."""

from __future__ import annotations

import pytest

from sqew.model import Extension, NewMessage, Ref, Release
from sqew.operations import Ack, Extend, Nack, NextDue, Peek, Receive, Remove, RequeueDead, Send, Sweep, SweepDue
from tests.stores.sqlite.backlog import NOW, create, effort, fill, lease, open_store, run

MANY = 20_000
MARGIN = 1.5


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "queue.db")
    yield store
    store.close()


def cost(store, *operations):
    """Count the steps of SQLite's machine for operations that run one by one."""
    with effort(store.connection) as counted:
        for operation in operations:
            run(store, operation)
    assert counted.scanned == 0
    return counted.steps


def life(store, queue="jobs", group=None):
    """Count the steps of all operations on a message's way. Nothing is left in flight."""
    with effort(store.connection) as counted:
        [sent] = run(store, Send(queue, [NewMessage(b"{}", group=group)]))
        run(store, NextDue(queue))
        [message] = run(store, Receive(queue)).messages
        run(store, Extend(queue, [Extension(Ref(message.id), 1000)]))
        run(store, Nack(queue, [Release(Ref(message.id), delay_ms=0)]))
        [message] = run(store, Receive(queue)).messages
        run(store, Ack(queue, [Ref(message.id)]))
        batch = run(store, Receive(queue, 10)).messages
        run(store, Ack(queue, [Ref(message.id) for message in batch]))
        run(store, Remove(queue, [sent.id]))
    assert len(batch) == 10
    assert counted.scanned == 0
    return counted.steps


def leased_at_the_head(store):
    fill(store, "jobs", MANY)
    lease(store, "jobs", MANY, lease_ms=10_000_000)


def delayed_at_top_priority(store):
    fill(store, "jobs", MANY, delay_ms=10_000_000, priority=1)


def leased_and_delayed_in_the_same_bucket(store):
    fill(store, "jobs", MANY // 2)
    lease(store, "jobs", MANY // 2, lease_ms=10_000_000)
    fill(store, "jobs", MANY // 2, delay_ms=10_000_000)


def ready_at_the_same_priority(store):
    fill(store, "jobs", MANY)


@pytest.mark.parametrize(
    "backlog",
    [leased_at_the_head, delayed_at_top_priority, leased_and_delayed_in_the_same_bucket, ready_at_the_same_priority],
    ids=lambda backlog: backlog.__name__.replace("_", " "),
)
def test_a_messages_life_costs_the_same_in_a_queue_with_many(store, backlog):
    create(store, "few")
    create(store, "jobs")
    fill(store, "few", 1, priority=1)
    backlog(store)
    for queue in ("few", "jobs"):
        fill(store, queue, 50)
        life(store, queue)

    assert life(store, "jobs") <= MARGIN * life(store, "few")


@pytest.mark.parametrize("group", ["crowded", "other"])
def test_a_messages_life_costs_the_same_with_many_behind_one_fifo_head(store, group):
    create(store, "few.fifo", fifo=True)
    create(store, "many.fifo", fifo=True)
    fill(store, "few.fifo", 50, group="crowded")
    fill(store, "many.fifo", MANY, group="crowded")
    for queue in ("few.fifo", "many.fifo"):
        life(store, queue, group)

    assert life(store, "many.fifo", group) <= MARGIN * life(store, "few.fifo", group)


def test_a_group_of_many_is_worked_off_at_an_even_cost(store):
    create(store, "jobs.fifo", fifo=True)
    fill(store, "jobs.fifo", MANY, group="g")

    costs = []
    for _ in range(50):
        with effort(store.connection) as counted:
            [message] = run(store, Receive("jobs.fifo")).messages
            run(store, Ack("jobs.fifo", [Ref(message.id)]))
        costs.append(counted.steps)

    assert max(costs[1:]) <= MARGIN * min(costs[1:])


def test_a_death_into_a_fifo_group_of_many_costs_the_same(store):
    create(store, "dead.fifo", fifo=True)
    create(store, "jobs.fifo", fifo=True, dead_letter="dead.fifo")

    def death():
        [sent] = run(store, Send("jobs.fifo", [NewMessage(b"{}", group="g")]))
        return cost(store, Nack("jobs.fifo", [Release(Ref(sent.id), dead=True)]))

    death()
    alone = death()
    fill(store, "dead.fifo", MANY, group="g")

    assert death() <= MARGIN * alone


def test_a_dead_letter_brought_back_before_a_fifo_group_of_many_costs_the_same(store):
    create(store, "jobs.fifo", fifo=True)

    def death():
        [sent] = run(store, Send("jobs.fifo", [NewMessage(b"{}", group="g")]))
        run(store, Nack("jobs.fifo", [Release(Ref(sent.id), dead=True)]))

    death()
    fill(store, "jobs.fifo", 20, group="g")
    alone = cost(store, RequeueDead("jobs.fifo"))
    death()
    fill(store, "jobs.fifo", MANY, group="g")

    assert cost(store, RequeueDead("jobs.fifo")) <= MARGIN * alone


def test_an_empty_receive_costs_little_however_many_wait(store):
    create(store, "jobs")
    delayed_at_top_priority(store)
    leased_at_the_head(store)

    assert cost(store, Receive("jobs")) < 500


def test_a_sweep_with_nothing_to_do_costs_little_however_much_is_stored(store):
    create(store, "jobs", max_attempts=1, keep="archive")
    fill(store, "jobs", MANY, ttl_ms=10_000_000)
    lease(store, "jobs", MANY // 2, lease_ms=10_000_000)
    lease(store, "jobs", 1000, finish=True)

    assert cost(store, Sweep()) < 500


def test_sweeping_does_not_look_at_what_is_over_and_in_somebodys_hands(store):
    create(store, "jobs")
    fill(store, "jobs", MANY, ttl_ms=1_000)
    lease(store, "jobs", MANY, lease_ms=10_000_000)

    with effort(store.connection) as counted:
        swept = run(store, Sweep(), NOW + 2_000)
        is_due = run(store, SweepDue(), NOW + 2_000)

    assert (swept.expired, swept.next_at, is_due) == (0, NOW + 10_000_000, False)
    assert counted.steps < 1_000


def test_a_peek_costs_by_what_it_shows_and_not_by_what_is_there(store):
    create(store, "jobs.fifo", fifo=True)
    fill(store, "jobs.fifo", MANY, group="g")

    assert cost(store, Peek("jobs.fifo", 10)) < 5_000
