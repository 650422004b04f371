"""Threads on one queue: nothing lost, nothing doubled, commits shared, and errors raised only in their own thread."""

import collections
import json
import subprocess
import sys
import threading
import time

import pytest

from sqew import Queue, QueueNotFound

THREADS = 8


@pytest.fixture
def q(tmp_path):
    with Queue.open(tmp_path / "queue.db") as q:
        q.create("orders")
        yield q


def in_threads(work, count=THREADS):
    """Run a function in many threads at once; return each one's result or error."""
    outcomes = [None] * count
    start = threading.Barrier(count)

    def run(n):
        start.wait()
        try:
            outcomes[n] = work(n)
        except BaseException as error:  # noqa: BLE001 (looked at by the test)
            outcomes[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return outcomes


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.002)


@pytest.fixture
def commits(q):
    """Yield a function that returns the number of commits that wrote something, as SQLite counts them."""
    count = collections.Counter()

    def committed():
        count["commits"] += 1
        return False

    q._executor.store.connection.set_commit_hook(committed)
    yield lambda: count["commits"]
    q._executor.store.connection.set_commit_hook(None)


def test_threads_that_send_claim_and_ack_lose_and_double_nothing(q):
    each = 40

    def work(n):
        got = []
        for k in range(each):
            q.enqueue("orders", n * each + k)
            if (message := q.claim("orders", consumer=f"w{n}")) is not None:
                got.append(message.value)
                q.ack(message)
        while (message := q.claim("orders")) is not None:
            got.append(message.value)
            q.ack(message)
        return got

    outcomes = in_threads(work)

    assert sorted(value for got in outcomes for value in got) == list(range(THREADS * each))
    assert q.stats("orders").totals["acked"] == THREADS * each


def test_a_message_is_claimed_by_one_thread_only(q):
    q.enqueue_many("orders", range(100))

    outcomes = in_threads(lambda n: [m.id for _ in range(30) for m in q.claim_many("orders", 3)])

    claimed = [id for ids in outcomes for id in ids]
    assert len(claimed) == len(set(claimed)) == 100


def test_what_comes_while_a_commit_is_under_way_is_committed_together(q, commits):
    with q.transaction():
        threads = [threading.Thread(target=q.enqueue, args=("orders", n)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        until(lambda: len(q._executor._pending) == THREADS)
    before = commits()

    for thread in threads:
        thread.join(10)

    assert len(q.peek("orders")) == THREADS
    assert commits() - before == 1


def test_busy_threads_share_their_commits(q, commits):
    each = 40

    in_threads(lambda n: [q.enqueue("orders", k) for k in range(each)])

    assert len(q.peek("orders", 1_000)) == THREADS * each
    assert commits() < THREADS * each


def test_one_threads_error_does_not_disturb_the_others(q):
    def work(n):
        return q.enqueue("missing" if n == 3 else "orders", n)

    for _ in range(20):
        outcomes = in_threads(work)

        assert isinstance(outcomes.pop(3), QueueNotFound)
        assert all(isinstance(outcome, int) for outcome in outcomes)
    assert len(q.peek("orders", 1_000)) == 20 * (THREADS - 1)


def test_a_queue_made_by_one_thread_is_known_to_all(q):
    def work(n):
        q.create("shared", exist_ok=True)
        return q.enqueue("shared", n)

    assert len(set(in_threads(work))) == THREADS


# Ctrl-C goes to the main thread, so these have a process of their own. Other threads send all the while.
INTERRUPTED = """
import json, os, random, signal, sys, threading, time
from sqew import Queue, SqewError

q = Queue.open(sys.argv[1])
q.create("orders")
stop, acknowledged, refused, foreign = threading.Event(), [], [], []

def send(value):
    try:
        q.enqueue("orders", value)
    except SqewError as error:
        if "undone" in str(error):
            refused.append(value)
    except Exception as error:
        foreign.append(repr(error))
    else:
        acknowledged.append(value)

def sender(name):
    number = 0
    while not stop.is_set():
        number += 1
        send(f"{name}-{number}")

def interrupt():
    while not stop.is_set():
        time.sleep(random.random() * 0.004)
        os.kill(os.getpid(), signal.SIGINT)

threads = [threading.Thread(target=sender, args=(n,)) for n in range(3)]
threads.append(threading.Thread(target=interrupt))
end = time.monotonic() + 1.5
interrupts = number = 0
for thread in threads:
    while thread.ident is None:
        try:
            thread.start()
        except KeyboardInterrupt:
            pass
while time.monotonic() < end:
    try:
        while time.monotonic() < end:
            number += 1
            q.enqueue("orders", f"main-{number}")
    except KeyboardInterrupt:
        interrupts += 1
    except SqewError:
        pass
    except Exception as error:
        foreign.append(repr(error))
while True:
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        break
    except KeyboardInterrupt:
        pass
stop.set()
for thread in threads:
    thread.join(10)
assert interrupts > 10, interrupts
q.enqueue("orders", "after all this")
stored = {json.loads(line)["body"] for line in q.export("orders")}
print(json.dumps({
    "hung": sum(thread.is_alive() for thread in threads),
    "foreign": foreign,
    "acknowledged and lost": sorted(set(acknowledged) - stored),
    "said to be undone and stored": sorted(set(refused) & stored),
}))
os._exit(0)
"""


@pytest.fixture(scope="module")
def after_interrupts(tmp_path_factory):
    path = tmp_path_factory.mktemp("interrupted") / "queue.db"
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_thread_that_is_interrupted_leaves_the_queue_usable(after_interrupts):
    assert after_interrupts["hung"] == 0
    assert after_interrupts["foreign"] == []


def test_an_interrupt_loses_nothing_that_was_acknowledged(after_interrupts):
    assert after_interrupts["acknowledged and lost"] == []


def test_nobody_is_told_that_a_commit_was_undone_when_it_was_not(after_interrupts):
    """Check that no stored commit is reported as undone.

    Ctrl-C mostly arrives while the commit waits for the disk, and is raised when the commit is done.
    """
    assert len(after_interrupts["said to be undone and stored"]) == 0
