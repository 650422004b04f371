"""Dead-lettering: when a message dies, where it goes and what is remembered of it."""

import pytest

from sqew.model import Death, Ref, Release, Settled
from sqew.operations import Ack, DeleteQueue, GetQueue, ListDead, Nack, PurgeDead, RequeueDead
from tests.conformance.driver import ids


def with_dead_letters(store, **policy):
    """Create the queue ``jobs``, whose dead letters go to ``dead``."""
    store.create("dead")
    store.create(**{"visibility_ms": 100, "max_attempts": 2, "dead_letter": "dead", **policy})


def test_a_nack_of_the_last_delivery_moves_the_message_to_the_dead_letter_queue(store):
    with_dead_letters(store)
    id = store.send()
    store.nack(store.take(), delay_ms=0)

    settled = store.nack(store.take(), delay_ms=0)

    assert settled == Settled(id, dead=True)
    assert store.total() == 0
    assert store.receive_ids(queue="dead") == [id]


def test_a_nack_before_the_last_delivery_does_not_kill(store):
    with_dead_letters(store)
    store.send()

    assert not store.nack(store.take(), delay_ms=0).dead
    assert store.total("dead") == 0


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_a_message_is_delivered_exactly_max_attempts_times_when_leases_run_out(store, max_attempts, limit):
    with_dead_letters(store, max_attempts=max_attempts)
    id = store.send()

    deliveries = 0
    for _ in range(max_attempts + 3):
        deliveries += len(store.receive(limit))
        store.advance(100)

    assert deliveries == max_attempts
    assert [(message.id, message.attempts) for message in store.peek(queue="dead")] == [(id, max_attempts)]


def test_a_message_is_delivered_exactly_max_attempts_times_when_nacked(store):
    with_dead_letters(store, max_attempts=3)
    store.send()

    deliveries = 0
    while messages := store.receive():
        deliveries += 1
        store.nack(messages[0], delay_ms=0)

    assert deliveries == 3


def test_a_sweep_moves_messages_whose_last_lease_ended(store):
    with_dead_letters(store, max_attempts=1)
    id = store.send()
    store.take()
    store.advance(99)
    assert store.sweep().dead == 0

    store.advance(1)

    assert store.sweep().dead == 1
    assert ids(store.peek(queue="dead")) == [id]
    assert store.total() == 0


def test_a_sweep_leaves_messages_that_may_be_delivered_again(store):
    with_dead_letters(store, max_attempts=2)
    id = store.send()
    store.take()
    store.advance(100)

    assert store.sweep().dead == 0
    assert store.receive_ids() == [id]


def test_a_sweep_says_when_the_next_last_lease_ends(store):
    with_dead_letters(store, max_attempts=1)
    store.send()
    store.take()

    assert store.sweep().next_at == store.now + 100


def test_an_extended_last_lease_dies_at_its_new_end(store):
    with_dead_letters(store, max_attempts=1)
    store.send()
    store.extend(store.take(), 1000)

    store.advance(999)
    assert store.sweep().dead == 0

    store.advance(1)
    assert store.sweep().dead == 1


def test_a_last_delivery_can_still_be_acked(store):
    with_dead_letters(store, max_attempts=1)
    store.send()

    store.ack(store.take())

    store.advance(1000)
    assert store.sweep().dead == 0
    assert store.total("dead") == 0


def test_an_exhausted_message_does_not_hide_those_behind_it(store):
    with_dead_letters(store, max_attempts=1)
    store.send_many(3)
    store.receive(3)
    store.advance(100)
    id = store.send()

    assert store.receive_ids() == [id]


def test_a_batch_steps_over_more_exhausted_messages_than_its_limit(store):
    with_dead_letters(store, max_attempts=1)
    store.send_many(25)
    store.receive(25)
    store.advance(100)
    alive = store.send_many(3)

    assert store.receive_ids(2) == alive[:2]
    assert store.receive_ids(2) == alive[2:]
    assert store.sweep().dead + store.total("dead") >= 25
    assert store.total("dead") == 25


def test_an_exhausted_message_counts_as_ready_until_it_is_swept(store):
    with_dead_letters(store, max_attempts=1)
    store.send()
    store.take()
    store.advance(100)

    assert store.measure().total("ready") == 1

    store.sweep()
    assert store.measure().total() == 0


def test_a_dead_letter_keeps_what_it_was_and_remembers_why_it_died(store):
    with_dead_letters(store)
    id = store.send(b'"x"', headers={"a": 1}, priority=4, key="k")
    sent_at = store.now
    store.advance(5)

    store.nack(store.take(), dead=True, reason="no such order")

    message = store.get(id, "dead")
    assert (message.queue, message.body, message.headers, message.priority) == ("dead", b'"x"', {"a": 1}, 4)
    assert (message.attempts, message.created_at) == (1, sent_at)
    assert message.state == "ready"
    assert message.death == Death("jobs", "no such order", store.now)


@pytest.mark.parametrize("reason", ["", "the reason"])
def test_a_message_that_runs_out_of_attempts_by_nack_dies_of_the_given_reason_or_of_that(store, reason):
    with_dead_letters(store, max_attempts=1)
    id = store.send()

    store.nack(store.take(), reason=reason)

    assert store.get(id, "dead").death.reason == (reason or "max_attempts")


def test_a_message_that_runs_out_of_attempts_by_expiry_says_so(store):
    with_dead_letters(store, max_attempts=1)
    id = store.send()
    store.take()
    store.advance(100)
    store.receive()

    assert store.get(id, "dead").death == Death("jobs", "max_attempts", store.now)


def test_a_message_given_up_without_a_reason_was_refused(store):
    with_dead_letters(store)
    id = store.kill()

    assert store.get(id, "dead").death.reason == "refused"


def test_a_delivered_dead_letter_tells_of_its_death(store):
    with_dead_letters(store)
    store.kill(reason="why")

    for message in (store.take("dead", lease_ms=0), store.receive(5, "dead")[0]):
        assert (message.death.queue, message.death.reason) == ("jobs", "why")


def test_a_message_given_up_dies_whatever_its_attempts(store):
    with_dead_letters(store, max_attempts=None)
    store.send()

    assert store.nack(store.take(), dead=True).dead
    assert store.total("dead") == 1


def test_without_a_dead_letter_queue_the_dead_go_to_the_archive(store):
    store.create(max_attempts=1)
    id = store.send(b'"body"')

    store.nack(store.take(), reason="why")

    assert store.archive() == {id: "dead"}
    [message] = store.dead()
    assert (message.id, message.body, message.attempts) == (id, b'"body"', 1)
    assert message.death == Death("jobs", "why", store.now)


def dies_by_a_nack(store):
    store.nack(store.take(), dead=True)


def dies_by_its_lease(store):
    store.take()
    store.advance(100)
    store.sweep()


def dies_when_somebody_looks_for_more(store):
    store.take()
    store.advance(100)
    assert store.receive() == []


@pytest.mark.parametrize(
    "dies", [dies_by_a_nack, dies_by_its_lease, dies_when_somebody_looks_for_more], ids=lambda dies: dies.__name__
)
@pytest.mark.parametrize("name", ["dead", "dead.fifo"])
def test_a_dead_letter_queue_that_was_deleted_is_made_anew_by_the_next_message_that_dies(store, dies, name):
    store.create(max_attempts=1, dead_letter=name, visibility_ms=100)
    sent = []
    for _ in range(2):
        sent.append(store.send())
        dies(store)

    policy = store.run(GetQueue(name)).policy
    assert (policy.max_attempts, policy.dead_letter, policy.fifo) == (None, None, name.endswith(".fifo"))
    assert [message.id for message in store.dead()] == sent
    assert store.archive() == {}
    assert {message.death.queue for message in store.receive(2, name)} == {"jobs"}


def test_two_processes_make_a_dead_letter_queue_anew_once(store, neighbour):
    with_dead_letters(store)
    for _ in range(2):
        store.send()
    held = [store.take(), neighbour.take()]
    store.run(DeleteQueue("dead"))

    store.nack(held[0], dead=True)
    neighbour.nack(held[1], dead=True)

    assert sorted(store.receive_ids(5, "dead")) == sorted(message.id for message in held)


def test_what_was_kept_as_dead_can_be_brought_back(store):
    store.create(max_attempts=1)
    id = store.kill()
    assert store.archive() == {id: "dead"}
    store.create("dead")
    store.update(dead_letter="dead")

    store.run(RequeueDead("jobs"))

    assert (store.archive(), store.receive_ids()) == ({}, [id])


def test_the_dead_of_a_queue_that_names_itself_go_to_the_archive(store):
    store.create(max_attempts=1, dead_letter="jobs")
    id = store.kill()

    assert store.archive() == {id: "dead"}
    assert store.receive() == []


def test_a_dead_letter_queue_is_an_ordinary_queue(store):
    with_dead_letters(store)
    store.kill()
    direct = store.send(queue="dead")

    dead, sent = store.receive(2, "dead")
    store.ack(dead)

    assert sent.id == direct
    assert sent.death is None
    assert store.dead() == []


def test_dead_letters_may_die_again(store):
    store.create("graveyard")
    store.create("dead", max_attempts=3, dead_letter="graveyard")
    store.create(max_attempts=1, dead_letter="dead", visibility_ms=100)
    id = store.kill(reason="first")

    attempts = []
    while messages := store.receive(queue="dead"):
        attempts.append(messages[0].attempts)
        store.nack(messages[0], delay_ms=0)

    assert attempts == [1, 2, 3]
    assert store.get(id, "graveyard").death.queue == "dead"


def test_a_dead_letter_lives_by_the_time_to_live_of_the_dead_letter_queue(store):
    store.create("dead", ttl_ms=500)
    store.create(dead_letter="dead", ttl_ms=50)
    id = store.kill()

    assert store.get(id, "dead").expires_at == store.now + 500


def test_a_message_with_a_time_to_live_lives_on_when_dead(store):
    with_dead_letters(store)
    id = store.kill(ttl_ms=50)

    store.advance(1000)
    store.sweep()

    assert store.get(id, "dead").expires_at is None


def test_dead_letters_are_listed_by_where_they_came_from(store):
    store.create("dead")
    store.create("a", dead_letter="dead")
    store.create("b", dead_letter="dead")
    store.create("c")
    a, b, c = store.kill("a"), store.kill("b"), store.kill("c")

    assert (ids(store.dead("a")), ids(store.dead("b")), ids(store.dead("c"))) == ([a], [b], [c])
    assert store.dead("dead") == []


def test_dead_letters_are_listed_in_pages_in_order_of_id(store):
    with_dead_letters(store)
    dead = [store.kill() for _ in range(3)]
    store.update(dead_letter=None)
    dead += [store.kill() for _ in range(3)]

    pages, after = [], 0
    while page := store.run(ListDead("jobs", limit=2, after=after)).messages:
        pages.append(ids(page))
        after = page[-1].id

    assert pages == [dead[0:2], dead[2:4], dead[4:6]]


def test_dead_letters_are_counted(store):
    with_dead_letters(store)
    store.kill()
    store.update(dead_letter=None)
    store.kill()

    depths = store.measure()

    assert (depths.dead, depths.archived, depths.total()) == (2, 0, 0)


def test_a_more_generous_policy_spares_a_message_whose_last_lease_has_begun(store):
    with_dead_letters(store, max_attempts=1)
    id = store.send()
    store.take()
    store.update(max_attempts=2)
    store.advance(100)

    assert store.sweep().dead == 0
    assert store.take().id == id


def test_a_stricter_policy_kills_at_the_next_receive(store):
    with_dead_letters(store, max_attempts=3)
    id = store.send()
    store.nack(store.take(), delay_ms=0)
    store.update(max_attempts=1)

    assert store.receive() == []
    assert ids(store.dead()) == [id]


def test_the_token_of_a_message_that_died_is_no_longer_good(store):
    with_dead_letters(store, max_attempts=1)
    store.send()
    message = store.take()
    store.nack(message)

    [result] = store.run(Ack(None, [Ref(message.id, message.lease.token)]))

    assert result.code == "stale_lease"
    assert store.total("dead") == 1


def test_purging_dead_letters_deletes_those_of_one_queue_wherever_they_lie(store):
    with_dead_letters(store)
    store.create("other", dead_letter="dead")
    store.kill()
    other = store.kill("other")
    store.update(dead_letter=None)
    store.kill()

    progress = store.run(PurgeDead("jobs"))

    assert (progress.count, progress.done) == (2, True)
    assert store.dead() == []
    assert ids(store.peek(queue="dead")) == [other]
    assert store.archive() == {}


def test_purging_dead_letters_by_id_deletes_only_those(store):
    with_dead_letters(store)
    first, second = store.kill(), store.kill()
    store.update(dead_letter=None)
    third, fourth = store.kill(), store.kill()

    progress = store.run(PurgeDead("jobs", [first, third, 10**15]))

    assert progress.count == 2
    assert ids(store.dead()) == [second, fourth]


def test_purging_a_dead_letter_named_twice_counts_it_once(store):
    with_dead_letters(store)
    id = store.kill()

    commit = store.commit(PurgeDead("jobs", [id, id]))

    assert commit.results[0].count == 1
    assert [fact.kind for fact in commit.facts] == ["purged"]


def test_purging_dead_letters_goes_in_steps(store):
    with_dead_letters(store)
    for _ in range(5):
        store.kill()
    store.update(dead_letter=None)
    for _ in range(5):
        store.kill()

    counts = []
    while (progress := store.run(PurgeDead("jobs", limit=4))).count:
        counts.append(progress.count)

    assert counts == [4, 4, 2]
    assert progress.done


def test_purging_does_not_touch_messages_sent_to_the_dead_letter_queue_directly(store):
    with_dead_letters(store)
    direct = store.send(queue="dead")
    store.kill()

    store.run(PurgeDead("jobs"))

    assert ids(store.peek(queue="dead")) == [direct]


def test_the_dead_letters_in_a_deleted_queue_are_gone_at_once(store):
    with_dead_letters(store)
    store.kill()

    store.run(DeleteQueue("dead"))

    assert store.dead() == []
    assert store.measure().dead == 0
    assert store.requeue().count == 0
    assert store.receive() == []


def test_an_unknown_message_does_not_die(store):
    with_dead_letters(store)

    [result] = store.run(Nack("jobs", [Release(Ref(10**15), dead=True)]))

    assert result.code == "message_not_found"
    assert store.measure().dead == 0


def test_a_dead_letter_queue_with_attempts_of_its_own_delivers_its_letters(store):
    store.create("graves")
    store.create("dead", max_attempts=2, dead_letter="graves", visibility_ms=100)
    store.create(visibility_ms=100, max_attempts=2, dead_letter="dead")
    id = store.send()
    for _ in range(2):
        store.nack(store.take(), delay_ms=0)

    first = store.take("dead")
    store.nack(first, delay_ms=0)
    second = store.take("dead")
    store.nack(second, delay_ms=0)

    assert [(m.id, m.attempts) for m in (first, second)] == [(id, 1), (id, 2)]
    assert store.receive_ids(queue="graves") == [id]
