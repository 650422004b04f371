"""Keys: a repeated send stores nothing, and returns what the first one stored."""

import pytest

from sqew.core.flows.steps import following
from sqew.model import NewMessage, Ref, Sent
from sqew.operations import Ack, DeleteQueue, LastId, Purge, Remove, Send


def resend(store, key="k", queue="jobs"):
    [sent] = store.run(Send(queue, [NewMessage(b"again", key=key)]))
    return sent


def test_a_repeated_key_returns_the_first_id_and_stores_nothing(store):
    store.create()
    id = store.send(b"first", key="k")

    assert resend(store) == Sent(id, duplicate=True)

    assert [message.body for message in store.receive(10)] == [b"first"]


def test_another_key_is_another_message(store):
    store.create()
    id = store.send(key="k")

    assert resend(store, "K") != Sent(id, duplicate=True)
    assert store.total() == 2


def test_messages_without_a_key_are_never_duplicates(store):
    store.create()

    assert store.send() != store.send()
    assert store.total() == 2


def test_a_key_is_known_in_its_own_queue_alone(store):
    store.create()
    store.create("other")
    store.send(key="k")

    assert not resend(store, queue="other").duplicate


def test_a_key_holds_for_as_long_as_its_message_lives(store):
    store.create(key_retention_ms=10)
    id = store.send(key="k")

    store.advance(1_000_000)
    store.sweep()

    assert resend(store) == Sent(id, duplicate=True)


def test_a_key_holds_while_its_message_is_leased(store):
    store.create(key_retention_ms=10)
    id = store.send(key="k")
    store.take()

    assert resend(store) == Sent(id, duplicate=True)


def test_a_key_is_remembered_for_a_time_after_the_ack_and_then_forgotten(store):
    store.create(key_retention_ms=1000)
    id = store.send(key="k")
    store.ack(store.take())

    store.advance(999)
    assert resend(store) == Sent(id, duplicate=True)

    store.advance(1)
    assert not resend(store).duplicate


def test_a_key_is_remembered_for_five_minutes_by_default(store):
    store.create()
    store.send(key="k")
    store.run(Ack(None, [Ref(store.take().id)]))

    store.advance(5 * 60_000 - 1)
    assert resend(store).duplicate

    store.advance(1)
    assert not resend(store).duplicate


def test_a_key_taken_over_belongs_to_the_new_message(store):
    store.create(key_retention_ms=10)
    store.send(key="k")
    store.ack(store.take())
    store.advance(10)
    new = resend(store)
    store.advance(1_000_000)
    store.sweep()

    assert resend(store) == Sent(new.id, duplicate=True)


def test_the_ways_out_of_a_queue_all_leave_the_key_remembered(store):
    store.create(key_retention_ms=1000, visibility_ms=10, ttl_ms=100_000, max_attempts=1)
    acked, removed, expired, dead = (
        store.send(key="acked"), store.send(key="removed"), store.send(key="expired", ttl_ms=1), store.send(key="dead"),
    )  # fmt: skip
    store.run(Ack("jobs", [Ref(acked)]))
    store.run(Remove("jobs", [removed]))
    store.advance(1)
    store.sweep()
    store.take()
    store.advance(10)
    store.sweep()
    assert store.total() == 0

    for key, id in {"acked": acked, "removed": removed, "expired": expired, "dead": dead}.items():
        assert resend(store, key) == Sent(id, duplicate=True)


def purge(store, limit=1000):
    """Purge the queue, in steps."""
    operation = Purge("jobs", store.run(LastId()), limit)
    while not (progress := store.run(operation)).done:
        operation = following(operation, progress)


@pytest.mark.parametrize("since", ["gone", "sent"])
@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_a_purge_forgets_the_keys_of_what_was_there_and_of_what_was_gone(store, since, limit):
    store.create(key_retention_from=since)
    for key in "abc":
        store.send(key=key)
    for _ in range(3):
        store.ack(store.take())
    for key in "ABC":
        store.send(key=key)
    store.take()

    purge(store, limit)

    assert not any(resend(store, key).duplicate for key in "abcABC")
    assert store.total() == 6


def test_a_purge_of_an_empty_queue_forgets_its_keys(store):
    store.create()
    store.send(key="k")
    store.ack(store.take())

    purge(store)

    assert not resend(store).duplicate


def test_keys_of_what_is_sent_while_a_purge_is_under_way_stay_remembered(store):
    store.create()
    store.create("other")
    for key in "adg":
        store.send(key=key)
    operation = Purge("jobs", store.run(LastId()), 1)
    operation = following(operation, store.run(operation))
    new = {key: resend(store, key) for key in "abch"}
    store.run(Ack("jobs", [Ref(new["c"].id)]))

    while not (progress := store.run(operation)).done:
        operation = following(operation, progress)

    assert not resend(store, "d").duplicate
    assert {key: resend(store, key) for key in "abch"} == {
        key: Sent(sent.id, duplicate=True) for key, sent in new.items()
    }


def test_keys_of_what_is_not_purged_stay_remembered(store):
    store.create()
    first = store.send(key="a")
    second = store.send(key="b")

    store.run(Purge("jobs", first, 1000))

    assert resend(store, "b") == Sent(second, duplicate=True)


def test_a_purge_forgets_the_keys_of_its_queue_alone(store):
    store.create()
    store.create("other")
    id = store.send(queue="other", key="k")
    store.run(Ack("other", [Ref(id)]))

    purge(store)

    [sent] = store.run(Send("other", [NewMessage(b"1", key="k")]))
    assert sent == Sent(id, duplicate=True)


def test_a_queue_of_the_same_name_remembers_no_key_of_the_one_before_it(store):
    store.create()
    store.send(key="k")
    store.run(DeleteQueue("jobs"))

    store.create()

    assert not resend(store).duplicate
    store.sweep_all()
    assert resend(store).duplicate


def test_a_duplicate_within_one_batch_is_found(store):
    store.create()

    first, second = store.run(Send("jobs", [NewMessage(b"1", key="k"), NewMessage(b"2", key="k")]))

    assert second == Sent(first.id, duplicate=True)
    assert store.total() == 1


def test_keys_survive_reopening(store):
    store.create()
    id = store.send(key="k")
    store.ack(store.take())

    store.reopen()

    assert resend(store) == Sent(id, duplicate=True)


def test_a_sweep_forgets_outlived_keys_and_says_when_the_next_is(store):
    store.create(key_retention_ms=1000)
    store.send(key="a")
    store.send(key="b")
    store.ack(store.take())
    store.advance(400)
    store.ack(store.take())

    assert store.sweep().next_at == store.now + 600

    store.advance(600)
    swept = store.sweep()
    assert (swept.keys, swept.next_at) == (1, store.now + 400)


def test_a_retention_of_nothing_forgets_at_once(store):
    store.create(key_retention_ms=0)
    store.send(key="k")
    store.ack(store.take())

    assert not resend(store).duplicate


def test_a_new_queue_of_an_old_name_knows_no_keys(store):
    store.create()
    store.send(key="k")
    store.run(DeleteQueue("jobs"))
    store.create()

    assert not resend(store).duplicate


def test_a_repeated_send_into_a_full_queue_is_a_duplicate_and_no_breach_of_its_quota(store):
    store.create(quota=1)
    id = store.send(key="k")

    assert resend(store) == Sent(id, duplicate=True)
