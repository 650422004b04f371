"""Waiting for messages without polling, within a process and between processes, where no wake-up may be lost."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sqew import Queue
from sqew.core.waiting import FALLBACK_POLL_MS, Waiters, pause
from sqew.errors import StoreClosed
from sqew.stores.sqlite.notifier import SocketNotifier

LONG = 30
"""Seconds that a waiter waits if it is not woken."""
PROMPT = 5
"""Seconds within which a waiter is woken, on a machine that is busy with other things."""


@pytest.fixture
def q(tmp_path):
    with Queue.open(tmp_path / "queue.db", durability="fast") as q:
        q.create("orders", backoff={"base_ms": 0, "jitter_ms": 0})
        yield q


@pytest.fixture
def other(q):
    """Yield the same file, opened a second time: each of the two hears of the other's sends by its notifier."""
    with Queue.open(q._executor.store.path, durability="fast") as other:
        yield other


def until(condition, seconds=LONG):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.002)


def is_asleep(thread):
    """Return True if the thread has found nothing and waits to be woken."""
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        if frame.f_code is threading.Event.wait.__code__ and frame.f_back.f_code is Queue._wait.__code__:
            return True
        frame = frame.f_back
    return False


class Waiter(threading.Thread):
    """A claim in a thread of its own, with its result and its duration."""

    def __init__(self, q, queue="orders", wait_seconds=LONG, **options):
        super().__init__(daemon=True)
        self._claim = lambda: q.claim(queue, wait_seconds=wait_seconds, **options)
        self.got = self.error = None
        self.start()
        until(lambda: is_asleep(self) or not self.is_alive())

    def run(self):
        began = time.monotonic()
        try:
            self.got = self._claim()
        except BaseException as error:  # noqa: BLE001 (looked at by the test)
            self.error = error
        self.seconds = time.monotonic() - began

    def result(self):
        self.join(2 * LONG)
        assert not self.is_alive()
        return self.got


def listeners(q):
    try:
        return sorted(Path(f"{q._executor.store.path}-bells").iterdir())
    except FileNotFoundError:  # the last one out takes the folder along
        return []


# What wakes a waiter


def dead_letter_by_nack(q):
    q.update("orders", max_attempts=1)
    q.enqueue("orders", "dying")
    held = q.claim("orders")
    return "orders-dlq", lambda: q.nack(held)


def dead_letter_by_verdict(q):
    q.enqueue("orders", "dying")
    held = q.claim("orders")
    return "orders-dlq", lambda: q.dead_letter(held)


def dead_letter_by_the_end_of_the_last_lease(q):
    q.update("orders", max_attempts=1)
    q.enqueue("orders", "dying")
    q.claim("orders", lease_seconds=0.2)
    return "orders-dlq", lambda: None


def send(q):
    return "orders", lambda: q.enqueue("orders", 1)


def send_with_a_delay(q):
    return "orders", lambda: q.enqueue("orders", 1, delay_seconds=0.2)


def nack(q):
    q.enqueue("orders", 1)
    held = q.claim("orders")
    return "orders", lambda: q.nack(held)


def nack_with_a_delay(q):
    q.enqueue("orders", 1)
    held = q.claim("orders")
    return "orders", lambda: q.nack(held, delay_seconds=0.2)


def end_of_a_lease(q):
    q.enqueue("orders", 1)
    q.claim("orders", lease_seconds=0.2)
    return "orders", lambda: None


def a_lease_cut_short(q):
    q.enqueue("orders", 1)
    held = q.claim("orders", lease_seconds=60)
    return "orders", lambda: q.extend_lease(held, 0)


def end_of_a_delay(q):
    q.enqueue("orders", 1, delay_seconds=0.2)
    return "orders", lambda: None


def requeue(q):
    q.enqueue("orders", 1)
    q.dead_letter(q.claim("orders"))
    return "orders", lambda: q.requeue("orders")


def redrive(q):
    q.enqueue("orders", 1)
    q.dead_letter(q.claim("orders"))
    return "orders", lambda: q.redrive("orders-dlq")


def ack_of_a_group_head(q):
    q.create("orders.fifo")
    q.enqueue("orders.fifo", 1, group="g")
    q.enqueue("orders.fifo", 2, group="g")
    held = q.claim("orders.fifo")
    return "orders.fifo", lambda: q.ack(held)


WAKERS = [
    send,
    send_with_a_delay,
    nack,
    nack_with_a_delay,
    end_of_a_lease,
    a_lease_cut_short,
    end_of_a_delay,
    requeue,
    redrive,
    ack_of_a_group_head,
    dead_letter_by_nack,
    dead_letter_by_verdict,
    dead_letter_by_the_end_of_the_last_lease,
]


@pytest.mark.parametrize("waker", WAKERS, ids=lambda waker: waker.__name__)
def test_a_waiter_in_the_same_process_is_woken_by(q, waker):
    queue, wake = waker(q)
    waiter = Waiter(q, queue)

    wake()

    assert waiter.result() is not None
    assert waiter.seconds < PROMPT


@pytest.mark.parametrize("waker", [send, send_with_a_delay, nack, requeue, ack_of_a_group_head, dead_letter_by_verdict])
def test_a_waiter_at_another_doorbell_is_woken_by(q, other, waker):
    queue, wake = waker(q)
    waiter = Waiter(other, queue)

    wake()

    assert waiter.result() is not None
    assert waiter.seconds < PROMPT


def test_a_new_queue_of_the_same_name_ends_the_wait_for_a_deleted_one(q):
    waiter = Waiter(q)

    q.delete("orders")

    waiter.join(LONG)
    assert waiter.seconds < PROMPT
    assert "does not exist" in str(waiter.error)


def test_closing_wakes_those_who_wait_with_an_error(q):
    waiters = [Waiter(q) for _ in range(3)]

    q.close()

    for waiter in waiters:
        waiter.join(LONG)
        assert isinstance(waiter.error, StoreClosed)
        assert waiter.seconds < PROMPT


def test_a_wait_without_a_message_takes_its_time_and_no_more(q):
    began = time.monotonic()

    assert q.claim("orders", wait_seconds=0.2) is None

    assert 0.19 < time.monotonic() - began < PROMPT


# Many waiters


def test_of_many_waiters_one_gets_the_message_and_the_others_wait_on(q):
    waiters = [Waiter(q, wait_seconds=1) for _ in range(6)]

    q.enqueue("orders", 1)

    served = [waiter for waiter in waiters if waiter.result() is not None]
    assert len(served) == 1
    assert all(waiter.seconds > 0.95 for waiter in waiters if waiter not in served)


@pytest.mark.parametrize("at_once", [True, False])
def test_as_many_waiters_as_messages_are_all_served(q, at_once):
    waiters = [Waiter(q) for _ in range(8)]

    if at_once:
        q.enqueue_many("orders", range(8))
    else:
        for n in range(8):
            q.enqueue("orders", n)

    assert sorted(waiter.result().value for waiter in waiters) == list(range(8))
    assert max(waiter.seconds for waiter in waiters) < PROMPT


def test_waiters_behind_two_doorbells_are_all_served(q, other):
    waiters = [Waiter(one) for one in (q, other) * 4]

    q.enqueue_many("orders", range(8))

    assert sorted(waiter.result().value for waiter in waiters) == list(range(8))
    assert max(waiter.seconds for waiter in waiters) < PROMPT


def test_a_message_of_one_lane_wakes_who_waits_for_it_behind_one_who_waits_for_another(q):
    """Check that each lane's waiter is woken.

    The first waiter in line was woken, found nothing in its own lane, and woke no other.
    """
    q.create("topic", lanes=["a", "b"])
    first = Waiter(q, "topic", wait_seconds=3, lane="a")
    second = Waiter(q, "topic", lane="b")

    q.enqueue("topic", 1, lane="b")

    assert second.result() is not None
    assert second.seconds < PROMPT
    assert first.result() is None


def test_a_waiter_that_gives_up_tells_the_next_when_a_message_will_be_due(q):
    """Check that a waiter that gives up passes on when the next message is due.

    Only the first in line knew of the delayed message; it left, and the second slept through its time.
    """
    hasty = Waiter(q, wait_seconds=0.4)
    patient = Waiter(q)

    q.enqueue("orders", 1, delay_seconds=0.6)

    assert hasty.result() is None
    assert patient.result() is not None
    assert patient.seconds < 0.6 + PROMPT


def test_a_waiter_that_times_out_does_not_swallow_a_wake_up(q):
    for round in range(15):
        hasty = Waiter(q, wait_seconds=0.05)
        patient = Waiter(q)
        time.sleep(0.04 + round * 0.001)  # so that sending and giving up coincide

        q.enqueue("orders", round)

        if hasty.result() is not None:
            q.enqueue("orders", "for the patient one")
        assert patient.result() is not None
        assert patient.seconds < PROMPT


def test_one_who_takes_the_message_without_waiting_leaves_the_waiters_waiting(q):
    waiter = Waiter(q)

    with q.transaction():
        q.enqueue("orders", "taken")
        q.ack(q.claim("orders"))
    q.enqueue("orders", "for the waiter")

    assert waiter.result().value == "for the waiter"


# Between processes

CHILD = """
import sys
from sqew import Queue
with Queue.open(sys.argv[1], durability="fast") as q:
"""


def start_child(path, body, *arguments):
    """Start a process that has the file open as ``q``."""
    script = CHILD + "".join(f"    {line}\n" for line in body.strip().splitlines())
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def child(q):
    """Yield a function that starts child processes; kill them at the end."""
    children = []

    def start(body, *arguments):
        children.append(start_child(q._executor.store.path, body, *arguments))
        return children[-1]

    yield start
    for process in children:
        process.kill()
        process.communicate()


def test_a_waiter_in_another_process_is_woken(q, child):
    process = child("print(q.claim('orders', wait_seconds=30).value)")
    until(lambda: listeners(q))

    began = time.monotonic()
    q.enqueue("orders", "hello")

    assert process.stdout.readline() == "hello\n"
    assert time.monotonic() - began < PROMPT


def test_a_message_from_another_process_wakes_a_waiter_here(q, child):
    process = child("sys.stdin.readline(); q.enqueue('orders', 'hello'); print('sent', flush=True)")
    waiter = Waiter(q)
    until(lambda: listeners(q))
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    sent = time.monotonic()

    assert waiter.result().value == "hello"
    assert time.monotonic() - sent < PROMPT


def test_two_hundred_rounds_between_two_processes_have_no_slow_one(q, child):
    q.create("replies")
    child("""
for _ in range(200):
    message = q.claim("orders", wait_seconds=30)
    q.enqueue("replies", message.value)
    q.ack(message)
""")
    slowest = 0.0

    for round in range(200):
        began = time.monotonic()
        q.enqueue("orders", round)
        reply = q.claim("replies", wait_seconds=30)
        q.ack(reply)
        if round:  # the child had to start
            slowest = max(slowest, time.monotonic() - began)
        assert reply.value == round

    assert slowest < PROMPT


def test_a_waiter_that_comes_when_a_sender_has_just_looked_for_bells_is_served_all_the_same(q, other):
    """Check that a waiter is woken although the sender has just found no socket of a waiter.

    Such a sender does not look again for 5 ms, in which a socket may appear.
    """
    for round in range(30):
        # Rings until the bell of the last round is taken down; the last time, it finds none.
        until(lambda: other.enqueue("orders", "before") and not listeners(q))
        other.enqueue("orders", "before")
        q.purge("orders")
        began = time.monotonic()
        waiter = threading.Thread(target=lambda: q.ack(q.claim("orders", wait_seconds=LONG)))
        waiter.start()
        time.sleep(round % 10 / 2000)

        other.enqueue("orders", "for the waiter")

        waiter.join()
        assert time.monotonic() - began < PROMPT


def test_many_waiters_in_many_processes_are_all_served(q, child):
    processes = [child("print(q.claim('orders', wait_seconds=30).value)") for _ in range(3)]
    until(lambda: len(listeners(q)) == 3)

    q.enqueue_many("orders", range(3))

    assert sorted(int(process.communicate(timeout=20)[0]) for process in processes) == [0, 1, 2]


def test_the_bell_of_a_killed_process_is_taken_away_by_the_next_sender(q, child):
    process = child("q.claim('orders', wait_seconds=60)")
    until(lambda: listeners(q))
    process.kill()
    process.wait()
    assert listeners(q)

    q.enqueue("orders", 1)

    assert listeners(q) == []


def test_a_process_that_is_stopped_keeps_no_wake_up_from_others(q, other, child):
    process = child("q.create('quiet', exist_ok=True); q.claim('quiet', wait_seconds=60)")
    until(lambda: listeners(q))
    process.send_signal(signal.SIGSTOP)
    for n in range(400):  # its bell is full now, and the sender's buffer with it
        q.enqueue("orders", n)
    q.purge("orders")
    waiter = Waiter(other)

    q.enqueue("orders", "urgent")

    assert waiter.result().value == "urgent"
    assert waiter.seconds < PROMPT


def test_a_transaction_on_more_queues_than_a_bell_can_hold_wakes_them_all(q, other):
    """Check that all waiters of a large transaction are woken.

    The kernel keeps ten datagrams for a socket (net.unix.max_dgram_qlen); the rest were dropped unnoticed.
    """
    names = [f"queue-{n}" for n in range(30)]
    for name in names:
        q.create(name, dead_letter=None, max_attempts=None)
    waiters = [Waiter(other, name) for name in names]

    with q.transaction():
        for name in names:
            q.enqueue(name, 1)

    missed = [name for name, waiter in zip(names, waiters, strict=True) if waiter.result() is None]
    assert missed == []
    assert max(waiter.seconds for waiter in waiters) < PROMPT


# Places


def test_a_path_longer_than_a_socket_may_have_works(tmp_path):
    folder = tmp_path / ("long" * 30) / ("longer" * 20)
    folder.mkdir(parents=True)
    with Queue.open(folder / "queue.db", durability="fast") as q, Queue.open(folder / "queue.db") as other:
        q.create("orders")
        waiter = Waiter(q)
        assert listeners(q)

        other.enqueue("orders", 1)

        assert waiter.result() is not None
        assert waiter.seconds < PROMPT


def test_a_place_that_can_not_hold_sockets_is_polled(q, other):
    Path(f"{q._executor.store.path}-bells").write_text("in the way")
    waiter = Waiter(q)

    other.enqueue("orders", 1)

    assert waiter.result() is not None
    assert waiter.seconds < PROMPT


def test_processes_that_know_the_file_by_different_names_hear_each_other(q, tmp_path):
    """Check that different paths to a file lead to the same socket: SQLite follows symbolic links."""
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(q._executor.store.path)
    with Queue.open(link, durability="fast") as other:
        waiter = Waiter(q)

        other.enqueue("orders", 1)

        assert waiter.result() is not None
        assert waiter.seconds < PROMPT


def test_strange_datagrams_at_the_bell_harm_nobody(q):
    waiter = Waiter(q)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        for junk in (b"", b"\xff" * 500, b"no-such-queue"):
            stranger.sendto(junk, str(listeners(q)[0]))

    q.enqueue("orders", 1)

    assert waiter.result() is not None


def test_a_queue_in_memory_can_be_waited_for():
    with Queue.open(":memory:") as q:
        q.create("orders")
        waiter = Waiter(q)

        q.enqueue("orders", 1)

        assert waiter.result() is not None


# What is left behind


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_after_closing(tmp_path):
    threads, files = set(threading.enumerate()), open_files()

    for n in range(5):
        with (
            Queue.open(tmp_path / f"{n}.db", durability="fast", event_log=str(tmp_path / "log")) as q,
            Queue.open(tmp_path / f"{n}.db") as other,
        ):
            q.create("orders")
            q.claim("orders", wait_seconds=0.01)
            waiter = Waiter(q)
            other.enqueue("orders", 1)
            waiter.result()
            Waiter(q, wait_seconds=0.01).result()

    until(lambda: set(threading.enumerate()) <= threads)
    until(lambda: open_files() <= files)
    assert list(tmp_path.glob("*-bells")) == []
    assert list(tmp_path.glob("*-wal")) == []


def test_nothing_is_left_after_closing_under_waiters(q):
    """Check that closing leaves no socket and no thread.

    Waiters that were woken by the end listened again before they found that the queue was closed.
    """
    threads = set(threading.enumerate())
    waiters = [Waiter(q) for _ in range(3)]

    q.close()

    for waiter in waiters:
        waiter.join(LONG)
    until(lambda: set(threading.enumerate()) <= threads, PROMPT)
    assert listeners(q) == []


def test_a_bell_that_rings_for_nobody_is_taken_down(q, other):
    threads = set(threading.enumerate())
    q.claim("orders", wait_seconds=0.01)
    assert listeners(q)

    other.enqueue("orders", 1)

    until(lambda: not listeners(q))
    until(lambda: set(threading.enumerate()) <= threads)


def test_a_closed_doorbell_is_not_hung_again(tmp_path):
    """Check that a closed notifier does not listen again.

    A waiter that came between the end of the waiters and the end of the file left a socket and a thread.
    """
    notifier = SocketNotifier(str(tmp_path / "queue.db"))
    notifier.close()

    try:
        assert not notifier.listen(Waiters())
    finally:
        notifier.close()


def test_bells_that_come_and_go_at_once_can_all_be_hung(tmp_path):
    """Check that notifiers that come and go at the same time can all listen.

    The last to leave removed the folder while another was about to bind its socket in it.
    """
    refused = []

    def come_and_go():
        for _ in range(400):
            notifier = SocketNotifier(str(tmp_path / "queue.db"))
            notifier.listen(Waiters())
            if notifier._unavailable:
                refused.append(1)
            notifier.close()

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(refused) == 0


def test_a_forked_child_that_closes_its_copy_leaves_the_parents_bell_alone(q):
    """Check that a forked child leaves the parent's socket alone.

    It removed and shut down the socket that both shared: the parent heard nothing, or span.
    """
    waiter = Waiter(q)
    before = listeners(q)

    forked(q.close)

    assert listeners(q) == before
    q.enqueue("orders", 1)
    assert waiter.result() is not None


def forked(work):
    """Run a function in a forked child, and wait for the child to end."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(LONG)  # whatever it hangs on
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the child hung"


# How long to sleep


@pytest.mark.parametrize(
    ("deadline", "next_due_at", "heard", "expected"),
    [
        (1_500, None, True, 500),
        (1_500, 1_200, True, 200),
        (1_500, 1_900, True, 500),
        (1_500, 900, True, 1),
        (1_000, None, True, 0),
        (900, 1_200, True, 0),
        (1_500, None, False, FALLBACK_POLL_MS),
        (1_010, None, False, 10),
    ],
)
def test_a_waiter_sleeps_until_something_is_due_or_its_time_is_up(deadline, next_due_at, heard, expected):
    assert pause(1_000, deadline, next_due_at, heard) == expected
