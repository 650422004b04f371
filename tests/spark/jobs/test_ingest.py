"""`sqew spark ingest`: files into a real queue, by real Spark."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from plainbench.config.model import Config
from plainbench.drivers import open_driver
from plainbench.drivers.base import Place, Topic
from plainbench.run.clock import RealTime
from plainbench.workload.ingest import Ingest as LabIngest
from plainbench.workload.ingest import Into as LabInto
from sqew.client import Client
from sqew.embedded import Queue
from sqew.errors import BadValue, Conflict, SqewError, UnknownLane
from sqew.formats.files import Format
from sqew.spark.body_schema import parse_schema
from sqew.spark.files import parts_of
from sqew.spark.jobs.ingest import Ingest, Ingested, Into, check_target
from sqew.spark.runtime.failures import in_a_sentence
from sqew.spark.source.options import Target
from sqew.spark.source.wire import Wire
from sqew.spark.transforms import ingest as ingest_module
from sqew.spark.transforms.ingest import Manner
from tests.support.serving import Serving, serving

SPLIT_BYTES = 20_000
CSV = b'''\
id,note,body
1,"two
lines","{""sku"": 7}"
2,"a, b",plain
3,too few
4,"ends with ""quotes""","
"
'''
NOTES = [
    {"id": "1", "note": "two\nlines", "body": '{"sku": 7}'},
    {"id": "2", "note": "a, b", "body": "plain"},
    {"id": "4", "note": 'ends with "quotes"', "body": "\n"},
]

Run = Callable[..., Ingested]


@pytest.fixture
def server(sqlite_server: Serving) -> Serving:
    """Return a server on a file: the stores are the data source's business, and tested with it."""
    return sqlite_server


@pytest.fixture
def client(server: Serving) -> Iterator[Client]:
    with Client(server.url) as opened:
        yield opened


@pytest.fixture
def ingest(spark: SparkSession, server: Serving, tmp_path: Path) -> Run:
    """Return a function that ingests files into a queue: ``ingest("orders", tmp_path / "a.jsonl", lane="fast")``."""

    def run(
        queue: str,
        *files: Path | str,
        format: Format = "jsonl",
        schema: str | None = None,
        lane: str | None = None,
        priority: int = 0,
        group_by: str | None = None,
        job_id: str | None = None,
        over: type[Wire] = Wire,
        url: str = server.url,
    ) -> Ingested:
        with Client(url) as client:
            into, policy = Into(queue, lane, priority), client.info(queue).policy
        limits = check_target(policy, into, group_by)
        shape = None if schema is None else parse_schema(schema)
        manner = Manner(format, ",", shape, group_by, limits)
        options = {"url": url, "queue": queue}
        with over(Target(queue, (url,))) as wire, in_a_sentence():
            work = Ingest(
                spark, wire, into, manner, options, job_id=job_id, in_order=policy.fifo, split_bytes=SPLIT_BYTES
            )
            return work.run([str(file) for file in files], str(tmp_path / "quarantine"))

    return run


def sent(client: Client, queue: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.export(queue)]


def bodies(client: Client, queue: str) -> list[Any]:
    return [line["body"] for line in sent(client, queue)]


def rejects(done: Ingested) -> list[dict[str, Any]]:
    assert done.rejects is not None
    [file] = Path(done.rejects).glob("part-*.json")
    return [json.loads(line) for line in file.read_text().splitlines()]


def write_lines(path: Path, *bodies: object) -> Path:
    path.write_text("".join(f"{json.dumps(body)}\n" for body in bodies))
    return path


def test_one_bad_line_in_a_hundred_is_quarantined_and_none_is_lost(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue, path = new_queue(server), tmp_path / "in.jsonl"
    lines = [b"{broken" if number % 100 == 41 else b'{"n": %d}' % number for number in range(10_000)]
    path.write_bytes(b"\n".join(lines))

    done = ingest(queue, path)

    assert len(parts_of([str(path)], "jsonl", SPLIT_BYTES)) > 4
    assert (done.sent, done.rejected) == (9_900, 100)
    good = [{"n": number} for number in range(10_000) if number % 100 != 41]
    assert sorted(bodies(client, queue), key=lambda body: body["n"]) == good
    assert [reject["line"] for reject in rejects(done)] == [number + 1 for number in range(41, 10_000, 100)]
    assert set(rejects(done)[0]) == {"file", "line", "reason", "raw"}
    assert rejects(done)[0] == {
        "file": str(path),
        "line": 42,
        "reason": "The body is not valid JSON: JSON is malformed: object keys must be strings (byte 1).",
        "raw": "{broken",
    }


def test_the_same_arrives_as_without_spark(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server)
    files = [tmp_path / "odd.jsonl", tmp_path / "more.jsonl.gz", tmp_path / "others.jsonl.zst"]
    files[0].write_bytes(b'\xef\xbb\xbf{"a":  1}\r\n\n  [1]\n"\xff"\nNaN\n{"a": 1, "a": 2}\n"\xc3\xa9"\n' + b"[" * 100)
    files[1].write_bytes(gzip.compress(b'1e400\n"x"\n\n{"deep": [[[]]]}\n"' + b"y" * 1_100_000 + b'"\n7'))
    with pa.CompressedOutputStream(str(files[2]), "zstd") as file:
        file.write(b"3\n{broken\n4\n")

    done = ingest(queue, *files)
    without = ingest_without_spark(tmp_path / "lab", files, "jsonl")

    assert Counter(map(json.dumps, bodies(client, queue))) == Counter(map(json.dumps, without[0]))
    assert rejects(done) == without[1]
    assert done.rejected == len(without[1]) > 0


def test_csv_with_quotes_and_newlines_arrives_as_without_spark(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue, path = new_queue(server), tmp_path / "notes.csv"
    path.write_bytes(CSV)

    done = ingest(queue, path, format="csv")
    without = ingest_without_spark(tmp_path / "lab", [path], "csv")

    assert bodies(client, queue) == NOTES == without[0]
    assert rejects(done) == without[1]
    assert [(reject["line"], reject["reason"]) for reject in without[1]] == [
        (5, "It has 2 cells, and the first line names 3.")
    ]


def ingest_without_spark(folder: Path, files: list[Path], format: Format) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the bodies and the rejects of PlainBench's own ingest."""
    folder.mkdir()
    driver = open_driver(Place(msgspec.convert({"topics": [{"name": "orders"}]}, Config), folder, RealTime()))
    driver.create(Topic("orders", {}))
    work = LabIngest(driver, LabInto("orders"), files, format, folder / "ingest")
    work.run(lambda _progress: None)
    driver.close()
    with Queue.open(folder / "queue.db") as queue:
        arrived = [json.loads(line)["body"] for line in queue.export("orders")]
    return arrived, [json.loads(line) for line in work.rejects.read_text().splitlines()]


def test_a_rerun_adds_nothing_and_a_new_file_among_known_ones_is_added(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server)
    write_lines(tmp_path / "a.jsonl", 1, 2)
    pattern = str(tmp_path / "*.jsonl")

    first, again = ingest(queue, pattern), ingest(queue, pattern)
    write_lines(tmp_path / "b.jsonl", 3)
    (tmp_path / "a.jsonl").touch()
    grown = ingest(queue, pattern)

    assert (first.sent, first.repeated) == (2, 0)
    assert (again.sent, again.repeated) == (0, 2)
    assert (grown.sent, grown.repeated) == (1, 2)
    assert sorted(bodies(client, queue)) == [1, 2, 3]


class Killed(BaseException):
    """An exception that ends a run as a kill does: nothing that the run would do afterwards is done."""


class MortalWire(Wire):
    """A connection whose driver dies right after it has put the first file into the queue."""

    is_dead = False

    def ask(self, call: Any) -> Any:
        if self.is_dead:
            raise Killed
        answer = super().ask(call)
        if call.path.endswith("/promote"):
            self.is_dead = True
            raise Killed
        return answer


def test_a_run_that_is_killed_between_two_files_is_made_good_though_there_are_more_files_by_then(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server)
    write_lines(tmp_path / "a.jsonl", 1, 2)
    write_lines(tmp_path / "b.jsonl", 3)
    with pytest.raises(Killed):
        ingest(queue, tmp_path / "*.jsonl", over=MortalWire)
    before = bodies(client, queue)
    write_lines(tmp_path / "c.jsonl", 4)

    done = ingest(queue, tmp_path / "*.jsonl")

    assert before == [1, 2]
    assert (done.sent, done.repeated) == (2, 2)
    assert sorted(bodies(client, queue)) == [1, 2, 3, 4]


def test_of_files_with_the_same_content_each_is_sent_once(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server)
    write_lines(tmp_path / "monday.jsonl", "up")
    write_lines(tmp_path / "tuesday.jsonl", "up")
    first = ingest(queue, tmp_path / "*.jsonl")
    write_lines(tmp_path / "wednesday.jsonl", "up")

    again = ingest(queue, tmp_path / "*.jsonl")

    assert (first.sent, again.sent, again.repeated) == (2, 1, 2)
    assert bodies(client, queue) == ["up"] * 3


def test_rejects_are_written_over_nothing_whatever_a_job_is_called(
    ingest: Run, server: Serving, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text("1\n{broken\n")

    done = ingest(new_queue(server), tmp_path / "a.jsonl", job_id="../precious")

    assert Path(str(done.rejects)).resolve().parent == tmp_path / "quarantine"
    assert len(rejects(done)) == 1


def test_a_named_job_sends_once_whatever_it_is_given(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server)

    ingest(queue, write_lines(tmp_path / "a.jsonl", 1), job_id="nightly")
    again = ingest(queue, write_lines(tmp_path / "b.jsonl", 2), job_id="nightly")
    another = ingest(queue, tmp_path / "a.jsonl", job_id="weekly")

    assert (again.sent, again.repeated, another.sent) == (0, 1, 1)
    assert bodies(client, queue) == [1, 1]


def test_a_fifo_queue_gets_each_group_in_the_order_of_the_file(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server, fifo=True)
    lines = [{"n": number, "who": number % 7} for number in range(1_500)]

    ingest(queue, write_lines(tmp_path / "a.jsonl", *lines), group_by="who")

    arrived: dict[str, list[int]] = {}
    for line in sent(client, queue):
        arrived.setdefault(line["group"], []).append(line["body"]["n"])
    assert arrived == {str(who): list(range(who, 1_500, 7)) for who in range(7)}


def test_what_does_not_fit_the_schema_is_quarantined_and_the_rest_has_the_lane_and_priority_asked_for(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server, lanes={"fast": 3, "slow": 1})
    path = tmp_path / "a.jsonl"
    path.write_text('{"sku": 1, "more": []}\n{"sku": "x"}\n{"price": 1}\n{"sku": 2, "price": null}\n')

    done = ingest(queue, path, schema="sku INT NOT NULL, price DOUBLE", lane="slow", priority=7)

    assert {(line["lane"], line["priority"]) for line in sent(client, queue)} == {("slow", 7)}
    assert bodies(client, queue) == [{"sku": 1, "more": []}, {"sku": 2, "price": None}]
    assert [(reject["line"], reject["reason"]) for reject in rejects(done)] == [
        (2, "It does not fit the schema: Expected `int`, got `str` - at `$.sku`."),
        (3, "It does not fit the schema: Object missing required field `sku`."),
    ]


def test_cells_of_csv_become_what_the_schema_says(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server)
    (tmp_path / "a.csv").write_text("sku,price,note\n1,2.5,7\n2,,x\nthree,1,y\n")

    done = ingest(queue, tmp_path / "a.csv", format="csv", schema="sku INT NOT NULL, price DOUBLE")

    assert bodies(client, queue) == [{"sku": 1, "price": 2.5, "note": "7"}, {"sku": 2, "note": "x"}]
    assert [reject["line"] for reject in rejects(done)] == [4]


def test_a_file_that_changes_meanwhile_sends_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", 1, 2)
    parts = ingest_module.parts_frame(spark, parts_of([str(path)], "jsonl"))
    digests = {
        row["part"]: row["digest"] for row in ingest_module.tallies(ingest_module.checked(parts, Manner())).collect()
    }
    write_lines(path, 1, 3)

    with pytest.raises(Conflict, match=r"a\.jsonl was changed while it was read, so nothing was sent"), in_a_sentence():
        ingest_module.messages(parts, Manner(), digests).collect()


def test_a_damaged_file_is_one_sentence_and_nothing_is_sent(
    ingest: Run, server: Serving, client: Client, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    queue = new_queue(server)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"1\n" * 10_000)[:-9])

    with pytest.raises(BadValue, match=r"^\S*a\.jsonl\.gz is not a whole gzip file: [^\n]*$"):
        ingest(queue, tmp_path / "a.jsonl.gz")

    assert bodies(client, queue) == []


def test_what_the_queue_would_refuse_altogether_is_said_before_anything_is_read(
    ingest: Run, server: Serving, new_queue: Callable[..., str], tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "a.jsonl", 1)

    with pytest.raises(UnknownLane, match="fast"):
        ingest(new_queue(server, lanes={"fast": 1}), path, lane="fats")
    with pytest.raises(BadValue, match="--group-by"):
        ingest(new_queue(server, fifo=True), path)
    with pytest.raises(SqewError, match="does not exist"):
        ingest("nothing", path)


def test_bodies_that_are_too_large_for_the_queue_or_its_server_are_quarantined(ingest: Run, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", *["x" * 300] * 50, "y" * 2_000, "z", "w" * 5_000)
    limits = ("--max-body-bytes", "1024", "--max-request-bytes", "8192")

    with serving(tmp_path, "--durability", "fast", *limits) as small, Client(small.url) as client:
        client.create("orders", max_body_bytes=4_096)
        done = ingest("orders", path, url=small.url)
        found = bodies(client, "orders")

    assert (done.sent, done.rejected, done.repeated) == (51, 2, 0)
    assert sorted(found) == sorted(["x" * 300] * 50 + ["z"])
    assert [(reject["line"], reject["reason"][:40]) for reject in rejects(done)] == [
        (51, "The body has 2002 bytes; 1024 are allowe"),
        (53, "It is longer than 4096 bytes."),
    ]
