"""Workers: the result of their function decides the fate of the message; leases held; signals obeyed."""

import functools
import logging
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from sqew import Ack, Dead, Queue, Retry, Worker
from sqew.errors import BadValue, QueueNotFound, SqewError, StoreClosed, UnknownLane

PROMPT = 10
"""Seconds within which what must happen does, on a machine that is busy with other things."""


@pytest.fixture
def q(tmp_path):
    with Queue.open(tmp_path / "queue.db", durability="fast") as q:
        q.create("orders", backoff={"kind": "fixed", "base_ms": 0, "jitter_ms": 0}, max_attempts=3)
        yield q


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.002)


def work_off(q, handler, **options):
    """Handle everything that is ready with this function, and return the worker."""
    worker = q.worker("orders", **options)(handler)
    worker.run(until_empty=True)
    return worker


def depths(q):
    return q.stats("orders").depths


# What it is


def test_the_decorator_makes_a_worker_that_can_still_be_called(q):
    @q.worker("orders")
    def double(message):
        return message * 2

    assert isinstance(double, Worker)
    assert double(21) == 42


def test_it_works_off_the_queue_until_it_is_empty(q):
    q.enqueue_many("orders", range(20))
    seen = []

    work_off(q, lambda message: seen.append(message.value))

    assert seen == list(range(20))
    assert depths(q).total() == 0


def test_it_takes_one_lane_if_told_to(q):
    q.update("orders", lanes={"a": 1, "b": 1})
    q.enqueue("orders", 1, lane="a")
    q.enqueue("orders", 2, lane="b")
    seen = []

    work_off(q, lambda message: seen.append(message.value), lane="b")

    assert seen == [2]


def test_as_many_work_at_once_as_it_was_told(q):
    q.enqueue_many("orders", range(4))
    together = threading.Barrier(4, timeout=PROMPT)

    def meet(message):
        together.wait()

    work_off(q, meet, concurrency=4)

    assert depths(q).total() == depths(q).dead == 0


def test_the_leases_carry_its_name(q):
    q.enqueue("orders", 1)
    names = []

    work_off(q, lambda message: names.append(message.lease.by), name="w1")

    assert names == ["w1"]


def test_a_started_worker_takes_what_comes_later(q):
    seen = threading.Event()
    worker = q.worker("orders")(lambda message: seen.set())
    worker.start()

    q.enqueue("orders", 1)

    assert seen.wait(PROMPT)
    worker.stop()
    assert depths(q).total() == 0


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, "2", None])
def test_an_impossible_concurrency_is_refused(q, concurrency):
    with pytest.raises(BadValue, match="concurrency"):
        q.worker("orders", concurrency=concurrency)(print)


@pytest.mark.parametrize("lease_seconds", [0, -1, float("nan"), "30"])
def test_an_impossible_lease_is_refused(q, lease_seconds):
    """Check this, since the heartbeat would beat without a pause."""
    with pytest.raises(BadValue, match="lease_seconds"):
        q.worker("orders", lease_seconds=lease_seconds)(print)


def test_what_can_not_be_called_is_no_worker(q):
    with pytest.raises(SqewError):
        q.worker("orders")("not a function")


class Later:
    async def __call__(self, message):
        pass


@pytest.mark.parametrize(
    "handler", [Later(), Later().__call__, functools.partial(Later.__call__, None)], ids=["object", "method", "partial"]
)
def test_a_coroutine_function_is_refused(q, handler):
    """Check this, since its result would never be awaited, and every message would fail."""
    with pytest.raises(BadValue, match="it is a coroutine function, which only the worker of an AsyncClient awaits"):
        q.worker("orders")(handler)


@pytest.mark.parametrize("wrong", [{"lane": 5}, {"lane": "\ud800"}, {"name": 5}, {"name": "x" * 257}], ids=ascii)
def test_what_its_claims_could_not_carry_is_refused(q, wrong):
    with pytest.raises(BadValue):
        q.worker("orders", **wrong)(print)


# Verdicts


@pytest.mark.parametrize("verdict", [None, Ack()], ids=repr)
def test_done(q, verdict):
    q.enqueue("orders", 1)

    work_off(q, lambda message: verdict)

    assert depths(q).total() == depths(q).dead == 0


def test_retry_after_a_while(q):
    q.enqueue("orders", 1)

    work_off(q, lambda message: Retry(after=60, reason="later"))

    assert depths(q).total("delayed") == 1
    assert 50_000 < q.peek("orders")[0].available_at - q._engine.clock.now() <= 60_000


def test_retry_with_the_backoff_of_the_queue_until_it_is_dead(q):
    q.enqueue("orders", 1)
    attempts = []

    work_off(q, lambda message: attempts.append(message.attempts) or Retry(reason="not yet"))

    assert attempts == [1, 2, 3]
    assert [letter.death.reason for letter in q.dead_letters("orders")] == ["not yet"]


def test_dead_at_once(q):
    q.enqueue("orders", 1)

    work_off(q, lambda message: Dead("no such sku"))

    (letter,) = q.dead_letters("orders")
    assert (letter.attempts, letter.death.reason) == (1, "no such sku")


def test_an_exception_is_a_failed_attempt_and_is_logged(q, caplog):
    q.enqueue("orders", 1)

    def fail(message):
        raise LookupError("no such sku")

    work_off(q, fail)

    (letter,) = q.dead_letters("orders")
    assert (letter.attempts, letter.death.reason) == (3, "LookupError: no such sku")
    assert "failed (attempt 3)" in caplog.text


def test_something_else_than_a_verdict_is_a_failed_attempt_and_is_logged(q, caplog):
    q.enqueue("orders", 1)

    work_off(q, lambda message: "done")

    assert [letter.attempts for letter in q.dead_letters("orders")] == [3]
    assert "Return None, Ack(), Retry(after=…) or Dead(reason)" in caplog.text


def test_a_long_reason_is_cut_short(q):
    q.enqueue("orders", 1)

    work_off(q, lambda message: Dead("x" * 10_000))

    assert q.dead_letters("orders")[0].death.reason == "x" * 256


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("it has no text")


def raises(error):
    def handler(message):
        raise error

    return handler


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(lambda message: Dead(None), id="dead of nothing"),
        pytest.param(lambda message: Dead(404), id="dead of a number"),
        pytest.param(lambda message: Retry(reason=LookupError("x")), id="retry because of an object"),
        pytest.param(lambda message: Retry(after=-1), id="retry in the past"),
        pytest.param(lambda message: Retry(after="soon"), id="retry soon"),
        pytest.param(raises(ValueError("\ud800")), id="an exception that is not Unicode"),
        pytest.param(raises(Unprintable()), id="an exception without a text"),
        pytest.param(raises(SystemExit(3)), id="sys.exit"),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_strange_verdict_does_not_cost_a_thread(q, handler):
    """Check that the thread survives: it died, and the worker with it; the message stayed leased."""
    q.enqueue("orders", "strange", priority=9)
    q.enqueue("orders", "ordinary")
    ordinary = threading.Event()

    @q.worker("orders")
    def handle(message):
        if message.value == "strange":
            return handler(message)
        return ordinary.set()

    handle.start()

    assert ordinary.wait(PROMPT)
    handle.stop()
    (strange,) = q.dead_letters("orders") or q.peek("orders")
    assert strange.state != "leased"


def test_a_verdict_that_can_not_be_carried_out_is_told_as_the_reason(q, caplog):
    q.enqueue("orders", 1)

    work_off(q, lambda message: Retry(after=-1))

    (letter,) = q.dead_letters("orders")
    assert letter.death.reason.startswith("Retry.after can't be -1")
    assert "Retry.after can't be -1" in caplog.text


# Leases


def test_the_heartbeat_holds_a_short_lease_through_long_work(q):
    q.enqueue("orders", 1)
    began, handled = threading.Event(), []

    @q.worker("orders", lease_seconds=2)
    def slow(message):
        began.set()
        until(lambda: q.get("orders", message.id).lease.expires_at > message.lease.expires_at + 2_000)
        assert q.claim("orders") is None
        handled.append(message.attempts)

    slow.start()
    assert began.wait(PROMPT)
    slow.stop()

    assert handled == [1]
    assert depths(q).total() == 0


@pytest.mark.parametrize("visibility_ms", [700, 90_000])
def test_workers_leased_for_30_seconds_whatever_the_visibility_of_the_queue(q, visibility_ms):
    q.update("orders", visibility_ms=visibility_ms)
    q.enqueue("orders", 1)
    lengths = []

    def measure(message):
        lengths.append(message.lease.expires_at - q._engine.clock.now())

    work_off(q, measure)

    assert visibility_ms - 600 < lengths[0] <= visibility_ms


def extensions(q, message, count):
    """Wait until the lease was extended so many times, and return the length that each lease had when it was seen."""
    lengths, ends = [], message.lease.expires_at
    while len(lengths) < count:
        lease = q.get("orders", message.id).lease
        if lease.expires_at != ends:
            ends = lease.expires_at
            lengths.append(ends - q._engine.clock.now())
    return lengths


def test_the_heartbeat_extends_by_the_visibility_of_the_queue(q):
    q.update("orders", visibility_ms=1_500)
    q.enqueue("orders", 1)
    handled = []

    work_off(q, lambda message: handled.append((message.attempts, extensions(q, message, 4))))

    [(attempts, lengths)] = handled
    assert attempts == 1
    assert max(lengths) <= 1_500


def test_a_visibility_that_is_shortened_while_a_worker_runs_is_held_too(q):
    """Check this during a pause of the heartbeat, of a third of the long lease."""
    q.update("orders", visibility_ms=60_000)
    q.enqueue_many("orders", ["long", "short"])
    attempts = []

    def handle(message):
        attempts.append(message.attempts)
        if message.value == "long":
            q.update("orders", visibility_ms=900)
        else:
            extensions(q, message, 3)

    work_off(q, handle)

    assert attempts == [1, 1]


def test_a_queue_whose_visibility_is_0_is_worked_off_under_leases_all_the_same(q, caplog):
    q.update("orders", visibility_ms=0)
    q.enqueue_many("orders", range(3))
    lengths = []

    def measure(message):
        lengths.append(message.lease.expires_at - q._engine.clock.now())

    work_off(q, measure)

    assert [length > 20_000 for length in lengths] == [False, True, True]
    assert "has a visibility of 0" in caplog.text
    assert depths(q).total() == 0


def until_extended_twice(q, id):
    """Wait until a lease has been extended twice from now on: whoever lost it extends it no more."""
    for _ in range(2):
        lease = q.get("orders", id).lease
        until(lambda lease=lease: q.get("orders", id).lease.expires_at > lease.expires_at)


def test_the_heartbeat_goes_on_while_stopping(q):
    id = q.enqueue("orders", 1)
    began, end = threading.Event(), threading.Event()

    @q.worker("orders", lease_seconds=2)
    def slow(message):
        began.set()
        end.wait(60)

    slow.start()
    began.wait(PROMPT)
    stopper = threading.Thread(target=slow.stop)
    stopper.start()

    until_extended_twice(q, id)
    assert q.claim("orders") is None
    end.set()
    stopper.join(PROMPT)
    assert depths(q).total() == 0


def test_the_heartbeat_goes_on_when_the_time_to_stop_has_run_out(q):
    """Check that it goes on: it ended with the wait for the threads, though they were still at work."""
    id = q.enqueue("orders", 1)
    began, end = threading.Event(), threading.Event()

    @q.worker("orders", lease_seconds=2)
    def slow(message):
        began.set()
        end.wait(60)

    slow.start()
    began.wait(PROMPT)
    slow.stop(timeout=0.05)

    until_extended_twice(q, id)
    taken = q.claim("orders")
    end.set()
    assert taken is None


def test_a_lost_lease_is_logged_and_the_worker_goes_on(q, caplog):
    q.enqueue("orders", "stolen")
    seen = []

    def steal(message):
        seen.append(message.value)
        if message.value == "stolen":
            q.nack(message)
            q.claim("orders", consumer="thief")
            q.enqueue("orders", "next")

    work_off(q, steal)

    assert seen == ["stolen", "next"]
    assert "finished after its lease was lost" in caplog.text
    assert [message.lease.by for message in q.peek("orders")] == ["thief"]


def test_a_delivery_whose_lease_was_lost_let_go_of_the_next_one_when_it_ended(q):
    """Check the second lease: it was not extended, and the message came a third time during the second delivery."""
    q.update("orders", visibility_ms=2_000)
    deliveries, has_come_again, is_let_go = [], threading.Event(), threading.Event()

    def handle(message):
        deliveries.append(message.attempts)
        if message.attempts == 1:
            has_come_again.wait(PROMPT)
        else:
            has_come_again.set()
            until_extended_twice(q, message.id)
            is_let_go.set()

    worker = q.worker("orders", concurrency=2, name="w1")(handle)
    worker.start()
    id = q.enqueue("orders", 1)
    until(lambda: deliveries)
    q.nack(id, "w1", delay_seconds=0)
    assert is_let_go.wait(PROMPT)
    worker.stop()

    assert deliveries == [1, 2]


def test_a_message_that_is_gone_when_it_is_done_is_logged_and_the_worker_goes_on(q, caplog):
    q.enqueue_many("orders", ["removed", "next"])
    seen = []

    def handle(message):
        seen.append(message.value)
        if message.value == "removed":
            q.remove("orders", [message.id])

    work_off(q, handle)

    assert seen == ["removed", "next"]
    assert "could not be settled" in caplog.text


# Stopping


def test_stopping_finishes_what_is_in_hand_and_takes_no_more(q):
    q.enqueue_many("orders", range(5))
    began, end, done = threading.Event(), threading.Event(), []

    @q.worker("orders")
    def slow(message):
        began.set()
        end.wait(10)
        done.append(message.value)

    slow.start()
    began.wait(PROMPT)
    stopper = threading.Thread(target=slow.stop)
    stopper.start()
    end.set()
    stopper.join(PROMPT)

    assert done == [0]
    assert depths(q).total("ready") == 4


def test_stopping_wakes_those_who_wait_for_messages(q):
    worker = q.worker("orders", concurrency=4)(print)
    worker.start()
    until(lambda: q._engine.waiters)

    began = time.monotonic()
    worker.stop()

    assert time.monotonic() - began < PROMPT


def test_closing_the_queue_stops_its_workers(q):
    threads = set(threading.enumerate())
    q.worker("orders", concurrency=2, lease_seconds=1)(print).start()

    q.close()

    until(lambda: set(threading.enumerate()) <= threads)


def test_the_function_may_stop_its_own_worker(q):
    q.enqueue_many("orders", range(5))
    done = []

    @q.worker("orders")
    def once(message):
        done.append(message.value)
        once.stop()

    once.run()

    assert done == [0]
    assert depths(q).total("ready") == 4


def test_two_functions_that_stop_their_worker_at_once_do_not_wait_for_each_other(q, child):
    """Check this in a process that can be killed: each joined the other's thread, for ever."""
    q.enqueue_many("orders", range(2))

    process = child("""
import sys, threading
from sqew import Queue
with Queue.open(sys.argv[1], durability="fast") as q:
    together = threading.Barrier(2)
    @q.worker("orders", concurrency=2)
    def both(message):
        together.wait()
        both.stop()
    both.run()
""")

    try:
        assert process.wait(PROMPT) == 0
    except subprocess.TimeoutExpired:
        pytest.fail("They wait for each other.")
    assert depths(q).total() == 0


def test_a_worker_that_was_stopped_can_be_started_again(q):
    seen = threading.Event()
    worker = q.worker("orders")(lambda message: seen.set())
    worker.start()
    worker.stop()

    worker.start()
    q.enqueue("orders", 1)

    assert seen.wait(PROMPT)
    worker.stop()


def test_a_worker_that_ran_out_of_work_can_be_started_again(q):
    seen = threading.Event()
    worker = q.worker("orders")(lambda message: seen.set())
    worker.start(until_empty=True)
    until(lambda: not any(thread.is_alive() for thread in worker._threads))

    worker.start()
    q.enqueue("orders", 1)

    assert seen.wait(PROMPT)
    worker.stop()


def test_a_worker_started_again_leaves_those_who_still_finish_to_it(q):
    """Check that the old threads don't go on to claim: more would be at work than the worker allows."""
    q.enqueue_many("orders", ["long", "next"])
    began, end, handled = threading.Event(), threading.Event(), []

    @q.worker("orders")
    def handle(message):
        handled.append((message.value, threading.current_thread()))
        if message.value == "long":
            began.set()
            end.wait(10)

    handle.start()
    began.wait(PROMPT)
    handle.stop(timeout=0.05)
    handle.start()
    until(lambda: len(handled) == 2)
    end.set()
    finishing = handled[0][1]
    finishing.join(PROMPT)
    q.enqueue("orders", "last")
    until(lambda: len(handled) == 3)
    handle.stop()

    assert not finishing.is_alive()
    assert [thread is finishing for _, thread in handled] == [True, False, False]
    assert depths(q).total() == 0


def test_the_time_to_stop_is_for_all_threads_together(q):
    q.enqueue_many("orders", range(4))
    end = threading.Event()
    worker = q.worker("orders", concurrency=4)(lambda message: end.wait(60) and None)
    worker.start()
    until(lambda: depths(q).total("leased") == 4)

    began = time.monotonic()
    worker.stop(timeout=2)
    took = time.monotonic() - began
    end.set()

    assert took < 6  # two seconds for each would be eight


def test_leases_were_lost_where_more_work_at_a_time_than_a_batch_may_hold(tmp_path):
    attempts = []
    with Queue.open(tmp_path / "small.db", durability="fast", max_batch=3) as q:
        q.create("orders", max_attempts=9)
        for number in range(5):
            q.enqueue("orders", number)

        def handle(message):
            attempts.append(message.attempts)
            until(lambda: q.get("orders", message.id).lease.expires_at > message.lease.expires_at)

        work_off(q, handle, concurrency=5, lease_seconds=3)

        assert depths(q).total() == 0
    assert attempts == [1] * 5


def test_an_error_in_receiving_does_not_kill_the_worker(q, caplog):
    seen = threading.Event()
    worker = q.worker("late")(lambda message: seen.set())
    worker.start()
    until(lambda: "can't receive from 'late'" in caplog.text)

    q.create("late")
    q.enqueue("late", 1)

    assert seen.wait(PROMPT)
    worker.stop()


WITHOUT_A_QUEUE = """
import sys
from sqew import Queue
from sqew.errors import SqewError
with Queue.open(sys.argv[1], durability="fast") as q:
    for queue, lane in [("order", None), ("orders", "fast")]:
        for until_empty in (False, True):
            try:
                q.worker(queue, lane=lane, concurrency=3)(print).run(until_empty=until_empty)
            except SqewError as error:
                print(error)
"""


def test_running_without_a_queue_or_a_lane_never_ended(q, child):
    """Check this in a process of its own: if it never ends, only that can be killed."""
    output, _ = child(WITHOUT_A_QUEUE).communicate(timeout=PROMPT * 4)

    assert output.splitlines() == [
        *["Queue 'order' does not exist (did you mean 'orders'?). Create it first, or list the queues."] * 2,
        *["Queue 'orders' has no lane 'fast'. Its lanes are: normal."] * 2,
    ]


def raised_by(run):
    """Run it in a thread and return its error: if it never ends, other tests need not wait."""
    raised = []

    def catch():
        with pytest.raises(SqewError) as refused:
            run()
        raised.append(refused.value)

    thread = threading.Thread(target=catch, daemon=True)
    thread.start()
    thread.join(PROMPT * 2)
    assert raised, "it did not raise"
    return raised[0]


def test_a_queue_that_goes_ends_those_who_work_it_off_when_they_have_finished(q):
    """Check that the other thread finishes its message first."""
    q.enqueue_many("orders", range(2))
    both = threading.Barrier(2, timeout=PROMPT)
    finished = []

    def handle(message):
        if both.wait() == 0:
            q.delete("orders")
        else:
            until(lambda: worker.error is not None)
            finished.append(message.value)

    worker = q.worker("orders", concurrency=2)(handle)
    error = raised_by(lambda: worker.run(until_empty=True))

    assert isinstance(error, QueueNotFound)
    assert error is worker.error
    assert len(finished) == 1


def test_a_queue_that_goes_while_a_worker_waits_for_messages_is_waited_for(q, caplog):
    seen = threading.Event()
    worker = q.worker("orders")(lambda message: seen.set())
    running = threading.Thread(target=worker.run)
    running.start()
    until(lambda: q._engine.waiters)

    q.delete("orders")
    until(lambda: "can't receive from 'orders'" in caplog.text)
    q.create("orders")
    q.enqueue("orders", 1)

    assert seen.wait(PROMPT)
    worker.stop()
    running.join(PROMPT)
    assert not running.is_alive()


def test_a_worker_that_was_started_to_end_says_why_it_did(q, caplog):
    worker = q.worker("orders", lane="fast")(print)
    worker.start(until_empty=True)

    until(lambda: worker.error is not None)

    assert isinstance(worker.error, UnknownLane)
    assert "can't receive from 'orders': Queue 'orders' has no lane 'fast'" in caplog.text
    q.update("orders", lanes=["fast"])
    worker.run(until_empty=True)
    assert worker.error is None


def test_running_when_the_queue_is_closed_says_so(q):
    worker = q.worker("orders")(print)
    q.close()

    assert isinstance(raised_by(worker.run), StoreClosed)


# Signals

CHILD = """
import logging, sys, threading, time
from sqew import Queue
with Queue.open(sys.argv[1], durability="fast") as q:
    @q.worker("orders", lease_seconds=5)
    def slow(message):
        print("began", flush=True)
        time.sleep(0.5)
        print("ended", flush=True)
    slow.run()
print("after", flush=True)
"""


@pytest.fixture
def child(q):
    processes = []

    def start(script=CHILD):
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", script, q._executor.store.path],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_message_in_hand_be_finished_and_the_process_end_well(q, child, number):
    q.enqueue_many("orders", range(2))
    process = child()
    process.stdout.readline()

    process.send_signal(number)
    out, err = process.communicate(timeout=20)

    assert (process.returncode, out) == (0, "ended\nafter\n")
    assert re.fullmatch(r"Worker \S+ stops when it has finished message 1 of 'orders'\. A second signal .*\n", err)
    assert depths(q).total("ready") == 1
    assert depths(q).total("leased") == 0


def test_a_signal_ends_a_worker_that_waits(q, child):
    process = child()
    q.enqueue("orders", 1)
    process.stdout.readline()
    process.stdout.readline()  # it has handled one, and waits

    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)

    assert (process.returncode, out) == (0, "after\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_does_not_wait_for_the_work(q, child, number):
    q.enqueue("orders", 1)
    process = child(CHILD.replace("0.5", "30"))
    process.stdout.readline()

    process.send_signal(number)
    process.stderr.readline()
    process.send_signal(number)

    # On Ctrl-C a traceback of where the main thread had waited was shown.
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130 if number == signal.SIGINT else -number, "", "")


def test_who_catches_ctrl_c_catches_the_second_one_of_a_worker(q, child):
    q.enqueue("orders", 1)
    script = CHILD.replace("0.5", "30").replace(
        "slow.run()", "try:\n        slow.run()\n    except KeyboardInterrupt:\n        print('caught')"
    )
    process = child(script)
    process.stdout.readline()

    process.send_signal(signal.SIGINT)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)

    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "caught\nafter\n", "")


def test_running_puts_the_signal_handlers_back(q):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    work_off(q, print)

    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_logging_is_quiet_when_all_goes_well(q, caplog):
    caplog.set_level(logging.INFO)
    q.enqueue("orders", 1)

    work_off(q, lambda message: None)

    assert caplog.text == ""
