"""Tasks that move dead letters back, step by step."""

import pytest

from sqew.errors import BadValue, MoveNotFound, MoveRunning, NotADeadLetterQueue, QueueNotFound
from sqew.model import Ref, Release
from sqew.operations import CancelMove, DeleteQueue, ListMoves, Nack, NextMove, StartMove, StepMove
from tests.conformance.driver import ids


@pytest.fixture
def mortal(store):
    """Make two queues with one dead-letter queue, and another queue besides."""
    store.create("dead")
    for name in ("jobs", "tasks"):
        store.create(name, max_attempts=1, dead_letter="dead")
    store.create("other")
    return store


def start(store, destination=None, per_second=None, id="task", to_move=0):
    return store.run(StartMove(id, "dead", destination, per_second, to_move))


def step(store, limit=100):
    store.run(StepMove(limit))
    return store.run(ListMoves("dead"))[0]


def test_each_message_goes_to_where_it_came_from(mortal):
    job, task = mortal.kill("jobs"), mortal.kill("tasks")
    start(mortal, to_move=2)

    moved = step(mortal)

    assert (moved.status, moved.moved, moved.to_move) == ("completed", 2, 2)
    assert mortal.receive_ids(10, "jobs") == [job]
    assert mortal.receive_ids(10, "tasks") == [task]


def test_all_messages_go_to_the_destination_that_is_named(mortal):
    expected = [mortal.kill("jobs"), mortal.send(queue="dead")]
    start(mortal, "other")

    assert step(mortal).status == "completed"
    assert sorted(mortal.receive_ids(10, "other")) == sorted(expected)


def test_a_task_without_a_rate_moves_as_many_as_a_step_may(mortal):
    for _ in range(5):
        mortal.kill("jobs")
    start(mortal)

    assert [step(mortal, 2).moved for _ in range(3)] == [2, 4, 5]
    assert mortal.run(NextMove()) is None


@pytest.mark.parametrize(("per_second", "count", "pause_ms"), [(1, 1, 1000), (3, 1, 333), (10, 1, 100), (500, 50, 100)])
def test_a_task_with_a_rate_takes_small_steps_with_pauses_between(mortal, per_second, count, pause_ms):
    for _ in range(120):
        mortal.kill("jobs")
    start(mortal, per_second=per_second)

    assert step(mortal).moved == count
    assert mortal.run(NextMove()) == mortal.now + pause_ms
    mortal.advance(pause_ms - 1)
    assert step(mortal).moved == count
    mortal.advance(1)
    assert step(mortal).moved == 2 * count


def test_a_task_makes_up_for_no_time_that_it_has_lost(mortal):
    for _ in range(10):
        mortal.kill("jobs")
    start(mortal, per_second=1)
    step(mortal)
    mortal.advance(60_000)

    assert step(mortal).moved == 2
    assert mortal.run(NextMove()) == mortal.now


def test_what_died_after_the_start_stays(mortal):
    first = mortal.kill("jobs")
    start(mortal)
    mortal.advance(1)
    second = mortal.kill("jobs")

    assert (step(mortal).moved, step(mortal).status) == (1, "completed")
    assert mortal.receive_ids(10, "jobs") == [first]
    assert mortal.receive_ids(10, "dead") == [second]


def test_what_is_in_somebodys_hands_stays(mortal):
    mortal.kill("jobs")
    held = mortal.take("dead")
    start(mortal, "other")

    assert (step(mortal).moved, step(mortal).status) == (0, "completed")
    assert ids(mortal.peek(queue="dead")) == [held.id]


def test_what_was_let_go_after_its_turn_goes_too(mortal):
    first, second = mortal.kill("jobs"), mortal.kill("jobs")
    held = mortal.take("dead")
    start(mortal)
    step(mortal, 1)
    mortal.nack(held, delay_ms=0)

    assert (step(mortal).status, step(mortal).status) == ("running", "completed")
    assert held.id == first
    assert sorted(mortal.receive_ids(10, "jobs")) == [first, second]


def test_a_step_looks_at_so_many_that_are_in_somebodys_hands_and_the_next_goes_on_after_them(mortal):
    sent = mortal.send_many(1_500, "jobs")
    mortal.run(Nack("jobs", [Release(Ref(id), dead=True) for id in sent]))
    held = mortal.receive(1_400, "dead")
    start(mortal)

    assert [step(mortal).moved for _ in range(3)] == [0, 100, 100]
    assert len(held) == 1_400


def test_a_task_with_a_rate_does_not_pause_for_what_it_leaves(mortal):
    sent = mortal.send_many(1_500, "jobs")
    mortal.run(Nack("jobs", [Release(Ref(id), dead=True) for id in sent]))
    mortal.receive(1_400, "dead")
    start(mortal, per_second=1)

    step(mortal)

    assert mortal.run(NextMove()) == mortal.now
    assert step(mortal).moved == 1
    assert mortal.run(NextMove()) == mortal.now + 1_000


def test_a_queue_is_not_moved_into_itself(mortal):
    with pytest.raises(BadValue):
        start(mortal, "dead")

    assert mortal.run(NextMove()) is None


def test_a_message_that_came_from_nowhere_fails_the_task(mortal):
    mortal.kill("jobs")
    mortal.send(queue="dead")
    start(mortal)

    moved = step(mortal)

    assert (moved.status, moved.moved, moved.reason) == ("failed", 1, "no_origin")


def test_a_message_whose_queue_is_gone_fails_the_task(mortal):
    mortal.kill("tasks")
    mortal.run(DeleteQueue("tasks"))
    start(mortal)

    moved = step(mortal)

    assert (moved.status, moved.moved, moved.reason) == ("failed", 0, "queue_not_found")


def test_a_destination_that_is_deleted_meanwhile_fails_the_task(mortal):
    mortal.kill("jobs")
    start(mortal, "other")
    mortal.run(DeleteQueue("other"))

    moved = step(mortal)

    assert (moved.status, moved.reason) == ("failed", "queue_not_found")
    assert mortal.total("dead") == 1


def test_a_cancelled_task_moves_nothing_more(mortal):
    for _ in range(3):
        mortal.kill("jobs")
    start(mortal)
    step(mortal, 1)

    cancelled = mortal.run(CancelMove("task"))

    assert (cancelled.status, cancelled.moved) == ("cancelled", 1)
    assert step(mortal).moved == 1
    assert mortal.total("dead") == 2


@pytest.mark.parametrize("id", ["unknown", "task"])
def test_only_a_task_that_runs_can_be_cancelled(mortal, id):
    start(mortal)
    step(mortal)

    with pytest.raises(MoveNotFound):
        mortal.run(CancelMove(id))


def test_a_dead_letter_queue_has_one_task_at_a_time(mortal):
    start(mortal)

    with pytest.raises(MoveRunning):
        start(mortal, id="second")

    step(mortal)
    assert start(mortal, id="second").status == "running"


def test_only_a_dead_letter_queue_is_moved_from(mortal):
    with pytest.raises(NotADeadLetterQueue):
        mortal.run(StartMove("task", "other"))


@pytest.mark.parametrize(("source", "destination"), [("nowhere", None), ("dead", "nowhere")])
def test_the_queues_of_a_task_exist(mortal, source, destination):
    with pytest.raises(QueueNotFound):
        mortal.run(StartMove("task", source, destination))


def test_the_newest_ten_are_remembered(mortal):
    for n in range(12):
        start(mortal, id=f"task{n}")
        step(mortal)

    assert [task.id for task in mortal.run(ListMoves("dead", 100))] == [f"task{n}" for n in range(11, 1, -1)]


def test_a_task_survives_a_restart(mortal):
    for _ in range(3):
        mortal.kill("jobs")
    start(mortal)
    step(mortal, 1)

    mortal.reopen()

    assert mortal.run(NextMove()) is not None
    assert (step(mortal).moved, step(mortal).status) == (3, "completed")


def test_any_process_takes_the_next_step(mortal, neighbour):
    for _ in range(4):
        mortal.kill("jobs")
    start(mortal)

    assert [step(one, 2).moved for one in (mortal, neighbour)] == [2, 4]


def test_a_deleted_dead_letter_queue_takes_its_tasks_with_it(mortal):
    mortal.kill("jobs")
    start(mortal)
    mortal.run(DeleteQueue("dead"))
    mortal.create("dead")

    assert mortal.run(ListMoves("dead")) == []
    assert mortal.run(NextMove()) is None


def test_a_step_tells_those_who_wait_at_the_destination(mortal):
    mortal.kill("jobs")
    start(mortal)

    assert "jobs" in mortal.commit(StepMove()).woken


@pytest.fixture
def buried(store):
    """Return the store and the ids of four dead letters of one group, in a FIFO dead-letter queue."""
    store.create("dead", fifo=True)
    store.create("jobs", fifo=True, max_attempts=1, dead_letter="dead")
    return store, [store.kill("jobs", group="g") for _ in range(4)]


def test_those_behind_a_held_head_of_a_fifo_group_went_before_it(buried):
    store, killed = buried
    held = store.take("dead")
    start(store)

    moved = step(store)

    assert (moved.status, moved.moved) == ("completed", 0)
    store.nack(held, delay_ms=0)
    start(store, id="again")
    assert step(store).moved == 4
    assert store.receive_ids(10, "jobs") == killed


def test_those_behind_a_head_that_is_let_go_between_two_steps_went_before_it(buried):
    store, killed = buried
    held = store.take("dead")
    store.kill("jobs", group="other")
    in_order = [*killed, store.kill("jobs", group="g")]
    start(store)
    step(store, 1)
    store.nack(held, delay_ms=0)

    there = []
    while step(store, 1).status == "running":
        there = [message.id for message in store.peek(queue="jobs") if message.group == "g"]
        assert there == in_order[: len(there)]

    assert there == in_order


def test_a_held_message_of_a_group_holds_up_nobody_in_a_queue_without_turns(store):
    store.create("dead")
    store.create("jobs", max_attempts=1, dead_letter="dead")
    killed = [store.kill("jobs", group="g") for _ in range(3)]
    held = store.take("dead")
    start(store)

    assert step(store).moved == 2
    assert [held.id, *store.receive_ids(10, "jobs")] == killed
