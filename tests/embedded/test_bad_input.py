"""Public methods called with arguments of the wrong type: an error of ours, with a sentence, and nothing else."""

import threading
import time

import pytest

from sqew import NewMessage, NewMessages, Queue, SqewError
from sqew import operations as ops
from sqew.errors import StoreError
from sqew.model import Extension, Finished, Ref, Release

THING = object()
HELD = object()
"""A placeholder for a message that was claimed just now."""
HUGE = 10**5000
"""An integer that Python refuses to write out: ValueError."""
NOT_TEXT = [None, 5, 1.5, True, b"orders", [], {}, ("orders",), THING]
NOT_A_NAME = [*NOT_TEXT, "", "\ud800"]
NOT_A_LANE = [5, True, b"normal", [], {}, THING, "\ud800"]
NOT_A_SHORT_TEXT = [5, True, b"k", [], {}, THING, "", "\ud800", "x" * 257, "a\0b"]
NOT_A_REASON = [None, 5, b"r", [], THING, "\ud800"]
NOT_A_NUMBER = ["1", b"1", [], {}, THING, True, False, 1j, HUGE]
NOT_A_COUNT = ["1", None, 1.5, [], {}, THING, True, -1, 2**70, HUGE]
NOT_AN_ID = ["1", None, 1.5, [], {}, THING, True, -1, 2**70]
NOT_IDS = [5, THING, "12", ["1"], [None], [THING], [2**70], [1.5], [[]]]
NOT_A_FLAG = [5, 0, "no", b"no", [], {}, THING]
NOT_HELD = [None, "1", 1.5, [], {}, THING, True, -1, 2**70]
NOT_HELD_MANY = [None, 5, THING, ["1"], [None], [THING], [2**70]]

WRONG = {
    "create": {
        "name": NOT_A_NAME,
        "lanes": ["abc", 5, [], {}, [["a"]], [{"name": "a"}], {"a": "heavy"}, {5: 1}, {"a": None}, ["\ud800"], [THING]],
        "max_attempts": ["3", 1.5, [], 0, -1, 2**70, True],
        "base_backoff_ms": ["750", -1, 1.5, [], THING, 2**70],
        "backoff": ["fixed", 5, {"kind": "linear"}, {"bse_ms": 1}, {"base_ms": "1"}, THING],
        "dead_letter": [5, "", "a b", [], THING],
        "keep": ["forget", 5, None],
        "rate_limit": ["1", 0, -1, float("nan"), []],
        "quota": ["1", -1, 1.5, 2**70],
        "visibility_ms": [None, "30", -1, 2**70, THING],
        "ttl_ms": ["1", 0, -1],
        "fifo": ["yes", 5],
    },
    "update": {"name": NOT_A_NAME, "max_attempts": ["3", 0, THING], "lanes": [5, [["a"]], {}, [THING]]},
    "delete": {"name": NOT_A_NAME},
    "info": {"name": NOT_A_NAME},
    "create_key": {
        "queue": NOT_A_NAME,
        "scopes": [None, 5, "send", [], ["sned"], [5], THING],
        "label": [None, 5, b"l", [], THING, "\ud800"],
    },
    "keys": {"queue": NOT_A_NAME},
    "delete_key": {"queue": NOT_A_NAME, "id": NOT_A_SHORT_TEXT},
    "queues": {"prefix": [5, b"o", [], THING, "\ud800"]},
    "enqueue": {
        "queue": NOT_A_NAME,
        "body": [b"x", THING, {1j: 1}, float("nan"), "\ud800"],
        "lane": NOT_A_LANE,
        "priority": ["1", None, 1.5, [], THING, True, -1_001, 2**70],
        "headers": [5, "x", ["a"], {1: 2}, {"a": THING}, {"\ud800": 1}, THING],
        "key": NOT_A_SHORT_TEXT,
        "group": NOT_A_SHORT_TEXT,
        "delay_seconds": NOT_A_NUMBER,
        "ttl_seconds": NOT_A_NUMBER,
        "sync_commit": NOT_A_FLAG,
    },
    "enqueue_many": {
        "queue": NOT_A_NAME,
        "sync_commit": NOT_A_FLAG,
        "bodies": [
            None,
            5,
            THING,
            [THING],
            NewMessages(None),
            NewMessages(["text"]),
            NewMessages([b"1"], "xml"),
            NewMessages([b"1"], keys="k"),
            NewMessages([b"1"], keys=("k",)),
            NewMessages([b"1"], priorities=[True]),
            NewMessages([b"1"], headers=[{"a": THING}]),
            NewMessages([b"1"], lanes=5),
            NewMessages([b"1"], groups=["a", "b"]),
            [NewMessage("text")],
            [NewMessage(None)],
            [NewMessage(b"1", "xml")],
            [NewMessage(b"1", headers=[1])],
            [NewMessage(b"1", lane=5)],
            [NewMessage(b"1", delay_ms="1")],
            [NewMessage(b"1", priority=None)],
        ],
    },
    "claim": {
        "queue": NOT_A_NAME,
        "lane": NOT_A_LANE,
        "consumer": NOT_A_SHORT_TEXT,
        "lease_seconds": NOT_A_NUMBER,
        "wait_seconds": [None, *NOT_A_NUMBER],
    },
    "claim_many": {"queue": NOT_A_NAME, "limit": [0, *NOT_A_COUNT], "lane": NOT_A_LANE},
    "ack": {"message": NOT_HELD, "consumer": NOT_A_SHORT_TEXT},
    "ack_many": {"messages": NOT_HELD_MANY},
    "nack": {
        "message": NOT_HELD,
        "consumer": NOT_A_SHORT_TEXT,
        "delay_seconds": NOT_A_NUMBER,
        "reason": NOT_A_REASON,
    },
    "nack_many": {"messages": NOT_HELD_MANY, "delay_seconds": NOT_A_NUMBER, "reason": NOT_A_REASON},
    "dead_letter": {"message": NOT_HELD, "consumer": NOT_A_SHORT_TEXT, "reason": NOT_A_REASON},
    "extend_lease": {"message": NOT_HELD, "seconds": [None, *NOT_A_NUMBER], "consumer": NOT_A_SHORT_TEXT},
    "extend_many": {"messages": NOT_HELD_MANY, "seconds": [None, *NOT_A_NUMBER]},
    "peek": {"queue": NOT_A_NAME, "limit": [0, *NOT_A_COUNT], "lane": NOT_A_LANE},
    "get": {"queue": NOT_A_NAME, "id": NOT_AN_ID},
    "remove": {"queue": NOT_A_NAME, "ids": NOT_IDS},
    "purge": {"queue": NOT_A_NAME},
    "stats": {"queue": NOT_A_NAME},
    "dead_letters": {"queue": NOT_A_NAME, "limit": NOT_A_COUNT, "after": NOT_A_COUNT},
    "requeue": {"queue": NOT_A_NAME, "ids": NOT_IDS},
    "purge_dead": {"queue": NOT_A_NAME, "ids": NOT_IDS},
    "redrive": {"dead_letter": NOT_A_NAME, "to": NOT_A_NAME[1:]},
    "delete_archived": {
        "queue": NOT_A_NAME,
        "finished": [
            None,
            5,
            THING,
            ["1"],
            [None],
            [THING],
            [Finished("1", 1)],
            [Finished(1, None)],
            [Finished(2**70, 1)],
        ],
    },
    "archive": {"queue": NOT_A_NAME, "limit": NOT_A_COUNT, "after": NOT_A_COUNT, "outcome": ["gone", 5, [], THING]},
    "worker": {
        "queue": NOT_A_NAME,
        "lane": NOT_A_LANE,
        "concurrency": [0, *NOT_A_COUNT],
        "lease_seconds": [0, -1, *NOT_A_NUMBER],
        "name": NOT_A_SHORT_TEXT[:-1],
    },
    "export": {"queue": NOT_A_NAME},
    "import_lines": {"queue": NOT_A_NAME, "lines": [None, 5, THING, [5], [None]]},
    "backup": {"to": [None, 5, b"x", [], THING, "", "a\0b"]},
    "run": {
        "operation": [
            None,
            5,
            THING,
            ops.Operation(),
            ops.Receive([]),
            ops.Receive("orders", "1"),
            ops.Send("orders", [5]),
            ops.Send("orders", [NewMessage(b"1")], sync_commit=[]),
            ops.Ack(None, [5]),
            ops.Nack(None, [Release(Ref(1), reason=5)]),
            ops.Extend(None, [Extension(Ref(1), None)]),
            ops.CreateQueue("fresh", {}),
            ops.UpdateQueue("orders", 5),
        ]
    },
    "receive": {
        "operation": [None, ops.Receive(None), ops.Get("orders", 1)],
        "wait_ms": [None, "1", -1, 1.5, HUGE],
    },
}
RIGHT = {
    "delete_archived": {"finished": []},
    "create": {"name": "fresh"},
    "update": {"name": "orders"},
    "enqueue": {"queue": "orders", "body": 1},
    "enqueue_many": {"queue": "orders", "bodies": [1]},
    "claim_many": {"limit": 1},
    "ack": {"message": HELD},
    "ack_many": {"messages": [999]},
    "nack": {"message": HELD},
    "nack_many": {"messages": [999]},
    "dead_letter": {"message": HELD},
    "extend_lease": {"message": HELD, "seconds": 1},
    "extend_many": {"messages": [999], "seconds": 1},
    "get": {"id": 1},
    "create_key": {"scopes": ["send"]},
    "delete_key": {"id": "none"},
    "remove": {"ids": [999]},
    "redrive": {"dead_letter": "orders-dlq"},
    "import_lines": {"lines": [b'{"body":1}']},
    "receive": {"operation": ops.Receive("orders")},
}
CASES = [(method, name) for method, parameters in WRONG.items() for name in parameters]


@pytest.fixture(scope="module")
def q(tmp_path_factory):
    with Queue.open(tmp_path_factory.mktemp("wrong") / "queue.db", durability="fast") as q:
        q.create("orders")
        q.enqueue("orders", "untouched")
        yield q


def call(q, method, arguments):
    if arguments.get("message") is HELD:
        q.enqueue("orders", "held")
        held = q.claim("orders", consumer="w1")
        # Who names a consumer names the message by its id.
        arguments = {**arguments, "message": held.id if "consumer" in arguments else held}
    if method == "worker":
        q.worker(**arguments)(lambda message: None)
    elif method in ("export", "import_lines"):
        list(getattr(q, method)(**arguments))
    else:
        getattr(q, method)(**arguments)


def shown(value):
    return "HUGE" if value is HUGE else ascii(value)


def is_a_sentence(text):
    return text.endswith((".", "?")) and len(text.split()) >= 4


def what_is_wrong_with(q, method, arguments):
    """Return the wrong outcome of a call, or None if it was refused as it should be."""
    try:
        call(q, method, arguments)
    except StoreError as error:
        # Of a place for a backup that is the truth.
        return None if method == "backup" and is_a_sentence(str(error)) else f"blamed the file: {error}"
    except SqewError as error:
        return None if is_a_sentence(str(error)) else f"not a sentence: {error}"
    except Exception as error:  # noqa: BLE001 (whatever came out is what is tested)
        return f"{type(error).__name__}: {error}"
    return "was taken"


@pytest.mark.parametrize(("method", "name"), CASES, ids=[f"{method}-{name}" for method, name in CASES])
def test_an_argument_of_the_wrong_type_is_refused_in_a_sentence(q, method, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what should be refused might make a file
    right = {**({"queue": "orders"} if "queue" in WRONG[method] else {}), **RIGHT.get(method, {})}

    wrong = {
        shown(value): answer
        for value in WRONG[method][name]
        if (answer := what_is_wrong_with(q, method, {**right, name: value}))
    }

    assert not wrong


def test_a_receive_that_was_refused_is_refused_when_it_is_given_again(q):
    wrong = ops.Receive("orders", limit=0)

    for _ in range(2):
        with pytest.raises(SqewError, match="limit can't be 0"):
            q.receive(wrong)


def test_the_table_of_wrong_arguments_covers_every_public_method():
    without_arguments = {"close", "check", "maintain", "transaction", "wake_waiters", "open"}
    # See test_bad_events_and_schedules.py and conformance/.
    parts = {"events", "deliveries", "schedules", "certificates", "writers", "consumers"}

    public = {name for name in vars(Queue) if not name.startswith("_")}

    assert public - without_arguments - parts == set(WRONG)


@pytest.mark.parametrize("path", [5, b"x.db", [], True, "", "a\0b"], ids=repr)
def test_a_path_of_the_wrong_type_is_refused(path):
    with pytest.raises(SqewError) as raised:
        Queue.open(path)

    assert is_a_sentence(str(raised.value))


@pytest.mark.parametrize(
    "settings",
    [{"durability": "quick"}, {"durability": None, "max_batch": "x"}, {"durabilty": "fast"}, {"busy_timeout_ms": -1}],
    ids=repr,
)
def test_settings_of_the_wrong_kind_are_refused(tmp_path, settings):
    with pytest.raises(SqewError) as raised:
        Queue.open(tmp_path / "queue.db", **settings)

    assert is_a_sentence(str(raised.value))
    assert not (tmp_path / "queue.db").exists()


def test_a_misspelt_setting_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(SqewError, match="did you mean 'durability'"):
        Queue.open(tmp_path / "queue.db", durabilty="fast")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda q: q.enqueue("orders", 1, lane=5), id="a lane that is a number"),
        pytest.param(lambda q: q.enqueue(None, 1), id="no queue"),
        pytest.param(lambda q: q.get("orders", 2**70), id="an id beyond 64 bits"),
        pytest.param(lambda q: q.dead_letters("orders", limit="x"), id="a limit that is text"),
        pytest.param(lambda q: q.enqueue("missing", 1), id="an unknown queue"),
        pytest.param(lambda q: q.enqueue("orders", 1, sync_commit=[]), id="a flag that is a list"),
    ],
)
def test_one_threads_bad_input_does_not_disturb_those_who_commit_with_it(tmp_path, wrong):
    with Queue.open(tmp_path / "queue.db", durability="fast") as q:
        q.create("orders")
        outcomes = {}

        def run(name, work):
            try:
                outcomes[name] = work(q)
            except BaseException as error:  # noqa: BLE001 (what came out is what is tested)
                outcomes[name] = error

        threads = [
            threading.Thread(target=run, args=("wrong", wrong)),
            threading.Thread(target=run, args=("right", lambda q: q.enqueue("orders", "right"))),
        ]
        with q.transaction():  # nobody commits before both have come
            for thread in threads:
                thread.start()
            _until(lambda: len(q._executor._pending) == len(threads) or not all(t.is_alive() for t in threads))
        for thread in threads:
            thread.join(10)

        assert isinstance(outcomes["wrong"], SqewError)
        assert [message.id for message in q.peek("orders")] == [outcomes["right"]]


def _until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.002)
