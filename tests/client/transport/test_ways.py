"""Routes to a server: encrypted, and through the proxies that the environment names."""

import contextlib
import socket
import ssl
import threading
from base64 import b64encode
from urllib.parse import urlsplit

import pytest
import trustme

from sqew import Client
from sqew.client.transport.failures import ConnectionBroken, NoConnection, NotSafe, TooSlowToConnect
from sqew.client.transport.proxies import proxy_to
from sqew.client.transport.route import Timeouts
from sqew.errors import BadValue, Unreachable
from tests.client.transport.exchanges import KINDS, Listener, answer, echoes, exchanging, request_on

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir", "request_method")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(params=KINDS)
def to(request):
    """Return a function that makes a transport to a URL, of each kind in turn."""

    def to(base, **options):
        return exchanging(request.param, base, **options)

    return to


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def serving_tls(authority):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def trusting(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


# TLS


def test_whom_a_given_context_trusts_is_spoken_with(to, serving_tls, trusting):
    with Listener(echoes, serving_tls) as server, to(server.url, tls=trusting) as transport:
        for body in (b"a", bytes(3 << 20), [b"b" * 100_000] * 3):
            assert transport.ask("/x", method="POST", body=body)[1] == b"/x" + b"".join(
                [body] if isinstance(body, bytes) else body
            )
        assert len(server.connections) == 1


def test_whom_the_environment_trusts_is_spoken_with(to, serving_tls, authority, monkeypatch, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    with Listener(echoes, serving_tls) as server, to(server.url) as transport:
        assert transport.ask("/x") == (200, b"/x")


def test_whom_nobody_vouches_for_is_told_nothing(to, serving_tls):
    heard = []

    def handle(connection):
        heard.append(request_on(connection))

    with (
        Listener(handle, serving_tls) as server,
        to(server.url) as transport,
        pytest.raises(NotSafe, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        transport.ask()

    assert heard == []


def test_a_certificate_for_another_name_is_none(to, serving_tls, trusting):
    with Listener(echoes, serving_tls) as server:
        server.host = "127.0.0.1"
        with to(server.url, tls=trusting) as transport, pytest.raises(NotSafe, match="mismatch"):
            transport.ask()


def test_an_encrypted_answer_that_is_cut_off_is_broken(to, serving_tls, trusting):
    def handle(connection):
        request_on(connection)
        connection.sendall(answer(b"abcde")[:-1])

    with (
        Listener(handle, serving_tls) as server,
        to(server.url, tls=trusting) as transport,
        pytest.raises(ConnectionBroken, match="in the middle of the answer"),
    ):
        transport.ask()


def test_an_encrypted_connection_that_the_server_closed_is_not_used_again(to, serving_tls, trusting):
    closed = threading.Event()

    def handle(connection):
        request_on(connection)
        connection.sendall(answer(b"abcde"))
        socket.socket.shutdown(connection, socket.SHUT_WR)
        closed.set()
        connection.recv(1)

    with Listener(handle, serving_tls) as server, to(server.url, tls=trusting) as transport:
        for _ in range(3):
            assert transport.ask() == (200, b"abcde")
            assert closed.wait(10)
            closed.clear()


# Proxies


class Proxy(Listener):
    """A proxy that records its requests, and passes them on unless it was given an answer of its own."""

    def __init__(self, says=b""):
        self.asked, self._says = [], says
        super().__init__(self._serve)

    def _serve(self, connection):
        while asked := request_on(connection):
            line, headers, body = asked
            method, target, _ = line.split(" ")
            self.asked.append((method, target, headers))
            if self._says:
                connection.sendall(self._says)
                return
            if method == "CONNECT":
                self._tunnel(connection, target)
                return
            url = urlsplit(target)
            with socket.create_connection((url.hostname, url.port)) as server:
                server.sendall(f"{method} {url.path} HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
                connection.sendall(server.recv(65_536))

    def _tunnel(self, connection, target):
        host, port = target.split(":")
        with socket.create_connection((host, int(port))) as server:
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pump, args=(server, connection))
            back.start()
            _pump(connection, server)
            back.join()


def _pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def test_a_proxy_passes_requests_on(to, monkeypatch):
    with Listener(echoes) as server, Proxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:p%40ss@127.0.0.1:{proxy.port}")
        with to(server.url + "/sub") as transport:
            assert transport.ask("/x", method="POST", body=b"!") == (200, b"/sub/x!")
            assert transport.ask("/y") == (200, b"/sub/y")

    secret = f"Basic {b64encode(b'me:p@ss').decode()}"
    assert [(method, target) for method, target, _ in proxy.asked] == [
        ("POST", f"{server.url}/sub/x"),
        ("GET", f"{server.url}/sub/y"),
    ]
    assert {headers["proxy-authorization"] for _, _, headers in proxy.asked} == {secret}
    assert {headers["host"] for _, _, headers in proxy.asked} == {f"127.0.0.1:{server.port}"}
    assert len(proxy.connections) == 1


def test_a_proxy_leads_to_an_encrypted_server_and_hears_nothing(to, monkeypatch, serving_tls, trusting):
    with Listener(echoes, serving_tls) as server, Proxy() as proxy:
        monkeypatch.setenv("https_proxy", f"me:secret@127.0.0.1:{proxy.port}")
        with to(server.url, tls=trusting) as transport:
            assert transport.ask("/x", headers={"authorization": "Bearer t"}) == (200, b"/x")
            assert transport.ask("/y") == (200, b"/y")

    secret = f"Basic {b64encode(b'me:secret').decode()}"
    place = f"localhost:{server.port}"
    assert proxy.asked == [("CONNECT", place, {"host": place, "proxy-authorization": secret})]


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n", "the proxy answers 407 Who are you"),
        (b"HTTP/1.1 200", "without an answer"),
        (b"SSH-2.0", "not HTTP/1.1"),
    ],
)
def test_a_proxy_that_does_not_lead_on_is_told_of(to, monkeypatch, says, why):
    with Proxy(says) as proxy:
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
        with to("https://server.example") as transport, pytest.raises(NoConnection, match=why):
            transport.ask()
        with Client("https://server.example", retries=0) as q, pytest.raises(Unreachable, match="There is no server"):
            q.queues()


def test_a_proxy_that_is_silent_is_given_up(to, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with to("https://server.example") as transport, pytest.raises(TooSlowToConnect):
            transport.ask(timeouts=Timeouts(0.2, 20, 20))


def test_a_socket_on_this_machine_has_no_proxy(to, monkeypatch, tmp_path):
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()

        def serve():
            connection, _ = listening.accept()
            with connection:
                echoes(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        with to("http://localhost", socket=str(tmp_path / "s")) as transport:
            assert transport.ask("/x") == (200, b"/x")
        thread.join()


SERVER = "http://queue.example.com:8888"


@pytest.mark.parametrize(
    ("said", "server", "port"),
    [
        ({}, SERVER, None),
        ({"HTTP_PROXY": "http://p:1"}, SERVER, 1),
        ({"HTTP_PROXY": "p:1"}, SERVER, 1),
        ({"HTTP_PROXY": "p"}, SERVER, 80),
        ({"HTTP_PROXY": "http://p:1", "http_proxy": "http://p:2"}, SERVER, 2),
        ({"HTTP_PROXY": "http://p:1", "http_proxy": ""}, SERVER, None),
        ({"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://p:2"}, SERVER, 1),
        ({"HTTPS_PROXY": "http://p:1", "ALL_PROXY": "http://p:2"}, SERVER, 2),
        ({"HTTPS_PROXY": "http://p:1"}, SERVER, None),
        ({"HTTPS_PROXY": "http://p:1"}, "https://queue.example.com", 1),
        # In a CGI script anybody may set it.
        ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, SERVER, None),
        ({"http_proxy": "http://p:1", "REQUEST_METHOD": "GET"}, SERVER, 1),
    ],
)
def test_the_proxy_is_the_one_that_the_environment_names(monkeypatch, said, server, port):
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    proxy = proxy_to(urlsplit(server))

    assert (proxy and proxy.port) == port


@pytest.mark.parametrize(
    ("entries", "server", "is_direct"),
    [
        ("*", SERVER, True),
        ("other.com, queue.example.com", SERVER, True),
        ("QUEUE.example.COM", SERVER, True),
        ("example.com", SERVER, True),
        (".example.com", SERVER, True),
        (".queue.example.com", SERVER, False),
        ("ueue.example.com", SERVER, False),
        ("queue.example.com:8888", SERVER, True),
        ("queue.example.com:8889", SERVER, False),
        ("queue.example.com:80", "http://queue.example.com", True),
        ("http://queue.example.com", SERVER, True),
        ("https://queue.example.com", SERVER, False),
        ("all://queue.example.com", SERVER, True),
        ("127.0.0.1", "http://127.0.0.1:1", True),
        ("127.0.0.0/8", "http://127.0.0.1:1", True),
        ("10.0.0.0/8", "http://127.0.0.1:1", False),
        ("127.0.0.0/99", "http://127.0.0.1:1", False),
        ("127.0.0.0/8", SERVER, False),
        ("::1", "http://[::1]:1", True),
        ("[::1]", "http://[::1]:1", True),
        ("[::1]:1", "http://[::1]:1", True),
        ("[::1]:2", "http://[::1]:1", False),
        ("::/64", "http://[::1]:1", True),
        (",, ,", SERVER, False),
    ],
)
def test_no_proxy_names_servers_that_are_asked_straight(monkeypatch, entries, server, is_direct):
    monkeypatch.setenv("ALL_PROXY", "http://p:1")
    monkeypatch.setenv("NO_PROXY", entries)

    assert (proxy_to(urlsplit(server)) is None) == is_direct


@pytest.mark.parametrize(
    "value", ["socks5://me:sEcret@p:1", "https://me:sEcret@p:1", "http://me:sEcret@p:x", "http://[sEcret", "http://"]
)
def test_a_proxy_that_can_not_be_used_is_refused_without_its_password(monkeypatch, value):
    monkeypatch.setenv("ALL_PROXY", value)
    with pytest.raises(BadValue, match="ALL_PROXY") as refused:
        Client(SERVER)

    assert "sEcret" not in str(refused.value)
    monkeypatch.setenv("NO_PROXY", "queue.example.com")
    Client(SERVER).close()
