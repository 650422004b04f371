"""Opening, closing and forking, and the paths of files."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from sqew import Queue
from sqew.errors import BadSetting, BadValue, SqewError, StoreBusy, StoreClosed

SYNCHRONOUS = {"fast": 1, "durable": 2}  # NORMAL, FULL


@pytest.fixture
def q(tmp_path):
    with Queue.open(tmp_path / "queue.db", durability="fast") as q:
        q.create("orders")
        yield q


@pytest.mark.parametrize("durability", ["durable", "fast"])
def test_the_durability_asked_for_is_in_force(tmp_path, durability):
    with Queue.open(tmp_path / "queue.db", durability=durability) as q, q.transaction() as tx:
        assert tx.execute("PRAGMA synchronous").get == SYNCHRONOUS[durability]
        assert tx.execute("PRAGMA journal_mode").get == "wal"


def test_it_is_durable_unless_told_otherwise(tmp_path):
    with Queue.open(tmp_path / "queue.db") as q, q.transaction() as tx:
        assert tx.execute("PRAGMA synchronous").get == SYNCHRONOUS["durable"]


def test_what_was_sent_is_there_after_opening_again(tmp_path):
    with Queue.open(tmp_path / "queue.db") as q:
        q.create("orders", lanes=["a", "b"])
        q.enqueue("orders", "kept", lane="b", headers={"h": 1})

    with Queue.open(tmp_path / "queue.db") as q:
        message = q.claim("orders")

    assert (message.value, message.lane, message.headers) == ("kept", "b", {"h": 1})


def test_a_file_that_must_exist_is_not_made(tmp_path):
    with pytest.raises(SqewError, match="does not exist"):
        Queue.open(tmp_path / "queue.db", create=False)

    assert list(tmp_path.iterdir()) == []


def test_a_wait_for_other_sends_did_nothing_in_a_file(tmp_path):
    with pytest.raises(BadValue, match="linger_ms is for a database"):
        Queue.open(tmp_path / "queue.db", linger_ms=5)

    assert list(tmp_path.iterdir()) == []


def test_others_could_read_the_keys_and_secrets_in_a_new_file(tmp_path):
    before = os.umask(0o022)
    try:
        with Queue.open(tmp_path / "queue.db") as q:
            q.create("orders")
            q.backup(tmp_path / "copy.db")
            files = [path for path in tmp_path.iterdir() if path.is_file()]
            modes = {path.name: path.stat().st_mode & 0o777 for path in files}
    finally:
        os.umask(before)

    assert modes == dict.fromkeys(["queue.db", "queue.db-wal", "queue.db-shm", "copy.db"], 0o600)


def test_a_file_keeps_the_rights_that_its_owner_gave_it(tmp_path):
    path = tmp_path / "queue.db"
    Queue.open(path).close()
    path.chmod(0o660)

    with Queue.open(path):
        assert path.stat().st_mode & 0o777 == 0o660


def test_what_is_wrong_with_delivery_allow_was_found_out_when_somebody_subscribed(tmp_path):
    with pytest.raises(BadSetting, match=r"delivery_allow can't hold '127\.1'"):
        Queue.open(tmp_path / "queue.db", delivery_allow="127.1")
    assert not (tmp_path / "queue.db").exists()


def test_closing_twice_is_fine(q):
    q.close()
    q.close()


def test_leaving_the_block_closes_the_queue(tmp_path):
    with Queue.open(tmp_path / "queue.db") as q:
        q.create("orders")

    with pytest.raises(StoreClosed, match="Open it again"):
        q.enqueue("orders", 1)


def test_an_exception_in_the_block_closes_the_queue_and_goes_on(tmp_path):
    def fail():
        with Queue.open(tmp_path / "queue.db") as q:
            opened.append(q)
            raise LookupError("mine")

    opened = []
    with pytest.raises(LookupError, match="mine"):
        fail()
    with pytest.raises(StoreClosed):
        opened[0].queues()


@pytest.mark.parametrize(
    "use",
    [
        lambda q, _: q.enqueue("orders", 1),
        lambda q, _: q.claim("orders"),
        lambda q, _: q.claim("orders", wait_seconds=10),
        lambda q, _: q.queues(),
        lambda q, _: q.stats("orders"),
        lambda q, _: q.maintain(),
        lambda q, _: q.transaction().__enter__(),
        lambda q, _: list(q.export("orders")),
        lambda q, _: list(q.import_lines("orders", [b'{"body":1}'])),
        lambda q, _: q.check(),
        lambda q, folder: q.backup(folder / "copy.db"),
    ],
    ids=[
        "enqueue",
        "claim",
        "wait",
        "queues",
        "stats",
        "maintain",
        "transaction",
        "export",
        "import",
        "check",
        "backup",
    ],
)
def test_a_closed_queue_says_so(q, tmp_path, use):
    q.close()

    with pytest.raises(StoreClosed, match="Open it again"):
        use(q, tmp_path)


def test_a_settled_handle_of_a_closed_queue_says_so(q):
    q.enqueue("orders", 1)
    message = q.claim("orders")
    q.close()

    for settle in (q.ack, q.nack, q.dead_letter, lambda m: q.extend_lease(m, 1)):
        with pytest.raises(StoreClosed):
            settle(message)


def test_the_same_file_may_be_opened_twice_in_one_process(q):
    with Queue.open(q._executor.store.path, durability="fast") as other:
        other.enqueue("orders", 1)
        q.create("late")

        assert q.claim("orders").value == 1
        assert other.info("late")


def test_long_reads_find_the_file_after_the_process_changed_its_folder(tmp_path, monkeypatch):
    """Check that long reads find the file: they open it anew, by a name that may be relative."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Queue.open("queue.db", durability="fast") as q:
        q.create("orders")
        q.enqueue("orders", 1)
        monkeypatch.chdir("elsewhere")

        assert len(list(q.export("orders"))) == 1
        assert q.check().messages == 1
        q.backup(tmp_path / "copy.db")


def test_a_busy_file_is_a_sentence_and_the_figures_are_not_lost(q):
    """Check that counts survive the failed transaction that was to store them: it was an AttributeError."""
    with Queue.open(q._executor.store.path, durability="fast", busy_timeout_ms=10) as hurried:
        hurried.enqueue("orders", 1)
        hurried._engine._next_sweep_at = 0  # upkeep is due
        with q.transaction(), pytest.raises(StoreBusy, match="busy_timeout_ms"):
            hurried.enqueue("orders", 2)

        assert hurried.stats("orders").totals["sent"] == 1


# Forks


def in_a_fork(work, seconds=20):
    """Return the result of a function in a forked child, as a string; "hung" if it did not end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            answer = repr(work())
        except BaseException as error:  # noqa: BLE001 (told to the parent)
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read() if status == 0 else "hung"


def test_a_forked_child_may_not_use_the_queue(q):
    assert in_a_fork(lambda: q.enqueue("orders", 1)).startswith("StoreClosed: A queue can't be used across a fork")
    assert q.peek("orders") == []


def test_nor_may_it_by_the_shortest_way_that_the_parent_has_prepared(q):
    ids = [q.enqueue("orders", n) for n in range(5)]

    answers = [in_a_fork(lambda: q.enqueue("orders", "from the child")) for _ in range(3)]

    assert {answer.partition(":")[0] for answer in answers} == {"StoreClosed"}
    ids += [q.enqueue("orders", n) for n in range(5)]
    assert [message.id for message in q.peek("orders", limit=50)] == ids


def test_a_child_forked_in_the_middle_of_a_commit_is_told_and_does_not_hang(q):
    """Check that a child forked during a commit is refused: the thread that holds the lock does not exist in it."""
    inside, done = threading.Event(), threading.Event()

    def hold():
        with q.transaction():
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)

    answer = in_a_fork(lambda: q.enqueue("orders", 1))

    done.set()
    thread.join()
    assert answer.startswith("StoreClosed")


def test_a_forked_child_that_closes_its_copy_does_no_harm(q):
    q.enqueue("orders", 1)

    assert in_a_fork(q.close) == "None"

    q.enqueue("orders", 2)
    assert [message.value for message in q.claim_many("orders", 10)] == [1, 2]
    assert q.stats("orders").totals["sent"] == 2
    assert q.check().ok


def test_a_forked_child_may_open_the_file_anew(q):
    def send():
        with Queue.open(q._executor.store.path, durability="fast") as own:
            return own.enqueue("orders", "from the child")

    assert int(in_a_fork(send)) > 0
    assert q.claim("orders").value == "from the child"


def test_an_interpreter_that_exits_without_closing_exits_quietly(tmp_path):
    script = """
import sys, threading
from sqew import Queue
q = Queue.open(sys.argv[1])
q.create("orders")
q.enqueue("orders", 1)
threading.Thread(target=lambda: q.claim("orders", lane="normal", wait_seconds=60), daemon=True).start()
@q.worker("orders")
def handle(message): pass
handle.start()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "queue.db")], capture_output=True, text=True, timeout=20
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "os.fork() or raise_(SystemExit(3))"])
def test_the_figures_of_a_program_that_ends_without_closing_are_stored(tmp_path, end):
    script = f"""
import os, sys
from sqew import Queue
def raise_(error): raise error
q = Queue.open(sys.argv[1])
q.create("orders")
for n in range(50): q.enqueue("orders", n)
{end}
"""
    path = tmp_path / "queue.db"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=20)

    assert (done.returncode, done.stderr) == (3 if end.startswith("raise") else 0, "")
    with Queue.open(path) as q:
        assert q.stats("orders").totals["sent"] == 50


def test_a_thread_that_does_not_let_go_does_not_keep_a_program_from_ending(tmp_path):
    script = """
import sys, threading
from sqew import Queue
q = Queue.open(sys.argv[1])
q.create("orders")
inside = threading.Event()
def hold():
    with q.transaction():
        inside.set()
        threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
inside.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "queue.db")], capture_output=True, text=True, timeout=20
    )

    assert (done.returncode, done.stderr) == (0, "")
