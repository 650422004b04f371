"""Putting files into a real queue: everything arrives once, whatever interrupts it."""

import json
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from plainbench.drivers import open_driver
from plainbench.drivers.base import Place, Topic
from plainbench.run.clock import RealTime
from plainbench.workload.ingest import Ingest, Into, Progress
from sqew.embedded import Queue
from sqew.errors import Conflict, TooLarge
from tests.plainbench.conftest import environment_of_children

SENDER = """
import sys
from pathlib import Path
import msgspec
from plainbench.config.model import Config
from plainbench.drivers import open_driver
from plainbench.drivers.base import Place
from plainbench.run.clock import RealTime
from plainbench.workload.ingest import Ingest, Into

folder = Path(sys.argv[1])
driver = open_driver(Place(msgspec.convert({"topics": [{"name": "orders"}]}, Config), folder, RealTime()))
work = Ingest(driver, Into("orders"), [folder / "in.jsonl"], "jsonl", folder / "ingest")
work.resume()
work.run(lambda progress: print(progress.sent, flush=True))
print("done", flush=True)
"""


@pytest.fixture
def driver(config, tmp_path):
    """Yield a driver of a queue with the topic orders, in the lanes high and low."""
    opened = open_driver(Place(config(), tmp_path, RealTime()))
    opened.create(Topic("orders", {"high": 1, "low": 1}))
    yield opened
    opened.close()


@pytest.fixture
def ingest(driver, tmp_path):
    """Return a function that makes an ingest of lines into orders."""

    def make(lines, into=None):
        (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
        os.utime(tmp_path / "in.jsonl", (1, 1))
        return Ingest(driver, into or Into("orders"), [tmp_path / "in.jsonl"], "jsonl", tmp_path / "ingest")

    return make


def bodies(tmp_path):
    with Queue.open(tmp_path / "queue.db") as queue:
        return [json.loads(line)["body"] for line in queue.export("orders")]


def nothing(_progress):
    pass


def test_every_line_becomes_a_message_in_its_lane(ingest, tmp_path):
    progress = ingest(range(2500), Into("orders", "low", 3)).run(nothing)

    assert progress.sent == 2500
    assert bodies(tmp_path) == list(range(2500))
    with Queue.open(tmp_path / "queue.db") as queue:
        [message] = queue.peek("orders", limit=1)
        assert (message.lane, message.priority) == ("low", 3)


def test_rejects_are_set_aside_with_file_line_and_reason(ingest, tmp_path):
    work = ingest(["1", "{broken", "2"])

    progress = work.run(nothing)

    assert (progress.sent, progress.rejected) == (2, 1)
    [reject] = map(json.loads, work.rejects.read_text().splitlines())
    assert (reject["file"], reject["line"], reject["raw"]) == (str(tmp_path / "in.jsonl"), 2, "{broken")
    assert "not valid JSON" in reject["reason"]


def test_an_ingest_without_rejects_leaves_nothing_behind(ingest, tmp_path):
    ingest([1]).run(nothing)

    assert not (tmp_path / "ingest").exists()


def test_rejects_of_an_earlier_ingest_are_not_counted_again(ingest):
    ingest(["{", "1"]).run(nothing)
    work = ingest(["{{", "2"])

    work.run(nothing)

    assert [json.loads(line)["raw"] for line in work.rejects.read_text().splitlines()] == ["{{"]


def test_messages_of_an_ingest_have_numbers_below_those_of_runs_and_each_its_own(ingest, driver):
    ingest(range(1200)).run(nothing)
    ingest(range(1200)).run(nothing)

    found = [left.number for left in driver.left("orders")]

    assert len(set(found)) == 2400
    assert max(found) < 0


def test_what_the_queue_refuses_is_set_aside_and_the_rest_arrives(ingest, driver, tmp_path):
    with Queue.open(tmp_path / "queue.db") as queue:
        queue.update("orders", max_body_bytes=100)
    lines = [json.dumps("x" * (200 if number in (3, 700) else 10)) for number in range(1000)]
    work = ingest(lines)

    progress = work.run(nothing)

    assert (progress.sent, progress.rejected) == (998, 2)
    rejects = [json.loads(line) for line in work.rejects.read_text().splitlines()]
    assert [reject["line"] for reject in rejects] == [4, 701]
    assert "takes 100" in rejects[0]["reason"]


def test_a_queue_that_refuses_everything_ends_the_ingest(ingest, tmp_path):
    with Queue.open(tmp_path / "queue.db") as queue:
        queue.update("orders", max_body_bytes=5)

    with pytest.raises(TooLarge):
        ingest(['"long enough"'] * 100).run(nothing)


def test_a_killed_ingest_goes_on_and_sends_nothing_twice(driver, tmp_path):
    with (tmp_path / "in.jsonl").open("w") as file:
        for number in range(40_000):
            file.write("{broken\n" if number % 1000 == 5 else f"{number}\n")
    expected = [number for number in range(40_000) if number % 1000 != 5]
    command = [sys.executable, "-c", SENDER, str(tmp_path)]
    kills = 0

    for after in (1, 2, 3, 1000):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment_of_children())
        lines = iter(child.stdout.readline, "")
        said = [line for _, line in zip(range(after), lines, strict=False)]
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        kills += "done\n" not in said

    assert kills >= 3
    assert bodies(tmp_path) == expected
    rejects = (tmp_path / "ingest" / "rejects" / "orders.jsonl").read_text().splitlines()
    assert [json.loads(line)["line"] for line in rejects] == [number + 1 for number in range(5, 40_000, 1000)]


@pytest.mark.parametrize("has_arrived", [True, False])
def test_a_batch_of_which_nobody_knows_is_looked_for_in_the_queue(ingest, driver, tmp_path, has_arrived):
    first = ingest(range(10))
    first.run(nothing)
    work = ingest(range(10))
    numbers = first.progress.first_number if has_arrived else work.progress.first_number
    kept = Progress(work.progress.sources, numbers, sending=10, seen_then=10)
    (tmp_path / "ingest").mkdir()
    (tmp_path / "ingest" / "orders.progress.json").write_bytes(msgspec.json.encode(kept))

    work.resume()
    progress = work.run(nothing)

    assert work.went_on
    assert progress.sent == 10
    assert len(bodies(tmp_path)) == (10 if has_arrived else 20)


def test_other_files_are_not_taken_for_the_interrupted_ones(ingest, tmp_path):
    work = ingest([1])
    kept = msgspec.structs.replace(work.progress, sent=1, seen=1)
    (tmp_path / "ingest").mkdir()
    (tmp_path / "ingest" / "orders.progress.json").write_bytes(msgspec.json.encode(kept))
    changed = ingest([1, 2, 3])

    with pytest.raises(Conflict, match="--restart"):
        changed.resume()

    changed.forget()
    changed.resume()
    assert changed.run(nothing).sent == 3


def test_fifty_thousand_lines_are_in_the_queue_in_seconds(ingest):
    work = ingest([json.dumps({"id": number, "text": "x" * 100}) for number in range(50_000)])
    began = time.process_time()

    work.run(nothing)

    assert time.process_time() - began < 10  # it takes a tenth of that
