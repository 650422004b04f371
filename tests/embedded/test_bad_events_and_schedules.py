"""Public methods of events, deliveries and schedules, called with arguments of the wrong type: an error of ours."""

from operator import attrgetter

import pytest

from sqew import NewMessage, Queue, SqewError
from sqew.errors import StoreError

THING = object()
HUGE = 10**5000
"""An integer that Python refuses to write out: ValueError."""
NOT_TEXT = [None, 5, 1.5, True, b"orders", [], {}, ("orders",), THING]
NOT_A_NAME = [*NOT_TEXT, "", "\ud800", "a b"]
NOT_A_COUNT = ["1", 1.5, [], {}, THING, True, -1, 2**70, HUGE]
NOT_AN_ID = ["1", None, 1.5, [], {}, THING, True, -1, 0, 2**70]
NOT_A_NUMBER = ["1", b"1", [], {}, THING, True, -1, 1j, HUGE]
NOT_A_SHORT_TEXT = [5, True, b"k", [], {}, THING, "", "\ud800", "x" * 257]
NOT_A_PRIORITY = ["1", None, 1.5, [], THING, True, -1_001, 2**70]
NOT_HEADERS = [5, "x", ["a"], {1: 2}, {"a": THING}, {"\ud800": 1}, THING]
NOT_A_BODY = [b"x", THING, {1j: 1}, float("nan"), "\ud800"]
NOT_A_ZONE = [5, b"UTC", [], {}, THING, "", "nowhere", "\ud800"]
NOT_A_TIMING = {
    "every": [5, b"5m", [], {}, THING, "", "\ud800", "x" * 400],
    "cron": [5, [], THING, "", "* *", "\ud800"],
    "when": [5, [], THING, "", "some day", "\ud800"],
    "fire_at": [5, [], THING, "", "2020-01-01T00:00", "noon", "\ud800"],
}
FIELDS = {
    "queue": [5, b"orders", [], {}, THING, "", "\ud800", "no where"],
    "timezone": NOT_A_ZONE,
    "message": NOT_A_BODY,
    "headers": NOT_HEADERS,
    "priority": NOT_A_PRIORITY,
    "lane": [5, True, b"normal", [], {}, THING, "\ud800", "fast"],
    "group": NOT_A_SHORT_TEXT,
    "delay_seconds": NOT_A_NUMBER,
    "ttl_seconds": [0, *NOT_A_NUMBER],
    "status": [None, 5, [], {}, THING, "off"],
    "catchup": [None, 5, "yes", [], THING],
    "catchup_limit": [None, 0, *NOT_A_COUNT],
    "failure_threshold": [0, *NOT_A_COUNT],
    "jitter_secs": [None, -1, 86_401, *NOT_A_COUNT],
    "colour": ["red"],
}

WRONG = {
    "events.publish": {
        "routing_key": [*NOT_A_NAME, "orders..x", "orders.*"],
        "body": [*NOT_A_BODY, NewMessage(b"1")],
        "priority": NOT_A_PRIORITY,
        "headers": NOT_HEADERS,
        "group": NOT_A_SHORT_TEXT,
        "delay_seconds": NOT_A_NUMBER,
        "ttl_seconds": [0, *NOT_A_NUMBER],
    },
    "events.publish_many": {
        "routing_key": NOT_A_NAME,
        "bodies": [None, 5, "text", THING, [THING], [NewMessage("x")], [NewMessage(b"1", key="k")]],
    },
    "events.subscribe": {
        "pattern": [*NOT_A_NAME, "a.*b"],
        "queue": NOT_A_NAME,
        "envelope": [None, 5, "yes", [], THING],
        "signature_version": [2, 3, "2", [], THING],
    },
    "events.unsubscribe": {"id": NOT_AN_ID},
    "events.subscriptions": {
        "pattern": [5, b"x", [], THING, "", "a..b"],
        "queue": [5, b"x", [], THING, "", "nowhere"],
        "limit": [0, *NOT_A_COUNT],
        "after": [None, *NOT_A_COUNT],
    },
    "deliveries.list": {
        "state": [5, "lost", [], {}, THING],
        "subscription_id": ["1", 1.5, [], THING, True, 0],
        "limit": [None, 0, *NOT_A_COUNT],
        "after": [None, *NOT_A_COUNT],
    },
    "deliveries.get": {"id": NOT_AN_ID},
    "deliveries.retry": {"id": NOT_AN_ID},
    "deliveries.retry_all": {"subscription_id": ["1", 1.5, [], THING, True, 0]},
    "deliveries.drop": {"id": NOT_AN_ID},
    "deliveries.drop_all": {"subscription_id": ["1", 1.5, [], THING, True, 0]},
    "schedules.create": {"name": NOT_A_NAME, "every": NOT_A_TIMING["every"], **FIELDS},
    "schedules.put": {"name": NOT_A_NAME, "every": NOT_A_TIMING["every"], **FIELDS},
    "schedules.change": {"name": NOT_A_NAME, **NOT_A_TIMING, **FIELDS},
    "schedules.pause": {"name": NOT_A_NAME},
    "schedules.resume": {"name": NOT_A_NAME},
    "schedules.get": {"name": NOT_A_NAME},
    "schedules.list": {
        "status": [5, "off", [], {}, THING],
        "target_kind": [5, "workflow", [], {}, THING],
        "prefix": [None, 5, b"o", [], THING, "\ud800"],
        "limit": [0, *NOT_A_COUNT],
        "after": [None, 5, b"o", [], THING, "\ud800"],
    },
    "schedules.delete": {"name": [*NOT_TEXT, "\ud800"]},
    "schedules.run": {"name": NOT_A_NAME},
    "schedules.preview": {"every": NOT_A_TIMING["every"], "timezone": [None, *NOT_A_ZONE], "count": [0, *NOT_A_COUNT]},
}
SCHEDULE = {"queue": "orders", "every": "5m", "message": 1}
RIGHT = {
    "events.publish": {"routing_key": "orders", "body": 1},
    "events.publish_many": {"routing_key": "orders", "bodies": [1]},
    "events.subscribe": {"pattern": "orders", "queue": "orders"},
    "schedules.create": {"name": "fresh", **SCHEDULE},
    "schedules.put": {"name": "report", **SCHEDULE},
    "schedules.change": {"name": "report"},
    "schedules.preview": {"every": "5m"},
}
CASES = [(method, name) for method, parameters in WRONG.items() for name in parameters]


@pytest.fixture(scope="module")
def q(tmp_path_factory):
    with Queue.open(tmp_path_factory.mktemp("wrong") / "queue.db", durability="fast") as q:
        q.create("orders")
        q.schedules.create("report", **SCHEDULE)
        yield q


def answer_to(q, method, arguments):
    """Return the wrong outcome of a call, or None if it was refused as it should be."""
    try:
        attrgetter(method)(q)(**arguments)
    except StoreError as error:
        return f"blamed the file: {error}"
    except SqewError as error:
        return None if str(error).endswith((".", "?")) else f"not a sentence: {error}"
    except Exception as error:  # noqa: BLE001 (whatever came out is what is tested)
        return f"{type(error).__name__}: {error}"
    return "was taken"


@pytest.mark.parametrize(("method", "name"), CASES, ids=[f"{method}-{name}" for method, name in CASES])
def test_an_argument_of_the_wrong_type_is_refused_in_a_sentence(q, method, name):
    wrong = {
        "HUGE" if value is HUGE else ascii(value): answer
        for value in WRONG[method][name]
        if (answer := answer_to(q, method, {**RIGHT.get(method, {}), name: value}))
    }

    assert not wrong


def test_the_table_of_wrong_arguments_covers_every_public_method(q):
    public = {
        f"{part}.{name}"
        for part in ("events", "deliveries", "schedules")
        for name in vars(type(getattr(q, part)))
        if not name.startswith("_")
    }

    assert public == set(WRONG)
