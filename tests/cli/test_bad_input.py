"""Bad input: one sentence on stderr, nothing on stdout, the right exit code, never a traceback."""

import os
import signal
import sqlite3
import subprocess
import time

import pytest
from click.testing import CliRunner

from sqew.cli.main import sqew as root
from tests.cli.conftest import SCRIPT, bound_by_rights, environment

BAD = [
    ("queue add --name 'bad name'", 2, "can't be a queue's name"),
    ("queue add --name ''", 2, "can't be a queue's name"),
    ("queue add --name q --lane 'b d=1'", 2, "can't be a lane's name"),
    ("queue add --name q --lane x=0", 2, "weight"),
    ("queue add --name q --lane x=heavy", 2, "weight"),
    ("queue add --name q --lane x=1 --lane x=2", 2, "A lane is named twice"),
    ("queue add --name q --max-attempts 0", 2, "max_attempts"),
    ("queue add --name q --max-attempts many", 2, "--max-attempts can't be 'many'"),
    ("queue add --name q --ttl-ms 0", 2, "--ttl-ms can't be '0'"),
    ("queue add --name q --visibility-ms -5", 2, "--visibility-ms can't be '-5'"),
    ("queue add --name q --visibility-ms soon", 2, "or with a unit"),
    ("queue add --name q --visibility-ms none", 2, "--visibility-ms"),
    ("queue add --name q --rate-limit -1", 2, "rate_limit"),
    ("queue add --name q --rate-limit nan", 2, "rate_limit"),
    ("queue add --name q --quota -1", 2, "quota"),
    ("queue add --name q --dead-letter q", 2, "its own dead-letter queue"),
    ("queue add --name q --dead-letter 'a b'", 2, "can't be a queue's name"),
    ("queue add --name q --keep nothing", 2, "--keep"),
    ("queue add", 2, "--name"),
    ("queue update --name orders --fifo", 2, "FIFO"),
    ("queue show --name ordres", 3, "did you mean 'orders'?"),
    ("queue rm --name nope --yes", 3, "does not exist"),
    ("queue peek --name orders --limit 0", 2, "--limit"),
    ("queue peek --name orders --limit 5000", 2, "limit can't be 5000"),
    ("queue ad --name q", 2, "There is no command 'ad' (did you mean 'add'?)"),
    ("quue list", 2, "There is no command 'quue' (did you mean 'queue'?)"),
    ("queue list --jsno", 2, "--json"),
    ("queue list extra", 2, "extra"),
    ("message enqueue --queue nope --payload 1", 3, "does not exist"),
    ("message enqueue --queue orders", 2, "nothing to send"),
    ("message enqueue --queue orders --payload '{oops'", 2, "The body is not valid JSON"),
    ("message enqueue --queue orders --payload ''", 2, "The body is not valid JSON"),
    ("message enqueue --queue orders --payload NaN", 2, "The body is not valid JSON"),
    ("message enqueue --queue orders --payload " + "[" * 99 + "]" * 99, 2, "max_depth"),
    ("message enqueue --queue orders --payload '\"123456789\"' --max-body-bytes 9", 2, "max_body_bytes"),
    ("message enqueue --queue orders --text 1234567890 --max-body-bytes 9", 2, "max_body_bytes"),
    ("message enqueue --queue orders --payload 1 --delay-ms -1", 2, "--delay-ms can't be '-1'"),
    ("message enqueue --queue orders --payload 1 --delay-ms 99999d", 2, "--delay-ms"),
    ("message enqueue --queue orders --payload 1 --priority 5000", 2, "priority"),
    ("message enqueue --queue orders --payload 1 --priority high", 2, "--priority"),
    ("message enqueue --queue orders --payload 1 --lane nromal", 2, "did you mean 'normal'?"),
    ("message enqueue --queue orders --payload 1 --header novalue", 2, "NAME=VALUE"),
    ("message enqueue --queue orders --payload 1 --idempotency-key ''", 2, "--idempotency-key"),
    ("message enqueue --queue orders --file nope", 2, "nope can't be read: No such file"),
    ("message enqueue --queue orders --file .", 2, "can't be read"),
    ("message poll --queue orders --batch 0", 2, "--batch can't be 0"),
    ("message poll --queue orders --batch 1001", 2, "--batch can't be 1001"),
    ("message poll --queue orders --lane fast", 2, "has no lane 'fast'"),
    ("message get --queue nope", 3, "does not exist"),
    ("message ack --queue orders --ids 1,x", 2, "1,2,3"),
    ("message ack --queue orders --ids 0", 2, "1,2,3"),
    ("message ack --queue orders --ids ,", 2, "1,2,3"),
    ("message ack --queue orders --ids 99999999999999999999", 2, "1,2,3"),
    ("message ack --queue orders --ids 7", 3, "Message 7 is not in queue"),
    ("message nack --queue nope --ids 7", 3, "does not exist"),
    ("message extend-lease --queue orders --id 1 --ms -1", 2, "--ms can't be '-1'"),
    ("message peek --queue orders --id 99", 3, "Message 99"),
    ("message peek --queue orders --id 99999999999999999999", 2, "--id"),
    ("dlq list --queue nope", 3, "does not exist"),
    ("archive list --queue orders --outcome maybe", 2, "--outcome"),
    ("import --queue orders --file nope", 2, "nope can't be read"),
    ("import --queue nope --file /dev/null", 3, "does not exist"),
    ("export --queue nope", 3, "does not exist"),
    ("stats --queue nope", 3, "does not exist"),
    ("backup queue.db", 5, "queue.db exists"),
    ("backup missing/copy.db", 5, "does not exist"),
    ("completion tcsh", 2, "tcsh"),
    ("--durability slow queue list", 2, "durability can't be 'slow'"),
    ("queue list --busy-timeout-ms never", 2, "busy_timeout_ms can't be 'never'"),
    ("--config nope.toml queue list", 2, "nope.toml can't be read"),
    ("demo --db queue.db", 5, "queue.db exists"),
]


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(("command", "code", "says"), BAD, ids=[command[:60] for command, _, _ in BAD])
def test_what_is_wrong_is_said_in_a_line(sqew, command, code, says):
    done = sqew(command)

    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("sqew: ")
    assert done.err.count("\n") == 1
    assert says in done.err


LOOKING = [
    "queue list", "queue show --name q", "queue peek --name q", "queue purge --name q --yes", "queue rm --name q --yes",
    "queue update --name q --quota 1", "queue compact --name q", "queue requeue-dlq --name q", "message poll --queue q",
    "message get --queue q", "message peek --queue q --id 1", "message enqueue --queue q --payload 1",
    "message ack --queue q --ids 1", "message remove --queue q --id 1", "dlq list --queue q", "archive list --queue q",
    "stats", "stats --queue q", "health", "metrics", "check", "export --queue q", "import --queue q --file /dev/null",
    "backup copy.db",
]  # fmt: skip


@pytest.mark.parametrize("command", LOOKING)
def test_a_missing_file_is_an_error_and_is_not_made(sqew, folder, command):
    done = sqew(command + " --db missing.db")

    assert done.code == 5
    assert done.err == "sqew: missing.db does not exist. Check the name, or create a queue in it first.\n"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["queue list", "health", "check", "queue add --name q"])
def test_a_file_that_is_not_a_database_is_left_alone(process, folder, command):
    (folder / "queue.db").write_text("Dear diary, " * 500)

    done = process(command)

    assert done.code == 5
    assert done.err == "sqew: queue.db is not a SQLite database. Name another file; this one was left as it is.\n"
    assert (folder / "queue.db").read_text() == "Dear diary, " * 500


def test_a_folder_is_not_a_file(sqew, folder):
    done = sqew(f"queue list --db {folder}")

    assert done.code == 5
    assert "is a folder" in done.err


@pytest.mark.parametrize("command", ["queue list", "queue add --name q", "check"])
def test_a_pipe_or_a_device_was_taken_for_a_disk_that_fails(process, folder, command):
    os.mkfifo(folder / "pipe")
    for place in ("pipe", "/dev/null"):
        done = process(f"{command} --db {place}")

        assert done.code == 5
        assert done.err == f"sqew: {place} is not a regular file but a pipe, a socket or a device. Name another.\n"


def test_a_read_only_folder_is_named(folder):
    folder.chmod(0o555)

    done = bound_by_rights(SCRIPT, "queue", "add", "--name", "orders", cwd=folder)

    folder.chmod(0o755)
    assert done.stderr == "sqew: The folder . is read-only. Make it writable, or choose another place.\n"
    assert done.returncode == 5
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("orders")
def test_a_read_only_file_is_named(folder):
    (folder / "queue.db").chmod(0o444)

    done = bound_by_rights(SCRIPT, "queue", "purge", "--name", "orders", cwd=folder)

    assert done.returncode == 5
    assert "queue.db or its folder is read-only" in done.stderr


NOT_UNICODE = [
    [b"queue", b"show", b"--name", b"\xff"],
    [b"message", b"enqueue", b"--queue", b"orders", b"--payload", b'"\xff"'],
    [b"message", b"enqueue", b"--queue", b"orders", b"--text", b"\xff"],
    [b"message", b"ack", b"--queue", b"orders", b"--ids", b"1", b"--token", b"\xff"],
]


def test_a_name_that_is_not_unicode_is_refused(process):
    process("queue add --name orders")

    for words in NOT_UNICODE:
        done = process(words)
        assert done.code == 2, done.err
        assert done.err.startswith("sqew: ")


@pytest.mark.usefixtures("orders")
def test_a_locked_file_is_busy(process):
    # Another process, because the locks of one don't keep itself out.
    with sqlite3.connect("queue.db") as other:
        other.execute("BEGIN IMMEDIATE")
        done = process("message enqueue --queue orders --payload 1 --busy-timeout-ms 10")
        healthy = process("health --busy-timeout-ms 10")
        other.rollback()
    other.close()

    assert (done.code, healthy.code) == (5, 5)
    assert "Another process is writing" in done.err


@pytest.mark.usefixtures("orders")
def test_a_quota_and_a_rate_have_an_exit_code_of_their_own(sqew):
    sqew("queue add --name small --quota 1")
    sqew("message enqueue --queue small --payload 1")

    assert sqew("message enqueue --queue small --payload 2").code == 7


@pytest.mark.usefixtures("orders")
def test_a_full_disk_is_unhealthy(sqew):
    done = sqew("health --disk-reserve-bytes 1TiB")

    assert done.code == 5
    assert "Free some space." in done.err


def test_a_failure_that_nobody_expected_is_a_sentence_unless_debugging(monkeypatch):
    def fail(*_args, **_options):
        raise RuntimeError("the moon is down")

    monkeypatch.setattr("sqew.cli.session.QueueSession.open", fail)

    done = CliRunner().invoke(root, ["queue", "requeue-dlq", "--name", "q"])
    debugged = CliRunner().invoke(root, ["queue", "requeue-dlq", "--name", "q", "--debug"])

    assert (done.exit_code, debugged.exit_code) == (1, 1)
    assert done.stderr.startswith(
        "sqew: This should not have happened: RuntimeError: the moon is down. Run it again with --debug"
    )
    assert done.stderr.count("\n") == 1
    assert "Traceback" in debugged.stderr


def test_ctrl_c_while_waiting_is_one_line(folder, process):
    process("queue add --name orders")
    words = ["message", "poll", "--queue", "orders", "--wait-ms", "60s", "--event-log", "log"]
    waiting = subprocess.Popen([SCRIPT, *words], stderr=subprocess.PIPE, cwd=folder, env=environment())
    deadline = time.monotonic() + 20
    while not (folder / "log").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    waiting.send_signal(signal.SIGINT)

    _, err = waiting.communicate(timeout=20)

    assert (waiting.returncode, err.decode().strip()) == (130, "sqew: Interrupted.")
