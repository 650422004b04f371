"""`sqew message …`."""

import json
import subprocess
import time

import pytest

from tests.cli.conftest import SCRIPT, environment

pytestmark = pytest.mark.usefixtures("orders")


def send(sqew, *payloads, options=""):
    for payload in payloads:
        assert sqew([*f"message enqueue --queue orders {options} --payload".split(), json.dumps(payload)]).code == 0


def poll(sqew, options=""):
    return sqew(f"message poll --queue orders --json {options}").json["messages"]


def test_a_payload_comes_out_byte_for_byte(sqew):
    odd = '{"n": 1.10,  "big": 12345678901234567890, "s": "\\u00e9"}'
    sqew(["message", "enqueue", "--queue", "orders", "--payload", odd])

    assert f'"payload":{odd},' in sqew("message get --queue orders --json").out


def test_text_is_shown_as_a_json_string(sqew):
    sqew(["message", "enqueue", "--queue", "orders", "--text", "{not json"])

    message = poll(sqew)[0]

    assert (message["payload"], message["format"]) == ("{not json", "text")


def test_what_is_said_of_a_message_comes_with_it(sqew):
    sqew("queue add --name many.fifo --lane a --lane b")
    sqew(
        "message enqueue --queue many.fifo --payload 1 --priority 5 --lane b --group g --ttl-ms 1h --header x=1=2 "
        "--header y= --idempotency-key k"
    )

    message = sqew("message peek --queue many.fifo --id 1 --json").json

    assert message["headers"] == {"x": "1=2", "y": ""}
    assert (message["priority"], message["lane"], message["group"], message["key"]) == (5, "b", "g", "k")
    assert message["expires_at"] == message["created_at"] + 3_600_000


def test_a_key_is_sent_once(sqew):
    first = sqew("message enqueue --queue orders --payload 1 --idempotency-key k --json").json
    second = sqew("message enqueue --queue orders --payload 2 --idempotency-key k --json").json

    assert first == {"queue": "orders", "id": 1, "duplicate": False}
    assert second == {"queue": "orders", "id": 1, "duplicate": True}


def test_poll_leases_and_shows_the_token(sqew):
    send(sqew, "a")

    message = poll(sqew, "--lease-ms 60s --consumer w1")[0]

    assert (message["attempts"], message["state"], message["leased_by"]) == (1, "leased", "w1")
    assert 50_000 < message["lease_expires_at"] - time.time() * 1000 < 70_000
    assert poll(sqew) == []


def test_get_takes_for_good(sqew):
    send(sqew, 1, 2, 3)

    taken = sqew("message get --queue orders --batch 2 --json").json["messages"]

    assert [message["payload"] for message in taken] == [1, 2]
    assert not {"token", "state"} & taken[0].keys()
    assert sqew("stats --queue orders --json").json["depths"]["lanes"]["normal"] == {
        "ready": 1,
        "delayed": 0,
        "leased": 0,
        "blocked": 0,
    }


def test_ack_with_the_right_token_and_with_none(sqew):
    send(sqew, 1, 2)
    token = poll(sqew, "--batch 2")[0]["token"]

    assert sqew(f"message ack --queue orders --ids 1 --token {token}").code == 0
    assert sqew("message ack --queue orders --ids 2").code == 0
    assert sqew("queue peek --name orders --json").json["messages"] == []


@pytest.mark.parametrize("act", ["ack --ids 1", "nack --ids 1", "nack --ids 1 --dead", "extend-lease --id 1 --ms 5m"])
@pytest.mark.parametrize("before", ["", "--consumer w1"])
def test_an_id_settles_no_message_that_was_not_polled_here(sqew, before, act):
    send(sqew, 1)
    if before:
        poll(sqew, before)

    done = sqew(f"message {act} --queue orders")

    assert done.code == 4
    assert "poll it first, or name its holder with --consumer or --token" in done.err
    assert sqew("message peek --queue orders --id 1 --json").json["state"] == ("leased" if before else "ready")


def test_the_holder_may_be_named(sqew):
    send(sqew, 1)
    poll(sqew, "--consumer w1")

    assert sqew("message ack --queue orders --ids 1 --consumer w1").code == 0


def test_a_stale_token_changes_nothing_and_says_so(sqew):
    send(sqew, 1)
    poll(sqew)

    done = sqew("message ack --queue orders --ids 1 --token 0123456789abcdef --json")

    assert done.code == 4
    assert done.json["results"][0]["error"] == "stale_lease"
    assert "no longer yours" in done.err
    assert sqew("message peek --queue orders --id 1").code == 0


def test_a_batch_answers_per_entry_and_ends_with_the_first_failure(sqew):
    send(sqew, 1, 2)
    poll(sqew, "--batch 2")

    done = sqew("message ack --queue orders --ids 1,77,2")

    assert done.code == 3
    assert done.out == "Acknowledged 2 of 3 messages.\n"
    assert done.err.count("\n") == 1
    assert "Message 77 is not in queue 'orders'" in done.err


def test_ack_does_not_reach_into_other_queues(sqew):
    sqew("queue add --name other")
    send(sqew, 1)

    assert sqew("message ack --queue other --ids 1").code == 3
    assert sqew("message peek --queue orders --id 1").code == 0


def test_nack_brings_it_back_and_then_kills_it(sqew):
    send(sqew, 1)
    poll(sqew)
    assert sqew("message nack --queue orders --ids 1 --reason broken").code == 0
    assert poll(sqew)[0]["attempts"] == 2

    done = sqew("message nack --queue orders --ids 1 --reason broken --json")

    assert done.json["results"][0]["dead"] is True
    letters = sqew("dlq list --queue orders --json").json["messages"]
    assert [(letter["id"], letter["death"]["reason"]) for letter in letters] == [(1, "broken")]


def test_nack_with_a_delay_hides_it_for_so_long(sqew):
    send(sqew, 1)
    poll(sqew)

    sqew("message nack --queue orders --ids 1 --delay-ms 10m")

    assert poll(sqew) == []
    assert sqew("message peek --queue orders --id 1 --json").json["state"] == "delayed"


def test_extend_lease_sets_its_end(sqew):
    send(sqew, 1)
    ends = poll(sqew)[0]["lease_expires_at"]

    assert sqew("message extend-lease --queue orders --id 1 --ms 10m").code == 0

    assert sqew("message peek --queue orders --id 1 --json").json["lease_expires_at"] > ends + 500_000


def test_remove_deletes_by_id(sqew):
    send(sqew, 1)

    assert sqew("message remove --queue orders --id 1").code == 0
    assert sqew("message remove --queue orders --id 1").code == 3


def test_poll_waits_for_a_message_that_another_process_sends(sqew, folder):
    started = time.monotonic()
    waiting = subprocess.Popen(
        [SCRIPT, *["message", "poll", "--queue", "orders", "--wait-ms", "30s", "--json"]],
        stdout=subprocess.PIPE,
        env=environment(),
        cwd=folder,
    )
    time.sleep(0.5)
    send(sqew, "hello")

    out, _ = waiting.communicate(timeout=30)

    assert json.loads(out)["messages"][0]["payload"] == "hello"
    assert time.monotonic() - started < 20


def test_an_empty_queue_is_no_failure(sqew):
    done = sqew("message get --queue orders")

    assert (done.code, done.out) == (0, "")
    assert "nothing to receive" in done.err


def test_lanes_can_be_chosen(sqew):
    sqew("queue add --name lanes --lane a --lane b")
    sqew("message enqueue --queue lanes --payload 1 --lane a")
    sqew("message enqueue --queue lanes --payload 2 --lane b")

    taken = sqew("message get --queue lanes --lane b --batch 5 --json").json["messages"]

    assert [message["payload"] for message in taken] == [2]


def test_the_archive_lists_what_is_done(sqew):
    sqew("queue add --name kept --keep archive")
    sqew("message enqueue --queue kept --payload 1")
    sqew("message get --queue kept")

    listed = sqew("archive list --queue kept --json").json["messages"]

    assert [(message["id"], message["outcome"]) for message in listed] == [(1, "done")]
    assert sqew("archive list --queue kept --outcome dead --json").json["messages"] == []


def test_dead_letters_can_be_picked_by_id(sqew):
    send(sqew, 1, 2, 3)
    poll(sqew, "--batch 3")
    sqew("message nack --queue orders --ids 1,2,3 --dead")

    assert sqew("dlq requeue --queue orders --ids 2 --json").json["requeued"] == 1
    assert sqew("dlq purge --queue orders --ids 1 --yes --json").json["purged"] == 1
    assert [m["id"] for m in sqew("dlq list --queue orders --json").json["messages"]] == [3]
    missing = sqew("dlq requeue --queue orders --ids 1,2")
    assert (missing.code, missing.err) == (3, "sqew: 2 of the 2 ids given name no dead letter of queue 'orders'.\n")
    assert sqew("queue requeue-dlq --name orders --json").json["requeued"] == 1
