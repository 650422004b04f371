"""Workers that are commands: their input, their answers, and the handling of those that misbehave."""

import json
import os
import threading
import time
from pathlib import Path

import pytest

from plainbench.config.model import WorkerConfig
from plainbench.drivers.base import Delivered
from plainbench.record.events import read
from plainbench.workers import Dead, Done, Retry
from plainbench.workers.command import CommandFailed, CommandHandler
from sqew.errors import BadValue
from tests.plainbench.runs import run_real

FIVE_LINES = """\
#!/bin/sh
while read -r line; do
  printf '%s\\n' "$line" >> seen
  case "$line" in *'"bad"'*) echo "dead it is bad" ;; *'"later"'*) echo retry 500 ;; *) echo ack ;; esac
done
"""


@pytest.fixture
def command(tmp_path, context):
    """Yield a function that makes a handler of any script: ``command("while read …", timeout_ms=100)``."""
    opened = []

    def open_(script, *, scene_=None, **worker):
        path = tmp_path / f"work-{len(opened)}"
        path.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}")
        path.chmod(0o755)
        config = WorkerConfig("w", cmd=[f"./{path.name}"], **worker)
        opened.append(CommandHandler(scene_ or context(), config, "w/0", 0))
        return opened[-1]

    yield open_
    for handler in opened:
        handler.close()


@pytest.fixture
def reports(context, tmp_path):
    """Return a function that reads the worker's events from the log, as pairs of what and why."""

    def read_them(scene_):
        scene_.recorder.flush()
        return [(event.what, event.reason) for event in read(scene_.run) if event.event == "worker"]

    return read_them


def message(body=b"{}", **fields):
    return Delivered(1, body, **fields)


def test_a_shell_script_of_five_lines_does(command):
    handler = command(FIVE_LINES)

    verdicts = [handler.handle("orders", message(body)) for body in (b'"good"', b'"bad"', b'"later"')]

    assert verdicts == [Done(), Dead("it is bad"), Retry(500)]


def test_it_is_told_what_the_message_is(command, tmp_path):
    delivery = Delivered(7, b'{"id": 1}', "normal", 2, "customer-3", {"lab": 7, "from": "shop"})

    command(FIVE_LINES).handle("orders", delivery)

    assert json.loads((tmp_path / "seen").read_text()) == {
        "n": 7, "topic": "orders", "lane": "normal", "attempt": 2, "body": {"id": 1}, "group": "customer-3",
        "headers": {"from": "shop"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"price": 1.10}', '{"price": 1.10}'),
        (b'{\r\n  "id": 1\n}', '{    "id": 1 }'),
        (b"no JSON\nat all", r'"no JSON\nat all"'),
    ],
    ids=["as it is", "in one line", "as a string"],
)
def test_a_body_is_json_in_one_line(command, tmp_path, body, told):
    command(FIVE_LINES).handle("orders", message(body))

    assert f'"body":{told}' in (tmp_path / "seen").read_text()


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("ack", Done()),
        ("retry", Retry()),
        ('{"verdict": "ack"}', Done()),
        ('{"verdict": "retry", "after_ms": 20, "reason": "sold out"}', Retry(20, "sold out")),
        ('{"verdict": "dead", "reason": "no such product"}', Dead("no such product")),
    ],
)
def test_what_it_may_answer(command, answer, verdict):
    handler = command(f"while read -r line; do echo '{answer}'; done")

    assert handler.handle("orders", message()) == verdict


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("jawohl", "it is not ack, retry or dead"),
        ("", "it is not ack, retry or dead"),
        ("retry soon", "a number of milliseconds"),
        ('{"verdict": "ack", "afterms": 1}', "unknown field `afterms`"),
        ('{"verdict": "retry", "after_ms": -5}', ">= 0"),
        ('{"verdict": ', "truncated"),
    ],
)
def test_nonsense_is_reported_and_the_message_tried_again(command, context, reports, answer, why):
    scene_ = context()
    handler = command(f"read -r line; echo '{answer}'; read -r more", scene_=scene_)

    verdict = handler.handle("orders", message())

    assert isinstance(verdict, Retry)
    ((what, reason),) = reports(scene_)
    assert what == "talked nonsense"
    assert f"Its answer {answer!r} can't be understood" in reason
    assert why in reason


def test_a_line_too_many_does_not_pass_for_the_next_answer(command, context, reports):
    scene_ = context()
    handler = command("while read -r line; do printf 'ack\\ndead\\n'; done", scene_=scene_)

    first, second = (handler.handle("orders", message()) for _ in range(2))

    assert first == Done()
    assert isinstance(second, Retry)
    assert reports(scene_)[0] == ("talked nonsense", "It wrote b'dead\\n' though it was asked nothing more.")


def test_a_command_that_dies_is_reported_with_its_stderr_and_started_again(command, context, reports, tmp_path):
    scene_ = context()
    once = "[ -e died ] || { touch died; read -r line; echo 'no database!' >&2; exit 9; }"
    handler = command(f"{once}\nwhile read -r line; do echo ack; done", scene_=scene_)

    first, second = (handler.handle("orders", message()) for _ in range(2))

    assert (first, second) == (Retry(reason="The command ended with 9 in the midst of a message."), Done())
    assert reports(scene_) == [
        ("command died", "The command ended with 9 in the midst of a message. It said: no database!")
    ]


def test_a_command_that_ends_between_messages_is_reported_and_started_again(command, context, reports):
    scene_ = context()
    handler = command("read -r line; echo ack; exit 4", scene_=scene_)
    handler.handle("orders", message())
    handler._process.wait()

    verdict = handler.handle("orders", message())

    assert verdict == Done()
    assert reports(scene_) == [("command died", "The command ended with 4 between two messages.")]


def test_a_timeout_kills_the_command_and_what_it_has_started(command, context, reports, tmp_path):
    scene_ = context()
    handler = command("echo $$ > pids; sleep 600 & echo $! >> pids; wait", scene_=scene_, timeout_ms=200)
    began = time.monotonic()

    verdict = handler.handle("orders", message())

    assert verdict == Retry(reason="No verdict came within 200 ms.")
    assert 0.2 <= time.monotonic() - began < 10
    assert reports(scene_)[0][0] == "timed out"
    for pid in (tmp_path / "pids").read_text().split():
        await_end(int(pid))


def test_a_command_that_does_not_read_is_timed_out_too(command):
    handler = command("sleep 600", timeout_ms=100)

    verdict = handler.handle("orders", message(b'"%s"' % (b"x" * 1_000_000)))

    assert verdict == Retry(reason="No verdict came within 100 ms.")


def test_a_command_that_never_answers_is_cut_off_when_the_run_is_over(command, context):
    scene_ = context()
    assert isinstance(scene_.stop, threading.Event)
    handler = command("sleep 600", scene_=scene_)
    scene_.stop.set()

    verdict = handler.handle("orders", message())

    assert verdict == Retry(reason="The run was over before it answered.")


def test_the_run_is_given_up_when_a_command_fails_time_and_again(command):
    handler = command("echo 'Segmentation fault' >&2; exit 139")
    verdicts = [handler.handle("orders", message()) for _ in range(4)]

    with pytest.raises(CommandFailed, match=r"of w/0 failed 5 times in a row.* It said: Segmentation fault$"):
        handler.handle("orders", message())

    assert all(isinstance(verdict, Retry) for verdict in verdicts)


def test_a_command_that_is_not_there_is_named_with_the_folder_that_it_was_looked_for_in(context, tmp_path):
    worker = WorkerConfig("w", cmd=["./missing", "--fast"])

    with pytest.raises(BadValue, match=r"command of w can't be started: ./missing --fast: No such file") as raised:
        CommandHandler(context(), worker, "w/0", 0)

    assert str(tmp_path) in str(raised.value)


def test_it_is_told_the_end_by_the_end_of_its_input(context, tmp_path):
    script = tmp_path / "work"
    script.write_text("#!/bin/sh\nwhile read -r line; do echo ack; done; touch ended\n")
    script.chmod(0o755)
    handler = CommandHandler(context(), WorkerConfig("w", cmd=["./work"]), "w/0", 0)

    handler.close()

    assert (tmp_path / "ended").exists()


ASKS = """#!/bin/sh
while read -r line; do
  printf '%s\\n' "$QUERY"
  read -r rows
  printf '%s\\n' "$rows" >> rows
  echo ack
done
"""


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ({"query": "SELECT ? + 1 AS sum, 'x' AS letter", "parameters": [2]}, {"rows": [{"sum": 3, "letter": "x"}]}),
        ({"query": "SELECT :n AS n", "parameters": {"n": 5}}, {"rows": [{"n": 5}]}),
        ({"query": "CREATE TABLE t (a)"}, {"rows": []}),
        ({"query": "SELECT * FROM nowhere"}, {"error": "app.db: no such table: nowhere, in: SELECT * FROM nowhere"}),
    ],
)
def test_it_may_ask_the_apps_database_before_it_answers(command, tmp_path, monkeypatch, query, answer):
    monkeypatch.setenv("QUERY", json.dumps(query))

    verdict = command(ASKS).handle("orders", message())

    assert verdict == Done()
    assert json.loads((tmp_path / "rows").read_text()) == answer


def test_a_parameter_that_is_no_value_is_an_error_of_the_query(command, tmp_path, monkeypatch):
    monkeypatch.setenv("QUERY", '{"query": "SELECT ?", "parameters": [[1]]}')

    verdict = command(ASKS).handle("orders", message())

    assert verdict == Done()
    assert "error" in json.loads((tmp_path / "rows").read_text())


def write_script(folder: Path, text: str) -> dict:
    path = folder / "work"
    path.write_text(text)
    path.chmod(0o755)
    return {"name": "w", "cmd": ["./work"], "lease_ms": 1_000}


FEW = [{"topic": "orders", "messages": 30, "arrivals": {"type": "constant", "rate": 200}}]


def test_a_run_is_worked_off_by_a_shell_script(tmp_path):
    worker = write_script(tmp_path, FIVE_LINES)

    run = run_real(tmp_path, workload=FEW, workers=[{**worker, "concurrency": 2}])

    assert run.why == "settled"
    assert run.numbers_acked == set(range(1, 31))
    assert len((tmp_path / "seen").read_text().splitlines()) == 30
    assert list((run.folder / "commands").iterdir()) == []


def test_a_killed_worker_leaves_no_command_behind(tmp_path):
    hangs = """#!/bin/sh
if [ ! -e pid ]; then echo $$ > pid; read -r line; echo ack; sleep 600; fi
while read -r line; do echo ack; done
"""
    worker = write_script(tmp_path, hangs)
    crash = {"queue": {"crash": {"point": "after_commit", "calls": ["ack"], "at": [1]}}}

    run = run_real(tmp_path, workload=FEW, workers=[worker], faults=crash)

    assert run.of("worker", "died")
    await_end(int((tmp_path / "pid").read_text()))


def test_a_command_that_cannot_start_ends_the_run_in_one_sentence(tmp_path, plainbench):
    (tmp_path / "plainbench.yaml").write_text(
        "topics: [{name: orders}]\nworkload: [{topic: orders, messages: 1}]\nworkers: [{name: w, cmd: [./missing]}]\n"
    )

    done = plainbench("run")

    assert done.code != 0
    assert "w could not start: workers: the command of w can't be started: ./missing: No such file" in done.err
    assert "Traceback" not in done.err + done.out


def test_a_command_that_dies_of_every_message_ends_the_run_with_its_stderr(tmp_path, plainbench):
    write_script(tmp_path, "#!/bin/sh\nread -r line\necho 'no licence' >&2\nexit 7\n")
    (tmp_path / "plainbench.yaml").write_text(
        "topics: [{name: orders, base_backoff_ms: 0}]\nworkload: [{topic: orders, messages: 9}]\n"
        "workers: [{name: w, cmd: [./work]}]\n"
    )

    done = plainbench("run")

    assert done.code != 0
    assert "The command of w/0 failed 5 times in a row. The command ended with 7" in done.err
    assert "no licence" in done.err
    assert "Traceback" not in done.err + done.out


def await_end(pid: int) -> None:
    """Return when a process has ended, or is but a zombie that its parent has not waited for yet."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return
        except OSError:
            return
        os.sched_yield()
    pytest.fail(f"process {pid} still runs")
