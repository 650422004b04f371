"""The demo: the code that it shows is the code that runs."""

import re
import sys
from pathlib import Path

import pytest

from sqew.cli.tour import STEPS, as_typed, highlighted
from sqew.terminal.screen import Screen

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.says[:20])
def test_colours_change_nothing_of_the_code(step):
    assert ESCAPE.sub("", highlighted(step.code, Screen(colours=True))) == step.code
    assert highlighted(step.code, Screen()) == step.code


def test_keywords_strings_and_numbers_have_colours():
    assert highlighted('for n in ("a", 1):\n    pass', Screen(colours=True)) == (
        '\x1b[94mfor\x1b[0m n \x1b[94min\x1b[0m (\x1b[33m"a"\x1b[0m, \x1b[94m1\x1b[0m):\n    \x1b[94mpass\x1b[0m'
    )


def test_the_demo_fits_a_terminal_of_80_columns(terminal):
    shown = terminal("demo", COLUMNS="80")

    assert shown.code == 0
    assert all(len(ESCAPE.sub("", line)) <= 80 for line in shown.out.splitlines())
    assert "\x1b[36m" in shown.out


def test_the_demo_ended_with_commands_that_the_shell_does_not_find(folder, monkeypatch):
    ours = Path(sys.executable).parent
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(ours.parent)
    assert as_typed("sqew") == f"{ours.name}/sqew"
    assert as_typed("docs/cli.md") == "docs/cli.md"

    (folder / "sqew").symlink_to(ours / "sqew")
    (folder / "python").symlink_to(ours / "python")
    monkeypatch.setenv("PATH", str(folder))
    assert (as_typed("sqew"), as_typed("python")) == ("sqew", f"{ours.name}/python")

    monkeypatch.setenv("PATH", str(ours))
    assert (as_typed("sqew"), as_typed("python")) == ("sqew", "python")


def test_the_demo_without_colours_is_plain_text(terminal):
    assert "\x1b" not in terminal("demo", NO_COLOR="1").out


def test_the_demo_says_the_same_in_a_pipe(terminal, process):
    def steps(text):
        return re.sub(r"sqew-demo-\w+", "", text.replace("\r", ""))

    assert steps(terminal("--no-color demo", COLUMNS="80").out) == steps(process("demo").out)
