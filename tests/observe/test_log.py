"""The log's lines and their writer."""

import json
import logging
import os
import subprocess
import sys
import threading
import time

import pytest

from sqew.observe import log
from sqew.observe.log import LogLine, Writer, rendered

AT = "2026-01-31T12:00:00.000Z"


@pytest.fixture
def pipe():
    """Yield the two ends of a pipe, closed at the end."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def read_until(fd, enough):
    text = b""
    while enough not in text:
        text += os.read(fd, 65_536)
    return text


def run(code):
    """Run a program that logs, and return the lines of its stderr."""
    set_up = "import logging\nfrom sqew.observe.log import logging_to_stderr\n"
    done = subprocess.run([sys.executable, "-c", set_up + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_a_record_of_logging_becomes_a_line_with_its_fields():
    (line,) = run(
        "with logging_to_stderr('info'):\n"
        "    logging.getLogger('sqew.x').warning('hello %s', 'there', extra={'fields': {'n': 7}})\n"
    )

    assert line.pop("time").endswith("Z")
    assert line == {"level": "warning", "event": "hello there", "logger": "sqew.x", "n": 7}


def test_a_traceback_is_one_field_of_one_line():
    (line,) = run(
        "with logging_to_stderr('info'):\n"
        "    try:\n        1 / 0\n    except ZeroDivisionError:\n        logging.exception('oops')\n"
    )

    assert line["level"] == "error"
    assert line["traceback"].endswith("ZeroDivisionError: division by zero")


def test_lines_below_the_level_are_left_out():
    written = run("with logging_to_stderr('warning'):\n    logging.info('quiet')\n    logging.error('loud')\n")

    assert [line["event"] for line in written] == ["loud"]


def test_what_was_logged_before_the_end_is_written_before_the_end():
    written = run("with logging_to_stderr('info'):\n    [logging.info('line %d', n) for n in range(5_000)]\n")

    assert [line["event"] for line in written] == [f"line {n}" for n in range(5_000)]


def test_after_the_block_logging_is_as_it_was(capfd):
    before = (logging.getLogger().level, list(logging.getLogger().handlers))

    with capfd.disabled(), log.logging_to_stderr("error"):
        pass

    assert (logging.getLogger().level, logging.getLogger().handlers) == before


def test_text_that_utf_8_cannot_hold_is_spelled_out():
    assert json.loads(rendered(LogLine(AT, "info", "odd \udcff"), as_json=True))["event"] == "odd \\udcff"
    assert rendered(LogLine(AT, "info", "odd \udcff"), as_json=False) == b"12:00:00.000 info    odd \\\\udcff\n"


def test_a_line_of_text_stays_one_line_whatever_is_in_it():
    line = rendered(LogLine(AT, "info", "two\nlines", fields={"path": "/a\r\nb c"}), as_json=False)

    assert line == b'12:00:00.000 info    two\\nlines  path="/a\\r\\nb c"\n'


def test_a_line_is_written_at_once_and_those_that_follow_soon(pipe):
    ours, theirs = pipe
    writer = Writer(theirs, as_json=True)

    writer.add(b"first\n")
    read_until(ours, b"first\n")
    writer.add(b"second\n")
    read_until(ours, b"second\n")

    writer.close()


def test_a_reader_that_does_not_read_holds_nobody_up_and_is_told_what_it_missed(pipe, monkeypatch):
    ours, theirs = pipe
    monkeypatch.setattr(log, "MOST_WAITING_BYTES", 200_000)
    writer = Writer(theirs, as_json=True)
    line = b"x" * 999 + b"\n"

    began = time.monotonic()
    for _ in range(1_000):
        writer.add(line)
    took = time.monotonic() - began
    written = read_until(ours, b"dropped")
    writer.close()

    assert took < 5
    told = json.loads(written[written.index(b"{") :].split(b"\n")[0])
    assert told["event"].startswith("lines dropped")
    assert told["lines"] + written.count(line) == 1_000


def test_closing_does_not_wait_for_ever_for_a_reader(pipe, monkeypatch):
    ours, theirs = pipe
    monkeypatch.setattr(log, "_CLOSE_WITHIN_S", 0.05)
    writer = Writer(theirs, as_json=True)
    writer.add(b"x" * 1_000_000)

    began = time.monotonic()
    writer.close()

    assert time.monotonic() - began < 5
    # It must not keep the process from ending either.
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "sqew log"] == [True]
    read_until(ours, b"x" * 1_000_000)
