"""A server's own address in links that it sends, and wrong settings, which are refused before it listens."""

import json
import socket
import subprocess
import sys

import pytest

from tests.http.webhooks import FLAGS, new_key, publish, subscribe
from tests.support.endpoint import endpoint
from tests.support.serving import serving


def test_an_envelope_said_localhost_where_the_server_listens_everywhere(tmp_path):
    with endpoint() as hook, serving(tmp_path, "--host", "0.0.0.0", "--insecure", *FLAGS) as server:
        key = new_key()
        subscribe(server, key, endpoint=hook.url("/hook"), envelope=True)
        for number in range(3):
            publish(server, key, number)
        request = hook.wait_for("/hook", 3)[0]
        server.stop()

        warnings = [line for line in server.log.read_text().splitlines() if "set base_url" in line]

    url = json.loads(request.body)["SigningCertURL"]
    assert url.startswith(f"http://{socket.gethostname()}:{server.port}/v1/certificates/")
    assert len(warnings) == 1


def test_nobody_is_warned_where_the_address_is_known(tmp_path):
    flags = ("--host", "0.0.0.0", "--insecure", "--base-url", "https://queue.example.com")
    with endpoint() as hook, serving(tmp_path, *flags, *FLAGS) as server:
        key = new_key()
        subscribe(server, key, endpoint=hook.url("/hook"), envelope=True)
        publish(server, key, 1)
        request = hook.wait_for("/hook")[0]
        server.stop()

        assert "set base_url" not in server.log.read_text()
    assert json.loads(request.body)["SigningCertURL"].startswith("https://queue.example.com/v1/certificates/")


def over_unix_socket(path, method, target, body):
    """Return the status and the body of the answer to one request."""
    content = json.dumps(body).encode()
    head = f"{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    return int(answer[9:12]), json.loads(answer.partition(b"\r\n\r\n")[2])


def test_an_envelope_named_a_certificate_at_a_unix_socket(tmp_path):
    path = tmp_path / "sqew.sock"
    with serving(tmp_path, "--unix-socket", str(path), *FLAGS):
        target = {"endpoint": "http://127.0.0.1:9/hook"}

        refused = over_unix_socket(path, "POST", "/v1/events/a/subscriptions", {**target, "envelope": True})
        taken = over_unix_socket(path, "POST", "/v1/events/a/subscriptions", target)

    assert refused[0] == 400
    assert "Set base_url" in refused[1]["error"]
    assert taken[0] == 201


@pytest.mark.parametrize(
    ("flag", "value", "part"),
    [
        ("--delivery-retries", "10s soon", "it must be durations"),
        ("--base-url", "queue.example.com", "it must be a URL"),
        ("--account-id", "4711", "it must be 12 digits"),
        ("--delivery-allow", "127.1", "delivery_allow can't hold '127.1'"),
    ],
)
def test_a_setting_that_is_wrong_was_found_out_when_the_server_listened_already(tmp_path, flag, value, part):
    command = [sys.executable, "-m", "sqew", "--db", "queue.db", "serve", "--port", "0", flag, value]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert part in done.stderr
