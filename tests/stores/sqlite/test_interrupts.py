"""Ctrl-C at any moment: no acknowledged message is lost, no operation half done, and no other program locked out.

Python raises `KeyboardInterrupt` where a function begins or where one written in C returns. Here it is raised at the
first of these moments within an operation, at the second, and so on, until the operation has no more of them. The
checks run while the exception is being handled: its traceback keeps everything alive that was under way.
"""

import contextlib
import inspect
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import apsw
import pytest
from msgspec import Struct

from sqew import NewMessage, Queue
from sqew.clock import ManualClock
from sqew.errors import BadValue, StoreError
from sqew.model import Message
from sqew.operations import Receive

# Python itself swallows what is raised in a finalizer, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

BATCH = 3
LARGE = "x" * 5_000


class Keyboard:
    """A keyboard that presses Ctrl-C at the given moments of an operation, counted from 1."""

    def __init__(self, *moments: int) -> None:
        self._moments = moments
        self._moment = 0
        self.pressed = 0
        # Held here: Python 3.11 was seen to call it once more after it had let go of it.
        self._hook = self._notice

    def during(self, work: Callable[[], object]) -> None:
        sys.setprofile(self._hook)
        try:
            work()
        finally:
            sys.setprofile(None)

    def _notice(self, frame: Any, event: str, _what: object) -> None:
        if event not in ("call", "c_return") or frame.f_code.co_filename == __file__:
            return
        if self.pressed and (_is_closed(frame, event) or not frame.f_globals["__name__"].startswith("sqew.")):
            return
        self._moment += 1
        if self._moment in self._moments:
            self.pressed += 1
            if self.pressed < len(self._moments):
                self._see_to_the_next(frame)
            raise KeyboardInterrupt

    def _see_to_the_next(self, frame: Any) -> None:
        """Start profiling again where the exception is caught or passed on: one that a hook raises ends it."""
        before = sys.gettrace()

        def may_wait(_frame: Any, _event: str, _what: object) -> None:
            sys.settrace(before)
            sys.setprofile(self._hook)

        while frame is not None:
            frame.f_trace = may_wait
            frame = frame.f_back
        sys.settrace(may_wait)


def _is_closed(frame: Any, event: str) -> bool:
    """Return True if a generator resumes with the exception that closes it: Python lets no other come before that."""
    return event == "call" and bool(frame.f_code.co_flags & inspect.CO_GENERATOR)


class Case(Struct, frozen=True):
    """An operation, and a way to see what it did."""

    work: Callable[[Queue, int, list[Message]], object]
    """Runs the operation, given the number of the try, and leased messages."""
    found: Callable[[apsw.Connection, int, list[Message]], int]
    """Counts the operation's rows in the file."""
    whole: int


def sent(rival: apsw.Connection, n: int, _held: list[Message]) -> int:
    headers = f'%"try":{n}}}%'
    return rival.execute("SELECT count(*) FROM sqew_message WHERE CAST(headers AS TEXT) LIKE ?", (headers,)).get


def bodies(rival: apsw.Connection, n: int, _held: list[Message]) -> int:
    return rival.execute("SELECT count(*) FROM sqew_message WHERE CAST(body AS TEXT) LIKE ?", (f"try {n}:%",)).get


def leased(rival: apsw.Connection, n: int, _held: list[Message]) -> int:
    return rival.execute("SELECT count(*) FROM sqew_message WHERE leased_by = ?", (f"try {n}",)).get


def gone(rival: apsw.Connection, _n: int, held: list[Message]) -> int:
    ids = json.dumps([message.id for message in held])
    there = "SELECT count(*) FROM sqew_message WHERE id IN (SELECT value FROM json_each(?)) AND token IS NOT NULL"
    return len(held) - rival.execute(there, (ids,)).get


def gone_one(rival: apsw.Connection, n: int, held: list[Message]) -> int:
    return gone(rival, n, held[:1])


def taken(rival: apsw.Connection, n: int, _held: list[Message]) -> int:
    body = f"first of {n}".encode()
    return 1 - rival.execute("SELECT count(*) FROM sqew_message WHERE body = ?", (body,)).get


def of_both(rival: apsw.Connection, n: int, held: list[Message]) -> int:
    """Count the caller's row and the messages."""
    return rival.execute("SELECT count(*) FROM mine WHERE n = ?", (n,)).get + bodies(rival, n, held)


def in_one_block(q: Queue, n: int, _held: list[Message]) -> None:
    with q.transaction() as tx:
        tx.execute("INSERT INTO mine VALUES (?)", (n,))
        q.enqueue("jobs", f"try {n}: alone")
        q.enqueue_many("jobs", [f"try {n}: {i}" for i in range(BATCH)])


def of_all_sorts(n: int) -> list[NewMessage]:
    """Return messages that take several statements."""
    headers = {"try": n}
    return [
        NewMessage(b"1", headers=headers),
        NewMessage(b"2", headers=headers, key=f"key {n}"),
        NewMessage(LARGE.encode(), "text", headers),
        NewMessage(b"3", headers=headers, priority=n % 7 + 1),
    ]


CASES = {
    "enqueue": Case(lambda q, n, _: q.enqueue("jobs", f"try {n}: x"), bodies, 1),
    "enqueue with a key": Case(lambda q, n, _: q.enqueue("jobs", f"try {n}: x", key=f"k{n}"), bodies, 1),
    "enqueue that waits for the disk": Case(
        lambda q, n, _: q.enqueue("jobs", f"try {n}: x", sync_commit=True), bodies, 1
    ),
    "enqueue that does not wait for the disk": Case(
        lambda q, n, _: q.enqueue("jobs", f"try {n}: x", sync_commit=False), bodies, 1
    ),
    "enqueue_many": Case(
        lambda q, n, _: q.enqueue_many("jobs", [f"try {n}: {i}" for i in range(BATCH)]), bodies, BATCH
    ),
    "enqueue_many that waits for the disk": Case(
        lambda q, n, _: q.enqueue_many("jobs", [f"try {n}: {i}" for i in range(BATCH)], sync_commit=True), bodies, BATCH
    ),
    "enqueue_many of all sorts": Case(lambda q, n, _: q.enqueue_many("jobs", of_all_sorts(n)), sent, 4),
    "claim": Case(lambda q, n, _: q.claim("jobs", consumer=f"try {n}"), leased, 1),
    "claim_many": Case(lambda q, n, _: q.claim_many("jobs", BATCH, consumer=f"try {n}"), leased, BATCH),
    "take": Case(lambda q, n, _: q.receive(Receive("fresh", finish=True)), taken, 1),
    "ack": Case(lambda q, n, held: q.ack(held[0]), gone_one, 1),
    "ack_many": Case(lambda q, n, held: q.ack_many(held), gone, BATCH),
    "nack": Case(lambda q, n, held: q.nack(held[0]), gone_one, 1),
    "nack_many": Case(lambda q, n, held: q.nack_many(held), gone, BATCH),
    "transaction": Case(in_one_block, of_both, 2 + BATCH),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def durability() -> str:
    return "fast"


@pytest.fixture
def q(tmp_path, clock, durability) -> Iterator[Queue]:
    with Queue.open(tmp_path / "queue.db", clock=clock, durability=durability) as q:
        q.create("jobs")
        q.create("fresh")
        with q.transaction() as tx:
            tx.execute("CREATE TABLE mine (n INTEGER)")
        yield q
        assert q.check().ok


@pytest.fixture
def rival(q, tmp_path) -> Iterator[apsw.Connection]:
    """Yield another program's connection to the same file, which never waits for a lock."""
    rival = apsw.Connection(str(tmp_path / "queue.db"))
    yield rival
    rival.close()


def synchronous(q: Queue) -> int:
    return q._executor.store.connection.pragma("synchronous")


def held_messages(q: Queue, n: int) -> list[Message]:
    """Claim messages and leave others to claim. All caches are warm then: the next operations may take a fast path."""
    q.purge("jobs")
    q.purge("fresh")
    q.enqueue_many("jobs", ["some"] * (2 * BATCH))
    q.enqueue_many("fresh", [f"first of {n}", "second"])
    q.enqueue("jobs", "one more")
    return q.claim_many("jobs", BATCH)


def check_that_all_is_well(q: Queue, rival: apsw.Connection, before: int) -> None:
    rival.execute("BEGIN IMMEDIATE; ROLLBACK")
    assert synchronous(q) == before
    id = q.enqueue("jobs", "acknowledged")
    assert rival.execute("SELECT count(*) FROM sqew_message WHERE id = ?", (id,)).get == 1
    with q.transaction():
        q.enqueue("jobs", "in a block")


def interrupt_at_every_moment(case: Case, q: Queue, rival: apsw.Connection, prepare: Callable[[], object]) -> int:
    """Interrupt an operation at each of its moments in turn, and return the number of moments."""
    before, n, keyboard = synchronous(q), 0, None
    while keyboard is None or keyboard.pressed:
        n += 1
        held = held_messages(q, n)
        prepare()
        keyboard = Keyboard(n)
        try:
            keyboard.during(lambda n=n, held=held: case.work(q, n, held))
        except KeyboardInterrupt:
            rival.execute("BEGIN IMMEDIATE; ROLLBACK")
            assert case.found(rival, n, held) in (0, case.whole)
            check_that_all_is_well(q, rival, before)
        else:
            assert case.found(rival, n, held) == case.whole
    return n - 1


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_operation_is_done_or_not_and_all_goes_on(q, rival, name):
    assert interrupt_at_every_moment(CASES[name], q, rival, lambda: None) > 10


@pytest.mark.parametrize("name", ["enqueue", "claim", "ack_many"])
def test_so_is_one_that_others_upkeep_is_done_with(q, rival, clock, name):
    assert interrupt_at_every_moment(CASES[name], q, rival, lambda: clock.advance(1_000)) > 30


@pytest.mark.parametrize("durability", ["durable"])
@pytest.mark.parametrize("name", [name for name in CASES if "disk" in name])
def test_what_one_send_chose_is_not_left_to_the_next(q, rival, name, durability):
    assert interrupt_at_every_moment(CASES[name], q, rival, lambda: None) > 10


@pytest.mark.parametrize("name", CASES)
def test_who_presses_again_at_once_can_go_on_just_as_well(q, rival, name):
    """Interrupt the clean-up after the first interrupt as well: then the next operation cleans up."""
    case, before, tries, twice = CASES[name], synchronous(q), count(1), 0

    for moment in count(1):
        for again in (1, 4):
            n = next(tries)
            held = held_messages(q, n)
            keyboard = Keyboard(moment, moment + again)
            try:
                keyboard.during(lambda n=n, held=held: case.work(q, n, held))
            except KeyboardInterrupt:
                q.enqueue("jobs", "acknowledged")
                assert case.found(rival, n, held) in (0, case.whole)
                check_that_all_is_well(q, rival, before)
            twice += keyboard.pressed == 2
        if not keyboard.pressed:
            break

    assert twice > 5


def test_an_operation_that_was_interrupted_in_a_block_is_not_committed_by_halves(q, rival):
    """Check this even where the block handles the interrupt and goes on: it can't know what was done."""

    def block(keyboard: Keyboard, n: int) -> None:
        with q.transaction() as tx:
            tx.execute("INSERT INTO mine VALUES (?)", (n,))
            with contextlib.suppress(KeyboardInterrupt):
                keyboard.during(lambda: q.enqueue_many("jobs", of_all_sorts(n)))
            tx.execute("INSERT INTO mine VALUES (?)", (n,))

    outcomes = set()
    for n in count(1):
        keyboard = Keyboard(n)
        with contextlib.suppress(BadValue):
            block(keyboard, n)
        outcomes.add((rival.execute("SELECT count(*) FROM mine WHERE n = ?", (n,)).get, sent(rival, n, [])))
        if not keyboard.pressed:
            break

    # It had not begun; it was cut off; it was done.
    assert outcomes == {(2, 0), (0, 0), (2, 4)}


def test_who_waited_for_the_interrupted_thread_gets_an_answer_that_is_true(q, rival):
    """Check a thread for which the main thread commits: it must neither wait for ever nor send twice."""
    commits = q._executor

    for n in count(1):
        answers = []

        def send(n=n, answers=answers) -> None:
            try:
                answers.append(q.enqueue("jobs", f"try {n}: other"))
            except StoreError as error:
                answers.append(error)

        keyboard, other = Keyboard(n), threading.Thread(target=send)
        with commits._lock:
            commits._busy = True
            other.start()
            while not commits._pending:
                time.sleep(0.0005)
            with contextlib.suppress(KeyboardInterrupt):
                keyboard.during(lambda n=n: q.enqueue("jobs", f"try {n}: main"))
        other.join(10)

        [answer] = answers
        found = rival.execute("SELECT id FROM sqew_message WHERE body = ?", (f"try {n}: other".encode(),)).fetchall()
        assert found == [(answer,)] or (isinstance(answer, StoreError) and len(found) <= 1)
        assert all(ticket.results is not None for ticket in commits._pending)
        if not keyboard.pressed:
            break

    assert n > 10
