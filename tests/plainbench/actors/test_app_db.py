"""app.db: its contents at the start, and its faults."""

import time

import apsw
import pytest

from plainbench.actors.app_database import AppDb, load_fixtures
from plainbench.config.model import SQLite
from plainbench.faults.injector import Injected
from plainbench.record.events import read
from sqew.errors import BadValue, StoreBusy
from tests.plainbench.runs import QUICK, run_real, run_virtual


@pytest.fixture
def app(context):
    """Yield a function that opens a connection with the faults of ``faults.db``: ``app(error_rate=1)``."""
    opened = []

    def open_(**faults):
        opened.append(AppDb(context(faults={"db": faults}, sqlite=QUICK), "w/0", 0))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


@pytest.fixture
def load(tmp_path):
    """Return a function that fills app.db from a file, and returns the rows of the table of the file's name."""

    def load_(name, text):
        path = tmp_path / name
        path.write_text(text)
        file = str(tmp_path / "app.db")
        load_fixtures(file, SQLite(), [path])
        connection = apsw.Connection(file)
        try:
            return connection.execute(f"SELECT * FROM {path.stem} ORDER BY rowid").fetchall()
        finally:
            connection.close()

    return load_


def test_a_sql_file_is_run(load):
    assert load("t.sql", "CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x'), (2, NULL);") == [(1, "x"), (2, None)]


def test_a_csv_file_becomes_a_table_in_which_numbers_are_numbers(load):
    rows = load("products.csv", 'id,price,code,name\n1,9.90,007,"Screw, long"\n-2,0.5,1e3,\n')

    assert rows == [(1, 9.9, "007", "Screw, long"), (-2, 0.5, "1e3", "")]


def test_a_jsonl_file_becomes_a_table(load):
    rows = load("t.jsonl", '{"a": 1, "b": "x"}\n{"b": null, "c": [1, {"d": 2}]}\n')

    assert rows == [(1, "x", None), (None, None, '[1,{"d":2}]')]


def test_a_table_from_a_file_is_made_anew_each_time(load):
    load("t.csv", "a\n1\n2\n")

    assert load("t.csv", "b\n3\n") == [(3,)]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("t.sql", "CREATE TABEL t (a)", "syntax error"),
        ("t.csv", "a,b\n1\n", "line 2 has not as many cells as there are columns"),
        ("t.csv", "a,b\n1,2,3\n", "line 2 has not as many cells as there are columns"),
        ("t.csv", "", "has no rows to make a table of"),
        ("t.jsonl", '{"a": 1}\n{"a": \n', "can't be loaded"),
        ("t.jsonl", '{"a": 18446744073709551616}\n', "can't be loaded"),
        ("t.txt", "", "give .sql, .csv or .jsonl"),
    ],
)
def test_a_fixture_that_is_wrong_is_named_with_what_is_wrong(load, tmp_path, name, text, why):
    with pytest.raises(BadValue, match=why) as raised:
        load(name, text)

    assert str(tmp_path / name) in str(raised.value)


def test_a_fixture_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadValue, match=r"The fixture .*nowhere.csv can't be loaded: .*No such file"):
        load_fixtures(str(tmp_path / "app.db"), SQLite(), [tmp_path / "nowhere.csv"])


def test_a_statement_gives_its_rows_by_name(app):
    db = app()
    db.execute("CREATE TABLE t (a, b)")
    db.execute("INSERT INTO t VALUES (:a, :b)", {"a": 1, "b": "x"})

    assert db.execute("SELECT a, b FROM t WHERE a = ?", [1]) == [{"a": 1, "b": "x"}]
    assert db.execute("SELECT a FROM t WHERE a > 1") == []
    assert db.execute("UPDATE t SET a = 2 RETURNING a") == [{"a": 2}]


@pytest.mark.parametrize(
    ("statement", "parameters"),
    [("SELECT * FROM nowhere", []), ("SELECT ?", [[1]]), ("SELECT ?", [2**64]), ("SELECT ?", []), ("nonsense", [])],
)
def test_what_sqlite_refuses_is_a_sentence_with_the_statement(app, statement, parameters):
    db = app()

    with pytest.raises(BadValue, match=r"app\.db: ") as raised:
        db.execute(statement, parameters)

    assert statement in str(raised.value)
    assert db.execute("SELECT 1 AS one") == [{"one": 1}]


def test_a_statement_that_fails_leaves_nothing_behind(app):
    db = app()
    db.execute("CREATE TABLE t (a CHECK (a < 10))")

    with pytest.raises(BadValue, match="CHECK constraint failed"):
        db.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (50)")

    assert db.execute("SELECT a FROM t") == []


def test_a_transient_error_has_nothing_done(app):
    db = app(error_rate=1)

    with pytest.raises(Injected, match="injected transient error of query"):
        db.execute("CREATE TABLE t (a)")

    assert app().execute("SELECT name FROM sqlite_schema") == []


@pytest.mark.parametrize("statement", ["CREATE TABLE t (a)", "SELECT 1"])
def test_a_timeout_is_a_real_busy_after_the_busy_timeout_of_writers_and_readers(app, statement):
    db = app(error_rate=1, errors={"timeout": 1})
    began = time.monotonic()

    with pytest.raises(StoreBusy, match=r"app\.db is locked by another writer"):
        db.execute(statement)

    assert time.monotonic() - began >= QUICK["pragmas"]["busy_timeout_ms"] / 1000 * 0.9


def test_a_slow_database_takes_its_time_and_says_so_on_the_log(context):
    slow = context(faults={"db": {"latency": {"type": "fixed", "ms": 60}}})
    db = AppDb(slow, "w/3", 2)
    began = time.monotonic()

    db.execute("SELECT 1")

    assert time.monotonic() - began >= 0.06
    db.close()
    slow.recorder.flush()
    (fault,) = read(slow.run)
    assert (fault.what, fault.where, fault.worker, fault.ms) == ("latency", "query", "w/3", 60)
    assert (fault.stream, fault.index) == ("db/w/3/2/query/latency", 1)


def test_a_crash_in_the_database_kills_the_worker_with_its_write_done(tmp_path):
    (tmp_path / "t.sql").write_text("DROP TABLE IF EXISTS t; CREATE TABLE t (n);")
    (tmp_path / "work.py").write_text('def work(job):\n    job.app.execute("INSERT INTO t VALUES (?)", [job.number])\n')
    crash = {"point": "after_commit", "at": [3]}

    run = run_real(
        tmp_path,
        workload=[{"topic": "orders", "messages": 10}],
        sqlite={**QUICK, "app_fixtures": ["t.sql"]},
        workers=[{"name": "w", "call": "work.py:work", "lease_ms": 500}],
        faults={"db": {"crash": crash}},
    )

    assert len(run.of("worker", "died")) == 1
    (again,) = {event.n for event in run.of("received") if event.attempt > 1}
    connection = apsw.Connection(str(tmp_path / "app.db"))
    twice = connection.execute("SELECT n FROM t GROUP BY n HAVING count(*) > 1").fetchall()
    connection.close()
    assert twice == [(again,)]
    assert run.numbers_acked == set(range(1, 11))


def test_in_virtual_time_the_faults_of_the_database_make_the_same_log_wherever_it_is_recorded(tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n")
    (tmp_path / "work.py").write_text('def work(job):\n    job.app.execute("UPDATE t SET a = a + 1")\n')
    changes = {
        "workers": [{"name": "w", "call": "work.py:work", "concurrency": 3}],
        "faults": {"db": {"error_rate": 0.2, "errors": {"timeout": 1}, "latency": {"type": "fixed", "ms": 3}}},
        "sqlite": {**QUICK, "app_fixtures": ["t.csv"]},
    }

    one, other = (run_virtual(tmp_path, **changes) for _ in range(2))

    assert one.log == other.log
    assert {event.reason for event in one.of("retried")} == {
        "StoreBusy: app.db is locked by another writer. Try again."
    }
    assert not (tmp_path / "app.db").exists()


def test_a_crash_before_the_commit_comes_when_the_statement_has_been_run(tmp_path):
    (tmp_path / "t.sql").write_text("CREATE TABLE t (n CHECK (n <> 2));")
    (tmp_path / "work.py").write_text('def work(job):\n    job.app.execute("INSERT INTO t VALUES (?)", [job.number])\n')

    run = run_virtual(
        tmp_path,
        workload=[{"topic": "orders", "messages": 4, "arrivals": {"type": "constant", "rate": 100}}],
        sqlite={**QUICK, "app_fixtures": ["t.sql"]},
        workers=[{"name": "w", "call": "work.py:work", "lease_ms": 500}],
        faults={"db": {"crash": {"point": "before_commit", "at": [2, 3]}}},
    )

    # The second was refused by the table, and had nothing to commit.
    assert [event.index for event in run.of("fault", "before_commit")] == [3]
    connection = apsw.Connection(str(run.folder / "app.db"))
    rows = connection.execute("SELECT n FROM t ORDER BY n").fetchall()
    connection.close()
    assert rows == [(1,), (3,), (4,)]
