"""Lines that install what is missing: they work where nobody can get Sqew itself from an index."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from sqew.installing import to_install

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", ["postgres", "otel", "lab", "spark"])
def test_the_line_names_the_packages_of_an_extra_as_they_are_declared(extra):
    command, verb, *packages = shlex.split(to_install(extra))

    def parts(requirement):
        return sorted(re.split(r"(?=[<>=])|,", requirement.replace(",", "")))

    assert (command, verb) == ("pip", "install")
    assert sorted(map(parts, packages)) == sorted(map(parts, EXTRAS[extra]))


def test_no_message_and_no_page_installs_sqew_by_its_name():
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    asked = re.compile(r"pip install (--upgrade )?['\"]?sqew\b")

    assert [str(file) for file in files if asked.search(file.read_text())] == []
