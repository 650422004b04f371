"""docs/cli.md: its commands show what the page says."""

import re
import subprocess
from pathlib import Path

from sqew.cli.reference import renewed
from tests.cli.conftest import SCRIPT, environment

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
CHANGING = {
    r"[0-9a-f]{32}": "TOKEN",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(Z| ?[+-]\d\d:\d\d)( \([^)]*\))?": "TIME",
    r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b": "DAY",
    r"\b1\d{12}\b": "TIME",
    r"\d+\.\d [KMGT]iB|\b\d+ B\b": "SIZE",
    r"\b\d+ (ms|s|min|h|d)\b": "SPAN",
    r"\b0\.\d+\b": "RATE",
    r"sqlite version .*": "VERSION",
    r" {2,}": "  ",
}


def masked(text):
    for pattern, word in CHANGING.items():
        text = re.sub(pattern, word, text)
    return [line.strip() for line in text.strip().splitlines()]


def examples(page):
    """Yield each command of the page with the output that the page shows."""
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def test_every_example_shows_what_it_is_said_to_show(folder):
    env = environment() | {"PATH": f"{SCRIPT.parent}:/usr/bin:/bin"}
    for command, said in examples(PAGE.read_text()):
        done = subprocess.run(
            ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=env
        )
        assert masked(done.stdout) == masked(said), command


def test_the_reference_is_up_to_date():
    page = PAGE.read_text()

    assert page == renewed(page), "run: python -m sqew.cli.reference docs/cli.md"
