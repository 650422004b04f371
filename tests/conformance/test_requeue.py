"""Dead letters brought back: each to the queue it came from, as if it had just been sent."""

import pytest

from sqew.errors import QueueNotFound, SqewError
from sqew.operations import DeleteQueue, PurgeDead, Redrive, RequeueDead
from tests.conformance.driver import ids


@pytest.fixture(params=["dead-letter queue", "archive"])
def mortal(request, store):
    """Return a store whose queue has its dead letters in a dead-letter queue, or in its archive."""
    store.create("dead")
    dead_letter = "dead" if request.param == "dead-letter queue" else None
    store.create(max_attempts=1, visibility_ms=100, dead_letter=dead_letter, lanes={"high": 3, "normal": 1})
    return store


def test_a_requeued_message_is_delivered_again_with_attempts_from_the_start(mortal):
    id = mortal.send(b'"x"', headers={"h": 1}, priority=2)
    mortal.nack(mortal.take())
    mortal.advance(50)

    progress = mortal.requeue()

    assert (progress.count, progress.done) == (1, True)
    message = mortal.take()
    assert (message.id, message.attempts) == (id, 1)
    assert (message.body, message.headers, message.priority) == (b'"x"', {"h": 1}, 2)
    assert message.available_at == mortal.now
    assert message.death is None


def test_a_requeued_message_has_all_its_attempts(mortal):
    mortal.update(max_attempts=3)
    mortal.kill()
    mortal.requeue()

    deliveries = 0
    while messages := mortal.receive():
        deliveries += 1
        mortal.nack(messages[0], delay_ms=0)

    assert deliveries == 3


def test_a_requeued_message_is_no_longer_dead(mortal):
    mortal.kill()

    mortal.requeue()

    assert mortal.dead() == []
    assert mortal.archive() == {}
    assert mortal.total("dead") == 0
    assert mortal.measure().dead == 0


def test_a_requeued_message_returns_to_its_lane(mortal):
    id = mortal.kill(lane="high")

    mortal.requeue()

    assert mortal.receive_ids(lane="high") == [id]


def test_a_requeued_message_whose_lane_is_gone_goes_to_the_default_lane(mortal):
    id = mortal.kill(lane="high")
    mortal.update(lanes={"normal": 1})

    mortal.requeue()

    assert mortal.take().id == id


def test_only_the_named_dead_letters_are_requeued(mortal):
    first, second, third = mortal.kill(), mortal.kill(), mortal.kill()

    assert mortal.requeue(ids=[third, first, 10**15]).count == 2

    assert mortal.receive_ids(10) == [first, third]
    assert ids(mortal.dead()) == [second]


def test_a_dead_letter_named_twice_is_requeued_once(mortal):
    id = mortal.kill()

    assert mortal.requeue(ids=[id, id]).count == 1
    assert mortal.receive_ids(10) == [id]


def test_requeue_goes_in_steps(mortal):
    dead = [mortal.kill() for _ in range(5)]

    counts = []
    while (progress := mortal.requeue(limit=2)).count:
        counts.append(progress.count)

    assert counts == [2, 2, 1]
    assert progress.done
    assert mortal.receive_ids(10) == dead


def test_requeue_of_no_dead_letters_does_nothing(mortal):
    mortal.send()

    progress = mortal.requeue()

    assert (progress.count, progress.done) == (0, True)
    assert mortal.total() == 1


def test_a_requeued_message_may_die_and_be_requeued_again(mortal):
    id = mortal.kill()

    for _ in range(3):
        mortal.requeue()
        mortal.nack(mortal.take())

    assert ids(mortal.dead()) == [id]


def test_a_requeued_message_owns_its_key_again(mortal):
    id = mortal.kill(key="k")
    mortal.requeue()
    mortal.advance(10_000_000)
    mortal.sweep()

    assert mortal.send(key="k") == id


def test_a_requeued_message_leaves_a_key_alone_that_another_has_taken_since(mortal):
    mortal.update(key_retention_ms=10)
    old = mortal.kill(key="k")
    mortal.advance(10)
    new = mortal.send(key="k")

    mortal.requeue()

    assert mortal.send(key="k") == new
    assert sorted(mortal.receive_ids(10)) == [old, new]


def test_a_requeued_message_lives_as_long_as_one_just_sent(mortal):
    mortal.update(ttl_ms=1000)
    mortal.kill()
    mortal.advance(5000)

    mortal.requeue()

    assert mortal.take().expires_at == mortal.now + 1000


def test_each_dead_letter_of_a_shared_dead_letter_queue_returns_to_its_own_queue(store):
    store.create("dead")
    store.create("a", dead_letter="dead")
    store.create("b", dead_letter="dead")
    a, b = store.kill("a"), store.kill("b")

    assert store.requeue("a").count == 1

    assert store.receive_ids(10, "a") == [a]
    assert store.receive_ids(10, "b") == []
    assert ids(store.peek(queue="dead")) == [b]


def test_requeue_takes_nothing_that_somebody_is_working_on(store):
    store.create("dead")
    store.create(dead_letter="dead")
    held, free = store.kill(), store.kill()
    assert store.take("dead").id == held

    assert store.requeue().count == 1

    assert store.receive_ids(10) == [free]


def test_a_redrive_sends_each_dead_letter_where_it_came_from(store):
    store.create("dead")
    store.create("a", dead_letter="dead", lanes={"x": 1, "y": 1})
    store.create("b", dead_letter="dead")
    a, b = store.kill("a", lane="y"), store.kill("b")

    progress = store.run(Redrive("dead"))

    assert (progress.count, progress.done) == (2, True)
    assert store.receive_ids(10, "a", lane="y") == [a]
    assert store.receive_ids(10, "b") == [b]
    assert store.total("dead") == 0


def test_a_redrive_leaves_what_was_sent_there_directly_and_what_has_no_home(store):
    store.create("dead")
    store.create("a", dead_letter="dead")
    homeless = store.kill("a")
    direct = store.send(queue="dead")
    store.run(DeleteQueue("a"))

    assert store.run(Redrive("dead")).count == 0
    assert ids(store.peek(queue="dead")) == [homeless, direct]


def test_a_redrive_with_a_destination_takes_everything_there(store):
    store.create("dead", lanes={"normal": 1, "extra": 1})
    store.create("a", dead_letter="dead")
    store.create("target")
    killed = store.kill("a", priority=3)
    direct = store.send(queue="dead", lane="extra", delay_ms=500)

    assert store.run(Redrive("dead", "target")).count == 2

    messages = store.receive(10, "target")
    assert ids(messages) == [killed, direct]
    assert [message.attempts for message in messages] == [1, 1]
    assert store.total("dead") == 0


def test_a_redrive_leaves_what_somebody_is_working_on(store):
    store.create("dead")
    store.create("a", dead_letter="dead")
    held, free = store.kill("a"), store.kill("a")
    assert store.take("dead").id == held

    assert store.run(Redrive("dead")).count == 1
    assert store.receive_ids(10, "a") == [free]
    assert store.run(Redrive("dead", "a")).count == 0


def test_a_key_is_forgotten_after_a_time_in_the_queue_that_a_redrive_took_its_message_from(store):
    store.create("dead", key_retention_ms=1000)
    store.create("target")
    moved = store.send(queue="dead", key="k")
    store.run(Redrive("dead", "target"))

    store.advance(999)
    assert store.send(queue="dead", key="k") == moved

    store.advance(1)
    assert store.send(queue="dead", key="k") != moved


@pytest.mark.parametrize("to", [None, "a"])
def test_a_redrive_goes_in_steps(store, to):
    store.create("dead")
    store.create("a", dead_letter="dead")
    for _ in range(5):
        store.kill("a")

    counts = []
    while (progress := store.run(Redrive("dead", to, limit=2))).count:
        counts.append(progress.count)

    assert counts == [2, 2, 1]
    assert store.total("a") == 5


def test_a_redrive_of_a_fifo_dead_letter_queue_takes_whole_groups(store):
    store.create("dead.fifo", fifo=True)
    store.create("a.fifo", fifo=True, dead_letter="dead.fifo")
    killed = [store.kill("a.fifo", group="g") for _ in range(3)]

    assert store.run(Redrive("dead.fifo", "a.fifo")).count == 3

    assert store.receive_ids(10, "a.fifo") == killed


def test_a_redrive_takes_a_fifo_group_whose_messages_differ_in_priority(store):
    store.create("dead.fifo", fifo=True)
    store.create("target")
    low = store.send(queue="dead.fifo", group="g")
    high = store.send(queue="dead.fifo", group="g", priority=1)

    progress = store.run(Redrive("dead.fifo", "target"))

    assert (progress.count, progress.done) == (2, True)
    assert store.receive_ids(10, "target") == [high, low]


def test_a_redrive_into_the_same_queue_does_not_go_round_for_ever(store):
    store.create("dead")
    sent = store.send_many(3, "dead")

    try:
        progress = store.run(Redrive("dead", "dead", limit=10))
    except SqewError:
        pass
    else:
        assert (progress.count <= 3, progress.done) == (True, True)

    assert store.receive_ids(10, "dead") == sent


@pytest.mark.parametrize("operation", [Redrive("no"), Redrive("jobs", "no")])
def test_a_redrive_from_or_to_a_queue_that_does_not_exist_is_an_error(store, operation):
    store.create()

    with pytest.raises(QueueNotFound):
        store.run(operation)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_requeue_took_those_behind_a_held_head_of_a_fifo_group_before_it(store, is_named):
    store.create("dead.fifo", fifo=True)
    store.create(fifo=True, dead_letter="dead.fifo")
    killed = [store.kill(group="g") for _ in range(3)]
    other = store.kill(group="other")
    held = store.take("dead.fifo")
    ids = [*killed, other] if is_named else None

    assert store.requeue(ids=ids).count == 1
    assert store.receive_ids(10) == [other]

    store.nack(held, delay_ms=0)
    assert store.requeue(ids=ids).count == 3
    assert store.receive_ids(10) == killed


def test_dead_letters_behind_a_held_head_are_deleted_for_that_breaks_no_order(store):
    store.create("dead.fifo", fifo=True)
    store.create(fifo=True, dead_letter="dead.fifo")
    killed = [store.kill(group="g") for _ in range(3)]
    store.take("dead.fifo")

    assert store.run(PurgeDead("jobs", killed[1:])).count == 2
    assert ids(store.peek(queue="dead.fifo")) == killed[:1]


def test_what_ran_out_of_attempts_comes_back_with_its_count_once_its_queue_allows_more(store):
    store.create(max_attempts=1, dead_letter=None)
    spent = [store.send() for _ in range(3)]
    for message in store.receive(limit=3):
        store.nack(message)
    store.kill(reason="given up")
    store.update(max_attempts=2)

    counts, after, done = [], 0, False
    while not done:
        progress = store.run(RequeueDead("jobs", limit=2, unspent=True, after=after))
        counts.append(progress.count)
        after, done = progress.after, progress.done

    assert sum(counts) == 3
    assert [(message.id, message.attempts) for message in store.receive(limit=9)] == [(id, 2) for id in spent]
    assert [message.death.reason for message in store.dead()] == ["given up"]
