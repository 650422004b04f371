"""Health over a real socket."""

import json
import signal
import time

import sqew
from tests.http.dialects.vocabularies import caught_up
from tests.support.serving import serving


def test_a_server_that_is_well_says_so_to_everybody(tmp_path):
    with serving(tmp_path, "--durability", "fast", env={"AUTH_TOKEN": "secret"}) as server:
        answers = {path: server.call("GET", path) for path in ("/livez", "/healthz", "/readyz")}

        for answer in answers.values():
            assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
            assert answer.body == b'{"status":"ok","version":"%b"}' % sqew.__version__.encode()


def test_health_has_a_head_for_load_balancers(shared_server):
    answer = shared_server.call("HEAD", "/readyz")

    assert (answer.status, answer.body) == (200, b"")


def test_a_server_that_is_about_to_stop_is_not_ready(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server, server.connect() as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n")
        caught_up(server)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: '"draining"' in server.log.read_text())

        connection.sendall(b"\r\n")
        head, _, body = read_all(connection).partition(b"\r\n\r\n")

        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert json.loads(body)["status"] == "degraded"
        assert server.process.wait(20) == 0


def test_a_server_whose_file_is_gone_is_alive_but_neither_well_nor_ready(tmp_path):
    with serving(tmp_path, "--durability", "fast") as server:
        for file in tmp_path.glob("queue.db*"):
            if file.is_file():
                file.unlink()

        answers = [server.call("GET", path) for path in ("/healthz", "/readyz", "/health")]

        assert server.call("GET", "/livez").status == 200
        assert [answer.status for answer in answers] == [503, 503, 503]
        assert [answer.json["status"] for answer in answers[:2]] == ["degraded", "degraded"]
        assert str(tmp_path) not in "".join(answer.json["error"] for answer in answers)
        until(lambda: "does not exist" in server.log.read_text())
        assert not (tmp_path / "queue.db").exists()


def read_all(connection):
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    return received


def until(happened, within_s=30):
    deadline = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)
