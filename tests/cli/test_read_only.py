"""Reads of files that can't or must not be written: backups, and files that another user's process has open."""

import shutil
import subprocess
from types import SimpleNamespace

import pytest

from sqew import Queue
from tests.cli.conftest import SCRIPT, bound_by_rights, environment

LOOKING = [
    "queue list",
    "queue show --name orders",
    "queue peek --name orders",
    "message peek --queue orders --id 1",
    "dlq list --queue orders",
    "archive list --queue orders",
    "stats",
    "stats --queue orders",
    "metrics",
    "export --queue orders",
    "check",
    "schedule list",
    "subscription list",
    "delivery list",
    "consumer list --queue orders",
    "writer list --queue orders",
    "key list",
]


@pytest.fixture
def backup(folder):
    """Return a file in a folder of its own, with its log beside it, that no process has open."""
    with Queue.open(folder / "live.db") as q:
        q.create("orders", keep="archive")
        q.enqueue("orders", {"sku": 7})
        (folder / "backup").mkdir()
        for name in ("live.db", "live.db-wal"):
            shutil.copy(folder / name, folder / "backup" / name)
    return folder / "backup" / "live.db"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def looking(folder):
    """Run a command as a user who may read everything in a folder and write nothing."""

    def run(command, place):
        rights = {path: path.stat().st_mode for path in (place, *place.iterdir())}
        for path in rights:
            path.chmod(0o555 if path == place else 0o444)
        try:
            return bound_by_rights(SCRIPT, *command.split(), cwd=folder)
        finally:
            for path, mode in rights.items():
                path.chmod(mode)

    return run


@pytest.mark.parametrize("command", LOOKING)
def test_looking_with_read_only_leaves_everything_as_it_is(sqew, backup, command):
    before = contents(backup.parent)

    done = sqew(f"--db {backup} {command} --read-only")

    assert done.code == 0, done.err
    assert contents(backup.parent) == before


@pytest.mark.parametrize("command", ["queue list", "queue peek --name orders", "stats", "export --queue orders"])
def test_a_backup_that_can_not_be_written_could_not_be_looked_at(looking, backup, command):
    """Check that a read-only backup can be read: its last messages are in a log that can't be indexed there."""
    done = looking(f"--db {backup} {command} --json", backup.parent)

    assert done.returncode == 0, done.stderr
    assert "orders" in done.stdout or '{"sku":7}' in done.stdout


def test_a_backup_without_a_log_is_looked_at_too(looking, folder):
    (folder / "backup").mkdir()
    with Queue.open(folder / "live.db") as q:
        q.create("orders")
        q.enqueue("orders", {"sku": 7})
        q.backup(folder / "backup" / "copy.db")

    done = looking("--db backup/copy.db queue list", folder / "backup")

    assert "orders          1" in done.stdout
    assert done.stderr == "backup/copy.db can't be written here, so this looks at a copy of it as it is now.\n"


def test_what_was_just_sent_to_a_file_in_use_is_seen_by_who_may_not_write_it(looking, folder):
    (folder / "home").mkdir()
    with Queue.open(folder / "home" / "live.db") as q:
        q.create("orders")
        for number in range(3):
            q.enqueue("orders", {"sku": number})

            done = looking("--db home/live.db queue list --json", folder / "home")

            assert f'"ready":{number + 1}' in done.stdout

        assert q.claim("orders").value == {"sku": 0}


@pytest.mark.parametrize(
    "command",
    [
        "queue add --name q",
        "queue purge --name orders",
        "message enqueue --queue orders --payload 1",
        "message poll --queue orders",
        "health",
        "backup copy.db",
    ],
)
def test_a_command_that_changes_something_is_refused_with_read_only(sqew, backup, command):
    before = contents(backup.parent)

    done = sqew(f"--db {backup} --read-only {command}")

    assert done.code == 2
    assert "--read-only is for commands that only look" in done.err
    assert contents(backup.parent) == before


@pytest.mark.parametrize("place", ["--url http://127.0.0.1:1", "--database-url postgresql://127.0.0.1:1/x"])
def test_only_files_are_looked_at_in_a_copy(sqew, place):
    done = sqew(f"{place} --read-only queue list")

    assert done.code == 2
    assert "--read-only looks at a file" in done.err


def test_a_file_that_is_not_there_is_said_with_read_only_too(sqew):
    done = sqew("--db nothing.db --read-only queue list")

    assert done.code == 5
    assert "nothing.db does not exist" in done.err


def test_a_copy_that_has_no_room_said_that_the_file_was_on_a_full_disk(sqew, backup, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with backup.open("ab") as file:
        file.truncate(2 << 20)

    done = sqew(f"--db {backup} --read-only queue list")

    assert done.code == 5
    assert "takes 2." in done.err
    assert "has 1.0 MiB free. Name a folder with more room: TMPDIR=" in done.err


def test_sigterm_left_the_copy_with_its_messages_behind(backup, folder):
    temporary = folder / "temporary"
    temporary.mkdir()
    command = [SCRIPT, "--db", backup, "--read-only", "export", "--queue", "orders"]
    with Queue.open(backup) as q:
        q.enqueue_many("orders", ["x" * 60_000] * 20)
    looking = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(TMPDIR=str(temporary)))

    # More than a pipe holds: it waits here, with the copy open.
    assert looking.stdout.read(1)
    assert list(temporary.glob("sqew-*/*.db"))
    looking.terminate()

    assert looking.wait() == 143
    assert not list(temporary.iterdir())
    looking.stdout.close()
