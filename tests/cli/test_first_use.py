"""Obstacles that people met in their first hour."""

import codecs
import http.server
import json
import threading
from pathlib import Path

import pytest

import sqew as package
from sqew import AsyncClient, Client, Queue
from sqew.errors import BadSetting, BadValue, StoreUnusable

ARRAY = '[\n  {"sku": 1},\n  {"sku": 2, "note": "two\\nlines"}\n]\n'
OBJECT = '{\n  "sku": 1\n}\n'


def payloads(sqew, queue="orders"):
    return [message["payload"] for message in sqew(f"queue peek --name {queue} --json").json["messages"]]


# Files


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("content", "sent"),
    [
        (ARRAY, [{"sku": 1}, {"sku": 2, "note": "two\nlines"}]),
        (OBJECT, [{"sku": 1}]),
        ("\n" + ARRAY, [{"sku": 1}, {"sku": 2, "note": "two\nlines"}]),
        # The file is one array, be it on one line or on several.
        ('[{"sku": 1}, {"sku": 2}]\n', [{"sku": 1}, {"sku": 2}]),
        ('\n [{"sku": 1}, 2]\n\n', [{"sku": 1}, 2]),
        ("[[1, 2]]", [[1, 2]]),
        ("[\n]\n", []),
        ("[]", []),
        # Of several lines each is a message, whatever it is.
        ("[1]\n[2]\n", [[1], [2]]),
    ],
)
@pytest.mark.parametrize("source", ["file", "stdin"])
def test_a_file_that_is_one_document_was_refused_or_sent_as_a_whole(sqew, folder, content, sent, source):
    (folder / "new.json").write_text(content)

    if source == "file":
        done = sqew("message enqueue --queue orders --file new.json")
    else:
        done = sqew("message enqueue --queue orders --file -", input=content)

    assert done.code == 0, done.err
    assert payloads(sqew) == sent


@pytest.mark.usefixtures("orders")
def test_several_documents_over_several_lines_are_refused_with_what_to_do(sqew, folder):
    (folder / "new.json").write_text(OBJECT + OBJECT)

    done = sqew("message enqueue --queue orders --file new.json")

    assert done.code == 2
    assert "`jq -c . FILE` writes them so" in done.err
    assert payloads(sqew) == []


@pytest.mark.parametrize("content", ['{"sku": 7}\r\n', '{\r\n  "sku": 7\r\n}\r\n', '[\n{"sku": 7}\n]'])
def test_a_file_that_begins_with_a_byte_order_mark_was_refused(sqew, folder, content):
    sqew("queue add --name orders")
    (folder / "one.json").write_bytes(codecs.BOM_UTF8 + content.encode())

    done = sqew("message enqueue --queue orders --file one.json")

    assert done.out == "Sent 1 message to 'orders'.\n", done.err
    assert json.loads(sqew("message get --queue orders --json").out)["messages"][0]["payload"] == {"sku": 7}


@pytest.mark.usefixtures("orders")
def test_an_exported_array_of_messages_is_not_taken_for_one_message_when_it_is_published(sqew, folder):
    (folder / "new.json").write_text(ARRAY)
    sqew("subscription add --pattern shop --queue orders")

    assert sqew("event publish --key shop --file new.json").code == 0

    assert [payload["sku"] for payload in payloads(sqew)] == [1, 2]


# Ids


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("option", ["--id", "--ids"])
@pytest.mark.parametrize(
    "command",
    ["message peek", "message ack", "message nack", "message extend-lease --ms 5s", "message remove", "dlq requeue"],
)
def test_one_id_or_several_are_given_by_either_name(sqew, command, option):
    sqew("message enqueue --queue orders --payload 1")
    sqew("message enqueue --queue orders --payload 2")
    sqew("message poll --queue orders --batch 2")
    if command.startswith("dlq"):
        sqew("message nack --queue orders --ids 1,2 --dead")

    one = sqew(f"{command} --queue orders {option} 1")
    both = sqew(f"{command} --queue orders {option} 1,2")

    assert one.code == 0, one.err
    assert "--id" not in both.err


@pytest.mark.usefixtures("orders")
def test_several_messages_are_looked_at_in_one_go(sqew):
    sqew("message enqueue --queue orders --payload 1")
    sqew("message enqueue --queue orders --payload 2")

    assert [one["id"] for one in sqew("message peek --queue orders --ids 2,1 --json").json["messages"]] == [2, 1]
    assert sqew("message peek --queue orders --id 2 --json").json["id"] == 2
    assert sqew("message peek --queue orders --ids 1,2").out.count("payload") == 2


# Canary


def test_the_canary_showed_60_lines_of_metrics(sqew):
    done = sqew("canary --count 2 --interval 1")

    assert len(done.out.splitlines()) == 2
    assert done.err.startswith("2 sent: 2 ok; latency p50 ")
    assert done.err.endswith(" ms.\n")


def test_the_metrics_of_the_canary_are_shown_when_asked_for(sqew):
    assert "# TYPE sqew_canary_latency_seconds histogram" in sqew("canary --once --metrics").out


# Where the queues are


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"status": "ok"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("command", ["health", "queue list", "stats", "message poll --queue orders", "check"])
def test_a_missing_default_file_said_nothing_of_servers(sqew, command):
    done = sqew(command)

    assert done.code == 5
    assert done.err.startswith("sqew: queue.db does not exist. Check the name, or create a queue in it first.")
    assert "--url http://HOST:PORT (or SQEW_URL)" in done.err


def test_a_server_that_answers_where_servers_usually_do_is_named(sqew, monkeypatch):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ready) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("SQEW_PORT", str(server.server_port))
        threading.Thread(target=server.serve_forever, daemon=True).start()

        done = sqew("health")

        server.shutdown()
    assert done.code == 5
    assert f"A server answers at {url}: for its queues, add --url {url}" in done.err


def test_a_queue_was_made_in_a_new_file_beside_a_server_without_a_word(sqew, monkeypatch):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ready) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("SQEW_PORT", str(server.server_port))
        threading.Thread(target=server.serve_forever, daemon=True).start()

        first, second = sqew("queue add --name orders"), sqew("queue add --name other")

        server.shutdown()
    assert first.code == second.code == 0
    assert "The new file queue.db was made for it." in first.err
    assert f"A server answers at {url}: for its queues, add --url {url}" in first.err
    assert second.err == ""


def test_a_queue_was_made_in_a_new_file_beside_a_database_without_a_word(sqew, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://app:hush@db.example.com/queues")

    done = sqew("queue add --name orders")

    assert done.code == 0
    assert '--database-url "$DATABASE_URL"' in done.err
    assert "hush" not in done.err


def test_a_first_queue_needs_no_note_where_there_is_nothing_else(sqew, monkeypatch):
    assert sqew("queue add --name orders").err == ""
    assert sqew("--db named.db queue add --name orders").err == ""


@pytest.mark.parametrize("wrong", ["--name 'two words'", "--name orders --lane a=0", "--name orders --max-attempts 0"])
def test_a_queue_that_was_refused_left_an_empty_file_that_hid_where_the_queues_are(sqew, folder, wrong):
    assert sqew(f"queue add {wrong}").code == 2

    assert list(folder.iterdir()) == []
    assert "queue.db does not exist" in sqew("queue list").err


def test_a_missing_file_that_a_shared_variable_names_said_nothing_of_the_variable(sqew, monkeypatch):
    monkeypatch.setenv("DATABASE", "postgres")

    looked, made = sqew("queue list"), sqew("queue add --name orders")

    assert looked.code == 5
    assert "postgres does not exist." in looked.err
    assert "The environment variable DATABASE names it; --db FILE" in looked.err
    assert "The environment variable DATABASE names it; --db FILE" in made.err


def test_a_database_that_servers_alone_use_is_named(sqew, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://app:hush@db.example.com/queues")

    done = sqew("queue list")

    assert done.code == 5
    assert 'add --database-url "$DATABASE_URL"' in done.err
    assert "hush" not in done.err


def test_a_file_that_was_named_and_is_missing_is_just_missing(sqew):
    done = sqew("queue list --db other.db")

    assert done.err == "sqew: other.db does not exist. Check the name, or create a queue in it first.\n"


# In Python


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\ud800"], ids=ascii)
def test_errors_spoke_of_a_posix_path(tmp_path, name):
    with pytest.raises((StoreUnusable, BadSetting)) as refused:
        Queue.open(Path(name))
    assert "Path(" not in str(refused.value)

    with Queue.open(tmp_path / "queue.db") as q, pytest.raises((StoreUnusable, BadValue)) as refused:
        q.backup(Path(name))
    assert "Path(" not in str(refused.value)


def test_the_package_lists_what_is_public_in_it():
    assert set(package.__all__) <= set(dir(package))


def test_what_holds_a_secret_shows_itself_without_it(folder):
    with Queue.open("queue.db") as q:
        q.create("orders")
        q.enqueue("orders", {"sku": 7}, headers={"size": "large"})
        message = q.claim("orders", consumer="w1")

        assert repr(q) == "<Queue 'queue.db'>"
        assert repr(message).startswith("Message(id=1, queue='orders', body=b'{\"sku\":7}', attempts=1, state='leased'")
        assert "by='w1'" in repr(message)
        assert message.lease.token not in repr(message)
        assert message.lease.token not in repr(message.lease)
    with Client("http://127.0.0.1:8888", token="hush") as client:
        assert repr(client) == "<Client http://127.0.0.1:8888>"
    assert repr(AsyncClient("http://127.0.0.1:8888", token="hush")) == "<AsyncClient http://127.0.0.1:8888>"


def test_names_that_only_the_package_itself_needs_were_completed():
    assert [name for name in dir(package) if not name.startswith("__")] == sorted(
        name for name in package.__all__ if not name.startswith("__")
    )


def test_a_long_body_is_cut_where_its_message_is_shown():
    with Queue.open(":memory:") as q:
        q.create("orders")
        q.enqueue("orders", "x" * 100_000)

        assert len(repr(q.claim("orders"))) < 1_000
