"""Two servers at the same rows at the same moment: each message, delivery and key belongs to one of them."""

from __future__ import annotations

from typing import Any

import pytest

from sqew.model import (
    Activity,
    DeliveryOutcome,
    Extension,
    NewEvent,
    NewMessage,
    Page,
    Policy,
    Progress,
    Ref,
    Release,
)
from sqew.operations import (
    Ack,
    ClaimDeliveries,
    CreateQueue,
    DropDeliveries,
    Extend,
    ListDead,
    ListDeliveries,
    ListMoves,
    Nack,
    Operation,
    Peek,
    Publish,
    Purge,
    PurgeDead,
    ReadActivity,
    Receive,
    RecordActivity,
    Redrive,
    RequeueDead,
    RetryDeliveries,
    Send,
    SettleDeliveries,
    StartMove,
    StepMove,
    Subscribe,
    Sweep,
    Unsubscribe,
)
from tests.stores.postgres.rivals import NOW, Rivals, in_a_loop, rivals
from tests.support.postgres import Reused, reused_database

__all__ = ["reused_database"]

EVER = 1 << 40
KEPT_MS = 14 * 86_400_000
"""Milliseconds that an exhausted delivery is kept."""
REPEATABLE_MS = 300_000
"""Milliseconds in which a named receive can be repeated."""


async def bury(both: Rivals, count: int, *, fifo: bool = False, archive: bool = False) -> list[int]:
    """Send messages to ``jobs``, let them die into the queue ``dead`` or the archive, and return their ids."""
    dead_letter = None if archive else "dead"
    await both.run(CreateQueue("dead", Policy(fifo=fifo)))
    await both.run(CreateQueue("jobs", Policy(fifo=fifo, dead_letter=dead_letter)))
    await both.run(Send("jobs", [NewMessage(b"1", group="g" if fifo else None)] * count))
    messages = (await both.run(Receive("jobs", count)))[0].messages
    await both.run(Nack("jobs", [Release(Ref(message.id), dead=True) for message in messages]))
    return [message.id for message in messages]


async def standing(both: Rivals, *queues: str) -> list[list[int]]:
    """Return the ids of the messages in each of the queues."""
    return [
        sorted(message.id for message in found) for found in await both.run(*(Peek(queue, 100) for queue in queues))
    ]


BACK: dict[str, Operation[Any]] = {
    "requeue": RequeueDead("jobs"),
    "requeue by id": RequeueDead("jobs", [1]),
    "redrive": Redrive("dead"),
    "redrive elsewhere": Redrive("dead", "jobs"),
    "purge of dead letters": PurgeDead("jobs"),
    "purge by id": PurgeDead("jobs", [1]),
}


@pytest.mark.parametrize("operation", BACK.values(), ids=BACK)
@in_a_loop
async def test_a_dead_letter_that_is_being_received_stays_with_who_receives_it(
    reused_database: Reused, operation: Operation[Any]
) -> None:
    async with rivals(reused_database) as both:
        [id] = await bury(both, 1)

        received, progress = await both.overlap(Receive("dead"), operation)

        assert [message.id for message in received.messages] == [id]
        assert (progress.count, progress.done) == (0, True)
        assert await standing(both, "jobs", "dead") == [[], [id]]
        assert await both.run(Ack("dead", [Ref(id, received.messages[0].lease.token)]))


@pytest.mark.parametrize("operation", [*BACK.values(), Purge("dead", EVER, 1000)], ids=[*BACK, "purge of their queue"])
@in_a_loop
async def test_a_dead_letter_that_is_being_brought_back_is_neither_purged_nor_brought_back_again(
    reused_database: Reused, operation: Operation[Any]
) -> None:
    async with rivals(reused_database) as both:
        [id] = await bury(both, 1)

        brought, progress = await both.overlap(RequeueDead("jobs"), operation)

        assert brought == Progress(1, done=True)
        assert (progress.count, progress.done) == (0, True)
        assert await standing(both, "jobs", "dead") == [[id], []]


STEPS: dict[str, Operation[Any]] = {
    "requeue": RequeueDead("jobs", limit=2),
    "redrive": Redrive("dead", limit=2),
    "redrive elsewhere": Redrive("dead", "jobs", limit=2),
    "purge of dead letters": PurgeDead("jobs", limit=2),
    "purge of their queue": Purge("dead", EVER, limit=2),
}


@pytest.mark.parametrize("operation", STEPS.values(), ids=STEPS)
@in_a_loop
async def test_a_step_does_not_end_early_because_others_are_at_what_it_would_begin_with(
    reused_database: Reused, operation: Operation[Any]
) -> None:
    async with rivals(reused_database) as both:
        await bury(both, 4)

        _, progress = await both.overlap(RequeueDead("jobs", limit=2), operation)

        assert (progress.count, progress.done) == (2, False)
        assert (await standing(both, "dead")) == [[]]


@in_a_loop
async def test_a_purge_takes_what_others_have_changed_and_left_there(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()), Send("jobs", [NewMessage(b"1")] * 2))

        _, progress = await both.overlap(Extend("jobs", [Extension(Ref(1), 1000)]), Purge("jobs", EVER, 1000))

        assert (progress.count, progress.done) == (2, True)
        assert await standing(both, "jobs") == [[]]


@in_a_loop
async def test_what_stands_behind_a_letter_that_is_being_received_waits_for_its_turn(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        ids = await bury(both, 2, fifo=True)

        received, progress = await both.overlap(Receive("dead"), RequeueDead("jobs"))

        assert [message.id for message in received.messages] == ids[:1]
        assert progress == Progress(0, done=True)


@in_a_loop
async def test_servers_that_move_dead_letters_take_the_steps_of_a_task_in_turn(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        ids = await bury(both, 20)
        await both.run(StartMove("task", "dead"))

        await both.overlap(StepMove(10), StepMove(10))

        [[task]] = await both.run(ListMoves("dead"))
        assert task.moved == 20
        assert await standing(both, "jobs", "dead") == [ids, []]


@pytest.mark.parametrize("operation", [RequeueDead("jobs"), PurgeDead("jobs")], ids=["requeue", "purge"])
@in_a_loop
async def test_who_comes_too_late_for_a_message_in_the_archive_leaves_it_alone(
    reused_database: Reused, operation: Operation[Any]
) -> None:
    async with rivals(reused_database) as both:
        ids = await bury(both, 3, archive=True)

        brought, progress = await both.overlap(RequeueDead("jobs", limit=2), operation)

        assert (brought.count, progress) == (2, Progress(1, done=True))
        assert ids[:2] == [id for id in (await standing(both, "jobs"))[0] if id in ids[:2]]
        assert await both.run(ListDead("jobs")) == [Page([], None)]


async def post_in_vain(both: Rivals, count: int = 1) -> list[int]:
    """Claim deliveries, let them fail for good and return their ids."""
    taken = await take_deliveries(both, count)
    await both.run(SettleDeliveries([DeliveryOutcome(one.id, one.claimed_until, delivered=False) for one in taken]))
    return [one.id for one in taken]


async def take_deliveries(both: Rivals, count: int = 1) -> list[Any]:
    await both.run(Subscribe("order.*", "http", "http://endpoint.example/"))
    await both.run(Publish([NewEvent("order.made", NewMessage(b"{}"), "m")] * count))
    [claimed] = await both.run(ClaimDeliveries(count, count, 1000))
    return list(claimed.deliveries)


@pytest.mark.parametrize("operation", [Sweep(), DropDeliveries(), DropDeliveries(subscription_id=1)], ids=repr)
@in_a_loop
async def test_a_delivery_that_is_being_retried_is_not_deleted_as_exhausted(
    reused_database: Reused, operation: Operation[Any]
) -> None:
    async with rivals(reused_database) as both:
        ids = await post_in_vain(both)

        await both.overlap(RetryDeliveries(ids), operation, NOW + KEPT_MS)

        [deliveries] = await both.run(ListDeliveries())
        assert [(one.id, one.state) for one in deliveries] == [(id, "pending") for id in ids]


@in_a_loop
async def test_a_delivery_that_is_being_given_up_is_kept_though_nobody_subscribes_any_more(
    reused_database: Reused,
) -> None:
    async with rivals(reused_database) as both:
        [one] = await take_deliveries(both)
        await both.run(Unsubscribe(one.subscription_id))
        given_up = DeliveryOutcome(one.id, one.claimed_until, delivered=False)

        await both.overlap(SettleDeliveries([given_up]), ClaimDeliveries(1, 1, 1000), NOW + 1000)

        [deliveries] = await both.run(ListDeliveries("exhausted"))
        assert [delivery.id for delivery in deliveries] == [one.id]


@in_a_loop
async def test_a_subscription_that_nobody_has_confirmed_ends_once(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(Subscribe("topic", "http", "http://endpoint.example/", uuid="u", confirmed=False))

        swept = await both.overlap(Sweep(), Sweep(), NOW + 72 * 3_600_000)

        assert [one.subscriptions for one in swept] == [1, 0]


@in_a_loop
async def test_a_key_that_is_being_taken_over_is_not_forgotten(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        send = Send("jobs", [NewMessage(b"1", key="k")])
        await both.run(CreateQueue("jobs", Policy(key_retention_ms=1000, key_retention_from="sent")), send)

        [sent], swept = await both.overlap(send, Sweep(), NOW + 1000)

        assert swept.keys == 0
        [[again]] = await both.run(send, now=NOW + 1000)
        assert (again.id, again.duplicate) == (sent.id, True)


@in_a_loop
async def test_a_name_of_a_receive_that_is_being_used_again_is_not_forgotten(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        receive = Receive("jobs", attempt_id="one")
        await both.run(CreateQueue("jobs", Policy(fifo=True)), Send("jobs", [NewMessage(b"1", group="g")]), receive)

        received, swept = await both.overlap(receive, Sweep(), NOW + REPEATABLE_MS)

        assert swept.attempts == 0
        [again] = await both.run(receive, now=NOW + REPEATABLE_MS)
        assert again.messages == received.messages


@in_a_loop
async def test_a_receive_that_is_repeated_before_it_is_done_gets_the_same_messages(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy(fifo=True)))
        await both.run(Send("jobs", [NewMessage(b"1", group=group) for group in "ab"]))

        first, again = await both.overlap(Receive("jobs", attempt_id="one"), Receive("jobs", attempt_id="one"))

        assert [message.id for message in again.messages] == [message.id for message in first.messages]


@pytest.mark.parametrize("queue", ["jobs", None])
@in_a_loop
async def test_a_receive_that_is_repeated_does_not_bring_back_what_is_being_acked(
    reused_database: Reused, queue: str | None
) -> None:
    async with rivals(reused_database) as both:
        receive = Receive("jobs", attempt_id="one")
        await both.run(CreateQueue("jobs", Policy(fifo=True)))
        await both.run(Send("jobs", [NewMessage(b"1", group=group) for group in "ab"]))
        [received] = await both.run(receive)
        [message] = received.messages

        [settled], again = await both.overlap(Ack(queue, [Ref(message.id, message.lease.token)]), receive)

        assert settled.id == message.id
        assert [other.id for other in again.messages] == [message.id + 1]


@in_a_loop
async def test_minutes_that_two_servers_add_up_at_once_are_counted_once(reused_database: Reused) -> None:
    async with rivals(reused_database) as both:
        await both.run(CreateQueue("jobs", Policy()))
        minute = NOW // 60_000
        await both.run(RecordActivity([Activity("jobs", "default", minute, "sent", 5)]))
        now = [Activity("jobs", "default", minute + 61, "sent", 1)]

        await both.overlap(RecordActivity(now), RecordActivity(now), NOW + 61 * 60_000)

        [counts] = await both.run(ReadActivity("jobs"))
        assert {one.minute: one.count for one in counts} == {0: 5, minute + 61: 2}
