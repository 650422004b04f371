"""Certificates that the receiver of a webhook fetches: only from allowed hosts, and seldom."""

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest
import trustme

from sqew import EnvelopeVerifier
from sqew.client.webhooks.certificates import CertificateCache
from sqew.clock import ManualClock
from sqew.envelopes.signing import envelope, new_signing_key
from sqew.errors import BadSignature, Unreachable
from sqew.model import Notice
from tests.support.canned_server import CannedServer
from tests.support.endpoint import Gate, drips, endless_interims, endpoint, stalls

NOW = 1_700_000_000_000
HOUR_MS = 3_600_000
SOME_SECONDS_MS = 5_000
NAME = "/SimpleNotificationService-0a1b.pem"
HERE = "https://queue.example.com" + NAME
NOTICE = Notice("0b9c2f1e", "arn:aws:sns:us-east-1:000000000000:orders.new", "hi", NOW)
KEY = new_signing_key(NOW)
CERTIFICATE = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(KEY.certificate), KEY.certificate)


def signed(url):
    return envelope(NOTICE, KEY, url)


@pytest.fixture(params=["sync", "async"])
def verify(request):
    """Return a function that verifies an envelope: blocking, and in a loop."""
    if request.param == "sync":
        return lambda verifier, body: verifier.verify(body)
    return lambda verifier, body: asyncio.run(verifier.verify_async(body))


@pytest.fixture
def clock():
    return ManualClock(NOW)


def fetching(server, clock, **options):
    host = server.url.removeprefix("http://")
    return EnvelopeVerifier(cert_hosts=[host], allow_http=True, clock=clock, **options)


def test_a_certificate_is_fetched_once_in_an_hour(verify, clock):
    with CannedServer((200, KEY.certificate)) as server:
        verifier = fetching(server, clock, max_age_seconds=None)

        for _ in range(3):
            assert verify(verifier, signed(server.url + NAME)).message == "hi"
        assert server.asked == [f"GET {NAME}"]

        clock.advance(HOUR_MS)
        verify(verifier, signed(server.url + NAME))
        assert server.asked == [f"GET {NAME}"] * 2


def test_the_certificates_that_are_kept_are_bounded(clock):
    with CannedServer((200, KEY.certificate)) as server:
        verifier = fetching(server, clock)
        urls = [f"{server.url}/SimpleNotificationService-{number}.pem" for number in range(65)]
        for url in urls:
            verifier.verify(signed(url))

        verifier.verify(signed(urls[-1]))
        assert len(server.asked) == 65

        verifier.verify(signed(urls[0]))
        assert len(server.asked) == 66


def test_a_certificate_is_fetched_over_https_where_the_authority_is_trusted(verify, clock):
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    tls = ssl.create_default_context()
    authority.configure_trust(tls)
    with CannedServer((200, KEY.certificate)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        host = f"localhost:{server.server_port}"
        body = signed(f"https://{host}{NAME}")

        trusting = EnvelopeVerifier(cert_hosts=[host], tls=tls, clock=clock)
        assert verify(trusting, body).message == "hi"

        wary = EnvelopeVerifier(cert_hosts=[host], clock=clock)
        with pytest.raises(Unreachable, match="can't be fetched"):
            verify(wary, body)


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example.com" + NAME,
        "https://queue.example.com.evil.com" + NAME,
        "https://evilqueue.example.com" + NAME,
        "https://queue.example.com:8443" + NAME,
        "https://[::1]" + NAME,
    ],
)
def test_a_foreign_host_is_never_asked(clock, url):
    verifier = EnvelopeVerifier(cert_hosts=["queue.example.com"], clock=clock)

    with pytest.raises(BadSignature, match=r"on a host that may not sign. Those that may are: queue.example.com"):
        verifier.verify(signed(url))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://queue.example.com" + NAME,
        "https://user@queue.example.com" + NAME,
        "https://evil.com\\@queue.example.com" + NAME,
        "https://queue.example.com#@evil.com" + NAME,
        "https://queue.example.com" + NAME + "?to=evil",
        "https://queue.example.com" + NAME + "\n",
        "https://queue.example.com/uploads/mine.pem",
        "https://queue.example.com/%2e%2e" + NAME,
        "https://queue.example.com/uploads/.." + NAME,
        "https://queue.example.com/." + NAME,
        "//queue.example.com" + NAME,
    ],
)
def test_what_is_not_the_plain_url_of_a_certificate_is_refused(clock, url):
    verifier = EnvelopeVerifier(cert_hosts=["queue.example.com"], clock=clock)

    with pytest.raises(BadSignature, match="SigningCertURL can't be"):
        verifier.verify(signed(url))


def test_http_is_refused_unless_it_is_allowed(clock):
    verifier = EnvelopeVerifier(cert_hosts=["queue.example.com"], clock=clock)

    with pytest.raises(BadSignature, match="is not https"):
        verifier.verify(signed("http://queue.example.com" + NAME))


@pytest.mark.parametrize("host", ["queue.example.com", "QUEUE.example.com", "queue.example.com:443"])
@pytest.mark.parametrize("url", [HERE, HERE.replace(".com", ".COM"), HERE.replace(".com", ".com:443")])
def test_a_host_is_the_same_in_capitals_and_with_the_port_that_it_has_anyway(clock, host, url):
    certificates = CertificateCache([host], allow_http=False, timeout_seconds=1, tls=None, clock=clock)

    assert certificates.place(url).url == HERE


def test_a_redirect_is_not_followed(verify, clock):
    with (
        CannedServer((200, KEY.certificate)) as elsewhere,
        CannedServer((302, b"", ("Location", elsewhere.url + NAME))) as server,
        pytest.raises(BadSignature, match=r"leads elsewhere \(302\)"),
    ):
        verify(fetching(server, clock), signed(server.url + NAME))

    assert elsewhere.asked == []


@pytest.mark.parametrize(
    ("answer", "error", "sentence"),
    [
        ((404, b""), BadSignature, r"There is no certificate at http://\S+ \(404\)"),
        ((200, b"<html>"), BadSignature, "is not a certificate that can be used"),
        ((200, b"x" * 65_537), BadSignature, "too large to be a certificate"),
        ((503, b""), Unreachable, r"answers 503, so the envelope could not be checked"),
        (None, Unreachable, "can't be fetched"),
    ],
    ids=["missing", "another page", "too large", "busy", "hung up"],
)
def test_a_certificate_that_can_not_be_had_is_told_from_one_that_is_wrong(verify, clock, answer, error, sentence):
    with CannedServer(answer) as server, pytest.raises(error, match=sentence):
        verify(fetching(server, clock), signed(server.url + NAME))


@pytest.mark.parametrize("answer", [(404, b""), (503, b"")])
def test_forged_envelopes_can_not_cause_a_fetch_each(verify, clock, answer):
    with CannedServer(answer, (200, KEY.certificate)) as server:
        verifier = fetching(server, clock)
        for _ in range(3):
            with pytest.raises((BadSignature, Unreachable), match=str(answer[0])):
                verify(verifier, signed(server.url + NAME))
        assert len(server.asked) == 1

        clock.advance(SOME_SECONDS_MS)

        assert verify(verifier, signed(server.url + NAME)).message == "hi"


def test_forged_envelopes_can_not_push_out_a_good_certificate(clock):
    with CannedServer((200, KEY.certificate), (404, b"")) as server:
        verifier = fetching(server, clock)
        verifier.verify(signed(server.url + NAME))
        for number in range(70):
            with pytest.raises(BadSignature):
                verifier.verify(signed(f"{server.url}/SimpleNotificationService-{number}.pem"))

        assert verifier.verify(signed(server.url + NAME)).message == "hi"
        assert server.asked.count(f"GET {NAME}") == 1


def test_a_certificate_is_fetched_once_however_its_host_is_written(clock):
    with CannedServer((200, KEY.certificate)) as server:
        verifier = EnvelopeVerifier(cert_hosts=[f"localhost:{server.server_port}"], allow_http=True, clock=clock)

        for host in ("localhost", "LOCALHOST", "LocalHost"):
            verifier.verify(signed(f"http://{host}:{server.server_port}{NAME}"))

        assert len(server.asked) == 1


def test_threads_and_tasks_that_need_the_same_certificate_wait_for_one_fetch(clock):
    gate = Gate(CERTIFICATE)
    with endpoint() as hook:
        hook.does(NAME, gate)
        verifier = EnvelopeVerifier(cert_hosts=[hook.url("").removeprefix("http://")], allow_http=True, clock=clock)
        body = signed(hook.url(NAME))

        async def in_tasks():
            return await asyncio.gather(*(verifier.verify_async(body) for _ in range(5)))

        with ThreadPoolExecutor(6) as threads:
            found = [threads.submit(verifier.verify, body) for _ in range(5)]
            also_found = threads.submit(asyncio.run, in_tasks())
            hook.wait_for(NAME)
            gate.open()

            assert {one.result().message for one in found} == {"hi"}
            assert [one.message for one in also_found.result()] == ["hi"] * 5
        assert len(hook.received(NAME)) == 1


def test_a_task_that_is_cancelled_leaves_the_others_their_certificate(clock):
    gate = Gate(CERTIFICATE)

    async def one_leaves(verifier, body, hook):
        leaving, staying = (asyncio.create_task(verifier.verify_async(body)) for _ in range(2))
        await asyncio.to_thread(hook.wait_for, NAME)
        leaving.cancel()
        gate.open()
        return await staying

    with endpoint() as hook:
        hook.does(NAME, gate)
        verifier = EnvelopeVerifier(cert_hosts=[hook.url("").removeprefix("http://")], allow_http=True, clock=clock)

        assert asyncio.run(one_leaves(verifier, signed(hook.url(NAME)), hook)).message == "hi"


@pytest.mark.parametrize("behaviour", [drips, stalls, endless_interims], ids=["drips", "stalls", "never begins"])
def test_an_answer_that_trickles_in_is_given_up_in_time(verify, clock, behaviour):
    with endpoint() as hook:
        hook.does(NAME, behaviour)
        host = hook.url("").removeprefix("http://")
        verifier = EnvelopeVerifier(cert_hosts=[host], allow_http=True, clock=clock, timeout_seconds=0.2)

        with pytest.raises(Unreachable, match=r"did not come within 0\.2 s"):
            verify(verifier, signed(hook.url(NAME)))
