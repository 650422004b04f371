"""The cost for SQLite of moving dead letters back, and of finding queues among many: independent of everything else."""

from __future__ import annotations

import pytest

from sqew.model import NewMessage, Policy, Ref, Release
from sqew.operations import (
    CreateQueue,
    ListDeadLetterSources,
    ListMoves,
    ListQueues,
    ListTopics,
    Nack,
    NextMove,
    Receive,
    Send,
    StartMove,
    StepMove,
)
from tests.stores.sqlite.backlog import NOW, create, effort, fill, lease, open_store, run

MANY = 20_000
MARGIN = 1.5


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / "queue.db")
    for dead_letters, queue in (("dead", "jobs"), ("dead2", "jobs2")):
        create(store, dead_letters)
        create(store, queue, dead_letter=dead_letters)
    yield store
    store.close()


def bury(store, queue, count):
    """Send messages to a queue and let them die."""
    fill(store, queue, count)
    while dead := run(store, Receive(queue, 5_000)).messages:
        run(store, Nack(queue, [Release(Ref(message.id), dead=True) for message in dead]))


def cost(store, operation, now=NOW):
    with effort(store.connection) as counted:
        run(store, operation, now)
    assert counted.scanned == 0
    return counted.steps


def test_a_step_costs_the_same_however_many_dead_letters_there_are(store):
    bury(store, "jobs", 1_000)
    run(store, StartMove("few", "dead"))
    cost(store, StepMove())
    few = cost(store, StepMove())
    bury(store, "jobs2", MANY)
    bury(store, "jobs", MANY)

    assert cost(store, StepMove()) <= MARGIN * few


def test_a_step_does_not_look_again_at_what_it_has_left_in_somebodys_hands(store):
    bury(store, "jobs", MANY)
    lease(store, "dead", MANY)
    bury(store, "jobs", 1_000)
    run(store, StartMove("task", "dead"))

    steps = []
    while run(store, ListMoves("dead"))[0].moved < 1_000:
        steps.append(cost(store, StepMove()))

    assert len(steps) == MANY // 1_000 + 10
    assert max(steps) < 60_000


def test_a_task_of_an_empty_queue_costs_little_however_many_dead_letters_others_have(store):
    bury(store, "jobs", MANY)
    run(store, StartMove("none", "dead2"))

    assert cost(store, StepMove()) < 500
    assert run(store, ListMoves("dead2"))[0].status == "completed"


def test_a_task_whose_queue_is_gone_does_not_stay_due(store):
    run(store, StartMove("task", "dead"))
    store.connection.execute("UPDATE sqew_queue SET name = NULL WHERE name = 'dead'")
    store.rollback()

    run(store, StepMove())

    assert run(store, NextMove()) is None


def test_a_receive_that_may_be_repeated_does_not_pay_for_those_before_it(store):
    create(store, "jobs.fifo", fifo=True)
    run(store, Send("jobs.fifo", [NewMessage(b"{}")]))

    def receive(id, now):
        return cost(store, Receive("jobs.fifo", lease_ms=0, attempt_id=id), now)

    receive("first", NOW)
    few = receive("second", NOW)
    rows = [(1, f"old{n}", "t", NOW, "[]", NOW + 1) for n in range(MANY)]
    store.connection.executemany("INSERT INTO sqew_attempt VALUES (?, ?, ?, ?, ?, ?)", rows)

    assert receive("third", NOW + 2) <= MARGIN * few


@pytest.fixture
def crowded(store):
    """Return a store with many queues and topics."""
    for n in range(2_000):
        run(store, CreateQueue(f"q{n:04}", Policy(dead_letter="dead" if n == 1_999 else "elsewhere")))
    topics = [(f"q{n:04}", "{}", "{}", NOW) for n in range(2_000)]
    store.connection.executemany("INSERT INTO sqew_topic VALUES (?, ?, ?, ?)", topics)
    return store


@pytest.mark.parametrize(
    "operation",
    [ListQueues("q1999"), ListTopics("q1999"), ListQueues("nobody"), ListDeadLetterSources("dead")],
    ids=lambda operation: f"{type(operation).__name__} {getattr(operation, 'prefix', '')}",
)
def test_to_find_queues_or_topics_costs_by_how_many_are_found(crowded, operation):
    assert cost(crowded, operation) < 200
