"""`Queue.open` on a PostgreSQL database."""

import asyncio
import os
import signal
import threading
import time

import asyncpg
import pytest

from sqew import Queue
from sqew import operations as ops
from sqew.clock import ManualClock
from sqew.errors import BadValue, StoreClosed, StoreUnusable, UnknownLane
from tests.support.postgres import new_database

WAITING_FOR_MESSAGES = """
SELECT count(*) FROM pg_locks
 WHERE relation = 'sqew_message'::regclass AND NOT granted
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@pytest.fixture(scope="module")
def url():
    return new_database()


@pytest.fixture
def q(url):
    """Yield a database with the empty queue orders."""
    with Queue.open(url) as q:
        for info in q.queues():
            q.delete(info.name)
        q.create("orders", keep="archive")
        yield q


def test_a_message_is_sent_claimed_and_acked(q):
    id = q.enqueue("orders", {"sku": 7}, key="seven")

    message = q.claim("orders", lease_seconds=30, consumer="w1")
    q.ack(message)

    assert (message.id, message.value) == (id, {"sku": 7})
    assert [archived.message.id for archived in q.archive("orders")] == [id]


def test_who_opens_the_same_database_sees_the_same_queues(q, url):
    q.enqueue("orders", "from here")

    with Queue.open(url) as other:
        assert other.claim("orders").value == "from here"


def test_a_batch_keeps_its_order(q):
    ids = q.enqueue_many("orders", range(250))

    assert [message.id for message in q.claim_many("orders", 250)] == ids


def test_an_error_of_the_store_is_raised_here(q):
    with pytest.raises(UnknownLane):
        q.enqueue("orders", 1, lane="nowhere")


def test_threads_share_it(q):
    def send():
        for number in range(20):
            q.enqueue("orders", number)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert q.stats("orders").depths.total() == 160


def test_who_waits_is_woken_by_another_thread(q):
    got = []
    waiter = threading.Thread(target=lambda: got.append(q.claim("orders", wait_seconds=30)))
    waiter.start()

    began = time.monotonic()
    q.enqueue("orders", "at last")
    waiter.join()

    assert got[0].value == "at last"
    assert time.monotonic() - began < 10


def test_who_waits_is_woken_by_another_process(q, url):
    got = []
    waiter = threading.Thread(target=lambda: got.append(q.claim("orders", wait_seconds=30)))
    waiter.start()

    began = time.monotonic()
    with Queue.open(url) as other:
        other.enqueue("orders", "at last")
        waiter.join()

    assert got[0].value == "at last"
    assert time.monotonic() - began < 10


def test_closing_ends_the_waiting_of_others(url, q):
    other = Queue.open(url)
    ended = []

    def wait():
        try:
            other.claim("orders", wait_seconds=60)
        except StoreClosed as error:
            ended.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    while not other._engine.waiters:
        time.sleep(0.01)

    other.close()
    waiter.join(10)

    assert len(ended) == 1


def test_a_closed_queue_says_so(url):
    q = Queue.open(url)
    q.close()
    q.close()

    with pytest.raises(StoreClosed, match="was closed"):
        q.queues()


def test_a_worker_handles_what_comes(q):
    handled = threading.Event()

    @q.worker("orders")
    def handle(message):
        handled.set()

    worker = threading.Thread(target=handle.run)
    worker.start()
    q.enqueue("orders", "work")

    assert handled.wait(10)
    handle.stop()
    worker.join(10)
    assert not worker.is_alive()


def test_a_forked_child_is_told_to_open_it_anew(q):
    child = os.fork()
    if not child:
        try:
            q.queues()
        except StoreClosed:
            q.close()
            os._exit(7)
        os._exit(1)

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    assert [info.name for info in q.queues()] == ["orders", "orders-dlq"]


def test_an_interrupted_wait_leaves_the_queue_usable(q):
    main = threading.main_thread().ident

    def interrupt():
        while not q._engine.waiters:
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        q.claim("orders", wait_seconds=30)

    q.enqueue("orders", "still there")
    assert q.claim("orders").value == "still there"


class Locked(threading.Thread):
    """A thread that locks the messages until the main thread has waited for them and was interrupted."""

    def __init__(self, url):
        super().__init__()
        self._url = url
        self.begun, self.may_end = threading.Event(), threading.Event()

    def run(self):
        asyncio.run(self._lock())

    async def _lock(self):
        connection = await asyncpg.connect(self._url)
        async with connection.transaction():
            await connection.execute("LOCK TABLE sqew_message IN ACCESS EXCLUSIVE MODE")
            self.begun.set()
            while not await connection.fetchval(WAITING_FOR_MESSAGES):  # noqa: ASYNC110 (nobody tells)
                await asyncio.sleep(0.01)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            await asyncio.to_thread(self.may_end.wait)
        await connection.close()


def test_what_was_claimed_for_somebody_who_was_interrupted_is_given_back(q, url):
    q.enqueue("orders", "for somebody else")
    locked = Locked(url)
    locked.start()
    locked.begun.wait()

    with pytest.raises(KeyboardInterrupt):
        q.claim("orders", lease_seconds=3_600)
    locked.may_end.set()
    locked.join()

    assert q.claim("orders", wait_seconds=30).attempts == 1


def test_what_time_has_ended_is_swept_without_a_server(q):
    q.enqueue("orders", "short-lived", ttl_seconds=0.05)

    deadline = time.monotonic() + 30
    while q.run(ops.LastId()) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert q.run(ops.LastId()) == 0


def test_figures_are_kept(q, url):
    q.enqueue("orders", 1)
    q.ack(q.claim("orders"))

    totals = q.stats("orders").totals

    assert (totals["sent"], totals["acked"]) == (1, 1)


def test_all_messages_are_exported_and_imported_again(q):
    q.enqueue_many("orders", range(450))
    lines = list(q.export("orders"))
    q.purge("orders")

    assert sum(q.import_lines("orders", lines)) == 450
    assert sorted(message.value for message in q.peek("orders", 450)) == list(range(450))


def test_the_whole_archive_is_exported(q):
    q.enqueue_many("orders", range(450))
    q.ack_many(q.claim_many("orders", 450))

    assert len(list(q.export("orders", archive=True))) == 450


def test_events_and_schedules_are_there_too(q):
    q.events.subscribe("shop.*", queue="orders")
    q.schedules.put("nightly", queue="orders", when="every day at 3am", message=1)

    assert [queue for queue, _ in q.events.publish("shop.opened", "now").messages] == ["orders"]
    assert [schedule.name for schedule in q.schedules.list()] == ["nightly"]


@pytest.mark.parametrize("refused", ["backup", "check", "transaction"])
def test_what_only_a_file_has_is_refused_with_what_to_do_instead(q, refused, tmp_path):
    ways = {
        "backup": (lambda: q.backup(tmp_path / "copy"), "pg_dump"),
        "check": (q.check, "pg_amcheck"),
        "transaction": (lambda: q.transaction().__enter__(), "enqueue_many"),
    }
    way, instead = ways[refused]

    with pytest.raises(BadValue, match=instead):
        way()


def test_a_clock_of_ones_own_is_refused(url):
    with pytest.raises(BadValue, match="clock of its own"):
        Queue.open(url, clock=ManualClock())


def test_a_database_without_queues_is_left_alone_unless_they_are_to_be_made():
    empty = new_database("template0")

    with pytest.raises(StoreUnusable, match="holds no queues"):
        Queue.open(empty, create=False)
    with pytest.raises(StoreUnusable, match="holds no queues"):
        Queue.open(empty, create=False)


def test_a_database_that_is_not_there_is_told_at_once(url):
    with pytest.raises(StoreUnusable, match="createdb"):
        Queue.open(url.rpartition("/")[0] + "/nowhere")


def test_upkeep_goes_on_whatever_it_meets(url, monkeypatch, caplog):
    rounds = []

    async def stumble(broker):
        rounds.append(broker)
        raise ValueError("strange")

    monkeypatch.setattr("sqew.core.broker.Broker.keep_up", stumble)
    monkeypatch.setattr("sqew.embedded.loop_in_thread.UPKEEP_EVERY_MS", 1)
    with Queue.open(url):
        deadline = time.monotonic() + 30
        while len(rounds) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    assert "strange" in caplog.text
