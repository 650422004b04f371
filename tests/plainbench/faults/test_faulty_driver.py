"""Faults round a driver from elsewhere, and the processes of a run that die and come again."""

import signal
import time

import pytest

from plainbench.drivers import open_driver
from plainbench.drivers.base import Item, Place, Topic
from plainbench.faults.driver import FaultyDriver
from plainbench.faults.injector import Injected
from plainbench.record.events import read
from plainbench.run.real_time import ChildFailed
from plainbench.verdict.verdict import judge
from tests.plainbench.runs import QUICK, config, run_real

FOREIGN = """
from plainbench.drivers.embedded import EmbeddedDriver

class Foreign(EmbeddedDriver):
    '''A queue whose store the lab knows nothing of.'''
    faults_inside = False
    def __init__(self, place):
        from msgspec.structs import replace
        super().__init__(replace(place, injector=None))
"""
TARGET = {"driver": "foreign.py:Foreign"}


@pytest.fixture
def foreign(tmp_path):
    (tmp_path / "foreign.py").write_text(FOREIGN)
    return tmp_path


@pytest.fixture
def driver(foreign, context):
    """Yield a function that returns a context and a faulty driver of an empty topic: ``driver(error_rate=1)``."""
    opened = []

    def open_(**faults):
        scene_ = context(faults={"queue": faults}, target=TARGET, sqlite=QUICK)
        opened.append(scene_.driver("w/0", 0))
        opened[-1].create(Topic("orders"))
        return scene_, opened[-1]

    yield open_
    for one in opened:
        one.close()


def depth(folder, context):
    plain = open_driver(Place(context.config, folder, context.time))
    try:
        return plain.depths("orders")["normal"]["ready"]
    finally:
        plain.close()


def test_the_lab_wraps_a_driver_that_has_no_faults_of_its_own(driver):
    _, wrapped = driver()

    assert isinstance(wrapped, FaultyDriver)
    assert wrapped.durability == "fast: synchronous=NORMAL"


def test_a_call_passes_through_when_nothing_is_wrong(driver, foreign):
    context, wrapped = driver()
    wrapped.send("orders", [Item(1, b"{}"), Item(2, b"{}")])

    first, second = wrapped.receive("orders", 2, 1_000, 0)
    wrapped.retry("orders", first, 0)

    assert wrapped.ack("orders", [second]) == [None]
    assert depth(foreign, context) == 1


def test_an_injected_error_has_nothing_done(driver, foreign):
    context, wrapped = driver(error_rate=1)

    with pytest.raises(Injected, match="injected transient error of send"):
        wrapped.send("orders", [Item(1, b"{}")])

    assert depth(foreign, context) == 0


def test_a_timeout_takes_the_time_of_one(driver):
    _, wrapped = driver(error_rate=1, errors={"timeout": 1})
    began = time.monotonic()

    with pytest.raises(Injected, match="injected timeout error"):
        wrapped.receive("orders", 1, 1_000, 0)

    assert time.monotonic() - began >= QUICK["pragmas"]["busy_timeout_ms"] / 1000


def test_a_slow_call_is_on_the_log_with_its_name_and_number(driver):
    context, wrapped = driver(latency={"type": "fixed", "ms": 20})
    wrapped.send("orders", [Item(1, b"{}")])
    wrapped.receive("orders", 1, 1_000, 0)

    context.recorder.flush()

    faults = [event for event in read(context.run) if event.event == "fault"]
    assert [(event.where, event.index, event.ms) for event in faults] == [("send", 1, 20), ("receive", 1, 20)]


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "before_reply"])
def test_a_crash_round_a_foreign_driver_kills_the_process_before_or_after_the_call(foreign, point):
    run = run_real(
        foreign,
        target=TARGET,
        workload=[{"topic": "orders", "messages": 20, "arrivals": {"type": "constant", "rate": 200}}],
        workers=[{"name": "w", "lease_ms": 500}],
        faults={"queue": {"crash": {"point": point, "at": [4]}}},
    )

    (death,) = run.of("worker", "died")
    assert f"exit code {-signal.SIGKILL}" in death.reason
    (started,) = run.of("worker", "started")
    assert started.at - death.at >= 200_000
    unheard = set(range(1, 21)) - run.numbers_acked
    assert len(unheard) == (0 if point == "before_commit" else 1)
    assert judge(run.folder, config(target=TARGET)).problems == []


def test_a_worker_that_keeps_dying_by_itself_ends_the_run_with_what_it_said(tmp_path):
    (tmp_path / "work.py").write_text(
        "import os, sys\ndef work(job):\n    print('out of patience', file=sys.stderr, flush=True)\n    os._exit(17)\n"
    )
    workers = [{"name": "w", "call": "work.py:work", "lease_ms": 100, "restart_ms": 0, "heartbeat": False}]

    with pytest.raises(ChildFailed, match=r"w died 4 times by itself \(exit code 17\): out of patience"):
        run_real(tmp_path, workload=[{"topic": "orders", "messages": 5}], workers=workers)

    (run,) = tmp_path.glob("run-*")
    last = list(read(run))[-1]
    assert (last.event, last.what) == ("run", "failed")
    assert "out of patience" in last.reason
