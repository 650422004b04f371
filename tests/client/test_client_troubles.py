"""What a client does when the server is not there, goes away, or is not what it should be."""

import http.server
import inspect
import socket
import subprocess
import sys
import threading

import pytest
from clients import connect, shared_server

from serving import serving
from sqew import AsyncClient, Client, Queue
from sqew.client.address import address_of
from sqew.errors import BadValue, NoAnswer, NotSqew, RequestTimeout, StoreBusy, StoreClosed, Unauthorized, Unreachable

__all__ = ["connect", "shared_server"]

MANY = 100
"""Retries enough for a server to start, however busy the machine is."""


class Scripted(http.server.ThreadingHTTPServer):
    """A server that answers as it is told, and keeps what it was asked: None hangs up, and the last is repeated."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    def _answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = self.server
        server.asked.append(f"{self.command} {self.path.partition('?')[0]}")
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        if answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, body, *headers = answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for header in headers:
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, format, *args):
        pass


SENT = (201, b'{"messages":[{"message_id":1}]}')
BUSY = (503, b'{"error":{"code":"store_busy","message":"The file is locked."}}', ("Retry-After", "0"))


def test_a_server_that_is_not_there_is_unreachable(connect):
    q = connect("http://127.0.0.1:1", retries=1)

    with pytest.raises(Unreachable, match=r"There is no server at http://127\.0\.0\.1:1"):
        q.info("orders")


def test_a_server_without_https_is_told_from_one_that_is_not_there(connect, shared_server):
    q = connect(shared_server.url.replace("http:", "https:"), retries=0)

    with pytest.raises(Unreachable, match="There is no safe connection"):
        q.info("orders")


def test_a_request_waits_for_a_server_that_is_being_restarted(connect, tmp_path):
    with serving(tmp_path) as server:
        q = connect(server.url, retries=MANY)
        q.create("orders")
        port = str(server.port)
        server.stop()

    started = threading.Event()
    done = threading.Event()

    def restart():
        started.wait()
        with serving(tmp_path, "--port", port, db=server.db):
            done.wait()

    restarting = threading.Thread(target=restart)
    restarting.start()
    started.set()
    try:
        id = q.enqueue("orders", 1)
        message = q.claim("orders")
    finally:
        done.set()
        restarting.join()

    assert message.id == id


@pytest.mark.parametrize(
    ("ask", "route"),
    [
        (lambda q: q.enqueue("orders", 1, key="k"), "POST /queues/orders/messages"),
        (lambda q: q.claim("orders"), "POST /queues/orders/poll"),
        (lambda q: q.info("orders"), "GET /queues/orders"),
        (lambda q: q.create("orders"), "POST /queues"),
    ],
)
def test_what_does_no_harm_is_asked_again_when_no_answer_came(connect, ask, route):
    with Scripted(None) as server:
        with pytest.raises(NoAnswer):
            ask(connect(server.url, retries=2))

        assert server.asked == [route] * 3


@pytest.mark.parametrize(
    ("ask", "route"),
    [
        (lambda q: q.enqueue("orders", 1), "POST /queues/orders/messages"),
        (lambda q: q.ack(1, queue="orders"), "POST /queues/orders/ack"),
        (lambda q: q.purge("orders"), "POST /queues/orders/purge"),
        (lambda q: q.delete("orders"), "DELETE /queues/orders"),
    ],
)
def test_what_may_have_been_done_is_not_asked_for_twice(connect, ask, route):
    with Scripted(None) as server:
        with pytest.raises(NoAnswer, match="may have done what was asked or not"):
            ask(connect(server.url, retries=2))

        assert server.asked == [route]


def test_what_the_server_could_not_do_just_now_is_asked_for_again(connect):
    with Scripted(BUSY, BUSY, SENT) as server:
        id = connect(server.url).enqueue("orders", 1)

        assert (id, len(server.asked)) == (1, 3)


def test_a_server_that_stays_busy_is_told_of_in_the_end(connect):
    with Scripted(BUSY) as server:
        with pytest.raises(StoreBusy, match="The file is locked"):
            connect(server.url, retries=1).enqueue("orders", 1)

        assert len(server.asked) == 2


@pytest.mark.parametrize(
    "answer", [(200, b"<html>"), (404, b"not found"), (404, b'{"error": "gone"}'), (302, b""), (200, b"[1]")]
)
def test_an_answer_of_another_kind_is_not_from_a_sqew_server(connect, answer):
    with Scripted(answer) as server:
        with pytest.raises(NotSqew, match="does not answer as a Sqew server does"):
            connect(server.url).info("orders")

        assert len(server.asked) == 1


def test_an_error_of_a_newer_server_keeps_its_code(connect):
    with Scripted((418, b'{"error":{"code":"teapot","message":"Make tea."}}')) as server:
        with pytest.raises(Exception, match="Make tea") as refused:
            connect(server.url).info("orders")

        assert refused.value.code == "teapot"


def test_an_export_that_is_cut_off_says_so(connect):
    with Scripted((200, b'{"body":1}\n{"bo')) as server:
        lines = connect(server.url).export("orders")

        assert next(lines) == b'{"body":1}\n'
        with pytest.raises(NoAnswer, match="in the middle of a line"):
            next(lines)


def test_a_server_that_does_not_answer_is_given_up_in_time(connect):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        q = connect(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_seconds=0.1)

        with pytest.raises(RequestTimeout, match="did not answer in time"):
            q.info("orders")


def test_a_client_that_was_closed_says_so(connect, shared_server):
    q = connect(shared_server.url)
    q.close()

    with pytest.raises(StoreClosed, match="The client was closed"):
        q.queues()


def test_the_token_and_the_url_may_come_from_the_environment(connect, tmp_path, monkeypatch):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "secret"}) as server:
        with pytest.raises(Unauthorized):
            connect(server.url).queues()

        monkeypatch.setenv("SQEW_URL", server.url)
        monkeypatch.setenv("SQEW_AUTH_TOKEN", "secret")

        assert connect(None).queues() == []


def test_a_key_opens_its_queue_alone(connect, tmp_path):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "secret"}) as server:
        q = connect(server.url, token="secret")
        q.create("orders")
        info, key, secret = q.create_key("orders", ["send"], "the shop")
        sender = connect(server.url, token=key)

        assert sender.enqueue("orders", 1) > 0
        with pytest.raises(Exception, match=r".") as refused:
            sender.claim("orders")
        assert refused.value.code == "forbidden"
        assert (q.keys("orders"), secret) == ([info], None)
        q.delete_key("orders", info.id)
        assert q.keys("orders") == []


def test_a_key_that_wants_its_requests_signed_is_used_with_its_secret(connect, tmp_path):
    with serving(tmp_path, env={"SQEW_AUTH_TOKEN": "secret"}) as server:
        q = connect(server.url, token="secret")
        q.create("orders")
        _, key, secret = q.create_key("orders", ["send", "receive"], signing=True)
        signer = connect(server.url, token=key, signing_secret=secret)

        signer.enqueue("orders", 1)
        signer.enqueue("orders", 1)

        assert len(signer.claim_many("orders", 2, consumer="a b", wait_seconds=1)) == 2
        with pytest.raises(Unauthorized):
            connect(server.url, token=key).enqueue("orders", 2)


def test_a_server_at_a_unix_socket_is_reached(connect, tmp_path):
    with serving(tmp_path, "--unix-socket", str(tmp_path / "s")) as server:
        q = connect(server.url)
        q.create("orders")

        assert [info.name for info in q.queues()] == ["orders", "orders-dlq"]


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://localhost:8888/", "http://localhost:8888"),
        ("localhost:8888", "http://localhost:8888"),
        ("https://queue.example.org/sqew/", "https://queue.example.org/sqew"),
        ("http://[::1]:8888", "http://[::1]:8888"),
    ],
)
def test_a_url_may_be_written_in_several_ways(given, base):
    assert address_of(given).base == base


@pytest.mark.parametrize("given", ["", " ", "ftp://x", "http://", "http://a:b", "http://a/?x=1", "unix:", None, 7])
def test_what_is_no_url_is_refused(given):
    with pytest.raises(BadValue):
        address_of(given)


def methods(kind):
    return {name: method for name, method in vars(kind).items() if not name.startswith("_") and callable(method)}


def test_both_clients_have_the_same_methods_with_the_same_parameters():
    ours, theirs = methods(Client), methods(AsyncClient)
    # A task is cancelled, a thread must look up by itself.
    del ours["wake_waiters"]

    def parameters(method):
        taken = inspect.signature(method).parameters.values()
        return [(p.name, p.kind, p.default) for p in taken if p.name != "stopping"]

    assert {name: parameters(method) for name, method in ours.items()} == {
        name: parameters(method) for name, method in theirs.items()
    }


def test_a_client_takes_what_the_embedded_queue_takes():
    only_on_the_file = {"open", "transaction", "backup", "check", "maintain", "redrive"}
    for name, method in methods(Queue).items():
        if name in only_on_the_file:
            continue
        taken = inspect.signature(getattr(Client, name)).parameters
        for parameter in inspect.signature(method).parameters.values():
            assert taken[parameter.name].default == parameter.default, (name, parameter.name)


def test_importing_sqew_does_not_load_the_client():
    code = "import sys, sqew; assert 'httpx2' not in sys.modules; sqew.Client; assert 'httpx2' in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)
