"""The commands around ingest and generate, in this process and with the session that is at work."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from plainbench.cli.main import plainbench
from sqew.cli.main import sqew
from sqew.client import Client
from sqew.embedded import Queue
from tests.support.serving import Serving

LINES = '{"n": 1}\n{broken\n\n[2]\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("SQEW_URL", "SQEW_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "in.jsonl").write_text(LINES)
    return tmp_path


def run(program: Any, *words: object) -> Result:
    done = CliRunner().invoke(program, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.stderr
    return done


def bodies(server: Serving, queue: str) -> list[Any]:
    with Client(server.url) as client:
        return [json.loads(line)["body"] for line in client.export(queue)]


def test_sqew_spark_ingest_tells_what_it_has_done(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str], folder: Path
) -> None:
    queue = new_queue(sqlite_server)
    words = ("spark", "ingest", "*.jsonl", "--queue", queue, "--url", sqlite_server.url)

    done = run(sqew, *words, "--json")
    again = run(sqew, *words)

    told = json.loads(done.stdout)
    assert {name: told[name] for name in ("files", "sent", "repeated", "rejected")} == {
        "files": 1, "sent": 2, "repeated": 0, "rejected": 1,
    }  # fmt: skip
    assert Path(told["rejects"]).parent == folder / "quarantine" / queue
    assert bodies(sqlite_server, queue) == [{"n": 1}, [2]]
    assert again.stdout.splitlines()[:2] == [
        f"Sent 0 messages of 1 file to '{queue}'.",
        "Left 2 messages out that an earlier run had sent.",
    ]
    assert spark.range(1).count() == 1, "the session goes on"


def test_sqew_spark_generate_sends_once_and_writes_what_ingest_reads(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str]
) -> None:
    queue, other = new_queue(sqlite_server), new_queue(sqlite_server)
    workload = ("--count", 50, "--seed", 3, "--size", "60..90", "--keys", 5, "--skew", 1)
    words = ("spark", "generate", *workload, "--url", sqlite_server.url)

    sent = run(sqew, *words, "--queue", queue)
    again = run(sqew, *words, "--queue", queue, "--json")
    run(sqew, *words, "--output", "made", "--partitions", 3)
    ingested = run(sqew, "spark", "ingest", "made/part-*", "--queue", other, "--url", sqlite_server.url, "--json")

    assert sent.stdout == f"Made 50 messages to '{queue}'.\n"
    assert (json.loads(again.stdout)["sent"], json.loads(again.stdout)["repeated"]) == (0, True)
    assert json.loads(ingested.stdout)["files"] == 3
    assert sorted(bodies(sqlite_server, other), key=str) == sorted(bodies(sqlite_server, queue), key=str)


def test_plainbench_ingest_puts_the_same_into_a_topic_by_spark_as_without(spark: SparkSession, folder: Path) -> None:
    config = "topics: [{name: orders, lanes: [{name: high}, {name: low}]}, {name: others, lanes: [{name: low}]}]\n"
    (folder / "plainbench.yaml").write_text(config)
    options = ("--lane", "low", "--priority", 3, "--json")

    by_spark = run(plainbench, "ingest", "jsonl", "in.jsonl", "--topic", "orders", "--spark", *options)
    without = run(plainbench, "ingest", "jsonl", "in.jsonl", "--topic", "others", *options)

    assert _figures(by_spark) == _figures(without) == (2, 1)
    rejects = [json.loads(done.stdout)["rejects"] for done in (by_spark, without)]
    assert Path(rejects[0]) == folder / "ingest" / "rejects" / "orders.jsonl"
    texts = [Path(path).read_text() for path in rejects]
    assert [json.loads(line) for line in texts[0].splitlines()] == [json.loads(line) for line in texts[1].splitlines()]
    with Queue.open(folder / "queue.db") as queue:
        found = [[_kept(line) for line in queue.export(name)] for name in ("orders", "others")]
    assert found[0] == found[1] == [({"n": 1}, "low", 3), ([2], "low", 3)]


def _figures(done: Result) -> tuple[int, int]:
    told = json.loads(done.stdout)
    return told["sent"], told["rejected"]


def _kept(line: bytes) -> tuple[Any, str, int]:
    read = json.loads(line)
    return read["body"], read["lane"], read["priority"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("spark ingest in.jsonl --queue orders", 2, "talks to a server: give --url"),
        ("spark ingest in.jsonl --queue ordres --url {url}", 3, "does not exist"),
        ("spark ingest in.jsonl --queue orders --url http://127.0.0.1:9", 8, "127.0.0.1:9"),
        ("spark ingest nothing.jsonl --queue {queue} --url {url}", 2, "There is no file"),
        ("spark ingest in.jsonl x.csv --queue {queue} --url {url}", 2, "give --format"),
        ("spark ingest in.jsonl --queue {queue} --url {url} --lane fast", 2, "lane"),
        ("spark ingest in.jsonl --queue {queue} --url {url} --schema 'sku NUMBER?'", 2, "--schema can't be"),
        ("spark ingest in.jsonl --queue {queue} --url {url} --delimiter xx", 2, "--delimiter can't be"),
        ("spark ingest in.jsonl --queue {queue} --url {url} --spark-setting x", 2, "write spark.NAME=VALUE"),
        ("spark ingest in.jsonl --queue {queue} --url {url} --master yarn", 1, "A Spark session is at work already"),
        ("spark ingest in.jsonl --queue {queue} --url {url} --master lcal[2]", 2, "The master can't be 'lcal[2]'"),
        ("spark generate --count 5", 2, "--queue NAME or --output FOLDER"),
        ("spark generate --count 5 --output x --size 5..1", 2, "--size can't be"),
        ("spark generate --count 5 --output x --lane fast", 2, "--lane can't be"),
        ("spark generate --count 9999999999999999999 --output x", 2, "--count can't be"),
        ("spark generate --count 5 --output x --keys 2000000 --skew 1", 2, "it may be 1000000 at most"),
        ("spark ingets", 2, "did you mean 'ingest'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    spark: SparkSession, sqlite_server: Serving, new_queue: Callable[..., str], words: str, code: int, said: str
) -> None:
    filled = words.format(url=sqlite_server.url, queue=new_queue(sqlite_server))

    done = run(sqew, *shlex.split(filled))

    assert (done.exit_code, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
