"""Spark sessions with suitable settings: on this machine Sqew's own, on a cluster mostly the cluster's."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING

from sqew.errors import BadValue, SparkUnusable
from sqew.installing import to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyspark", "pyarrow", "pandas")
"""The packages that every job needs."""
_MISSING = "Spark needs the package {}: {}."
_MASTER = re.compile(r"yarn|local(-cluster)?(\[[\d\s*,]+\])?|(spark|k8s)://\S+")
_MB = 1 << 20
_LEAST_MB, _MOST_MB = 1_024, 8_192

EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""The settings of a session wherever it runs."""
ON_THIS_MACHINE = {
    # A laptop's name often leads nowhere, or to a network that is switched off.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
}
"""Further settings where all of Spark is one process here."""


def session(master: str | None = None, name: str = "sqew", **settings: str) -> SparkSession:
    """Return the active Spark session, as it is, or a new one.

    ``master`` says where: ``local[4]``, ``spark://host:7077``, ``yarn``. Without it, `spark-submit` and
    spark-defaults.conf decide, or else all cores of this machine are used. ``settings`` are Spark's, and take
    precedence over ours: ``session(**{"spark.sql.shuffle.partitions": "64"})``.
    """
    check_packages()
    check_master(master)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    at_work = session_at_work()
    if at_work is not None:
        return _as_asked(at_work, master)
    if not _is_submitted():
        prepare_environment(master)
    chosen = {"spark.app.name": name, **chosen_settings(master, settings)}
    if master is not None:
        chosen["spark.master"] = master
    conf = SparkConf().setAll(list(chosen.items()))
    with _interrupts_later():
        # As a context would: it goes on with this Java.
        SparkContext._ensure_initialized(conf=conf)
    # A cluster may keep us waiting for long.
    waits = _interrupts_later if _is_here(master) else nullcontext
    with waits():
        SparkContext.getOrCreate(conf)
    builder = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    # Once more: a context has put its own way with Ctrl-C in the place of ours.
    with waits():
        return builder.getOrCreate()


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Have Ctrl-C wait for the end of the block.

    A Java whose start is interrupted is left behind, and waits for ever for a program that is gone; and Spark reports
    an interrupt during its start in a hundred lines.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = threading.Event()

    def wait(_number: int, _frame: FrameType | None) -> None:
        came.set()

    before = signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        # Spark has a way of its own with Ctrl-C, from when it has started.
        if signal.getsignal(signal.SIGINT) is wait:
            signal.signal(signal.SIGINT, before)
    if came.is_set():
        raise KeyboardInterrupt


def session_at_work() -> SparkSession | None:
    """Return the session that this program has started before, if any."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        # Not only the one of this thread.
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def chosen_settings(master: str | None, settings: dict[str, str]) -> dict[str, str]:
    """Return the settings of a new session. The caller's take precedence; for a cluster we set few."""
    here = {**ON_THIS_MACHINE, "spark.driver.memory": f"{_memory_mb()}m"} if _is_here(master) else {}
    return {**EVERYWHERE, **here, **settings}


def prepare_environment(master: str | None) -> None:
    """Set the environment variables that say which Java and which Python Spark is to start."""
    from sqew.spark.runtime.java import find, home_for_spark
    from sqew.spark.runtime.launchers import for_python

    os.environ["JAVA_HOME"] = str(home_for_spark(find()))
    if _is_here(master):
        os.environ.setdefault("PYSPARK_PYTHON", str(for_python()))


def check_master(master: str | None) -> None:
    """Raise if Spark knows no such master: its launcher would end without a word to this program."""
    if master is not None and _MASTER.fullmatch(master) is None:
        raise BadValue(f"The master can't be {master!r}: give local[2], spark://HOST:7077, k8s://HOST or yarn.")


def check_packages() -> None:
    """Raise if a package is missing that every job needs."""
    from importlib.util import find_spec

    for package in NEEDED:
        if find_spec(package) is None:
            raise SparkUnusable(_MISSING.format(package, to_install("spark")))


def _as_asked(at_work: SparkSession, master: str | None) -> SparkSession:
    has = at_work.conf.get("spark.master", "")
    if master is not None and master != has:
        raise SparkUnusable(f"A Spark session is at work already, on {has} and not on {master}. Stop it first.")
    return at_work


def _is_submitted() -> bool:
    """Return True if `spark-submit` has started this program, and Java with it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _is_here(master: str | None) -> bool:
    if master is None:
        return not _is_submitted() and "SPARK_CONF_DIR" not in os.environ and "SPARK_HOME" not in os.environ
    return master.startswith("local")


def _memory_mb() -> int:
    """Return a quarter of this machine's memory: Spark's own default, 1 GB, is little for millions of messages."""
    has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MB
    return max(_LEAST_MB, min(_MOST_MB, has // 4))
