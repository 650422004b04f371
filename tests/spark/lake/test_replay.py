"""Replays: messages of the lake go into a queue again, each once however often that is requested."""

from __future__ import annotations

import json
import shutil
import time
from datetime import timedelta

import pytest

from sqew.errors import BadValue, UnknownLane
from sqew.spark.jobs.archive import archive
from sqew.spark.jobs.replay import PACED_TOGETHER, Choice, Replay
from sqew.spark.lake.commits import Lake
from sqew.spark.lake.files import LocalFiles
from sqew.spark.source.options import options_of
from sqew.spark.source.wire import Wire
from tests.spark.lake.lakes import NOON, archive_of, finished

TOMORROW = round((NOON + timedelta(hours=12)).timestamp() * 1000)


@pytest.fixture(scope="module")
def archived(spark, tmp_path_factory):
    """Return a lake with two commits: orders 1 to 3, and 4, which died a day later."""
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    made = Lake(LocalFiles(folder))
    first = [finished(id, NOON + timedelta(minutes=id)) for id in (1, 2, 3)]
    archive(archive_of(spark, first), "orders", made)
    last = finished(4, NOON + timedelta(days=1), outcome="dead", body="no JSON", format="text", priority=7)
    archive(archive_of(spark, [last]), "orders", made)
    return folder


@pytest.fixture
def lake(archived, tmp_path):
    """Return a copy of the lake, to be added to."""
    shutil.copytree(archived, tmp_path / "lake")
    return Lake(LocalFiles(tmp_path / "lake"))


@pytest.fixture
def replayed(spark, lake):
    """Return a function that replays the lake to a queue of a server."""

    def run(server, queue, rate=None, step=lambda _count: None, job_id=None, lane=None, in_order=False, **choice):
        options = {"url": server.url, "queue": queue}
        with Wire(options_of(options).target) as wire:
            chosen = Choice(**choice)
            made = Replay(spark, lake, chosen, options, wire, job_id=job_id, lane=lane, in_order=in_order)
            return made.run(rate, step)

    return run


def bodies(server, queue):
    answer = server.call("GET", f"/queues/{queue}/peek?limit=1000")
    return sorted((message["payload"] for message in answer.json["messages"]), key=str)


def orders(*ids):
    return [{"order": id} for id in ids]


def test_messages_come_back_as_they_were_and_once(server, new_queue, replayed):
    queue = new_queue(server)

    done = replayed(server, queue)
    again = replayed(server, queue)

    messages = server.call("GET", f"/queues/{queue}/peek").json["messages"]
    assert (done.sent, done.repeated) == (4, 0)
    assert (again.job_id, again.sent, again.repeated) == (done.job_id, 0, 4)
    assert (messages[0]["payload"], messages[0]["priority"]) == ("no JSON", 7)
    assert {str(message["headers"]) for message in messages} == {f"{{'trace': '{id}'}}" for id in (1, 2, 3, 4)}
    assert bodies(server, queue) == ["no JSON", *orders(1, 2, 3)]


def test_another_job_id_sends_it_again(sqlite_server, new_queue, replayed):
    queue = new_queue(sqlite_server)
    replayed(sqlite_server, queue, where="id = 2", until=TOMORROW)

    again = replayed(sqlite_server, queue, where="id = 2", until=TOMORROW, job_id="again")

    assert (again.sent, bodies(sqlite_server, queue)) == (1, orders(2, 2))


def test_a_lake_that_has_grown_gives_only_what_is_new(spark, lake, sqlite_server, new_queue, replayed):
    queue = new_queue(sqlite_server)
    replayed(sqlite_server, queue, outcome="done", until=TOMORROW)
    archive(archive_of(spark, [finished(9)]), "orders", lake)

    again = replayed(sqlite_server, queue, outcome="done", until=TOMORROW)

    assert (again.sent, again.repeated, bodies(sqlite_server, queue)) == (1, 3, orders(1, 2, 3, 9))


def test_filters_choose_the_messages_and_all_may_go_to_one_lane(sqlite_server, new_queue, replayed):
    minute = round(NOON.timestamp() * 1000) + 60_000
    queue = new_queue(sqlite_server, lanes={"slow": 1})
    which = {"since": minute, "until": TOMORROW, "where": "priority = 0 AND id <> 2", "outcome": "done"}

    done = replayed(sqlite_server, queue, lane="slow", **which)

    assert (done.sent, bodies(sqlite_server, queue)) == (2, orders(1, 3))


def test_a_paced_replay_has_each_message_wait_for_its_time(server, new_queue, replayed):
    queue = new_queue(server)

    done = replayed(server, queue, rate=0.1, outcome="done")

    lines = server.call("GET", f"/v1/queues/{queue}/export").body.splitlines()
    times = sorted(json.loads(line)["available_at"] for line in lines)
    assert done.sent == 3
    assert [at - times[0] for at in times] == [0, 10_000, 20_000]


def test_a_paced_replay_takes_as_long_as_its_rate_says(sqlite_server, new_queue, replayed):
    queue = new_queue(sqlite_server)
    begun = time.monotonic()

    # The fourth message is in a batch of its own, due three messages after the first.
    replayed(sqlite_server, queue, rate=3)

    assert time.monotonic() - begun >= 1.0


def test_a_paced_replay_that_was_stopped_goes_on(spark, sqlite_server, new_queue, tmp_path, replayed, lake):
    count = 2 * PACED_TOGETHER + 7
    archive(archive_of(spark, [finished(id) for id in range(10, 10 + count)]), "orders", lake)
    queue = new_queue(sqlite_server)

    class Stopped(Exception):
        pass

    def stop(sent):
        if sent >= PACED_TOGETHER:
            raise Stopped

    with pytest.raises(Stopped):
        replayed(sqlite_server, queue, rate=1e6, step=stop, where="id >= 10", until=TOMORROW)

    done = replayed(sqlite_server, queue, where="id >= 10", until=TOMORROW)

    assert (done.sent, done.repeated) == (count - PACED_TOGETHER, PACED_TOGETHER)
    lines = sqlite_server.call("GET", f"/v1/queues/{queue}/export").body.splitlines()
    assert len(lines) == count


def test_a_fifo_queue_gets_its_groups_in_order_and_at_its_rate(spark, lake, sqlite_server, new_queue, replayed):
    archive(archive_of(spark, [finished(id, group="g") for id in range(10, 30)]), "orders", lake)
    at_once, paced = new_queue(sqlite_server, fifo=True), new_queue(sqlite_server, fifo=True)

    replayed(sqlite_server, at_once, in_order=True, where="id >= 10", until=TOMORROW)
    replayed(sqlite_server, paced, in_order=True, where="id >= 10", until=TOMORROW, rate=0.5)

    messages = sqlite_server.call("POST", f"/queues/{at_once}/poll?batch=100").json["messages"]
    assert [message["payload"]["order"] for message in messages] == list(range(10, 30))
    lines = sqlite_server.call("GET", f"/v1/queues/{paced}/export").body.splitlines()
    due = [(json.loads(line)["body"]["order"], json.loads(line)["available_at"]) for line in lines]
    assert [(order, at - due[0][1]) for order, at in due] == [(order, 2_000 * (order - 10)) for order in range(10, 30)]


def test_a_lane_that_the_queue_lacks_is_named_and_nothing_is_sent(sqlite_server, new_queue, replayed):
    queue = new_queue(sqlite_server, lanes={"slow": 1})

    with pytest.raises(UnknownLane, match="normal"):
        replayed(sqlite_server, queue, rate=100)

    assert bodies(sqlite_server, queue) == []


@pytest.mark.parametrize("where", ["prio > 3", "priority >"])
def test_a_condition_that_can_not_be_asked_is_one_sentence(sqlite_server, new_queue, replayed, where):
    with pytest.raises(BadValue, match="can't be asked of messages") as raised:
        replayed(sqlite_server, new_queue(sqlite_server), where=where)

    assert "\n" not in str(raised.value)
