"""The example of order processing: one command does everything, and the books are balanced."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sqew

EXAMPLE = Path(__file__).parents[2] / "examples" / "order-processing"


@pytest.fixture
def example(tmp_path):
    """Return a copy of the example's folder, with nothing made yet."""
    return shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("data", "__pycache__"))


def run(example: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(sqew.__file__).parents[1])}
    command = [sys.executable, str(example / words[0]), *words[1:]]
    return subprocess.run(command, cwd=example.parent, capture_output=True, text=True, env=environment, timeout=120)


def test_one_command_makes_orders_runs_them_checks_the_books_and_writes_the_report(example):
    done = run(example, "run.py", "--orders", "2000", "--mode", "virtual")

    assert done.returncode == 0, done.stderr + done.stdout
    assert "PASSED: the queue kept its promises." in done.stdout
    assert "the books are balanced" in done.stderr
    (report,) = (example / "data" / "runs").glob("*/report.html")
    assert "<svg" in report.read_text()


def test_the_same_number_and_seed_give_the_same_orders(example):
    files = [example / "data" / name for name in ("backlog.jsonl", "live.jsonl")]

    run(example, "make_orders.py", "1000")
    first = [file.read_bytes() for file in files]
    run(example, "make_orders.py", "1000", "--seed", "2")
    other = [file.read_bytes() for file in files]
    run(example, "make_orders.py", "1000")

    assert [len(part.splitlines()) for part in first] == [980, 20]
    assert first != other
    assert [file.read_bytes() for file in files] == first
