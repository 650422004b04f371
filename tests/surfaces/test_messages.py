"""Messages: sent, received, settled and inspected."""

import time

import pytest

from sqew.errors import BadName, BadValue, MessageNotFound, QueueExists, QueueNotFound, StaleLease
from tests.surfaces.surface import refused


def expire(aside, queue, sent):
    """Wait until the leases of a queue are over, as another user sees its messages."""
    while any(one.state == "leased" for one in aside.peek(queue, len(sent))):
        time.sleep(0.002)


def test_what_is_sent_is_shown_received_and_gone_when_acked(surface, queue):
    surface.create(queue)
    sent = surface.send(queue, {"sku": [1, None, "ü"]}, priority=3, headers={"h": "x"})

    assert surface.get(queue, sent) == surface.peek(queue)[0]
    shown = surface.get(queue, sent)
    assert (shown.value, shown.attempts, shown.state) == ({"sku": [1, None, "ü"]}, 0, "ready")
    assert (shown.priority, shown.headers, shown.lane, shown.key, shown.group) == (3, {"h": "x"}, "normal", None, None)
    [held] = surface.receive(queue)
    assert (held.id, held.value, held.attempts) == (sent, shown.value, 1)
    assert (surface.get(queue, sent).state, surface.get(queue, sent).attempts) == ("leased", 1)
    surface.ack(queue, held.id, held.token)
    assert (surface.peek(queue), surface.receive(queue)) == ([], [])
    with refused(MessageNotFound):
        surface.get(queue, sent)


def test_a_lease_is_its_holders(surface, queue):
    surface.create(queue)
    surface.send(queue, 1)
    [held] = surface.receive(queue)

    with refused(StaleLease):
        surface.ack(queue, held.id, "0" * 32)
    with refused(StaleLease):
        surface.extend(queue, held.id, "0" * 32, 1_000)
    with refused(MessageNotFound):
        surface.ack(queue, held.id + 1_000, held.token)
    surface.extend(queue, held.id, held.token, 60_000)
    surface.nack(queue, held.id, held.token, delay_ms=0)
    with refused(StaleLease):
        surface.ack(queue, held.id, held.token)
    [again] = surface.receive(queue)
    assert (again.id, again.attempts, again.token == held.token) == (held.id, 2, False)


def test_a_key_is_sent_once(surface, queue):
    surface.create(queue)

    assert surface.send(queue, 1, key="k") == surface.send(queue, 2, key="k")
    assert [one.value for one in surface.peek(queue)] == [1]
    assert surface.peek(queue)[0].key == "k"


def test_messages_are_counted_by_their_state(surface, queue):
    surface.create(queue)
    for value in range(3):
        surface.send(queue, value)
    surface.send(queue, 3, delay_ms=60_000)
    surface.receive(queue)

    expected = {"ready": 2, "delayed": 1, "leased": 1, "blocked": 0, "dead": 0, "archived": 0}
    assert surface.stats(queue) == expected
    assert [one.value for one in surface.peek(queue, 1)] == [1]
    assert surface.purge(queue) == 4
    assert (surface.stats(queue), surface.peek(queue)) == (dict.fromkeys(expected, 0), [])


def test_what_is_removed_is_gone_whoever_holds_it(surface, queue):
    surface.create(queue)
    sent = surface.send(queue, 1)
    [held] = surface.receive(queue)

    surface.remove(queue, sent)

    with refused(MessageNotFound):
        surface.remove(queue, sent)
    with refused(MessageNotFound):
        surface.ack(queue, sent, held.token)


def test_whose_last_lease_is_over_is_dead_for_everybody_who_looks(surface, aside, queue):
    surface.create(queue, max_attempts=1)
    sent = surface.send(queue, 1)
    surface.receive(queue, lease_ms=1)
    expire(aside, queue, [sent])

    assert surface.peek(queue) == []
    assert surface.stats(queue)["dead"] == 1
    assert [one.id for one in surface.dead_letters(queue)] == [sent]


def test_whose_time_is_over_is_gone_for_everybody_who_looks(surface, aside, queue):
    surface.create(queue)
    surface.send(queue, 1, ttl_ms=1)
    while aside.peek(queue):
        time.sleep(0.002)

    assert (surface.peek(queue), surface.stats(queue)["ready"]) == ([], 0)


def test_finished_messages_are_kept_where_the_policy_says_so(surface, queue):
    surface.create(queue, keep="archive")
    surface.send(queue, 1)
    [held] = surface.receive(queue)
    surface.ack(queue, held.id, held.token)

    assert surface.archive(queue) == [(held.id, "done")]
    assert surface.stats(queue)["archived"] == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda surface: surface.delete("nowhere"),
        lambda surface: surface.send("nowhere", 1),
        lambda surface: surface.receive("nowhere"),
        lambda surface: surface.ack("nowhere", 1, "0" * 32),
        lambda surface: surface.nack("nowhere", 1, "0" * 32),
        lambda surface: surface.extend("nowhere", 1, "0" * 32, 1_000),
        lambda surface: surface.get("nowhere", 1),
        lambda surface: surface.peek("nowhere"),
        lambda surface: surface.remove("nowhere", 1),
        lambda surface: surface.purge("nowhere"),
        lambda surface: surface.stats("nowhere"),
        lambda surface: surface.archive("nowhere"),
        lambda surface: surface.dead_letters("nowhere"),
        lambda surface: surface.requeue("nowhere"),
        lambda surface: surface.purge_dead("nowhere"),
        lambda surface: surface.consumers("nowhere"),
        lambda surface: surface.release("nowhere", "c"),
        lambda surface: surface.writers("nowhere"),
        lambda surface: surface.abort("nowhere", "w", 0),
        lambda surface: surface.subscriptions("nowhere"),
    ],
)
def test_an_unknown_queue_is_named(surface, ask):
    with refused(QueueNotFound):
        ask(surface)


@pytest.mark.parametrize(
    "ask",
    [
        lambda surface, queue: surface.create(queue, visibility_ms=-1),
        lambda surface, queue: surface.send(queue, 1, delay_ms=-1),
        lambda surface, queue: surface.send(queue, 1, priority=100_000),
        lambda surface, queue: surface.receive(queue, 0),
        lambda surface, queue: surface.receive(queue, 1, lease_ms=-1),
        lambda surface, queue: surface.peek(queue, 0),
    ],
)
def test_bad_values_are_refused_before_the_queue_is_asked_for(surface, queue, ask):
    with refused(BadValue):
        ask(surface, queue)


def test_a_name_is_given_once_and_must_be_one(surface, queue):
    surface.create(queue)
    with refused(BadName):
        surface.create("no spaces")

    with refused(QueueExists):
        surface.create(queue, visibility_ms=1_234)
