"""`sqew event …`, on a file and on a server."""

import json

import pytest

from tests.cli.places import busy_server, place
from tests.support.serving import serving

__all__ = ["busy_server", "place"]


@pytest.fixture(autouse=True)
def subscribed(place, sqew):
    assert sqew("subscription add --pattern orders.* --queue orders").code == 0


def payloads(sqew):
    return [message["payload"] for message in sqew("queue peek --name orders --json").json["messages"]]


def test_an_event_is_published(sqew):
    done = sqew(["event", "publish", "--key", "orders.created", "--body", '{"sku": 7}', "--header", "by=shop"])

    assert done.code == 0, done.err
    first, second = done.out.splitlines()
    assert first == "Published 'orders.created' to 1 queue."
    id = int(second.removeprefix("It is message ").removesuffix(" of 'orders'."))
    shown = sqew(f"message peek --queue orders --id {id} --json").json
    assert (shown["payload"], shown["headers"]["by"]) == ({"sku": 7}, "shop")


def test_machines_are_told_where_it_went(sqew):
    done = sqew("event publish --key orders.created --body 1 --json")

    assert (done.json["queues_matched"], done.json["deliveries"], done.json["missing"]) == (1, 0, [])
    assert done.json["messages"][0]["queue"] == "orders"


def test_a_body_is_published_byte_for_byte(sqew):
    sqew(["event", "publish", "--key", "orders.created", "--body", '{"b": 1.50,  "a": 1}'])

    assert '{"b": 1.50,  "a": 1}' in sqew("queue peek --name orders --json").out


def test_all_that_is_said_of_an_event_arrives(sqew):
    sqew("event publish --key orders.created --text hello --priority 5 --group g --delay 1h --ttl-ms 2h")

    (message,) = sqew("queue peek --name orders --json").json["messages"]
    assert (message["payload"], message["priority"], message["group"]) == ("hello", 5, "g")
    assert (message["available_at"] - message["created_at"], message["state"]) == (3_600_000, "delayed")
    assert message["expires_at"] - message["created_at"] == 7_200_000


def test_lines_from_stdin_are_published_each(sqew):
    done = sqew("event publish --key orders.created --file -", input='{"n": 1}\n\n{"n": 2}\n')

    assert done.out == "Published 2 events under 'orders.created': 2 messages.\n"
    assert payloads(sqew) == [{"n": 1}, {"n": 2}]


def test_a_file_is_published(sqew, folder):
    (folder / "new.ndjson").write_text("1\n2\n3\n")

    done = sqew("event publish --key orders.created --file new.ndjson --json")

    assert (done.json["routing_key"], done.json["published"], len(done.json["messages"])) == ("orders.created", 3, 3)
    assert payloads(sqew) == [1, 2, 3]


def test_machines_are_told_alike_of_one_event_and_of_many(sqew):
    one = sqew("event publish --key orders.created --body 1 --json").json
    many = sqew("event publish --key orders.created --file - --json", input="1\n2\n").json

    assert {name: type(value) for name, value in one.items()} == {name: type(value) for name, value in many.items()}
    assert (one["published"], one["queues_matched"]) == (1, 1)
    assert (many["published"], many["queues_matched"]) == (2, 1)
    assert [message["queue"] for message in many["messages"]] == ["orders"] * 2


def test_a_file_is_published_in_batches(sqew):
    done = sqew("event publish --key orders.created --file - --max-batch 2 --json", input="1\n2\n3\n4\n5\n")

    assert len(done.json["messages"]) == 5
    assert payloads(sqew) == [1, 2, 3, 4, 5]


def test_a_file_that_a_queue_has_no_room_for_stops_and_says_where(sqew):
    sqew("queue update --name orders --quota 4")

    done = sqew("event publish --key orders.created --file - --max-batch 2", input="1\n2\n3\n4\n5\n")

    assert done.code == 7
    assert "Stopped: 4 of 5 events were published." in done.err


def test_nothing_of_a_bad_file_is_published(sqew):
    done = sqew("event publish --key orders.created --file -", input="1\noops\n")

    assert done.code == 2
    assert "stdin, line 2" in done.err
    assert "1 of 2 lines in stdin is bad, so nothing was published." in done.err
    assert payloads(sqew) == []


@pytest.mark.parametrize("nothing", ["", "\n \n"])
def test_an_empty_file_published_nothing_and_said_that_all_went_well(sqew, nothing):
    done = sqew("event publish --key orders.created --file -", input=nothing)

    assert (done.code, done.out) == (2, "")
    assert "There is no line in stdin, so nothing was published." in done.err


def test_a_text_became_a_json_string_on_its_way_through_a_server(sqew):
    sqew("event publish --key orders.created --text hello")

    (id,) = [message["id"] for message in sqew("queue peek --name orders --json").json["messages"]]
    assert sqew(f"message peek --queue orders --id {id} --json").json["format"] == "text"


def test_an_event_that_nobody_wants_says_so(sqew):
    done = sqew("event publish --key payments.created --body 1")

    assert (done.code, done.out) == (0, "Published 'payments.created' to nobody: no subscription matches it.\n")


def test_an_event_for_a_queue_that_is_gone_says_so(sqew):
    sqew("queue rm --name orders --yes")

    done = sqew("event publish --key orders.created --body 1")

    assert done.out == "Published 'orders.created' to nobody.\n"
    assert "queue 'orders', which does not exist" in done.err


def test_people_are_told_who_posts_to_endpoints(sqew, place):
    sqew("subscription add --pattern orders.* --endpoint http://127.0.0.1:9/")

    done = sqew("event publish --key orders.created --body 1")

    assert done.out.startswith("Published 'orders.created' to 1 queue and 1 endpoint.\n")
    assert ("A server on this file posts" in done.err) == (place == "file")
    assert ("A server on this database posts" in done.err) == (place == "database")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--key orders..created --body 1", "there is no word at position 8"),
        ("--key orders.* --body 1", "'*' at position 8"),
        ("--body 1", "--key"),
        ("--key orders", "--body"),
        ("--key orders --body 1 --text 2", "--text"),
        ("--key orders --body 1 --file x", "--file"),
        ("--key orders --body oops", "Quote it for the shell"),
        ("--key orders --body 1 --header by", "NAME=VALUE"),
        ("--key orders --body 1 --priority 5000", "priority"),
        ("--key orders --file nowhere.ndjson", "nowhere.ndjson can't be read"),
    ],
)
def test_a_mistake_is_told(sqew, options, words):
    done = sqew(f"event publish {options}")

    assert done.code == 2
    assert words in done.err
    assert json.loads(sqew("queue peek --name orders --json").out) == {"messages": []}


def test_a_file_goes_in_smaller_batches_to_a_server_that_takes_no_larger_ones(sqew, tmp_path, monkeypatch):
    with serving(tmp_path, "--max-batch", "3") as server:
        monkeypatch.setenv("SQEW_URL", server.url)
        sqew("queue add --name orders")
        sqew("subscription add --pattern orders.* --queue orders")

        done = sqew("event publish --key orders.created --file - --json", input="1\n2\n3\n4\n5\n6\n7\n")

        assert done.json["published"] == 7, done.err
