"""Workers that are Python functions: how they are found, their arguments, and the meaning of their results."""

import pytest

from plainbench.config.model import WorkerConfig
from plainbench.drivers.base import Delivered
from plainbench.record.events import read
from plainbench.workers import Dead, Done, Retry
from plainbench.workers.function import FunctionHandler
from sqew.errors import BadValue
from tests.plainbench.runs import QUICK, run_virtual

WORK = """
from plainbench.workers import Dead, Retry

def returns(job):
    return {"none": None, "true": True, "false": False, "retry": Retry(70, "later"), "dead": Dead("never")}[job.value]

def raises(job):
    return 1 / 0

def sees(job):
    return Dead(repr([job.number, job.topic, job.lane, job.attempt, job.group, job.headers, job.body, job.value]))

def asks(job):
    return Dead(repr(job.app.execute("SELECT ? AS n", [job.number])))

async def waits(job):
    pass

not_a_function = 5
"""


@pytest.fixture
def function(tmp_path, context):
    """Yield a function that makes a handler of one of the functions above: ``function("work.py:raises")``."""
    (tmp_path / "work.py").write_text(WORK)
    opened = []

    def open_(name, scene_=None):
        opened.append(FunctionHandler(scene_ or context(), WorkerConfig("w", call=name), "w/0", 0))
        return opened[-1]

    yield open_
    for handler in opened:
        handler.close()


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (b'"none"', Done()),
        (b'"true"', Done()),
        (b'"false"', Retry(reason="it returned False")),
        (b'"retry"', Retry(70, "later")),
        (b'"dead"', Dead("never")),
    ],
)
def test_what_it_returns_is_the_verdict(function, body, verdict):
    assert function("work.py:returns").handle("orders", Delivered(1, body)) == verdict


def test_what_it_raises_is_a_retry_and_is_reported_with_the_line(function, context):
    scene_ = context()
    line = WORK.splitlines().index("    return 1 / 0") + 1

    verdict = function("work.py:raises", scene_).handle("orders", Delivered(1, b"1"))

    assert verdict == Retry(reason="ZeroDivisionError: division by zero")
    scene_.recorder.flush()
    assert [(event.worker, event.what, event.reason) for event in read(scene_.run)] == [
        ("w/0", "raised", f"ZeroDivisionError: division by zero (work.py, line {line})")
    ]


def test_it_gets_the_message_and_all_that_is_known_of_it(function):
    delivery = Delivered(4, b"[1]", "normal", 2, "g", {"h": 1})

    verdict = function("work.py:sees").handle("orders", delivery)

    assert verdict == Dead(repr([4, "orders", "normal", 2, "g", {"h": 1}, b"[1]", [1]]))


def test_it_may_ask_the_apps_database(function):
    assert function("work.py:asks").handle("orders", Delivered(4, b"1")) == Dead("[{'n': 4}]")


def test_a_module_beside_the_configuration_is_found_by_its_name(function, tmp_path):
    (tmp_path / "work_beside_it.py").write_text(WORK)

    assert function("work_beside_it:asks").handle("orders", Delivered(4, b"1")) == Dead("[{'n': 4}]")


def test_two_files_of_one_name_are_two_modules(function, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "work.py").write_text("def sees(job):\n    return None\n")

    verdicts = [function(name).handle("orders", Delivered(1, b"1")) for name in ("work.py:sees", "other/work.py:sees")]

    assert [type(verdict) for verdict in verdicts] == [Dead, Done]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("work.py:nobody", "work.py:nobody can't be found: .* has no attribute 'nobody'"),
        ("nowhere.py:f", "nowhere.py:f can't be found: there is no file"),
        ("no.such.module:f", "no.such.module:f can't be found: there is no module no"),
        ("broken.py:f", "broken.py can't be loaded: SyntaxError"),
        ("work.py:not_a_function", "work.py:not_a_function of w must be a function that takes a job"),
        ("work.py:waits", "work.py:waits of w must be a function that takes a job"),
    ],
)
def test_what_cannot_be_called_is_refused_before_the_run(function, tmp_path, name, why):
    (tmp_path / "broken.py").write_text("def f(job:\n")

    with pytest.raises(BadValue, match=why):
        function(name)


def test_a_run_is_worked_off_by_a_function_on_the_apps_database(tmp_path):
    (tmp_path / "tables.sql").write_text("DROP TABLE IF EXISTS done; CREATE TABLE done (n INTEGER PRIMARY KEY);")
    (tmp_path / "work.py").write_text(
        'def work(job):\n    job.app.execute("INSERT INTO done VALUES (?)", [job.number])\n'
    )

    run = run_virtual(
        tmp_path,
        sqlite={**QUICK, "app_fixtures": ["tables.sql"]},
        workers=[{"name": "w", "call": "work.py:work"}],
        faults={"db": {"error_rate": 0.1, "errors": {"timeout": 1, "transient": 1}}},
    )

    assert run.numbers_acked == set(range(1, 201))
    assert {event.what for event in run.of("fault")} == {"timeout", "transient"}
    assert len(run.of("retried")) == len(run.of("fault"))
    assert run.of("worker") == []
