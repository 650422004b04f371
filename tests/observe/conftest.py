"""Fixtures of the tests of the event log: a path for it, and children that write to it."""

import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


@pytest.fixture
def python():
    """Yield a function that starts Python on some code; a process still running is killed at the end."""
    children = []

    def start(code, *arguments):
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()
