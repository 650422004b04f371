"""backup, check, completion and the demo."""

import random
import shutil
import sqlite3
import subprocess
import time

import pytest

from tests.cli.conftest import SCRIPT, environment


@pytest.fixture
def filled(sqew):
    sqew("queue add --name orders")
    sqew("message enqueue --queue orders --payload 1234567")


@pytest.mark.usefixtures("filled")
def test_a_backup_is_a_queue_of_its_own(sqew):
    assert sqew("backup copy.db --json").json["backup"] == "copy.db"

    assert sqew("--db copy.db message get --queue orders --json").json["messages"][0]["payload"] == 1234567


@pytest.mark.usefixtures("filled")
def test_check_finds_nothing_where_nothing_is_wrong(sqew):
    done = sqew("check")

    assert (done.code, done.out) == (0, "Checked 1 message and 0 in the archive: all is well.\n")


@pytest.mark.usefixtures("filled")
def test_check_finds_an_altered_body(sqew, folder):
    with sqlite3.connect(folder / "queue.db") as file:
        file.execute("UPDATE sqew_message SET body = x'37' WHERE id = 1")
    file.close()

    done = sqew("check")

    assert done.code == 6
    assert done.out == "Checked 1 message and 0 in the archive: there is damage.\n"
    assert "changed on the disk: 1." in done.err
    assert sqew("check --json").json["damaged"] == [1]
    assert sqew("queue peek --name orders --json").json["messages"][0]["payload"] is None


def test_check_said_that_all_is_well_where_a_delivery_and_a_schedule_were_damaged(sqew, folder):
    sqew("queue add --name orders")
    sqew("subscription add --pattern # --endpoint https://endpoint.example/hook")
    sqew("event publish --key orders.created --payload 1")
    sqew("schedule add --name nightly --queue orders --cron '0 3 * * *' --body 1")
    assert sqew("check").code == 0
    with sqlite3.connect(folder / "queue.db") as file:
        file.execute("UPDATE sqew_payload SET body = x'37'")
        file.execute("UPDATE sqew_schedule SET body = x'37'")
    file.close()

    done = sqew("check")

    assert done.code == 6
    assert "What these deliveries post, or where to, changed on the disk: 1." in done.err
    assert "These schedules changed on the disk: 'nightly'." in done.err
    report = sqew("check --json").json
    assert (report["damaged_deliveries"], report["damaged_schedules"]) == ([1], ["nightly"])


PAGE = 4096


@pytest.fixture
def broad(sqew, folder):
    """Fill a file of many pages; return its content."""
    sqew("queue add --name orders")
    sqew("message enqueue --queue orders --file -", input=f'"{"x" * 200}"\n' * 500)
    return (folder / "queue.db").read_bytes()


def lies_in(content, page):
    """Return the content with noise in place of one page."""
    start = page * PAGE
    return content[:start] + random.Random(page).randbytes(PAGE) + content[start + PAGE :]


def test_check_sent_whoever_had_damaged_pages_to_check(sqew, folder, broad):
    hit = 0
    for page in range(1, len(broad) // PAGE):
        (folder / "queue.db").write_bytes(lies_in(broad, page))

        done, told = sqew("check"), sqew("check --json")

        assert (done.code, told.code) == (6, 6)
        assert done.out.endswith("in the archive: there is damage.\n")
        assert "sqew: Damage: " in done.err
        assert "sqew: Restore queue.db from a backup" in done.err
        assert "Run `sqew check`" not in done.err
        assert (told.json["ok"], told.json["problems"] != []) == (False, True)
        hit += 0 < told.json["messages"] < 500
    assert hit  # what can be read is counted


@pytest.mark.parametrize("left", [1 / 100, 1 / 4, 1 / 2, 9 / 10])
def test_check_sent_whoever_had_a_truncated_file_to_check(sqew, folder, broad, left):
    (folder / "queue.db").write_bytes(broad[: int(len(broad) * left)])

    done = sqew("check --json")

    assert done.code == 6
    assert done.json["ok"] is False
    assert done.err.endswith("sqew: Restore queue.db from a backup.\n")


def test_check_tells_that_what_was_not_hit_can_still_be_exported(sqew, folder, broad):
    connection = sqlite3.connect(folder / "queue.db")
    page = connection.execute("SELECT rootpage - 1 FROM sqlite_schema WHERE name = 'sqew_schedule'").fetchone()[0]
    connection.close()
    (folder / "queue.db").write_bytes(lies_in(broad, page))

    done = sqew("check")

    assert done.code == 6
    assert "the schedules can't be read to the end: database disk image is malformed" in done.err
    assert "until then `sqew export --queue NAME` writes what can still be read of a queue." in done.err
    assert len(sqew("export --queue orders").out.splitlines()) == 500


def test_a_bar_shows_how_far_long_work_is(folder, terminal, process):
    process("queue add --name slow --rate-limit 500")  # so that 1500 take two seconds
    (folder / "many").write_text("1\n" * 1500)

    shown = terminal("message enqueue --queue slow --file many --max-batch 100").out

    assert "sending" in shown
    assert "/1500" in shown
    assert "sending" not in process("message enqueue --queue slow --file many --max-batch 100").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_one_that_the_shell_reads(process, shell):
    script = process(f"completion {shell}").out

    assert "_SQEW_COMPLETE" in script
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        assert (checked.returncode, checked.stderr) == (0, "")


@pytest.fixture
def complete(folder):
    """Return a function that lists a shell's completions of the last word."""

    def run(words):
        env = environment(_SQEW_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
        done = subprocess.run([SCRIPT], capture_output=True, text=True, env=env, cwd=folder)
        return [line.partition(",")[2] for line in done.stdout.split()]

    return run


def test_completion_knows_commands_and_options(complete):
    assert complete("sqew me") == ["message", "metrics"]
    assert complete("sqew queue re") == ["requeue-dlq"]
    assert "--max-attempts" in complete("sqew queue add --max")


def test_completion_knows_the_queues_in_the_file(sqew, complete):
    sqew("queue add --name orders --db a.db")

    assert complete("sqew --db a.db queue show --name or") == ["orders", "orders-dlq"]
    assert complete("sqew queue show --name or") == []
    assert complete("sqew --db a.db queue show or") == ["orders", "orders-dlq"]
    assert complete("sqew --db a.db queue show orders or") == []
    assert complete("sqew --db a.db queue peek orders --li") == ["--limit"]


def test_the_demo_shows_every_step_and_leaves_nothing_behind(process, folder):
    started = time.monotonic()

    done = process("demo", TMPDIR=str(folder))

    assert (done.code, done.err) == (0, "")
    for step in ("1. Open", "2. Create", "9. The printer is repaired", "10. Nothing was lost"):
        assert step in done.out
    assert "printer still on fire" in done.out
    assert list(folder.iterdir()) == []
    assert time.monotonic() - started < 20  # 1 s on an idle machine


def test_the_demo_keeps_a_file_that_was_named(process):
    assert process("demo --db kept.db").code == 0
    assert process("--db kept.db stats --queue orders --json").json["totals"]["acked"] == 9
