"""The page docs/event-log.md: it is true, and its example runs."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from sqew.model import Fact, FactKind
from sqew.observe import eventlog
from sqew.observe.eventlog import EventLog, LoggedEvent, read

PAGE = (Path(__file__).parents[2] / "docs" / "event-log.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_lines_shown_are_those_that_are_written(tmp_path):
    path = tmp_path / "events.jsonl"
    with EventLog(path) as log:
        log.record([Fact("sent", "orders", "normal", 7, 0)], 1_700_000_000_000_000)
        log.record([Fact("received", "orders", "normal", 7, 1, "w1", 12)], 1_700_000_000_012_345)
        log.record([Fact("acked", "orders", "normal", 7, 1, "w1", 40)], 1_700_000_000_052_345)

    assert path.read_text() == block("json")


def test_the_example_runs_and_prints_what_is_shown(tmp_path):
    (tmp_path / "events.jsonl").write_text(block("json"))

    run = subprocess.run([sys.executable, "-c", block("python")], cwd=tmp_path, capture_output=True, text=True)

    assert (run.stdout, run.stderr) == (block("text"), "")


def test_every_field_and_every_event_is_explained():
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert set(LoggedEvent.__struct_fields__) | set(get_args(FactKind)) == explained


def test_the_limits_told_are_the_real_ones():
    assert f"up to {eventlog.MOST_PENDING_BYTES // 2**20} MiB" in PAGE
    assert f"`event_log_keep` ({eventlog.KEEP})" in PAGE
    assert f"`event_log_max_bytes` ({eventlog.MAX_BYTES // 2**20} MiB)" in PAGE
    assert f"{eventlog.LINGER_SECONDS * 1000:.0f} ms" in PAGE


def test_every_event_that_is_explained_can_be_read(tmp_path):
    path = tmp_path / "events.jsonl"
    with EventLog(path) as log:
        log.record([Fact(kind, "orders", "normal", 1, 1) for kind in get_args(FactKind)], 1)

    assert tuple(event.event for event in read(path)) == get_args(FactKind)
