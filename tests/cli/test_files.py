"""Bulk commands: enqueue --file, import and export."""

import json
import os
import signal
import subprocess
import time

import pytest

from tests.cli.conftest import SCRIPT, environment

pytestmark = pytest.mark.usefixtures("orders")


def payloads(sqew, queue="orders"):
    return [m["payload"] for m in sqew(f"queue peek --name {queue} --limit 1000 --json").json["messages"]]


def test_every_line_is_a_message(sqew, folder):
    (folder / "lines").write_bytes(b'{"a": 1}\r\n\n  [2]  \n"three"')

    done = sqew("message enqueue --queue orders --file lines --json")

    assert done.json == {"queue": "orders", "sent": 3, "duplicates": 0, "first_id": 1, "last_id": 3}
    assert payloads(sqew) == [{"a": 1}, [2], "three"]


def test_stdin_is_a_file_too(process):
    assert process("message enqueue --queue orders --file -", input=b"1\n2\n").out == "Sent 2 messages to 'orders'.\n"


def test_if_a_line_is_bad_nothing_is_sent_and_the_bad_lines_are_named(sqew, folder):
    (folder / "lines").write_text("1\n{oops}\n3\nNaN\n")

    done = sqew("message enqueue --queue orders --file lines")

    assert done.code == 2
    first, second, verdict = done.err.splitlines()
    assert first.startswith("sqew: lines, line 2: The body is not valid JSON")
    assert second.startswith("sqew: lines, line 4: ")
    assert verdict == "sqew: 2 of 4 lines in lines are bad, so nothing was sent."
    assert payloads(sqew) == []


def test_of_many_bad_lines_the_first_ten_are_named(sqew, folder):
    (folder / "lines").write_text("oops\n" * 30)

    done = sqew("message enqueue --queue orders --file lines")

    assert len(done.err.splitlines()) == 11
    assert "(20 more not shown)" in done.err


def test_a_file_with_a_key_is_sent_once_however_often_it_is_sent(sqew, folder):
    (folder / "lines").write_text("1\n2\n")
    command = "message enqueue --queue orders --file lines --idempotency-key day-1 --json"
    assert sqew(command).json["sent"] == 2

    (folder / "lines").write_text("1\n2\n3\n")
    again = sqew(command).json

    assert (again["sent"], again["duplicates"]) == (1, 2)
    assert [m["key"] for m in sqew("queue peek --name orders --json").json["messages"]] == [
        "day-1",
        "day-1:2",
        "day-1:3",
    ]


def test_a_file_of_one_line_with_a_key_is_like_a_payload(sqew, folder):
    (folder / "one").write_text("1\n")
    sqew("message enqueue --queue orders --payload 1 --idempotency-key k")

    assert sqew("message enqueue --queue orders --file one --idempotency-key k --json").json["duplicates"] == 1


def test_a_file_larger_than_a_batch_is_sent_in_batches(sqew, folder):
    (folder / "lines").write_text("".join(f"{n}\n" for n in range(25)))

    assert sqew("message enqueue --queue orders --file lines --max-batch 10 --json").json["sent"] == 25


def test_a_file_goes_at_the_rate_that_the_queue_allows(sqew, folder):
    sqew("queue add --name slow --rate-limit 100")
    (folder / "lines").write_text("1\n" * 120)

    assert sqew("message enqueue --queue slow --file lines --max-batch 60 --json").json["sent"] == 120


def test_a_quota_in_the_middle_of_a_file_says_how_far_it_got(sqew, folder):
    sqew("queue add --name small --quota 10")
    (folder / "lines").write_text("1\n" * 12)

    done = sqew("message enqueue --queue small --file lines --max-batch 10")

    assert done.code == 7
    assert done.err.startswith("sqew: Stopped: 10 of 12 messages were sent.\n")


BODIES = ['{"a":  1.50}', "[1,\n 2]", '"é\\u00e9"', "null", "12345678901234567890123"]


def test_export_and_import_bring_bodies_back_byte_for_byte(sqew, folder):
    from sqew import Queue

    for body in BODIES:
        assert sqew(["message", "enqueue", "--queue", "orders", "--payload", body, "--priority", "3"]).code == 0
    sqew(
        [
            "message",
            "enqueue",
            "--queue",
            "orders",
            "--text",
            "plain\ttext\n☃",
            "--header",
            "a=b",
            "--idempotency-key",
            "k",
        ]
    )
    sqew("queue add --name copy")

    assert sqew("export --queue orders --output all.ndjson").code == 0
    assert sqew("import --queue copy --file all.ndjson --json").json["sent"] == 6

    with Queue.open(folder / "queue.db") as q:
        said = [
            sorted((m.body, m.format, m.priority, m.key, tuple(m.headers.items())) for m in q.peek(name, 100))
            for name in ("orders", "copy")
        ]
    assert said[0] == said[1]
    assert {body.encode() for body in BODIES} < {body for body, *_ in said[0]}


def test_export_writes_lines_to_stdout_and_the_rest_to_stderr(process):
    process("message enqueue --queue orders --payload 1")

    done = process("export --queue orders")

    assert [json.loads(line)["body"] for line in done.out.splitlines()] == [1]
    assert done.err == "Exported 1 message of 'orders'.\n"


def test_the_archive_can_be_exported(sqew, folder):
    sqew("queue add --name kept --keep archive")
    sqew("message enqueue --queue kept --payload 1")
    sqew("message get --queue kept")

    sqew("export --queue kept --archive --output a.ndjson")

    assert json.loads((folder / "a.ndjson").read_text())["outcome"] == "done"


def test_an_import_with_a_bad_line_sends_nothing(sqew, folder):
    (folder / "lines").write_text('{"body": 1}\n{"priority": 1}\n')

    done = sqew("import --queue orders --file lines")

    assert done.code == 2
    assert "lines, line 2: There is no body." in done.err
    assert payloads(sqew) == []


def test_an_import_leaves_out_what_has_expired(sqew, folder):
    (folder / "lines").write_text('{"body": 1}\n{"body": 2, "expires_at": 1000}\n')

    done = sqew("import --queue orders --file lines")

    assert done.out == "Imported 1 message to 'orders'; 1 left out, expired or damaged.\n"


def test_a_damaged_line_was_called_expired(sqew, folder):
    (folder / "lines").write_text('{"body": 1}\n{"damaged": true}\n')

    done = sqew("--json import --queue orders --file lines")

    assert (done.json["sent"], done.json["left_out"]) == (1, 1)
    assert "expired" not in done.json


def test_an_export_that_nobody_reads_to_its_end_is_quiet(folder, process):
    (folder / "lines").write_text('"' + "x" * 500 + '"\n')
    (folder / "many").write_bytes((folder / "lines").read_bytes() * 3_000)
    process("message enqueue --queue orders --file many")

    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {SCRIPT} export --queue orders | head -n 1 >head"],
        capture_output=True, env=environment(), cwd=folder,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (141, b"")


def test_a_file_that_is_not_written_whole_does_not_appear(sqew, folder):
    done = sqew("export --queue orders --output missing/all.ndjson")

    assert done.code == 1
    assert "missing/all.ndjson can't be written: No such file or directory." in done.err
    assert list(folder.glob("*.unfinished")) == []


def test_ctrl_c_during_an_import_says_how_many_were_sent(folder, process):
    (folder / "many").write_text('{"body": 1}\n' * 60_000)
    running = subprocess.Popen(
        [SCRIPT, *["import", "--queue", "orders", "--file", "many", "--max-batch", "50"]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=folder,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while process("message peek --queue orders --id 1").code != 0 and time.monotonic() < deadline:
        pass
    os.kill(running.pid, signal.SIGINT)

    out, err = running.communicate(timeout=30)

    assert running.returncode == 130, err
    told = int(err.decode().split()[2])
    stored = process("stats --queue orders --json").json["depths"]["lanes"]["normal"]["ready"]
    # It may come in the middle of a commit: then nobody knows of the batch under way, and that is said.
    in_doubt = " and perhaps the 50 after them" if "perhaps" in err.decode() else ""
    assert f"Interrupted: {told} of 60000 messages were sent{',' if in_doubt else ''}{in_doubt}." in err.decode()
    assert stored in ((told, told + 50) if in_doubt else (told,))
    assert out == b""
