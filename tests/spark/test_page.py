"""The page docs/spark.md: its examples run as they stand there, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from sqew.cli.main import sqew
from tests.spark.source.sources import depth
from tests.support.serving import Serving

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
COMMANDS = re.search(r"## A tour\n\n```sh\n(.*?)```", PAGE, re.DOTALL)
TOUR, STREAM = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_tour_and_the_stream_do_what_the_page_says(
    spark: SparkSession,
    sqlite_server: Serving,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SQEW_URL", sqlite_server.url)
    assert COMMANDS is not None
    commands = [line for line in COMMANDS[1].replace("100000", "12").splitlines() if line.startswith("sqew ")]
    tour, stream = (example.replace("http://127.0.0.1:8888", sqlite_server.url) for example in (TOUR, STREAM))

    shown = [_run(command) for command in commands if "sqew serve" not in command]
    _run("sqew queue add --name results")
    exec(tour, {})
    exec(tour, {})
    exec(stream.replace("/data/checkpoints", str(tmp_path)), {})

    assert "12" in shown[-1]
    assert capsys.readouterr().out.count("|normal|ready|   12|") == 2
    assert [depth(sqlite_server, queue) for queue in ("orders", "copies", "results")] == [0, 12, 12]
    assert spark.range(1).count() == 1, "the session goes on"


def _run(command: str) -> str:
    done = CliRunner().invoke(sqew, shlex.split(command, comments=True)[1:])
    assert done.exit_code == 0, done.stderr
    return done.stdout
