"""The commands `sqew spark archive`, `query` and `replay` as they are typed, on real servers; and killed midway."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from click.testing import CliRunner

from sqew import Queue
from sqew.cli.main import sqew
from tests.spark.lake.lakes import ids_in, parquet_files
from tests.spark.quick_java import QUICK_JAVA

START_WITHIN_S = 300


@pytest.fixture
def typed(spark):
    """Return a function that runs a command line in this process and returns the exit code, stdout and stderr."""

    def run(*words):
        done = CliRunner().invoke(sqew, ["spark", *map(str, words)])
        return done.exit_code, done.stdout, done.stderr

    return run


def finish(server, queue, count):
    """Send messages, finish them and return their ids."""
    noise = random.Random(1)
    ids = []
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        some = ({"message": {"n": n, "noise": noise.randbytes(90).hex()}} for n in numbers)
        lines = b"".join(json.dumps(each).encode() + b"\n" for each in some)
        server.call("POST", f"/v1/queues/{queue}/bulk", lines, {"Content-Type": "application/x-ndjson"})
        while messages := server.call("POST", f"/queues/{queue}/poll?batch=1000").json["messages"]:
            found = [message["id"] for message in messages]
            server.call("DELETE", f"/v1/queues/{queue}/messages", {"ids": found})
            ids += found
    assert len(ids) == count
    return sorted(ids)


def archived_ids(server, queue):
    lines = server.call("GET", f"/v1/queues/{queue}/export?archive=true").body.splitlines()
    return sorted(json.loads(line)["id"] for line in lines)


def test_finished_messages_are_archived_asked_for_and_replayed(server, new_queue, typed, tmp_path):
    queue, target, lake = new_queue(server, keep="archive"), new_queue(server), tmp_path / "lake"
    ids = finish(server, queue, 600)

    archived = typed("archive", "--url", server.url, "--queue", queue, "--lake", lake, "--delete", "--json")
    asked = typed("query", "--url", server.url, "--lake", lake, "--json", "SELECT count(*), sum(id) FROM lake")
    live = typed("query", "--url", server.url, "--json", f"SELECT count(*) FROM archive_{queue.replace('-', '_')}")
    replayed = typed("replay", "--url", server.url, "--lake", lake, "--from", queue, "--to", target, "--json")
    again = typed("replay", "--url", server.url, "--lake", lake, "--from", queue, "--to", target)

    assert json.loads(archived[1])["queues"][0] | {"files": 0} == {
        "queue": queue, "added": 600, "files": 0, "deleted": 600, "commit": 1,
    }  # fmt: skip
    assert json.loads(asked[1])["rows"] == [[600, sum(ids)]]
    assert json.loads(live[1])["rows"] == [[0]]
    assert json.loads(replayed[1])["sent"] == 600
    assert (again[0], again[2]) == (
        0,
        f"Nothing was sent: '{target}' got all of it before. Another --job-id sends it again.\n",
    )
    assert server.call("GET", f"/v1/queues/{target}/bounds").json["count"] == 600


def test_a_queue_in_a_file_is_archived_without_a_server(typed, tmp_path):
    db, lake = tmp_path / "queue.db", tmp_path / "lake"
    with Queue.open(db) as q:
        q.create("orders", keep="archive")
        ids = [q.enqueue("orders", {"n": n}) for n in range(3)]
        for _ in ids:
            q.ack(q.claim("orders"))

    code, _, said = typed("archive", "--db", db, "--queue", "orders", "--lake", lake, "--delete")

    assert (code, said) == (0, f"Added 3 messages to {lake}.\n")
    assert ids_in(parquet_files(lake)) == ids
    with Queue.open(db) as q:
        assert q.archive("orders") == []


def test_the_views_are_listed(sqlite_server, new_queue, typed):
    queue = new_queue(sqlite_server)

    _, out, _ = typed("query", "--url", sqlite_server.url, "--views", "--json")

    name = queue.replace("-", "_")
    assert {f"queue_{name}", f"archive_{name}"} <= {view["name"] for view in json.loads(out)["views"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["archive", "--queue", "nowhere", "--lake", "lake"], "Queue 'nowhere' does not exist"),
        (["query", "--lake", "nowhere", "SELECT 1 FROM lake"], "is no lake"),
        (["query"], "Say what to ask"),
        (["replay", "--lake", "nowhere", "--to", "nowhere"], "Queue 'nowhere' does not exist"),
        (["replay", "--lake", "lake", "--to", "q", "--since", "soon"], "--since can't be 'soon': write a time like"),
    ],
)
def test_what_can_not_be_done_is_said_in_a_sentence(sqlite_server, typed, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    code, _, error = typed(words[0], "--url", sqlite_server.url, *words[1:])

    assert code != 0
    assert said in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1


@contextmanager
def archiving(server, queue, lake):
    """Run `sqew spark archive … --delete` in a process of its own, killed with its Java if it still runs at the end."""
    words = ["spark", "archive", "--url", server.url, "--queue", queue, "--lake", lake, "--delete", "--json"]
    settings = {**QUICK_JAVA, "spark.driver.memory": "600m"}
    more = [f"--spark-setting={name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [sys.executable, "-m", "sqew", *map(str, words), "--master", "local[1]", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(process, folder, pattern):
    """Wait until a process has made a file."""
    until = time.monotonic() + START_WITHIN_S
    while not any(folder.glob(pattern)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.002)


@pytest.fixture(scope="module", autouse=True)
def killed(spark, sqlite_server, new_queue, tmp_path_factory):
    """Kill an archive run once it has written, while other tests go on; yield the future of queue, ids and lake."""
    queue, lake = new_queue(sqlite_server, keep="archive"), tmp_path_factory.mktemp("killed") / "lake"
    ids = finish(sqlite_server, queue, 1_000)

    def kill():
        with archiving(sqlite_server, queue, lake) as run:
            wait_for(run, lake, f"_sqew/commits/{queue}/*.json")
        return queue, ids, lake

    with ThreadPoolExecutor() as meanwhile:
        yield meanwhile.submit(kill)


def test_an_archive_run_that_is_killed_loses_nothing_and_doubles_nothing(sqlite_server, typed, killed):
    queue, ids, lake = killed.result()

    code, _, _ = typed("archive", "--url", sqlite_server.url, "--queue", queue, "--lake", lake, "--delete")

    assert code == 0
    assert ids_in(parquet_files(lake)) == ids
    assert archived_ids(sqlite_server, queue) == []
