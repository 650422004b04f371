"""Posts to HTTPS endpoints: the certificate must match the name, whatever the address."""

from __future__ import annotations

import datetime as dt
import socket
import threading
from collections.abc import Iterator

import pytest
import trustme

from sqew.errors import DeliveryFailed
from tests.background.webhooks.posters import posting
from tests.support.endpoint import OK, Hook, answers_once, endpoint, hangs_up, resets, says, stalls


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority, tmp_path, monkeypatch) -> None:
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))


@pytest.fixture
def hook(authority, trusted) -> Iterator[Hook]:
    with endpoint(authority.issue_cert("hook.example", "127.0.0.1")) as running:
        yield running


def test_the_certificate_is_checked_against_the_name(hook, run):
    assert run(posting(hook.url("/x", "hook.example"))) == [200]

    assert hook.server_names == ["hook.example"]
    assert hook.received()[0].headers["host"] == f"hook.example:{hook.port}"


def test_an_address_may_have_a_certificate_too(hook, run):
    assert run(posting(hook.url("/x"))) == [200]


def test_a_certificate_for_another_name_is_refused(hook, run):
    with pytest.raises(DeliveryFailed, match=r"certificate of other\.example:\d+ is not trusted \(Hostname mismatch"):
        run(posting(hook.url("/x", "other.example")))

    assert hook.received() == []


def test_a_certificate_of_an_unknown_issuer_is_refused(trusted, run):
    with (
        endpoint(trustme.CA().issue_cert("hook.example")) as hook,
        pytest.raises(DeliveryFailed, match=r"is not trusted \(unable to get local issuer certificate\)"),
    ):
        run(posting(hook.url("/x", "hook.example")))

    assert hook.received() == []


def test_a_certificate_that_has_expired_is_refused(authority, trusted, run):
    yesterday = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    expired = authority.issue_cert("hook.example", not_after=yesterday)

    with endpoint(expired) as hook, pytest.raises(DeliveryFailed, match=r"not trusted \(certificate has expired\)"):
        run(posting(hook.url("/x", "hook.example")))

    assert hook.received() == []


def test_requests_share_an_encrypted_connection(hook, run):
    run(posting(*[hook.url("/x", "hook.example")] * 5))

    assert [request.turn for request in hook.received()] == [1, 2, 3, 4, 5]


def test_an_encrypted_connection_found_dead_is_replaced(hook, run):
    hook.does("/x", answers_once)

    assert run(posting(*[hook.url("/x", "hook.example")] * 3)) == [200, 200, 200]


def test_a_large_body_arrives_whole(hook, run):
    body = bytes(range(256)) * 20_000

    run(posting(hook.url("/large"), body=body))

    assert hook.received("/large")[0].body == body


@pytest.mark.parametrize(
    ("behaviour", "how"),
    [
        (hangs_up, "closed the connection without an answer"),
        (resets, "the connection without an answer"),
        (says(OK[:-1], goes_on=False), "closed the connection in the middle of its answer"),
        (says(b"SSH-2.0\r\n"), r"gave an answer that is not HTTP/1\.1"),
    ],
)
def test_a_connection_that_breaks_is_a_failure(hook, run, behaviour, how):
    hook.does("/breaks", behaviour)

    with pytest.raises(DeliveryFailed, match=how):
        run(posting(hook.url("/breaks")))


def test_an_answer_that_ends_with_its_connection_is_an_answer(hook, run):
    hook.does("/x", says(b"HTTP/1.1 200 OK\r\n\r\nhello", goes_on=False))

    assert run(posting(hook.url("/x"))) == [200]


def test_an_answer_that_takes_too_long_is_a_failure(hook, run):
    hook.does("/stalls", stalls)

    with pytest.raises(DeliveryFailed, match=r"did not answer within 0\.5 s"):
        run(posting(hook.url("/stalls")), timeout_s=0.5)


def test_a_handshake_that_takes_too_long_is_a_failure(run):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://hook.example:{silent.getsockname()[1]}/"

        with pytest.raises(DeliveryFailed, match=r"could not be reached within 0\.3 s"):
            run(posting(url), timeout_s=0.3)


@pytest.mark.parametrize(
    ("said", "how"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", r"does not speak TLS \(.*\)\. Check whether it is http or https"),
        (b"", "broke off while the connection was made"),
    ],
)
def test_https_to_an_endpoint_without_tls_is_a_failure(run, said, how):
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            connection, _ = plain.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()

        with pytest.raises(DeliveryFailed, match=how):
            run(posting(f"https://hook.example:{plain.getsockname()[1]}/"))
        thread.join()


def test_http_to_an_endpoint_with_tls_is_a_failure(hook, run):
    with pytest.raises(DeliveryFailed, match=r"the connection|not HTTP"):
        run(posting(hook.url("/x").replace("https:", "http:")))

    assert hook.received() == []
