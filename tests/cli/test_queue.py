"""`sqew queue …`."""

import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress

import pytest

from tests.cli.conftest import SCRIPT, environment


def policy(sqew, name="orders"):
    return sqew(f"queue show --name {name} --json").json["policy"]


def test_a_new_queue_gets_five_attempts_and_a_dead_letter_queue(sqew):
    sqew("queue add --name orders")

    assert policy(sqew)["max_attempts"] == 5
    assert policy(sqew)["dead_letter"] == "orders-dlq"
    assert [queue["name"] for queue in sqew("queue list --json").json["queues"]] == ["orders", "orders-dlq"]


def test_every_field_of_the_policy_can_be_given(sqew):
    done = sqew(
        "queue add --name all --visibility-ms 5s --max-attempts 7 --dead-letter none --delay-ms 10 --ttl-ms 1h "
        "--lane a=3 --lane b --keep archive --archive-retention-ms none --key-retention-ms 2m --deduplicate content "
        "--backoff-base-ms 20 --backoff-cap-ms 30 --backoff-kind fixed --backoff-jitter-ms 0 --rate-limit 2.5 "
        "--quota 9 --deduplicate-within group --key-retention-from sent --max-body-bytes 1000 --receive-wait-ms 20s"
    )

    assert done.code == 0
    assert policy(sqew, "all") == {
        "visibility_ms": 5_000,
        "max_attempts": 7,
        "dead_letter": None,
        "backoff": {"kind": "fixed", "base_ms": 20, "cap_ms": 30, "jitter_ms": 0},
        "delay_ms": 10,
        "ttl_ms": 3_600_000,
        "fifo": False,
        "deduplicate": "content",
        "deduplicate_within": "group",
        "key_retention_ms": 120_000,
        "key_retention_from": "sent",
        "lanes": {"a": 3, "b": 1},
        "keep": "archive",
        "archive_retention_ms": None,
        "rate_limit": 2.5,
        "quota": 9,
        "max_body_bytes": 1_000,
        "receive_wait_ms": 20_000,
    }


def test_a_fifo_queue_is_named_so(sqew):
    assert sqew("queue add --name orders.fifo --fifo").code == 0
    assert policy(sqew, "orders.fifo")["fifo"] is True

    refused = sqew("queue add --name orders --fifo")
    assert refused.code == 2
    assert "ends in '.fifo'" in refused.err


@pytest.mark.usefixtures("orders")
def test_update_changes_what_is_named_and_nothing_else(sqew):
    before = policy(sqew)

    done = sqew("queue update --name orders --backoff-cap-ms 7s --ttl-ms 1m --max-attempts none")

    assert done.code == 0
    changed = {"ttl_ms": 60_000, "max_attempts": None, "backoff": before["backoff"] | {"cap_ms": 7_000}}
    assert policy(sqew) == before | changed
    assert sqew("queue update --name orders --ttl-ms none").code == 0
    assert policy(sqew)["ttl_ms"] is None


@pytest.mark.usefixtures("orders")
def test_update_without_a_change_says_what_is_missing(sqew):
    done = sqew("queue update --name orders")

    assert done.code == 2
    assert "Say what to change." in done.err


@pytest.mark.usefixtures("orders")
def test_adding_a_queue_again_with_another_policy_is_a_conflict(sqew):
    assert sqew("queue add --name orders --quota 5").code == 4
    assert sqew("queue add --name orders --quota 5 --exist-ok").code == 0
    assert policy(sqew)["quota"] is None


def test_a_dead_letter_queue_that_does_not_exist_is_made(sqew):
    assert sqew("queue add --name orders --dead-letter graveyard").err == ""
    assert sqew("queue update --name orders --dead-letter tomb").err == ""

    assert policy(sqew, "graveyard")["max_attempts"] is None
    assert policy(sqew, "tomb")["dead_letter"] is None


def test_a_dead_letter_queue_that_was_deleted_is_pointed_out(sqew):
    sqew("queue add --name orders --dead-letter graveyard")
    sqew("queue rm --name graveyard --yes")

    done = sqew("queue update --name orders --max-attempts 3")

    assert done.code == 0
    assert "Queue 'graveyard' was deleted. It is made anew when a message dies." in done.err


def test_the_setting_decides_where_the_option_does_not(sqew):
    sqew("--max-attempts 9 queue add --name a")
    sqew("--max-attempts 9 queue add --name b --max-attempts 3")

    assert policy(sqew, "a")["max_attempts"] == 9
    assert policy(sqew, "b")["max_attempts"] == 3


def test_the_list_can_be_narrowed_to_a_prefix(sqew):
    for name in ("mail-in", "mail-out", "orders"):
        sqew(f"queue add --name {name} --dead-letter none")

    assert [q["name"] for q in sqew("queue list --prefix mail --json").json["queues"]] == ["mail-in", "mail-out"]


@pytest.mark.usefixtures("orders")
def test_purge_and_rm_delete_what_they_say(sqew):
    for n in range(3):
        sqew(f"message enqueue --queue orders --payload {n}")

    assert sqew("queue purge --name orders --yes --json").json == {"name": "orders", "purged": 3}
    assert sqew("queue rm --name orders --yes").out == "Deleted queue 'orders'.\n"
    assert sqew("queue show --name orders").code == 3


TOTAL = 30_000


@pytest.fixture
def purging(sqew, orders, folder):
    """Yield a purge that is running, and a connection to its file."""
    sqew("message enqueue --queue orders --file -", input="1\n" * TOTAL)
    with closing(sqlite3.connect(folder / "queue.db", timeout=0, isolation_level=None)) as file:
        running = subprocess.Popen(
            [SCRIPT, *["queue", "purge", "--name", "orders", "--yes", "--max-batch", "1", "--busy-timeout-ms", "1"]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=folder,
        )  # fmt: skip
        deadline = time.monotonic() + 30
        while left_in(file) == TOTAL:
            assert time.monotonic() < deadline
        yield running, file
        running.kill()
        running.communicate()


def left_in(file):
    return file.execute("SELECT count(*) FROM sqew_message").fetchone()[0]


def test_ctrl_c_during_a_purge_did_not_say_how_much_was_deleted(purging):
    running, file = purging
    running.send_signal(signal.SIGINT)

    out, err = running.communicate(timeout=30)

    left = left_in(file)
    told = f"sqew: Interrupted: deleted {TOTAL - left} messages, and left the rest. Run it again to go on.\n"
    assert (running.returncode, out.decode(), err.decode()) == (130, "", told)
    assert 0 < left < TOTAL


def test_an_error_during_a_purge_did_not_say_how_much_was_deleted(purging):
    running, file = purging
    while not file.in_transaction and running.poll() is None:
        with suppress(sqlite3.OperationalError):
            file.execute("BEGIN IMMEDIATE")

    out, err = running.communicate(timeout=30)

    told = f"sqew: Stopped: deleted {TOTAL - left_in(file)} messages, and left the rest."
    assert (running.returncode, out.decode(), err.decode().splitlines()[0]) == (5, "", told)
    assert "Another process is writing to queue.db." in err.decode()


@pytest.mark.usefixtures("orders")
def test_peek_shows_the_next_messages_and_takes_none(sqew):
    for n in (1, 2, 3):
        sqew(f"message enqueue --queue orders --payload {n} --priority {n}")

    peeked = sqew("queue peek --name orders --limit 2 --json").json["messages"]

    assert [message["payload"] for message in peeked] == [3, 2]
    assert {message["attempts"] for message in peeked} == {0}


@pytest.mark.usefixtures("orders")
def test_compact_makes_the_file_smaller(sqew):
    big = '"' + "x" * 400_000 + '"'
    for _ in range(3):
        sqew(["message", "enqueue", "--queue", "orders", "--payload", big])
    sqew("queue purge --name orders --yes")

    done = sqew("queue compact --name orders --json").json

    assert done["bytes_after"] < done["bytes_before"]
