"""The command line against a server: the same commands, the same answers, and errors of its own."""

import http.server
import json
import re
import signal
import socket
import subprocess
import threading

import pytest

from sqew import Client
from tests.cli.conftest import SCRIPT, environment
from tests.cli.test_seed_commands import LINES
from tests.support.canned_server import CannedServer
from tests.support.serving import serving

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("server"), "--durability", "fast") as server:
        yield server


@pytest.fixture
def on_server(server, monkeypatch, folder):
    monkeypatch.setenv("SQEW_URL", server.url)
    return server


@pytest.fixture
def ids(server, on_server, folder):
    """Return ids of messages in a new queue orders: two received once, two more, and one dead letter."""
    with Client(server.url) as client:
        for info in client.queues():
            client.delete(info.name)
        client.create("orders")
        ids = client.enqueue_many("orders", [{"n": n} for n in range(1, 5)])
        ids.append(client.enqueue("orders", {"n": 5}, priority=9))
        client.dead_letter(client.claim("orders"))
        client.claim_many("orders", 2, lease_seconds=3_600, consumer="sqew-cli")
    (folder / "lines.ndjson").write_text('{"n": 1}\n{"n": 2}\n')
    return ids


def with_ids(line, ids):
    line = line.replace("--ids 1,2", f"--ids {ids[0]},{ids[1]}")
    return re.sub(r"--id 1\b", f"--id {ids[0]}", line)


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_seed_works_on_a_server(sqew, ids, line):
    done = sqew(with_ids(line, ids))

    assert (done.code, done.err) == (0, "")
    assert done.out


@pytest.mark.parametrize(
    "line",
    ["queue show --name orders", "queue peek --name orders", "dlq list --queue orders", "message poll --queue orders"],
)
def test_a_server_is_answered_for_as_the_file_is(sqew, ids, folder, line):
    from_server = sqew(f"--json {line}").json

    assert sqew("--db queue.db queue add --name orders").code == 0
    for _ in range(2):
        assert sqew("--db queue.db message enqueue --queue orders --file lines.ndjson").code == 0
    assert sqew("--db queue.db message poll --queue orders --batch 2").code == 0
    assert sqew("--db queue.db message nack --queue orders --ids 2 --dead").code == 0
    from_file = sqew(f"--db queue.db --json {line}").json

    assert shape(from_server) == shape(from_file)


def shape(document):
    """Return the keys of a document at every level, without the values."""
    if isinstance(document, dict):
        return {key: shape(value) for key, value in document.items() if key != "wait"}
    if isinstance(document, list):
        return [shape(document[0])] if document else []
    return None


def test_text_bodies_and_headers_arrive_as_they_were_sent(sqew, ids):
    sqew(["message", "enqueue", "--queue", "orders", "--text", 'not "JSON"', "--header", "a=b", "--priority", "5"])

    (message,) = sqew("--json message get --queue orders").json["messages"]

    assert (message["payload"], message["format"], message["headers"]) == ('not "JSON"', "text", {"a": "b"})


def test_what_was_taken_for_good_is_gone(sqew, ids):
    taken = sqew("--json message get --queue orders --batch 2").json["messages"]

    assert [message["payload"] for message in taken] == [{"n": 3}, {"n": 4}]
    assert sqew("--json queue show --name orders").json["stats"]["depths"]["lanes"]["normal"]["ready"] == 0


def test_an_export_can_be_imported_into_another_queue(sqew, ids, folder):
    assert sqew("queue add --name copies").code == 0

    assert sqew("export --queue orders --output all.ndjson").code == 0
    done = sqew("--json import --queue copies --file all.ndjson")
    bodies = [json.loads(line)["body"] for line in (folder / "all.ndjson").read_text().splitlines()]

    assert done.json["sent"] == 4
    assert bodies == [{"n": n} for n in range(1, 5)]


def test_the_archive_of_a_server_can_be_listed(sqew, ids):
    sqew("queue add --name kept --keep archive")
    sqew(["message", "enqueue", "--queue", "kept", "--payload", '{"a": 1}'])
    sqew("message get --queue kept")

    (message,) = sqew("--json archive list --queue kept").json["messages"]

    assert (message["payload"], message["outcome"]) == ({"a": 1}, "done")


def test_an_error_of_the_server_ends_as_it_does_on_a_file(sqew, ids):
    on_server = sqew("message poll --queue ordres")

    sqew("--db queue.db queue add --name orders")
    on_file = sqew("--db queue.db message poll --queue ordres")

    assert (on_server.code, on_server.err) == (on_file.code, on_file.err)
    assert "did you mean 'orders'?" in on_server.err


def test_a_settled_message_that_is_stale_is_told_of_by_its_exit_code(sqew, ids):
    done = sqew(f"message ack --queue orders --ids {ids[0]} --token stale")

    assert done.code == 4
    assert "no longer yours" in done.err


@pytest.mark.parametrize("line", ["check", "backup copy.db"])
def test_what_works_on_the_file_alone_says_so(sqew, on_server, line):
    done = sqew(line)

    assert done.code == 2
    assert "works on the file itself" in done.err


def test_a_file_that_a_flag_names_is_meant_whatever_the_environment_says(sqew, on_server):
    done = sqew("--db queue.db queue add --name here")

    assert done.code == 0
    assert sqew("queue show --name here").code == 3


def test_a_file_and_a_server_are_too_much(sqew):
    done = sqew("--db queue.db --url http://localhost:1 queue list")

    assert done.code == 2
    assert "Give one of the two." in done.err


def one_line(done):
    """Return the error, after checking that it is the only output and a single line."""
    assert done.out == ""
    assert done.err.startswith("sqew: ")
    assert done.err.count("\n") == 1
    return done.err


def test_a_server_that_is_not_there_is_one_clear_line(sqew):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]

        done = sqew(f"--url http://127.0.0.1:{port} queue list")

    assert done.code == 8
    assert f"There is no server at http://127.0.0.1:{port}" in one_line(done)


def test_an_unknown_host_is_one_clear_line(sqew):
    done = sqew("--url http://nowhere.invalid:8888 queue list")

    assert done.code == 8
    assert "There is no server at http://nowhere.invalid:8888" in one_line(done)


def test_a_url_that_is_none_is_one_clear_line(sqew):
    done = sqew("--url ftp://example.org queue list")

    assert done.code == 2
    assert "Write it like http://127.0.0.1:8888" in one_line(done)


class Foreign(http.server.BaseHTTPRequestHandler):
    """A web server that is not Sqew."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>hello</html>")

    def log_message(self, format, *args):
        pass


def test_a_server_of_another_kind_is_one_clear_line(sqew):
    with http.server.HTTPServer(("127.0.0.1", 0), Foreign) as foreign:
        threading.Thread(target=foreign.serve_forever, daemon=True).start()
        done = sqew(f"--url http://127.0.0.1:{foreign.server_port} queue list")
        foreign.shutdown()

    assert done.code == 8
    assert "does not answer as a Sqew server does" in one_line(done)


@pytest.mark.parametrize("url", ["http://a..b", f"http://{'x' * 64}.org", "http://user:sEcret@localhost"])
def test_a_url_that_can_be_none_was_an_error_of_python(sqew, url):
    done = sqew(f"--url {url} queue list")

    assert done.code == 2
    assert "Write it like http://127.0.0.1:8888" in one_line(done)
    assert "sEcret" not in done.err


def test_completing_a_name_on_such_a_url_was_an_error_of_python(process):
    done = process(
        "", _SQEW_COMPLETE="bash_complete", COMP_WORDS="sqew --url http://a..b stats --queue ", COMP_CWORD="5"
    )

    assert (done.out.strip(), done.err) == ("", "")


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """Yield a server whose limits are smaller than its clients'."""
    limits = ["--max-batch", "10", "--max-request-bytes", "64KiB", "--durability", "fast"]
    with serving(tmp_path_factory.mktemp("strict"), *limits) as server, Client(server.url) as client:
        client.create("orders")
        yield server


@pytest.fixture
def on_strict(strict, monkeypatch):
    monkeypatch.setenv("SQEW_URL", strict.url)
    with Client(strict.url) as client:
        client.purge("orders")
        client.purge_dead("orders")
    return strict


def test_a_file_was_refused_where_the_servers_batches_are_smaller(sqew, on_strict, folder):
    (folder / "lines").write_text("".join(f"{n}\n" for n in range(25)))

    done = sqew("--json message enqueue --queue orders --file lines")

    assert done.json["sent"] == 25


def test_an_import_was_refused_where_its_texts_grow_in_a_request(sqew, on_strict, folder):
    line = json.dumps({"format": "text", "body": "\x01" * 8_000})
    (folder / "lines").write_text(f"{line}\n" * 5)

    done = sqew("--json import --queue orders --file lines")

    assert done.json["sent"] == 5


def test_a_body_that_the_server_allows_was_refused_by_the_limits_of_this_machine(sqew, ids):
    done = sqew(["--max-body-bytes", "10", "message", "enqueue", "--queue", "orders", "--payload", '"longer than ten"'])

    assert done.code == 0


def test_a_list_longer_than_the_servers_pages_was_refused(sqew, on_strict):
    with Client(on_strict.url) as client:
        for numbers in (range(10), range(10, 20)):
            client.enqueue_many("orders", numbers)
            for _ in numbers:
                client.dead_letter(client.claim("orders"))

    some = sqew("--json dlq list --queue orders --limit 15").json["messages"]
    all = sqew("--json dlq list --queue orders --limit 5000").json["messages"]

    assert [message["payload"] for message in some] == list(range(15))
    assert [message["payload"] for message in all] == list(range(20))


INFO = {
    "name": "orders", "created_at": 1, "max_attempts": 5, "visibility_ms": 1, "dlq": None, "fifo": False, "backoff": {},
    "delay_ms": 0, "ttl_ms": None, "deduplicate": "key", "key_retention_ms": 1, "lanes": {"normal": 1},
    "keep": "delete", "archive_retention_ms": None, "rate_limit": None, "quota": None, "deduplicate_within": "queue",
    "key_retention_from": "gone", "max_body_bytes": None, "receive_wait_ms": 0,
}  # fmt: skip


def test_a_batch_without_an_answer_was_counted_as_not_sent(sqew, folder):
    (folder / "lines").write_text("1\n2\n3\n")
    sent = (201, b'{"messages":[{"message_id":1}]}')
    with CannedServer((200, json.dumps(INFO).encode()), sent, None) as server:
        done = sqew(f"--url {server.url} --max-batch 1 message enqueue --queue orders --file lines")

    assert done.code == 8
    assert done.err.startswith("sqew: Stopped: 1 of 3 messages were sent, and perhaps the 1 after them.\n")


class Silent(http.server.BaseHTTPRequestHandler):
    """A server that answers queries, but never answers a send."""

    def do_GET(self):
        body = json.dumps(INFO).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.was_sent.set()
        self.server.may_end.wait()

    def log_message(self, format, *args):
        pass


def test_ctrl_c_waited_for_an_answer_that_never_came_and_told_what_it_could_not_know(folder):
    (folder / "lines").write_text("1\n2\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        server.was_sent, server.may_end = threading.Event(), threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = ["--url", f"http://127.0.0.1:{server.server_port}", "message", "enqueue", "--queue", "orders"]
        with subprocess.Popen(
            [SCRIPT, *command, "--file", "lines"], stderr=subprocess.PIPE, env=environment(), cwd=folder
        ) as running:
            assert server.was_sent.wait(30)
            # Two that come at the same moment are one to the process.
            while running.poll() is None:
                running.send_signal(signal.SIGINT)
                try:
                    running.wait(0.2)
                except subprocess.TimeoutExpired:
                    continue
            told = running.stderr.read().decode()
        server.may_end.set()
        server.shutdown()

    assert running.returncode == 130
    assert told == "sqew: Interrupted: 0 of 2 messages were sent, and perhaps the 2 after them.\n"


def test_ctrl_c_did_not_say_that_the_server_goes_on(folder):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        server.was_sent, server.may_end = threading.Event(), threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = ["--url", f"http://127.0.0.1:{server.server_port}", "queue", "requeue-dlq", "--name", "orders"]
        with subprocess.Popen([SCRIPT, *command], stderr=subprocess.PIPE, env=environment(), cwd=folder) as running:
            assert server.was_sent.wait(30)
            running.send_signal(signal.SIGINT)
            told = running.stderr.read().decode()
        server.may_end.set()
        server.shutdown()

    assert running.returncode == 130
    assert told == "sqew: Interrupted: the server was asked already, and may have requeued all of them or go on.\n"


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("locked"), env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        yield server


@pytest.mark.parametrize("given", ["", "--auth-token wrong"])
def test_a_token_that_is_missing_or_wrong_is_one_clear_line(sqew, locked, given):
    done = sqew(f"--url {locked.url} {given} queue list")

    assert done.code == 9
    assert "token" in one_line(done)


def test_the_token_may_come_from_the_environment(sqew, locked, monkeypatch):
    monkeypatch.setenv("SQEW_AUTH_TOKEN", TOKEN)

    assert sqew(f"--url {locked.url} queue list").code == 0


def test_keys_are_made_listed_and_deleted_on_a_server(sqew, locked, monkeypatch):
    monkeypatch.setenv("SQEW_AUTH_TOKEN", TOKEN)
    monkeypatch.setenv("SQEW_URL", locked.url)
    assert sqew("queue add --name keyed").code == 0

    made = sqew("--json key add --queue keyed --scope send").json
    listed = sqew("--json key list").json["keys"]
    allowed = sqew(f"--auth-token {made['key']} message enqueue --queue keyed --payload 1").code
    forbidden = sqew(f"--auth-token {made['key']} message poll --queue keyed").code
    deleted = sqew(f"key rm --queue keyed --id {made['id']} --yes").code
    after = sqew(f"--auth-token {made['key']} message enqueue --queue keyed --payload 1").code

    assert [key["id"] for key in listed] == [made["id"]]
    assert (allowed, forbidden, deleted, after) == (0, 9, 0, 9)


def test_health_asks_whether_the_server_is_ready(sqew, on_server):
    assert sqew("--json health").json["status"] == "ok"


def test_metrics_are_those_of_the_server(sqew, on_server):
    done = sqew("metrics")

    assert done.code == 0
    assert "# TYPE http_requests_total counter" in done.out


@pytest.mark.parametrize("place", ["--db queue.db", "--url {url}"])
def test_a_canary_tells_how_long_its_message_took(sqew, server, place):
    done = sqew(f"--json {place.format(url=server.url)} canary --count 3 --interval 1 --max-ms 30s")

    rounds = [json.loads(line) for line in done.out.splitlines()]
    assert done.code == 0
    assert [(round["number"], round["result"]) for round in rounds] == [(1, "ok"), (2, "ok"), (3, "ok")]
    assert all(round["latency_ms"] >= round["send_ms"] > 0 for round in rounds)


def test_a_canary_without_a_server_fails(sqew):
    done = sqew("--url http://127.0.0.1:1 canary --once")

    assert done.code == 10
    assert done.out.startswith("1: failed: There is no server")


def test_a_canary_ignores_what_an_earlier_one_left_behind(sqew, on_server):
    assert sqew("canary --once").code == 0
    sqew(["message", "enqueue", "--queue", "sqew-canary", "--payload", '{"run": "earlier", "number": 1}'])

    done = sqew("canary --once --metrics")

    assert done.code == 0
    assert 'sqew_canary_rounds_total{result="ok"} 1' in done.out


def test_the_command_line_reaches_a_queue_that_only_hq_would_call_so(sqew, on_server):
    name = "my queue/ü"
    made = "name=my%20queue%2F%C3%BC&max_attempts=1&visibility_timeout_seconds=30"
    assert on_server.call("POST", f"/queues?{made}").status == 200

    sent = sqew(["message", "enqueue", "--queue", name, "--payload", '{"n": 1}'])
    polled = sqew(["--json", "message", "poll", "--queue", name])
    nacked = sqew(["message", "nack", "--queue", name, "--id", str(polled.json["messages"][0]["id"])])
    dead = sqew(["--json", "dlq", "list", "--queue", name])
    requeued = sqew(["--json", "dlq", "requeue", "--queue", name])

    assert [done.code for done in (sent, polled, nacked, dead, requeued)] == [0] * 5
    assert [message["death"]["queue"] for message in dead.json["messages"]] == [name]
    assert name in sqew("queue list").out
    assert sqew(["queue", "rm", "--name", name, "--yes"]).code == 0
