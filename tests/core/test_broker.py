"""The broker: one transaction for each tick of the loop, and waiting from tasks."""

import asyncio
import collections
import contextlib
import time

import pytest

from sqew import Broker, NewMessage, Queue, QueueNotFound
from sqew import operations as ops
from sqew.clock import Clock
from sqew.core.engine import Engine
from sqew.errors import BadValue, SqewError, StoreClosed, TooLarge
from sqew.model import Extension, Ref, Release
from sqew.rules.limits import Limits
from sqew.rules.policies import default_policy
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.notifier import SocketNotifier

LONG_MS = 30_000
"""Milliseconds that a receive would wait if nobody woke it."""
PROMPT = 5
"""Seconds within which it is woken, on a machine that is busy with other things."""


class House:
    """A broker on a file, and SQLite's count of the transactions that wrote."""

    def __init__(self, path, broker, store, engine):
        self.path, self.broker, self.store, self.engine = path, broker, store, engine
        self.commits = collections.Counter()
        store.connection.set_commit_hook(self._committed)

    def _committed(self):
        self.commits["all"] += 1
        return False


class ClockAhead(Clock):
    """A clock ahead by a day, until it is set back right after a reading."""

    def __init__(self):
        self.seconds, self.is_about_to_be_set_back = 86_400, False
        super().__init__(lambda: time.time_ns() + self.seconds * 1_000_000_000)

    def now(self):
        now = super().now()
        if self.is_about_to_be_set_back:
            self.seconds = 0
        return now


@contextlib.asynccontextmanager
async def house(folder, limits=None, clock=None):
    path = str(folder / "queue.db")
    clock = clock or Clock()
    store = SQLiteStore(path, now=clock.now(), durability="fast")
    engine = Engine(store, clock, SocketNotifier(path))
    broker = Broker(engine, limits)
    letters = default_policy("orders-dlq", {"max_attempts": None})
    await broker.run(ops.CreateQueue("orders", default_policy("orders", {}), dead_letters=letters))
    try:
        yield House(path, broker, store, engine)
    finally:
        await broker.close()


def message(n=1):
    return NewMessage(str(n).encode())


def run(folder):
    """Run an async test with a broker."""

    def decorate(test):
        async def main():
            async with asyncio.timeout(60), house(folder) as h:
                await test(h)

        asyncio.run(main())

    return decorate


def is_asleep(task):
    """Return True if the task has found nothing and waits to be woken."""
    coroutine = task.get_coro()
    while coroutine is not None:
        if getattr(coroutine, "cr_code", None) in (asyncio.Event.wait.__code__, asyncio.wait_for.__code__):
            return True
        coroutine = getattr(coroutine, "cr_await", None)
    return False


async def waiting(h, wait_ms=LONG_MS, **options):
    """Start a receive, and return its task once it waits."""
    task = asyncio.ensure_future(h.broker.receive(ops.Receive("orders", **options), wait_ms))
    end = time.monotonic() + 10
    while not is_asleep(task):
        assert time.monotonic() < end
        await asyncio.sleep(0)
    return task


def test_operations_of_one_tick_share_one_transaction(tmp_path):
    @run(tmp_path)
    async def _(h):
        before = h.commits["all"]

        results = await asyncio.gather(*(h.broker.send("orders", [message(n)]) for n in range(20)))

        assert len({sent.id for (sent,) in results}) == 20
        assert h.commits["all"] - before == 1


def test_operations_do_not_wait_for_those_of_many_slow_ticks(tmp_path):
    @run(tmp_path)
    async def _(h):
        sends = [asyncio.ensure_future(h.broker.send("orders", [message(n)])) for n in range(2)]
        ticks = 0
        while not sends[0].done():
            ticks += 1
            sends.append(asyncio.ensure_future(h.broker.send("orders", [message()])))
            time.sleep(0.01)  # noqa: ASYNC251 (the loop is to be held up)
            await asyncio.sleep(0)

        assert ticks < 10
        await asyncio.gather(*sends)


class Gathered:
    """A batch that submits an operation when a transaction is about to begin, or fails to."""

    def __init__(self, broker, operation=None):
        self.broker, self.operation, self.results = broker, operation, []

    def __len__(self):
        return 1

    def flush(self):
        if self.operation is None:
            raise ZeroDivisionError
        self.broker.submit(self.operation, self.results.append)


def test_what_gathers_is_submitted_with_the_operations_of_its_tick(tmp_path):
    @run(tmp_path)
    async def _(h):
        before, gathered = h.commits["all"], Gathered(h.broker, ops.Send("orders", [message()]))

        h.broker.at_flush(gathered)
        await h.broker.send("orders", [message()])

        assert [len(result) for result in gathered.results] == [1]
        assert h.commits["all"] - before == 1


def test_what_gathers_and_fails_holds_nobody_up(tmp_path, caplog):
    @run(tmp_path)
    async def _(h):
        gathered = Gathered(h.broker, ops.Send("orders", [message()]))

        h.broker.at_flush(Gathered(h.broker))
        h.broker.at_flush(gathered)
        await h.broker.send("orders", [message()])
        await h.broker.send("orders", [message()])

        assert [len(result) for result in gathered.results] == [1]
        assert "could not be submitted" in caplog.text


def test_what_gathers_when_the_broker_is_closed_is_submitted_before(tmp_path):
    @run(tmp_path)
    async def _(h):
        gathered = Gathered(h.broker, ops.Send("orders", [message()]))

        h.broker.at_flush(gathered)
        await h.broker.close()

        assert [len(result) for result in gathered.results] == [1]


def test_operations_of_different_kinds_share_it_too_and_see_each_other_in_order(tmp_path):
    @run(tmp_path)
    async def _(h):
        before = h.commits["all"]

        sent, received, measured = await asyncio.gather(
            h.broker.run(ops.Send("orders", [message()])),
            h.broker.run(ops.Receive("orders")),
            h.broker.run(ops.Measure("orders")),
        )

        assert received.messages[0].id == sent[0].id
        assert measured.total("leased") == 1
        assert h.commits["all"] - before == 1


def test_one_failing_operation_does_not_undo_its_neighbours(tmp_path):
    @run(tmp_path)
    async def _(h):
        results = await asyncio.gather(
            h.broker.send("orders", [message(1)]),
            h.broker.send("missing", [message(2)]),
            h.broker.send("orders", [message(3)]),
            return_exceptions=True,
        )

        assert isinstance(results[1], QueueNotFound)
        stored = await h.broker.run(ops.Peek("orders"))
        assert [m.value for m in stored] == [1, 3]


@pytest.mark.parametrize(
    "wrong",
    [ops.Receive([]), ops.Receive(None), ops.Get("orders", 2**70), ops.Ack(None, [Ref(1, by=[])])],
    ids=["a list for a queue", "no queue", "an id beyond 64 bits", "a list for a consumer"],
)
def test_an_operation_nobody_can_carry_out_is_refused_and_leaves_nobody_hanging(tmp_path, wrong):
    """Check that an impossible operation fails alone.

    It made the loop's callback fail, and every operation of that tick waited for ever.
    """

    @run(tmp_path)
    async def _(h):
        tasks = [
            asyncio.ensure_future(h.broker.run(wrong)),
            asyncio.ensure_future(h.broker.send("orders", [message()])),
        ]
        h.broker._loop.set_exception_handler(lambda *_: None)

        done, _ = await asyncio.wait(tasks, timeout=PROMPT)

        for task in tasks:
            task.cancel()
        assert len(done) == 2
        assert isinstance(tasks[0].exception(), SqewError)
        assert tasks[1].result()


def test_settling_answers_for_each(tmp_path):
    @run(tmp_path)
    async def _(h):
        await h.broker.send("orders", [message(n) for n in range(3)])
        received = await h.broker.run(ops.Receive("orders", 3))
        refs = [Ref(m.id, m.lease.token) for m in received.messages]

        acked, nacked, extended = await asyncio.gather(
            h.broker.run(ops.Ack("orders", [refs[0], Ref(999, "x")])),
            h.broker.run(ops.Nack("orders", [Release(refs[1], delay_ms=0)])),
            h.broker.run(ops.Extend("orders", [Extension(refs[2], 60_000)])),
        )

        assert [isinstance(answer, SqewError) for answer in acked] == [False, True]
        assert nacked[0].due_at is not None
        assert extended[0].id == refs[2].id


def test_limits_are_checked_before_anything_is_stored(tmp_path):
    async def main():
        async with house(tmp_path, Limits(max_body_bytes=10, max_batch=2)) as h:
            with pytest.raises(TooLarge):
                await h.broker.send("orders", [NewMessage(b'"12345678901"')])
            with pytest.raises(TooLarge):
                await h.broker.send("orders", [message()] * 3)
            with pytest.raises(TooLarge):
                await h.broker.receive(ops.Receive("orders", 3))
            with pytest.raises(BadValue):
                await h.broker.send("orders", [NewMessage(b"1", priority=5_000)])
            assert await h.broker.run(ops.Peek("orders")) == []

    asyncio.run(main())


def test_five_hundred_tasks_send_claim_and_ack_and_lose_nothing(tmp_path):
    @run(tmp_path)
    async def _(h):
        before = h.commits["all"]

        async def work(n):
            await h.broker.send("orders", [message(n)])
            received = await h.broker.receive(ops.Receive("orders"), LONG_MS)
            (m,) = received.messages
            (answer,) = await h.broker.run(ops.Ack("orders", [Ref(m.id, m.lease.token)]))
            assert not isinstance(answer, SqewError)
            return m.value

        values = await asyncio.gather(*(work(n) for n in range(500)))

        assert sorted(values) == list(range(500))
        assert h.commits["all"] - before < 50


# Waiting


def test_a_waiting_receive_is_woken_by_a_send(tmp_path):
    @run(tmp_path)
    async def _(h):
        waiter = await waiting(h)
        began = time.monotonic()

        await h.broker.send("orders", [message()])

        assert (await waiter).messages
        assert time.monotonic() - began < PROMPT


def test_a_waiting_receive_is_woken_by_the_end_of_a_delay(tmp_path):
    @run(tmp_path)
    async def _(h):
        waiter = await waiting(h)
        began = time.monotonic()

        await h.broker.send("orders", [NewMessage(b"1", delay_ms=200)])

        assert (await waiter).messages
        assert 0.19 < time.monotonic() - began < PROMPT


def test_a_waiting_receive_is_woken_from_outside_of_the_process(tmp_path):
    @run(tmp_path)
    async def _(h):
        waiter = await waiting(h)

        def send():
            with Queue.open(h.path, durability="fast") as other:
                other.enqueue("orders", 1)

        await asyncio.to_thread(send)
        began = time.monotonic()

        assert (await waiter).messages
        assert time.monotonic() - began < PROMPT


def test_a_wait_that_finds_nothing_takes_its_time_and_no_more(tmp_path):
    @run(tmp_path)
    async def _(h):
        began = time.monotonic()

        received = await h.broker.receive(ops.Receive("orders"), 200)

        assert received.messages == []
        assert 0.19 < time.monotonic() - began < PROMPT


def test_as_many_waiters_as_messages_are_all_served(tmp_path):
    @run(tmp_path)
    async def _(h):
        waiters = [await waiting(h, LONG_MS) for _ in range(20)]

        await h.broker.send("orders", [message(n) for n in range(20)])

        received = await asyncio.wait_for(asyncio.gather(*waiters), PROMPT)
        assert sorted(r.messages[0].value for r in received) == list(range(20))


def test_of_many_waiters_one_gets_the_message_and_the_others_wait_on(tmp_path):
    @run(tmp_path)
    async def _(h):
        waiters = [await waiting(h, 500) for _ in range(5)]

        await h.broker.send("orders", [message()])

        received = await asyncio.gather(*waiters)
        assert sorted(len(r.messages) for r in received) == [0, 0, 0, 0, 1]


def test_a_message_of_one_lane_wakes_who_waits_for_it_behind_one_who_waits_for_another(tmp_path):
    @run(tmp_path)
    async def _(h):
        await h.broker.run(ops.UpdateQueue("orders", {"lanes": {"a": 1, "b": 1}}))
        first = await waiting(h, 2_500, lane="a")
        second = await waiting(h, lane="b")
        began = time.monotonic()

        await h.broker.send("orders", [NewMessage(b"1", lane="b")])

        assert (await second).messages
        assert time.monotonic() - began < PROMPT
        first.cancel()


def test_a_waiter_that_is_cancelled_when_it_was_woken_passes_the_wake_up_on(tmp_path):
    """Check that the other waiter gets the message.

    Before Python 3.12, asyncio.wait_for swallows a cancellation that arrives together with the result.
    """

    @run(tmp_path)
    async def _(h):
        for _ in range(20):
            first, second = await waiting(h), await waiting(h)

            await h.broker.send("orders", [message()])
            first.cancel()  # it has been woken and has not looked yet

            (got,) = (await asyncio.wait_for(second, PROMPT)).messages
            await h.broker.run(ops.Ack("orders", [Ref(got.id, got.lease.token)]))
            assert first.cancelled()


def test_a_cancelled_waiter_leaves_the_line(tmp_path):
    @run(tmp_path)
    async def _(h):
        waiter = await waiting(h)

        waiter.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiter

        assert not h.engine.waiters


def test_what_is_cancelled_before_its_tick_ends_is_not_done(tmp_path):
    @run(tmp_path)
    async def _(h):
        async def send_and_be_cancelled():
            task = asyncio.ensure_future(h.broker.send("orders", [message()]))
            asyncio.get_running_loop().call_soon(task.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await task
            return task.cancelled()

        if await send_and_be_cancelled():
            assert await h.broker.run(ops.Peek("orders")) == []


# In steps, and the end


def test_purging_goes_in_steps_with_others_in_between(tmp_path):
    async def main():
        async with house(tmp_path, Limits(max_batch=50)) as h:
            for _ in range(6):
                await h.broker.send("orders", [message(n) for n in range(50)])
            before = h.commits["all"]
            purge = asyncio.ensure_future(h.broker.purge("orders"))
            between = 0
            while not purge.done():
                await h.broker.run(ops.GetQueue("orders"))
                between += 1

            assert await purge == 300
            assert h.commits["all"] - before >= 6
            assert between >= 6

    asyncio.run(main())


def test_a_purge_spares_what_is_sent_after_it_began(tmp_path):
    async def main():
        async with house(tmp_path, Limits(max_batch=10)) as h:
            await h.broker.send("orders", [message(n) for n in range(10)])
            purge = asyncio.ensure_future(h.broker.purge("orders"))
            await h.broker.run(ops.GetQueue("orders"))
            await h.broker.send("orders", [message("99")])

            assert await purge == 10
            assert [m.value for m in await h.broker.run(ops.Peek("orders"))] == [99]

    asyncio.run(main())


def test_dead_letters_are_brought_back_in_steps(tmp_path):
    @run(tmp_path)
    async def _(h):
        await h.broker.send("orders", [message(n) for n in range(30)])
        received = await h.broker.run(ops.Receive("orders", 30))
        await h.broker.run(
            ops.Nack("orders", [Release(Ref(m.id, m.lease.token), dead=True) for m in received.messages])
        )

        assert await h.broker.in_steps(ops.RequeueDead("orders", limit=7)) == 30
        assert (await h.broker.run(ops.Measure("orders"))).total("ready") == 30


def test_closing_finishes_what_was_begun(tmp_path):
    async def main():
        async with house(tmp_path) as h:
            sends = [asyncio.ensure_future(h.broker.send("orders", [message(n)])) for n in range(5)]
            await asyncio.sleep(0)
            await h.broker.close()
            return await asyncio.gather(*sends)

    assert len(asyncio.run(main())) == 5


def test_closing_wakes_those_who_wait_with_an_error(tmp_path):
    async def main():
        async with house(tmp_path) as h:
            waiters = [await waiting(h, LONG_MS) for _ in range(3)]
            await h.broker.close()
            return await asyncio.wait_for(asyncio.gather(*waiters, return_exceptions=True), PROMPT)

    assert [type(outcome) for outcome in asyncio.run(main())] == [StoreClosed] * 3


def test_closing_under_waiters_leaves_no_bell_behind(tmp_path):
    async def main():
        async with house(tmp_path) as h:
            waiter = await waiting(h)
            await h.broker.close()
            await asyncio.wait([waiter])
            waiter.exception()

    asyncio.run(main())
    assert [path.name for path in tmp_path.iterdir()] == ["queue.db"]


def test_a_closed_broker_says_so_and_closing_twice_is_fine(tmp_path):
    async def main():
        async with house(tmp_path) as h:
            await h.broker.close()
            await h.broker.close()
            with pytest.raises(StoreClosed):
                await h.broker.run(ops.GetQueue("orders"))

    asyncio.run(main())


async def _sent_beside_a_folder(folder):
    async with Broker.open(folder / "queue.db", durability="fast") as broker:
        await broker.run(ops.CreateQueue("jobs", default_policy("jobs", {"dead_letter": None})))
        # What can't be rung, nor removed as a bell is whose process is gone.
        (folder / "queue.db-bells" / "old").mkdir(parents=True)
        sent = await asyncio.gather(*(broker.send("jobs", [NewMessage(b"%d" % n)]) for n in range(3)))
        return sent, await broker.run(ops.Peek("jobs", 100))


def test_what_fails_after_the_commit_does_not_send_again_what_was_sent(tmp_path):
    sent, there = asyncio.run(_sent_beside_a_folder(tmp_path))

    assert [one.id for (one,) in sent] == [message.id for message in there]
    assert [message.body for message in there] == [b"0", b"1", b"2"]


async def _published_in_vain(folder, monkeypatch):
    async with house(folder) as h:
        await h.broker.run(ops.CreateQueue("jobs", default_policy("jobs", {"dead_letter": None})))

        def fail(*_):
            raise RuntimeError("told nobody")

        monkeypatch.setattr(h.engine.waiters, "wake", fail)
        sent = await asyncio.gather(*(h.broker.send("jobs", [NewMessage(b"%d" % n)]) for n in range(3)))
        monkeypatch.undo()
        return sent, await h.broker.run(ops.Peek("jobs", 100))


def test_a_mistake_in_telling_others_is_not_taken_for_a_failed_commit(tmp_path, monkeypatch, caplog):
    sent, there = asyncio.run(_published_in_vain(tmp_path, monkeypatch))

    assert [one.id for (one,) in sent] == [message.id for message in there]
    assert "was committed" in caplog.text


async def _cancelled_before_its_transaction():
    async with Broker.open(":memory:") as broker:
        await broker.run(ops.CreateQueue("jobs", default_policy("jobs", {"dead_letter": None})))
        await broker.send("jobs", [NewMessage(b"1")])
        task = asyncio.create_task(broker.receive(ops.Receive("jobs", finish=True), 1000))
        await asyncio.sleep(0)
        assert broker.backlog == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await broker.run(ops.Peek("jobs"))


def test_a_receive_that_was_cancelled_before_its_transaction_takes_nothing():
    assert [message.body for message in asyncio.run(_cancelled_before_its_transaction())] == [b"1"]


def test_a_wait_that_began_as_the_clock_was_set_back_did_not_end_in_its_time(tmp_path):
    clock = ClockAhead()

    async def scenario():
        async with asyncio.timeout(20), house(tmp_path, clock=clock) as h:
            clock.is_about_to_be_set_back = True
            return await h.broker.wait(ops.Receive("orders"), 300)

    assert asyncio.run(scenario()).messages == []
