"""Transactions: what a commit holds, and what one operation's failure means for its neighbours."""

import pytest

from sqew.errors import QueueNotFound, RateLimited, UnknownLane
from sqew.model import Activity, Commit, Extension, Fact, NewMessage, Policy, Ref, Release, Sent
from sqew.operations import (
    Ack,
    CreateQueue,
    DeleteQueue,
    Extend,
    GetQueue,
    Measure,
    Nack,
    Peek,
    Purge,
    ReadActivity,
    Receive,
    RecordActivity,
    Redrive,
    Remove,
    RequeueDead,
    Send,
    Sweep,
    UpdateQueue,
)
from tests.conformance.driver import ids


def kinds(commit):
    return [(fact.kind, fact.id) for fact in commit.facts]


def test_no_operations_are_an_empty_commit(store):
    assert store.commit() == Commit([], [], frozenset())


def test_operations_run_in_order_and_see_what_those_before_them_did(store):
    commit = store.commit(
        CreateQueue("jobs", Policy()), Send("jobs", [NewMessage(b"1")]), Receive("jobs"), Measure("jobs"),
        DeleteQueue("jobs"), GetQueue("jobs"),
    )  # fmt: skip

    _, [sent], received, depths, deleted, missing = commit.results
    assert ids(received.messages) == [sent.id]
    assert depths.total("leased") == 1
    assert deleted is None
    assert isinstance(missing, QueueNotFound)


@pytest.mark.parametrize(
    "failing",
    [
        Send("no", [NewMessage(b"1")]),
        Send("jobs", [NewMessage(b"1", key="k"), NewMessage(b"2", lane="no")]),
        Send("full", [NewMessage(b"1", key="k")]),
        Receive("jobs", lane="no"),
        CreateQueue("jobs", Policy(max_attempts=3)),
        UpdateQueue("jobs", {"fifo": True}),
        DeleteQueue("no"),
        Ack("no", [Ref(1)]),
        RequeueDead("no"),
        Redrive("jobs", "no"),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_one_failing_operation_leaves_its_neighbours_whole(store, failing):
    store.run(CreateQueue("jobs", Policy()))
    store.run(CreateQueue("full", Policy(quota=0)))
    first = store.send()

    commit = store.commit(
        Send("jobs", [NewMessage(b"2")]), Receive("jobs"), failing, Ack("jobs", [Ref(first)]), Measure("jobs")
    )

    [second], received, error, [acked], depths = commit.results
    assert isinstance(error, Exception)
    assert (ids(received.messages), acked.id) == ([first], first)
    assert depths.total() == 1
    store.reopen()
    assert ids(store.peek()) == [second.id]
    assert kinds(commit) == [("sent", second.id), ("received", first), ("acked", first)]
    assert not store.run(Send("jobs", [NewMessage(b"3", key="k")]))[0].duplicate


def test_a_failing_operation_is_told_in_its_place(store):
    store.create()

    commit = store.commit(Receive("jobs", lane="no"), Receive("jobs"), Receive("no"))

    assert [type(result).__name__ for result in commit.results] == ["UnknownLane", "Received", "QueueNotFound"]
    assert isinstance(commit.results[0], UnknownLane)


def test_two_sends_in_one_transaction_with_one_key_are_one_message(store):
    store.create()
    send = Send("jobs", [NewMessage(b"1", key="k")])

    [first], [second] = store.commit(send, send).results

    assert second == Sent(first.id, duplicate=True)
    assert store.total() == 1


def test_two_receives_in_one_transaction_take_different_messages(store):
    store.create()
    sent = store.send_many(3)

    first, second = store.commit(Receive("jobs", 2), Receive("jobs", 2)).results

    assert (ids(first.messages), ids(second.messages)) == (sent[:2], sent[2:])


def test_a_send_tells_of_each_message_it_stored(store):
    store.create(lanes={"a": 1, "b": 1})

    commit = store.commit(Send("jobs", [NewMessage(b"1", lane="b", key="k"), NewMessage(b"1", key="k")]))

    [sent, _] = commit.results[0]
    assert commit.facts == [Fact("sent", "jobs", "b", sent.id, 0)]
    assert commit.woken == {"jobs"}


def test_a_receive_tells_how_long_each_message_had_waited(store):
    store.create()
    id = store.send(delay_ms=100)
    store.advance(130)

    commit = store.commit(Receive("jobs", by="w"))

    assert commit.facts == [Fact("received", "jobs", "normal", id, 1, "w", age_ms=30)]


def test_a_redelivery_tells_how_long_the_message_had_waited_since_its_lease_ended(store):
    store.create(visibility_ms=100)
    id = store.send()
    store.take()
    store.advance(150)

    for receive in (Receive("jobs", lease_ms=0), Receive("jobs", 5)):
        fact = store.commit(receive).facts[0]
        assert (fact.kind, fact.id, fact.age_ms) == ("received", id, 50)
        store.advance(50)


def test_an_ack_tells_how_long_the_work_took(store):
    store.create()
    store.send()
    message = store.take(by="w")
    store.advance(70)

    commit = store.commit(Ack("jobs", [Ref(message.id, message.lease.token)]))

    assert commit.facts == [Fact("acked", "jobs", "normal", message.id, 1, "w", age_ms=70)]


def test_an_ack_into_the_archive_tells_the_same(store):
    store.create(keep="archive")
    store.send()
    message = store.take(by="w")
    store.advance(70)

    commit = store.commit(Ack("jobs", [Ref(message.id)]))

    assert commit.facts == [Fact("acked", "jobs", "normal", message.id, 1, "w", age_ms=70)]


def test_a_finishing_receive_tells_of_a_delivery_and_an_ack(store):
    store.create()
    id = store.send()

    assert kinds(store.commit(Receive("jobs", finish=True))) == [("received", id), ("acked", id)]


def test_a_nack_tells_why(store):
    store.create()
    store.send()
    message = store.take(by="w")

    commit = store.commit(Nack("jobs", [Release(Ref(message.id), reason="busy")]))

    assert commit.facts == [Fact("nacked", "jobs", "normal", message.id, 1, "w", reason="busy")]
    assert commit.woken == {"jobs"}


def test_a_deadly_nack_tells_of_the_death_too_and_stirs_the_dead_letter_queue(store):
    store.create("dead")
    store.create(dead_letter="dead")
    store.send()
    message = store.take(by="w")

    commit = store.commit(Nack("jobs", [Release(Ref(message.id), dead=True, reason="bad")]))

    assert kinds(commit) == [("nacked", message.id), ("dead", message.id)]
    assert (commit.facts[1].queue, commit.facts[1].reason, commit.facts[1].attempts) == ("jobs", "bad", 1)
    assert "dead" in commit.woken


def test_an_extend_tells_of_itself(store):
    store.create()
    store.send()
    message = store.take(by="w")

    commit = store.commit(Extend("jobs", [Extension(Ref(message.id), 5)]))

    assert commit.facts == [Fact("extended", "jobs", "normal", message.id, 1, "w")]
    assert commit.woken == {"jobs"}


def test_refused_entries_tell_of_nothing(store):
    store.create()
    id = store.send()

    commit = store.commit(
        Ack("jobs", [Ref(id, "wrong")]), Nack("jobs", [Release(Ref(id, "wrong"))]),
        Extend("jobs", [Extension(Ref(id, "wrong"), 1)]), Remove("jobs", [10**15]),
    )  # fmt: skip

    assert commit.facts == []


@pytest.mark.parametrize("operation", [Receive("jobs"), Receive("jobs", 5), Sweep()])
def test_whoever_meets_expired_and_exhausted_messages_tells_of_them(store, operation):
    store.create(max_attempts=1, visibility_ms=10)
    dead = store.send()
    store.take()
    expired = store.send(ttl_ms=5)
    store.advance(10)

    commit = store.commit(operation)

    assert sorted(kinds(commit)) == [("dead", dead), ("expired", expired)]
    assert {fact.kind: fact.attempts for fact in commit.facts} == {"dead": 1, "expired": 0}


def test_removing_purging_and_requeueing_tell_of_each_message(store):
    store.create()
    removed, purged, dead = store.send(), store.send(), store.kill()

    assert kinds(store.commit(Remove("jobs", [removed]))) == [("removed", removed)]
    assert kinds(store.commit(Purge("jobs", purged, 10))) == [("purged", purged)]
    requeued = store.commit(RequeueDead("jobs"))
    assert kinds(requeued) == [("requeued", dead)]
    assert requeued.woken == {"jobs"}


def test_a_redrive_tells_where_each_message_went(store):
    store.create("dead")
    store.create(dead_letter="dead")
    id = store.kill()

    commit = store.commit(Redrive("dead"))

    assert [(fact.kind, fact.queue, fact.id) for fact in commit.facts] == [("requeued", "jobs", id)]
    assert "jobs" in commit.woken


def test_sweeping_a_deleted_queue_tells_of_no_message(store):
    store.create()
    store.send_many(3)
    store.run(DeleteQueue("jobs"))

    assert store.commit(Sweep()).facts == []


def test_a_promoted_group_stirs_its_queue(store):
    store.create(fifo=True)
    first, _ = store.send(group="g"), store.send(group="g")
    store.take()

    assert store.commit(Ack("jobs", [Ref(first)])).woken == {"jobs"}


def test_an_update_and_a_deletion_wake_those_who_wait(store):
    store.create()

    assert store.commit(UpdateQueue("jobs", {"lanes": {"a": 1, "normal": 1}})).woken == {"jobs"}
    assert store.commit(DeleteQueue("jobs")).woken == {"jobs"}


def test_facts_and_stirred_queues_are_told_once(store):
    store.create()
    store.commit(Send("jobs", [NewMessage(b"1")]))

    commit = store.commit(Peek("jobs"))

    assert (commit.facts, commit.woken) == ([], frozenset())


def test_facts_come_in_the_order_of_the_operations(store):
    store.create()
    first = store.send()

    commit = store.commit(
        Send("jobs", [NewMessage(b"2")]), Receive("jobs"), Ack("jobs", [Ref(first)]), Remove("jobs", [first + 1])
    )

    assert [fact.kind for fact in commit.facts] == ["sent", "received", "acked", "removed"]


def test_activity_adds_up_by_lane_minute_and_name(store):
    store.create()
    minute = store.now // 60_000

    store.run(RecordActivity([Activity("jobs", "normal", minute, "sent", 3), Activity("jobs", "b", minute, "sent", 1)]))
    store.run(RecordActivity([Activity("jobs", "normal", minute, "sent", 4)]))
    store.run(RecordActivity([Activity("jobs", "normal", minute - 1, "sent", 5)]))

    found = {(entry.lane, entry.minute): entry.count for entry in store.run(ReadActivity("jobs"))}
    assert found == {("normal", minute): 7, ("b", minute): 1, ("normal", minute - 1): 5}


def test_activity_older_than_an_hour_is_added_up_under_minute_nought(store):
    store.create()
    minute = store.now // 60_000
    for age in (0, 1, 2):
        store.run(RecordActivity([Activity("jobs", "normal", minute - age, "sent", 10**age)]))

    store.advance(62 * 60_000)
    store.run(RecordActivity([Activity("jobs", "normal", minute + 62, "sent", 1000)]))

    found = {entry.minute: entry.count for entry in store.run(ReadActivity("jobs"))}
    assert found == {0: 111, minute + 62: 1000}
    store.advance(62 * 60_000)
    store.run(RecordActivity([Activity("jobs", "normal", minute + 124, "sent", 1)]))
    assert sum(entry.count for entry in store.run(ReadActivity("jobs"))) == 1112


def test_activity_of_a_queue_that_is_gone_is_dropped(store):
    store.create()
    store.run(RecordActivity([Activity("jobs", "normal", 1, "sent", 3), Activity("gone", "normal", 1, "sent", 3)]))
    store.run(DeleteQueue("jobs"))
    store.create()

    assert store.run(ReadActivity("jobs")) == []


def test_activity_survives_reopening(store):
    store.create()
    activity = Activity("jobs", "normal", store.now // 60_000, "acked", 3)
    store.run(RecordActivity([activity]))

    store.reopen()

    assert store.run(ReadActivity("jobs")) == [activity]


def test_a_rate_limit_refuses_what_comes_too_fast_and_says_when_to_come_again(store):
    store.create(rate_limit=10)
    store.send_many(10)

    with pytest.raises(RateLimited) as refused:
        store.send()

    assert store.total() == 10
    store.advance(refused.value.retry_after_ms)
    store.send()


def test_a_batch_goes_through_a_rate_limit_as_a_whole_and_as_many_single_messages_do_not(store):
    store.create(rate_limit=10)
    messages = [NewMessage(b"1")] * 20

    with pytest.raises(RateLimited):
        store.run(Send("jobs", messages, apart=True))
    assert store.total() == 0

    store.run(Send("jobs", messages[:4], apart=True))
    store.advance(1_000)
    store.run(Send("jobs", messages))
    assert store.total() == 24


def test_deduplication_by_content_takes_the_body_for_the_key(store):
    store.create(deduplicate="content", key_retention_ms=1000)
    first = store.send(b"same")

    assert store.send(b"same") == first
    assert store.send(b"other") != first
    assert store.send(b"same", key="explicit") != first
    assert store.total() == 3
