"""Messages in columns (`NewMessages`): stored as if each had been sent by itself, whichever fast path they take."""

import pytest
from msgspec.structs import replace

from sqew.errors import UnknownLane
from sqew.model import NewMessage, NewMessages
from sqew.operations import Send

BODIES = [b"1", b"22", b"333"]
LARGE = b"x" * 5_000

BATCHES = {
    "bodies alone": NewMessages(BODIES),
    "texts": NewMessages(BODIES, "text"),
    "texts among JSON": NewMessages(BODIES, ["json", "text", "json"]),
    "a lane, a priority and times for all": NewMessages(BODIES, "text", None, 7, "b", None, None, 50, 9_000),
    "a priority for each": NewMessages(BODIES, priorities=[1, -2, 3]),
    "keys, one of them twice": NewMessages(BODIES, keys=["k", None, "k"]),
    "headers": NewMessages(BODIES, headers=[{"a": 1}, None, {"b": [2]}]),
    "one that is large": NewMessages([b"1", LARGE, b"3"]),
    "a single one": NewMessages([b"1"]),
    "none": NewMessages([]),
}
POLICIES = {
    "plain": {},
    "with times": {"delay_ms": 20, "ttl_ms": 5_000},
    "with a quota": {"quota": 5},
    "by content": {"deduplicate": "content"},
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_messages_in_columns_are_stored_as_if_each_was_sent_for_itself(store, batch, policy):
    for queue in ("jobs", "twins"):
        store.create(queue, lanes={"a": 1, "b": 1}, **policy)

    sent, twins = store.commit(Send("jobs", batch), Send("twins", list(batch))).results

    assert [one.duplicate for one in sent] == [one.duplicate for one in twins]
    if batch.bodies:
        ours, theirs = ([one.id for one in answer] for answer in (sent, twins))
        assert stored_in(store, "jobs", ours) == stored_in(store, "twins", theirs)


def stored_in(store, queue, ids):
    """Return the messages without the fields that differ from their twins in another queue."""
    return [replace(store.get(id, queue), id=id - ids[0], queue="") for id in dict.fromkeys(ids)]


def test_each_of_them_is_told_of(store):
    store.create()

    commit = store.commit(Send("jobs", NewMessages(BODIES)))

    assert [(fact.kind, fact.id) for fact in commit.facts] == [("sent", one.id) for one in commit.results[0]]
    assert commit.woken == {"jobs"}


def test_a_lane_that_the_queue_does_not_have_is_refused_and_nothing_is_sent(store):
    store.create()

    refused, sent = store.commit(
        Send("jobs", NewMessages(BODIES, lanes="missing")), Send("jobs", [NewMessage(b"4")])
    ).results

    assert isinstance(refused, UnknownLane)
    assert [message.id for message in store.peek()] == [one.id for one in sent]


def test_they_stand_behind_what_was_sent_before_them_in_the_same_transaction(store):
    store.create()

    store.commit(Send("jobs", [NewMessage(b"0")]), Send("jobs", NewMessages(BODIES)), Send("jobs", [NewMessage(b"4")]))

    assert [message.body for message in store.receive(10)] == [b"0", *BODIES, b"4"]
