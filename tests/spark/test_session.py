"""The session that `sqew.spark.session()` gives."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sqew.errors import SparkUnusable
from sqew.spark import session
from sqew.spark.session import chosen_settings


def test_a_session_counts(spark: SparkSession) -> None:
    assert spark.range(1_000).count() == 1_000


def test_a_session_at_work_is_given_as_it_is(spark: SparkSession) -> None:
    again = session(name="another")

    assert again is spark
    assert again.conf.get("spark.app.name") == "sqew tests"


def test_a_session_at_work_elsewhere_is_not_moved(spark: SparkSession) -> None:
    with pytest.raises(SparkUnusable, match=r"on local\[2,3\] and not on yarn\. Stop it first"):
        session("yarn")


def test_a_session_at_work_is_seen_from_another_thread(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as other:
        again = other.submit(session, name="another").result()
        elsewhere = other.submit(session, "yarn").exception()

    assert again is spark
    assert isinstance(elsewhere, SparkUnusable)


def test_times_are_utc(spark: SparkSession) -> None:
    assert spark.sql("SELECT date_format(timestamp_micros(0), 'yyyy-MM-dd HH:mm')").first()[0] == "1970-01-01 00:00"


def test_what_the_caller_says_comes_before_ours() -> None:
    chosen = chosen_settings("local[2]", {"spark.sql.session.timeZone": "Asia/Tokyo"})

    assert chosen["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert chosen["spark.ui.enabled"] == "false"


def test_of_a_cluster_little_is_chosen() -> None:
    chosen = chosen_settings("spark://host:7077", {})

    assert not any(key.startswith(("spark.driver", "spark.ui.enabled", "spark.sql.shuffle")) for key in chosen)


@pytest.mark.soak
@pytest.mark.parametrize("after_s", [0.7, 1, 1.5, 2, 3, 4, 5, 7])
def test_whoever_interrupts_the_start_leaves_no_java_behind(tmp_path: Path, after_s: float) -> None:
    command = [
        str(Path(sys.executable).with_name("sqew")),
        "spark",
        "generate",
        "--count",
        "9000000",
        "--output",
        "made",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as running:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(after_s)
        running.send_signal(signal.SIGINT)
        # Java holds on to both as long as it lives.
        out, err = running.communicate(timeout=60)

    assert (running.returncode, out) == (130, "")
    assert err.strip().startswith("sqew: Interrupted.")
