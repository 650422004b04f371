"""`plainbench tui` and `plainbench run --tui`, on a real terminal and without one."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sqew
from plainbench.record.find import newest
from sqew.errors import NotFound
from tests.plainbench.made_up import MadeUpRun, config_of, with_manifest


def make(runs: Path, name: str) -> Path:
    runs.mkdir(exist_ok=True)
    run = MadeUpRun(runs / name)
    run.done(1)
    return with_manifest(run.finish(), config_of())


def on_terminal(folder: Path, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start the real program on a terminal of its own; return both."""
    terminal, side = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(sqew.__file__).parents[1]), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "plainbench.cli.main", *words],
        stdin=side, stdout=side, stderr=side, cwd=folder, env=environment, start_new_session=True,
    )  # fmt: skip
    os.close(side)
    return process, terminal


def test_it_runs_on_a_terminal_and_gives_it_back(tmp_path: Path) -> None:
    make(tmp_path / "runs", "first")
    process, terminal = on_terminal(tmp_path, "tui")

    shown = _until(terminal, "ENDED: settled")
    os.write(terminal, b"q")
    shown += _rest(terminal)
    code = process.wait(30)
    os.close(terminal)

    assert code == 0
    assert "orders" in shown
    assert "\x1b[?1049l" in shown, "the terminal shows what it showed before"


def _until(terminal: int, wanted: str) -> str:
    shown = ""
    while wanted not in shown and select.select([terminal], [], [], 60)[0]:
        shown += os.read(terminal, 65536).decode(errors="replace")
    assert wanted in shown
    return shown


def _rest(terminal: int) -> str:
    shown = b""
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:
            break  # so Linux says that nobody has the other side any more
        if not block:
            break
        shown += block
    return shown.decode(errors="replace")


def test_without_a_terminal_it_says_what_to_use_instead(tmp_path: Path, plainbench: Any) -> None:
    run = make(tmp_path / "runs", "first")

    done = plainbench(f"tui {run}")

    assert done.code == 2
    assert f"This needs a terminal. For figures: plainbench stats --run {run}" in done.err


def test_without_any_run_it_says_how_to_make_one(plainbench: Any) -> None:
    done = plainbench("tui")

    assert done.code == 3
    assert "There is no folder ./runs. Make a run: plainbench run" in done.err


def test_the_newest_run_of_a_folder_is_meant(tmp_path: Path) -> None:
    first, second = make(tmp_path / "runs", "b"), make(tmp_path / "runs", "a")
    os.utime(first / "manifest.json", ns=(1, 1))

    assert newest(tmp_path / "runs") == second
    assert newest(first) == first
    assert newest(first / "manifest.json") == first


def test_an_empty_folder_of_runs_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no run in"):
        newest(tmp_path)


def test_a_run_is_shown_while_it_goes_on_and_judged_when_the_screen_is_left(tmp_path: Path) -> None:
    (tmp_path / "plainbench.yaml").write_text(
        "topics: [{name: orders}]\n"
        "workload: [{topic: orders, messages: 100, arrivals: {type: constant, rate: 100}}]\n"
        "workers: [{name: w}]\n"
    )
    process, terminal = on_terminal(tmp_path, "run", "--tui")

    shown = _until(terminal, "ENDED: settled")
    os.write(terminal, b"q")
    shown += _rest(terminal)
    code = process.wait(60)
    os.close(terminal)

    assert code == 0, shown
    assert "LIVE" in shown
    assert "PASSED: the queue kept its promises." in shown


def test_a_run_is_not_begun_if_there_is_no_terminal_to_show_it_on(tmp_path: Path, plainbench: Any) -> None:
    done = plainbench("run --tui")

    assert done.code == 2
    assert "--tui needs a terminal." in done.err
    assert not (tmp_path / "runs").exists()
