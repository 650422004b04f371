"""Checks that Spark can run here: what it needs, what was found, and what to do if something can't be used."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct

from sqew.errors import SqewError
from sqew.installing import to_install
from sqew.spark.runtime.failures import cause_of, is_of_spark
from sqew.spark.runtime.java import OLDEST, candidates

_PACKAGES = {"Spark": ("pyspark", (4, 2), (5,)), "Arrow": ("pyarrow", (18,), None), "pandas": ("pandas", (2, 2), (3,))}
"""By part: its package, the oldest version that works, and the first that doesn't any more."""
_CORE = re.compile(r"spark-core_[\d.]+-(\d[\w.]*?)\.jar$")


class Diagnosis(Struct, frozen=True):
    """The state of one part."""

    part: str
    found: str
    trouble: str | None = None
    """The problem with it, and what to do."""


def examine(environment: Mapping[str, str] = os.environ) -> Iterator[Diagnosis]:
    """Yield all findings that don't need Spark to be started."""
    yield Diagnosis("Python", platform.python_version())
    for part, (package, oldest, too_new) in _PACKAGES.items():
        yield _package(part, package, oldest, too_new)
    yield from _spark_home(environment)
    yield _java(environment)
    yield _source()


def try_it() -> Diagnosis:
    """Start Spark on this machine and have it count something in Python."""
    from sqew.spark.session import session, session_at_work

    was_at_work = session_at_work() is not None
    try:
        spark = session(name="sqew: doctor") if was_at_work else session("local[1]", "sqew: doctor")
        try:
            counted = spark.range(1_000).mapInArrow(lambda batches: batches, "id long").count()
        finally:
            if not was_at_work:
                spark.stop()
    except Exception as error:
        if isinstance(error, SqewError):
            return Diagnosis("trial", "failed", str(error))
        if is_of_spark(error):
            return Diagnosis("trial", "failed", str(cause_of(error)))
        raise
    assert counted == 1_000, counted
    return Diagnosis("trial", "Spark ran a job with Python and Arrow in it")


def _install() -> str:
    return f"Install what is needed: {to_install('spark')}."


def _package(part: str, package: str, oldest: tuple[int, ...], too_new: tuple[int, ...] | None) -> Diagnosis:
    try:
        found = version(package)
    except PackageNotFoundError:
        return Diagnosis(part, "not installed", f"The package {package} is missing. {_install()}")
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:3])
    if numbers < oldest:
        return Diagnosis(part, found, f"{package} {found} is older than {_dotted(oldest)}. {_install()}")
    if too_new is not None and numbers >= too_new:
        return Diagnosis(
            part, found, f"{package} {found} is too new: Sqew knows it up to {_dotted(too_new)}. {_install()}"
        )
    return Diagnosis(part, found)


def _spark_home(environment: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Yield the Spark of SPARK_HOME. It takes precedence over the package's, so the two must be of the same version."""
    home = environment.get("SPARK_HOME")
    if not home:
        return
    found = [match[1] for jar in Path(home, "jars").glob("spark-core_*.jar") if (match := _CORE.search(jar.name))]
    if not found:
        yield Diagnosis("SPARK_HOME", home, "There is no Spark in the folder that SPARK_HOME names. Unset SPARK_HOME.")
        return
    try:
        ours = version("pyspark")
    except PackageNotFoundError:
        ours = found[0]
    trouble = None
    if found[0] != ours:
        trouble = f"SPARK_HOME has Spark {found[0]}, and pyspark is {ours}. Unset SPARK_HOME, or install that pyspark."
    yield Diagnosis("SPARK_HOME", f"{found[0]} in {home}", trouble)


def _java(environment: Mapping[str, str]) -> Diagnosis:
    refused: list[str] = []
    for java in candidates(environment):
        if java.objection is None:
            besides = f"; not used: {'; '.join(refused)}" if refused else ""
            return Diagnosis("Java", f"{java.version_text} of {java.found_by} ({java.home}){besides}")
        refused.append(f"{java.found_by}: {java.objection}")
    return Diagnosis(
        "Java",
        "; ".join(refused) or "none",
        f"Spark needs Java {OLDEST} or newer, and there is none that will do. {_install()}",
    )


def _source() -> Diagnosis:
    try:
        from pyspark_sqew import DefaultSource
    except ImportError as error:
        return Diagnosis('format("sqew")', "not found", f"{error.name or error} can't be imported. {_install()}")
    return Diagnosis(f'format("{DefaultSource.name()}")', "registered")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
