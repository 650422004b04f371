"""Lines that install what is missing: they work even if Sqew itself is in no index."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from sqew.installing import pip_install, to_install

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", ["postgres", "otel", "lab", "spark"])
def test_the_line_names_the_packages_of_an_extra_as_they_are_declared(extra):
    command, _, packages = to_install(extra).partition(" install ")

    def parts(requirement):
        return sorted(re.split(r"(?=[<>=])|,", requirement.replace(",", "")))

    assert command.endswith("pip")
    assert sorted(map(parts, shlex.split(packages))) == sorted(map(parts, EXTRAS[extra]))


def test_the_line_installs_into_the_python_that_runs_sqew(monkeypatch, tmp_path):
    """Check `.venv/bin/sqew` in a shell whose pip is another: that one installed in the wrong place, or refused."""
    for folder in ("ours", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pip").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "ours" / "python"))

    monkeypatch.setenv("PATH", str(tmp_path / "other"))
    assert pip_install("a>=1") == f"{tmp_path}/ours/python -m pip install 'a>=1'"
    monkeypatch.setenv("PATH", f"{tmp_path}/none")
    assert pip_install("a>=1") == f"{tmp_path}/ours/python -m pip install 'a>=1'"
    monkeypatch.setenv("PATH", f"{tmp_path}/ours:{tmp_path}/other")
    assert pip_install("a>=1") == "pip install 'a>=1'"


def test_no_message_and_no_page_installs_sqew_by_its_name():
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    asked = re.compile(r"pip install (--upgrade )?['\"]?sqew\b")

    assert [str(file) for file in files if asked.search(file.read_text())] == []
