"""`Queue.transaction`: the queue and the caller's own tables change together, or not at all."""

import contextlib
import threading
import time

import apsw
import pytest

from sqew import Queue, QueueNotFound
from sqew.errors import BadValue, SqewError
from sqew.observe.eventlog import read


class Oops(Exception):
    """The error that the caller raises inside the block."""


@pytest.fixture
def q(tmp_path):
    with Queue.open(tmp_path / "queue.db", event_log=str(tmp_path / "events.jsonl")) as q:
        q.create("orders")
        with q.transaction() as tx:
            tx.execute("CREATE TABLE shop_order (sku INTEGER)")
        yield q


@contextlib.contextmanager
def undone(q):
    """Yield a transaction whose block ends with an exception."""
    with contextlib.suppress(Oops), q.transaction() as tx:
        yield tx
        raise Oops


@pytest.fixture
def other(q):
    """Yield another process's view of the file."""
    with Queue.open(q._executor.store.path) as other:
        yield other


def orders(q):
    with q.transaction() as tx:
        return [sku for (sku,) in tx.execute("SELECT sku FROM shop_order")]


def values(q, queue="orders"):
    return [message.value for message in q.peek(queue)]


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.002)


def in_thread(work):
    """Start a thread; return it, and a list that gets its result or its error."""
    outcome = []

    def run():
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 (looked at by the test)
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def test_the_callers_write_and_the_message_are_committed_together(q, other):
    with q.transaction() as tx:
        tx.execute("INSERT INTO shop_order VALUES (?)", (7,))
        q.enqueue("orders", {"sku": 7})

        assert values(other) == []

    assert orders(other) == [7]
    assert values(other) == [{"sku": 7}]


def test_parameters_may_be_named(q):
    with q.transaction() as tx:
        tx.execute("INSERT INTO shop_order VALUES (:sku)", {"sku": 8})

    assert orders(q) == [8]


def test_an_exception_undoes_both(q):
    with undone(q) as tx:
        tx.execute("INSERT INTO shop_order VALUES (7)")
        q.enqueue("orders", {"sku": 7})

    assert orders(q) == []
    assert values(q) == []


def test_an_exception_undoes_claims_and_acks(q):
    q.enqueue_many("orders", ["acked", "claimed"])
    held = q.claim("orders")

    with undone(q):
        q.ack(held)
        q.claim("orders")

    assert q.get("orders", held.id).state == "leased"
    assert q.claim("orders").attempts == 1


def test_an_error_of_the_queue_that_the_caller_deals_with_undoes_nothing(q):
    with q.transaction():
        q.enqueue("orders", "before")
        with pytest.raises(QueueNotFound):
            q.enqueue("missing", "x")
        q.enqueue("orders", "after")

    assert values(q) == ["before", "after"]


def test_an_error_in_the_callers_sql_undoes_everything_unless_it_is_dealt_with(q):
    def sell():
        with q.transaction() as tx:
            q.enqueue("orders", 1)
            tx.execute("INSERT INTO missing VALUES (1)")

    with pytest.raises(Exception, match="no such table"):
        sell()

    assert values(q) == []


def test_an_exit_stack_commits_and_undoes_as_a_with_does(q):
    with contextlib.ExitStack() as stack:
        stack.enter_context(q.transaction())
        q.enqueue("orders", "kept")
    with contextlib.suppress(Oops), contextlib.ExitStack() as stack:
        stack.enter_context(q.transaction())
        q.enqueue("orders", "undone")
        raise Oops

    assert values(q) == ["kept"]


def test_sql_after_a_statement_that_undid_the_transaction_is_refused(q):
    """Check that SQL after a statement that rolled back is refused: it would be committed by itself, at once."""

    def sell():
        with q.transaction() as tx:
            tx.execute("CREATE TABLE once (sku INTEGER PRIMARY KEY)")
            tx.execute("INSERT INTO once VALUES (1)")
            with contextlib.suppress(apsw.ConstraintError):
                tx.execute("INSERT OR ROLLBACK INTO once VALUES (1)")
            tx.execute("INSERT INTO shop_order VALUES (7)")

    with pytest.raises(BadValue, match="is over"):
        sell()

    assert orders(q) == []


def test_the_block_sees_its_own_messages(q):
    with q.transaction():
        id = q.enqueue("orders", 1)

        assert q.get("orders", id).value == 1
        assert q.claim("orders").id == id


def test_a_transaction_inside_a_transaction_is_refused_and_the_outer_one_goes_on(q):
    with q.transaction():
        q.enqueue("orders", "outer")
        with pytest.raises(BadValue, match="in a transaction already"), q.transaction():
            pass

    assert values(q) == ["outer"]


def test_other_threads_wait_for_the_end_of_the_block(q):
    with q.transaction():
        q.enqueue("orders", "first")
        thread, outcome = in_thread(lambda: q.enqueue("orders", "second"))
        until(lambda: q._executor._pending)
        thread.join(0.05)

        assert thread.is_alive()

    thread.join(10)
    assert values(q) == ["first", "second"]
    assert isinstance(outcome[0], int)


def test_what_other_threads_do_is_not_undone_with_the_block(q):
    with undone(q):
        q.enqueue("orders", "mine")
        thread, _ = in_thread(lambda: q.enqueue("orders", "theirs"))
        until(lambda: q._executor._pending)

    thread.join(10)
    assert values(q) == ["theirs"]


def test_waiters_are_woken_by_the_commit_and_not_before(q):
    thread, outcome = in_thread(lambda: q.claim("orders", wait_seconds=30))
    until(lambda: q._engine.waiters)

    with q.transaction():
        q.enqueue("orders", 1)
        thread.join(0.05)
        assert thread.is_alive()
        committed = time.monotonic()

    thread.join(40)
    assert outcome[0].value == 1
    assert time.monotonic() - committed < 10


def test_waiters_of_a_transaction_that_was_undone_go_on_waiting(q):
    thread, outcome = in_thread(lambda: q.claim("orders", wait_seconds=0.3))
    until(lambda: q._engine.waiters)

    with undone(q):
        q.enqueue("orders", 1)

    thread.join(10)
    assert outcome == [None]


def test_figures_and_events_tell_only_of_what_was_committed(q, tmp_path):
    with undone(q):
        q.enqueue("orders", "undone")
    with q.transaction():
        q.enqueue("orders", "done")

    assert q.stats("orders").totals["sent"] == 1
    q.close()
    assert [event.event for event in read(tmp_path / "events.jsonl")] == ["sent"]


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "END"])
def test_ending_the_transaction_inside_the_block_is_refused(q, statement):
    with pytest.raises(BadValue, match="inside the block"), q.transaction() as tx:
        tx.execute(statement)

    q.enqueue("orders", "still works")
    assert values(q) == ["still works"]


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_nothing_is_done_after_the_block_ended_the_transaction_itself(q, other, statement):
    """Check that nothing runs after the block ended the transaction itself.

    Later operations were committed one by one, and no observer was notified.
    """

    def end_early():
        with q.transaction() as tx:
            tx.execute(statement)
            q.enqueue("orders", "outside of any transaction")

    with pytest.raises(BadValue):
        end_early()

    assert values(other) == []


def test_a_transaction_can_not_be_used_after_its_end(q):
    """Check that an ended transaction is refused: it would write on a connection that other threads use."""
    with q.transaction() as tx:
        pass

    with pytest.raises(SqewError):
        tx.execute("INSERT INTO shop_order VALUES (1)")
    assert orders(q) == []


def test_a_queue_made_in_a_transaction_that_was_undone_is_gone(q):
    with undone(q):
        q.create("short-lived")
        q.enqueue("short-lived", 1)

    with pytest.raises(QueueNotFound):
        q.enqueue("short-lived", 1)
    assert [info.name for info in q.queues()] == ["orders", "orders-dlq"]


def test_a_queue_made_again_after_it_was_undone_works(q):
    with undone(q):
        q.create("again", lanes=["a"])
        q.enqueue("again", 1, lane="a", priority=5)

    q.create("again", lanes=["b"])
    q.enqueue("again", 2, lane="b", priority=5)

    assert q.claim("again").value == 2


def test_a_policy_change_that_was_undone_is_forgotten(q):
    with undone(q):
        q.update("orders", lanes={"normal": 1, "fast": 5})

    with pytest.raises(SqewError, match="no lane 'fast'"):
        q.enqueue("orders", 1, lane="fast")


def test_a_priority_first_used_in_a_transaction_that_was_undone_is_found_later(q):
    with undone(q):
        q.enqueue("orders", 1, priority=77)

    q.enqueue("orders", 2, priority=77)

    assert q.claim("orders").value == 2


def test_ids_are_unique_after_a_transaction_was_undone(q, other):
    kept = [q.enqueue("orders", n) for n in range(3)]
    with undone(q):
        q.enqueue_many("orders", range(500))

    kept += [other.enqueue("orders", 3), q.enqueue("orders", 4), other.enqueue("orders", 5)]

    assert kept == sorted(set(kept))
    assert values(q) == [0, 1, 2, 3, 4, 5]


def test_a_key_used_in_a_transaction_that_was_undone_is_free(q):
    with undone(q):
        q.enqueue("orders", "undone", key="k")

    q.enqueue("orders", "done", key="k")

    assert values(q) == ["done"]


def test_a_quota_counts_only_what_was_committed(q):
    q.create("small", quota=1)
    with undone(q):
        q.enqueue("small", 1)

    q.enqueue("small", 2)

    assert values(q, "small") == [2]


def test_a_claim_that_would_wait_does_not_wait_inside_the_block(q):
    with q.transaction():
        began = time.monotonic()

        assert q.claim("orders", wait_seconds=30) is None
        assert time.monotonic() - began < 10


def test_figures_can_be_asked_for_inside_the_block(q):
    """Check that stats can be read inside the block.

    They began a second transaction, failed, and took the caller's one with them.
    """
    q.enqueue("orders", "before")
    with q.transaction() as tx:
        tx.execute("INSERT INTO shop_order VALUES (7)")
        q.enqueue("orders", "inside")
        q.stats("orders")

    assert orders(q) == [7]
    assert values(q) == ["before", "inside"]


def test_upkeep_inside_the_block_is_refused_or_done_and_spoils_nothing(q):
    with q.transaction():
        q.enqueue("orders", "inside")
        with contextlib.suppress(BadValue):
            q.maintain()

    assert values(q) == ["inside"]


def test_closing_inside_the_block_undoes_it_with_an_error_of_ours(q, other):
    def close_early():
        with q.transaction():
            q.enqueue("orders", 1)
            q.close()

    with pytest.raises(SqewError, match=r"closed|transaction"):
        close_early()

    assert values(other) == []


def test_the_queue_works_on_after_a_transaction_failed_to_begin(q):
    with Queue.open(q._executor.store.path, busy_timeout_ms=10) as hurried:
        with q.transaction(), pytest.raises(SqewError, match="busy_timeout_ms"), hurried.transaction():
            pass

        with hurried.transaction():
            hurried.enqueue("orders", 1)

    assert values(q) == [1]


@pytest.mark.parametrize(
    "statement",
    [
        "SAVEPOINT s",
        "ROLLBACK TO s",
        "release s",
        "-- a note\nBEGIN",
        "SELECT 1; /* and */ COMMIT",
        "  end",
        "ROLLBACK",
    ],
)
def test_the_block_alone_begins_and_ends_the_transaction(q, statement):
    """Check that the block alone begins and ends the transaction.

    A savepoint that was rolled back left the queue's memory ahead of the file: a later message was never found.
    """
    with q.transaction() as tx:
        q.enqueue("orders", "kept", priority=7)
        with pytest.raises(BadValue, match="inside the block"):
            tx.execute(statement).fetchall()

    with Queue.open(q._executor.store.path) as other:
        assert other.claim("orders").value == "kept"


def test_a_cursor_that_was_not_read_to_its_end_does_not_keep_the_block_from_committing(q):
    """Check that an unfinished cursor does not keep the block from committing.

    It raised StoreBusy, blamed on another process, and went on doing so.
    """
    with q.transaction() as tx:
        tx.execute("CREATE TABLE mine (id INTEGER PRIMARY KEY, x)")
        rows = tx.execute("INSERT INTO mine (x) VALUES (1), (2) RETURNING id")
        first = rows.fetchone()

    assert first == (1,)
    assert q.enqueue("orders", 1)
    with q.transaction() as tx:
        assert tx.execute("SELECT count(*) FROM mine").get == 2
