"""The log of a server: lines of JSON about its events, and no secrets."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.endpoint import endpoint, stalls
from tests.support.serving import serving

TOKEN = "a-token-nobody-may-see"


def lines(server):
    """Return the logged lines as JSON; the last may still be being written."""
    text = server.log.read_text()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def wait_for(server, condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not (found := [line for line in lines(server) if condition(line)]):
        assert time.monotonic() < deadline, lines(server)
        time.sleep(0.005)
    return found


def of_requests(server):
    return [line for line in lines(server) if line["event"].endswith("request")]


def test_a_request_is_logged_with_everything_but_its_content(tmp_path):
    with serving(tmp_path, "--access-log", "all") as server:
        server.call("POST", "/queues", {"name": "orders"})
        answer = server.call("POST", "/queues/orders/messages", [{"payload": 1}, {"payload": 2}])

        (line,) = wait_for(server, lambda line: line.get("path") == "/queues/orders/messages")

    assert 0 < line.pop("duration_ms") < 1_000
    assert line.pop("peer").startswith("127.0.0.1:")
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "event": "request",
        "request_id": answer.headers["x-request-id"],
        "method": "POST",
        "path": "/queues/orders/messages",
        "route": "/queues/{queue}/messages",
        "status": 201,
        "rows": 2,
        "bytes_in": 32,
        "bytes_out": len(answer.body),
    }


def test_the_id_that_a_client_gives_comes_back_and_is_in_the_log(tmp_path):
    with serving(tmp_path, "--access-log", "all") as server:
        answer = server.call("GET", "/queues", headers={"X-Request-Id": "mine-42"})

        (line,) = wait_for(server, lambda line: line.get("path") == "/queues")

    assert answer.headers["x-request-id"] == line["request_id"] == "mine-42"


@pytest.mark.parametrize("format", ["json", "text"])
def test_no_token_key_query_header_or_body_is_ever_logged(tmp_path, format):
    secrets = [TOKEN, "in-the-query", "in-the-body", "in-a-header", "wrong-token"]
    env = {"SQEW_AUTH_TOKEN": TOKEN}
    flags = ("--access-log", "all", "--log-level", "debug", "--log-format", format)
    with serving(tmp_path, *flags, env=env) as server:
        right = {"Authorization": f"Bearer {TOKEN}", "Cookie": "in-a-header"}
        server.call("POST", "/queues", {"name": "orders"}, right)
        server.call("POST", "/queues/orders/messages", {"payload": "in-the-body"}, right)
        server.call("POST", "/queues/orders/messages?secret=in-the-query", {"payload": 1}, right)
        server.call("GET", "/queues", headers={"Authorization": "Bearer wrong-token"})
        key = server.call("POST", "/queues/orders/keys", {"scopes": ["send"]}, right).json
        assert server.stop() == 0
        logged = server.log.read_text()

    assert logged.count("/queues/orders/messages") >= 2
    assert [secret for secret in [*secrets, key["key"]] if secret in logged] == []


def test_by_default_only_requests_of_note_are_logged(tmp_path):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        right = {"Authorization": f"Bearer {TOKEN}"}
        server.call("GET", "/queues", headers=right)
        server.call("GET", "/queues/nowhere", headers=right)
        server.call("GET", "/queues")
        server.talk(b"GET /queues HTTP/1.1\r\nhost: localhost\r\nx: %b\r\n\r\n" % (b"x" * 70_000))
        assert server.stop() == 0

        logged = of_requests(server)

    assert [(line["status"], line["level"]) for line in logged] == [(401, "warning"), (431, "warning")]


def test_without_an_access_log_no_request_is_logged(tmp_path):
    with serving(tmp_path, "--access-log", "none", env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        assert server.call("GET", "/queues").status == 401
        assert server.stop() == 0

        assert of_requests(server) == []


def test_a_slow_request_is_logged(tmp_path):
    with serving(tmp_path, "--slow-ms", "1") as server:
        server.call("POST", "/queues", {"name": "orders"})
        server.call("POST", "/queues/orders/messages", [{"payload": "x" * 20_000}] * 500)
        assert server.stop() == 0

        logged = of_requests(server)

    assert ("slow request", "/queues/{queue}/messages") in {(line["event"], line["route"]) for line in logged}


SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=anybody/20260101/us-east-1/sqs/aws4_request, Signature=0",
    "Content-Type": "application/x-amz-json-1.0",
}


def sqs(server, action, **parameters):
    headers = {**SIGNED, "X-Amz-Target": f"AmazonSQS.{action}"}
    return server.call("POST", "/", json.dumps(parameters).encode(), headers)


def test_the_time_that_a_long_poll_chose_to_wait_makes_no_request_slow(tmp_path):
    with serving(tmp_path, "--slow-ms", "1500") as server:
        server.call("POST", "/queues", {"name": "orders"})
        sqs(server, "CreateQueue", QueueName="patient", Attributes={"ReceiveMessageWaitTimeSeconds": "2"})
        polls = [
            lambda: sqs(server, "ReceiveMessage", QueueUrl="orders", WaitTimeSeconds=2),
            lambda: sqs(server, "ReceiveMessage", QueueUrl="patient"),
            lambda: server.call("GET", "/000000000000/orders?Action=ReceiveMessage&WaitTimeSeconds=2", None, SIGNED),
            lambda: server.call("POST", "/queues/orders/poll?wait_ms=2000"),
            lambda: server.call("GET", "/v1/messages?topic=orders&wait=2"),
            lambda: server.call("GET", "/v1/queues/orders/messages?wait=2"),
        ]
        with ThreadPoolExecutor(len(polls)) as pool:
            answers = [waiting.result() for waiting in [pool.submit(poll) for poll in polls]]
        assert server.stop() == 0

        logged = of_requests(server)

    assert [answer.status for answer in answers] == [200] * len(polls)
    assert logged == []


def test_a_slow_transaction_is_logged_with_what_was_in_it(tmp_path):
    with serving(tmp_path, "--slow-ms", "1") as server:
        server.call("POST", "/queues", {"name": "orders"})
        server.call("POST", "/queues/orders/messages", [{"payload": "x" * 20_000}] * 500)

        found = wait_for(server, lambda line: line["event"] == "slow tick" and "Send" in line["operations"])

    assert found[0]["operations"]["Send"] == 1
    assert found[0]["duration_ms"] >= 1


def test_start_drain_and_stop_are_logged(tmp_path):
    with serving(tmp_path) as server:
        assert server.stop(signal.SIGTERM) == 0

        logged = lines(server)

    assert [line["event"] for line in logged] == ["listening", "draining", "stopped"]
    assert logged[0]["addresses"] == [server.url]
    assert logged[0]["pid"] == server.process.pid


def test_a_server_that_waited_for_an_endpoint_did_not_say_so(tmp_path):
    with (
        endpoint() as hook,
        serving(tmp_path, "--delivery-allow", "127.0.0.1", "--delivery-timeout-ms", "300") as server,
    ):
        hook.does("/hook", stalls)
        server.call("POST", "/v1/events/orders/subscriptions", {"endpoint": hook.url("/hook")})
        server.call("POST", "/v1/events/orders", {"message": 1})
        hook.wait_for("/hook")
        assert server.stop(signal.SIGINT) == 0

        (draining,) = [line for line in lines(server) if line["event"] == "draining"]

    assert draining["deliveries"] == 1


def test_the_log_level_says_what_is_left_out(tmp_path):
    with serving(tmp_path, "--access-log", "all", "--log-level", "warning", env={"SQEW_AUTH_TOKEN": TOKEN}) as server:
        server.call("GET", "/livez")
        server.call("GET", "/queues")
        assert server.stop() == 0

        logged = lines(server)

    # That it listens is said at every level.
    assert [(line["event"], line.get("status")) for line in logged] == [("listening", None), ("request", 401)]


def test_on_a_terminal_the_log_is_text(tmp_path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sqew", "--db", str(tmp_path / "queue.db"), "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    try:
        said = b""
        while b"\n" not in said:
            said += os.read(ours, 4_096)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)

    assert said.startswith(b"Sqew listens at http://127.0.0.1:")


def test_a_server_whose_log_nobody_reads_goes_on_answering(tmp_path):
    command = [sys.executable, "-m", "sqew", "--db", str(tmp_path / "queue.db"), "serve", "--port", "0"]
    flags = ["--access-log", "all", "--durability", "fast"]
    process = subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        listening = json.loads(process.stderr.readline())
        host, _, port = listening["addresses"][0].removeprefix("http://").rpartition(":")
        # 3,000 lines are ten times what the pipe holds.
        answered = flood(host, int(port), 3_000)
        process.terminate()
        rest = process.stderr.read()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()

    assert answered == 3_000
    assert rest.count(b"/livez") > 0


def flood(host, port, count):
    """Send many requests over one connection, and return the number of answers."""
    answered = 0
    request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with socket.create_connection((host, port), timeout=10) as connection:
        for _ in range(count // 20):
            connection.sendall(request * 20)
            received = b""
            while received.count(b"HTTP/1.1 200") < 20 or not received.endswith(b"}"):
                received += connection.recv(65_536)
            answered += received.count(b"HTTP/1.1 200")
    return answered
