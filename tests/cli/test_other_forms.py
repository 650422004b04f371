"""Command lines as the public program `sqew` takes them: names without an option before them, ids without a queue."""

import os
import subprocess

import pytest

from sqew.cli.messages import message
from sqew.cli.messages.message import _found
from tests.cli.conftest import SCRIPT
from tests.cli.places import busy_server, place

__all__ = ["busy_server", "place"]

# Each with what its output has in it. The messages are numbered from $1 on.
SESSION = """
sqew queue add demo --max-attempts 5 | grep '^queue *demo'
sqew queue add --name demo2 --max-attempts 5 --visibility-ms 30000 | grep '^queue *demo2'
sqew queue list | grep '^demo '
sqew queue show demo | grep '^max attempts *5'
sqew message enqueue demo --payload '{"hello":"world"}'
sqew message enqueue --queue demo --payload '{"n": 2}' --delay-ms 0
printf '[{"n": 3}, {"n": 4}]' > array.json
sqew message enqueue demo --file array.json | grep 'Sent 2 messages'
printf '{"n": 5}\\n{"n": 6}\\n' > lines.ndjson
sqew message enqueue demo --file lines.ndjson | grep 'Sent 2 messages'
sqew queue peek demo --limit 10 | grep hello
sqew message peek demo --limit 2 | grep '"n": 2'
id=$(sqew message poll demo --batch 1 --visibility-ms 30000 --json | sed 's/.*"id":\\([0-9]*\\),.*/\\1/')
sqew message peek-id $id | grep hello
sqew message peek-id --id $id | grep hello
sqew message nack --ids $id --delay-ms 0 | grep 'Gave back 1 message'
sqew message poll demo --batch 9 > /dev/null
sqew message ack --ids $id,$((id + 1)) | grep 'Acknowledged 2 messages'
sqew message remove $((id + 2)) | grep 'Removed 1 message'
sqew message remove --id $((id + 3)) | grep 'Removed 1 message'
sqew stats demo | grep -i ready
sqew queue requeue-dlq demo | grep 'Requeued 0'
sqew queue purge demo | grep 'Purged 2 messages'
sqew queue remove demo2 | grep "Deleted queue 'demo2'"
sqew queue remove --name demo | grep "Deleted queue 'demo'"
"""


def in_shell(script):
    paths = {"PATH": f"{SCRIPT.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["sh", "-ec", script], env=os.environ | paths, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def test_a_session_with_the_forms_of_the_public_program_works_in_a_shell(place):
    done = in_shell(SESSION)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("queue show orders", "queue show --name orders"),
        ("queue peek orders --limit 2", "queue peek --name orders --limit 2"),
        ("message peek orders", "queue peek --name orders --limit 1"),
        ("message peek --queue orders --limit 5", "queue peek --name orders --limit 5"),
        ("message peek-id 1", "message peek --queue orders --id 1"),
        ("message peek --id 1", "message peek --queue orders --id 1"),
        ("dlq list orders", "dlq list --queue orders"),
        ("export orders", "export --queue orders"),
        ("archive list orders", "archive list --queue orders"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_a_short_form_says_what_the_long_one_says(sqew, short, long):
    sqew("message enqueue --queue orders --payload 1")
    sqew("message enqueue --queue orders --payload 2 --delay-ms 1h")

    answers = [sqew(f"{line} --json").out for line in (short, long)]

    assert answers[0] == answers[1] != ""


@pytest.fixture
def two_queues(place, sqew):
    """Return the ids of two leased messages, each in a queue of its own."""
    sqew("queue add others --backoff-base-ms 0 --backoff-jitter-ms 0")
    for queue in ("orders", "others"):
        sqew(f"message enqueue {queue} --payload 1")
    return [sqew(f"message poll {queue} --json").json["messages"][0]["id"] for queue in ("orders", "others")]


@pytest.mark.parametrize(
    ("command", "done"),
    [
        ("ack", "Acknowledged"),
        ("nack", "Gave back"),
        ("extend-lease --ms 1m", "Extended the lease of"),
        ("remove", "Removed"),
    ],
)
def test_messages_of_several_queues_are_settled_by_their_ids_alone(sqew, two_queues, command, done):
    first, second = two_queues

    settled = sqew(f"message {command} --ids {second},999999999,{first} --json")

    assert settled.code == 3
    assert [(one["id"], one["queue"], one["ok"]) for one in settled.json["results"]] == [
        (second, "others", True), (999_999_999, None, False), (first, "orders", True)
    ]  # fmt: skip
    assert "Message 999999999 is not here" in settled.err


@pytest.mark.parametrize("command", ["ack", "nack", "extend-lease --ms 1m", "remove"])
def test_what_was_settled_of_one_queue_was_not_told_where_the_next_queue_was_gone(
    sqew, two_queues, command, monkeypatch
):
    first, second = two_queues
    sqew("message enqueue others --payload 2")
    [third] = [one["id"] for one in sqew("message poll others --json").json["messages"]]

    def found_just_before_it_is_deleted(q, ids):
        found = _found(q, ids)
        q.delete("others")
        return found

    monkeypatch.setattr(message, "_found", found_just_before_it_is_deleted)
    settled = sqew(f"message {command} --ids {first},{second},{third} --json")

    assert [(one["id"], one["ok"], one.get("error")) for one in settled.json["results"]] == [
        (first, True, None), (second, False, "queue_not_found"), (third, False, "queue_not_found")
    ]  # fmt: skip
    assert (settled.code, settled.err.count("Queue 'others' does not exist")) == (3, 1)


def test_ids_alone_settle_no_message_that_somebody_else_holds(sqew, place):
    sqew("message enqueue orders --payload 1")
    [held] = sqew("message poll orders --consumer w1 --json").json["messages"]

    refused = sqew(f"message ack --ids {held['id']}")

    assert refused.code == 4
    assert sqew(f"message ack --ids {held['id']} --consumer w1").out == "Acknowledged 1 message.\n"


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("queue show", 2, "Missing option '--name'"),
        ("queue show orders other", 2, "Got unexpected extra argument (other). See `sqew queue show --help`."),
        ("queue show orders --name other", 2, "The queue is given twice, as 'orders' and with --name."),
        ("queue show --name other orders", 2, "The queue is given twice, as 'orders' and with --name."),
        ("queue show ordres", 3, "did you mean 'orders'?"),
        ("queue remove ordres", 3, "did you mean 'orders'?"),
        ("queue show 'not a\nname'", 2, "control characters"),
        ("message peek", 2, "Say what to look at: a queue, or --id."),
        ("message peek orders --id 1 --limit 3", 2, "--ids and --limit contradict each other"),
        ("message peek-id", 2, "Missing option '--ids'"),
        ("message peek-id orders", 2, "give message ids with commas between them"),
        ("message peek-id 99", 3, "Message 99 is not here"),
        ("message remove 1 2", 2, "Got unexpected extra argument (2)"),
        ("message ack 1", 2, "Missing option '--ids'"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_a_form_that_says_too_little_or_too_much_is_refused(sqew, line, code, told):
    done = sqew(line)

    assert done.code == code
    assert told in done.err
