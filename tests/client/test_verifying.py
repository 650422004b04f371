"""Guarantees for the receiver of a webhook that verifies envelopes."""

import asyncio
import base64
import json
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from sqew import EnvelopeVerifier
from sqew.clock import ManualClock
from sqew.envelopes.signing import envelope, new_signing_key
from sqew.errors import BadSignature, BadValue
from sqew.model import Notice

NOW = 1_700_000_000_000
YEAR_MS = 366 * 86_400_000
HOUR_MS = 3_600_000
HERE = "https://queue.example.com/SimpleNotificationService-0a1b.pem"
NOTICE = Notice("0b9c2f1e", "arn:aws:sns:us-east-1:000000000000:orders.new", "two\nlines", NOW, "news")
KEY = new_signing_key(NOW)
OTHER = new_signing_key(NOW)


def signed(url=HERE, key=KEY, version=2, **changes):
    """Return an envelope as it arrives, with fields changed on its way; None removes one."""
    fields = {**json.loads(envelope(NOTICE, key, url, version)), **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


@pytest.fixture(params=["sync", "async"])
def verify(request):
    """Return a function that verifies an envelope: blocking, and in a loop."""
    if request.param == "sync":
        return lambda verifier, body: verifier.verify(body)
    return lambda verifier, body: asyncio.run(verifier.verify_async(body))


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def pinned(clock):
    return EnvelopeVerifier(certificate=KEY.certificate, clock=clock)


@pytest.mark.parametrize("version", [1, 2])
def test_an_envelope_tells_what_was_published(pinned, verify, version):
    told = verify(pinned, signed(version=version))

    assert (told.message_id, told.topic_arn, told.message) == (NOTICE.message_id, NOTICE.topic_arn, "two\nlines")
    assert (told.at_ms, told.subject, told.type) == (NOW, "news", "Notification")


@pytest.mark.parametrize("form", [bytes, bytes.decode, json.loads], ids=["bytes", "text", "dict"])
def test_an_envelope_is_taken_as_a_body_or_as_what_it_holds(pinned, form):
    assert pinned.verify(form(signed())).message == "two\nlines"


@given(
    message=st.text(), subject=st.none() | st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))
)
def test_whatever_is_published_arrives(message, subject):
    verifier = EnvelopeVerifier(certificate=KEY.certificate, clock=ManualClock(NOW))
    notice = Notice("7", "arn", message, NOW, subject)

    told = verifier.verify(envelope(notice, KEY, HERE))

    assert (told.message, told.subject) == (message, subject)


@pytest.mark.parametrize(
    "change",
    [
        {"Message": "two\nlines "},
        {"MessageId": "0b9c2f1f"},
        {"Subject": "olds"},
        {"Subject": None},
        {"Timestamp": "2023-11-14T22:13:21.000Z"},
        {"TopicArn": "arn:aws:sns:us-east-1:000000000000:orders.old"},
        {"SignatureVersion": "1"},
        {"Signature": base64.b64encode(bytes(256)).decode()},
        {"Signature": ""},
        {"Message": "two", "MessageId": "lines"},
    ],
    ids=" and ".join,
)
def test_a_changed_field_is_noticed(pinned, change):
    with pytest.raises(BadSignature, match="The signature does not fit"):
        pinned.verify(signed(**change))


def test_the_border_between_two_fields_can_not_be_moved(pinned):
    moved = signed(Subject=None, MessageId="0b9c2f1e\nSubject\nnews")

    with pytest.raises(BadSignature, match="MessageId has a line break in it"):
        pinned.verify(moved)


def test_a_notification_can_not_be_passed_off_as_a_confirmation(pinned):
    disguised = signed(Type="SubscriptionConfirmation", Token="t", SubscribeURL="https://evil.example")

    with pytest.raises(BadSignature, match="The signature does not fit"):
        pinned.verify(disguised)


def test_what_is_not_signed_is_not_told(pinned):
    told = pinned.verify(signed(Token="t", SubscribeURL="https://evil.example", UnsubscribeURL="https://evil.example"))

    assert (told.token, told.subscribe_url) == (None, None)


def test_a_subject_that_is_null_is_none(clock):
    notice = Notice("7", "arn", "hi", NOW)
    fields = {**json.loads(envelope(notice, KEY, HERE)), "Subject": None}

    assert EnvelopeVerifier(certificate=KEY.certificate, clock=clock).verify(fields).subject is None


def test_the_signature_of_another_key_does_not_fit(pinned):
    with pytest.raises(BadSignature, match="another key signed it"):
        pinned.verify(signed(key=OTHER))


def test_several_certificates_may_be_pinned_while_a_key_is_changed(clock):
    verifier = EnvelopeVerifier(certificate=(KEY.certificate + OTHER.certificate).decode(), clock=clock)

    assert verifier.verify(signed(key=OTHER)).message == verifier.verify(signed()).message


@pytest.mark.parametrize(
    "name", ["Type", "MessageId", "TopicArn", "Message", "Timestamp", "SignatureVersion", "Signature"]
)
def test_a_missing_field_is_named(pinned, name):
    with pytest.raises(BadSignature, match=f"The envelope has no {name}. Is it a raw delivery?"):
        pinned.verify(signed(**{name: None}))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'"hi"', "is not a JSON object but 'hi'"),
        (None, "is not a JSON object but None"),
        (signed(Message=7), "Message can't be 7: it must be a text"),
        (signed(Subject=7), "Subject can't be 7: it must be a text"),
        (signed(Type="Notice"), "can't have been signed. An envelope of the type 'Notice'"),
        (signed(Type="SubscriptionConfirmation"), "has no SubscribeURL, which must be signed"),
        (signed(SignatureVersion="3"), "SignatureVersion can't be '3': it must be '1' or '2'"),
        (signed(Signature="*"), "Signature is not base64"),
        (signed(Signature="é"), "Signature is not base64"),
        (signed(Timestamp="yesterday"), "Timestamp can't be 'yesterday'"),
        (signed(Timestamp="2023-13-14T22:13:20.000Z"), "Timestamp can't be '2023-13-14T22:13:20.000Z'"),
        ({**json.loads(signed()), "Message": "\ud800"}, "must be valid Unicode"),
    ],
)
def test_what_is_no_envelope_is_refused_with_what_is_wrong(pinned, body, sentence):
    with pytest.raises(BadSignature, match=sentence):
        pinned.verify(body)


def test_version_2_can_be_demanded(clock):
    verifier = EnvelopeVerifier(certificate=KEY.certificate, only_version_2=True, clock=clock)

    assert verifier.verify(signed(version=2)).message == "two\nlines"
    with pytest.raises(BadSignature, match="signed by version 1"):
        verifier.verify(signed(version=1))


def test_an_envelope_is_refused_after_an_hour(pinned, clock):
    clock.advance(HOUR_MS)
    assert pinned.verify(signed()).at_ms == NOW

    clock.advance(1_000)
    with pytest.raises(BadSignature, match="is 3601 s old, and 3600 s are allowed"):
        pinned.verify(signed())


def test_an_envelope_from_the_future_is_refused():
    behind = EnvelopeVerifier(certificate=KEY.certificate, clock=ManualClock(NOW - 301_000))

    with pytest.raises(BadSignature, match="dated 301 s ahead of this clock"):
        behind.verify(signed())


def test_any_age_will_do_where_none_is_asked_for(clock):
    verifier = EnvelopeVerifier(certificate=KEY.certificate, max_age_seconds=None, clock=clock)

    clock.advance(YEAR_MS)

    assert verifier.verify(signed()).at_ms == NOW


@pytest.mark.parametrize(
    ("made_at", "sentence"),
    [(NOW - 11 * YEAR_MS, "The certificate expired on 2022-1"), (NOW + YEAR_MS, "The certificate is not valid yet")],
    ids=["expired", "not valid yet"],
)
def test_a_certificate_counts_in_its_time_only(clock, made_at, sentence):
    key = new_signing_key(made_at)
    verifier = EnvelopeVerifier(certificate=key.certificate, clock=clock)

    with pytest.raises(BadSignature, match=sentence):
        verifier.verify(signed(key=key))


def test_a_certificate_without_an_rsa_key_is_refused(clock):
    private = ec.generate_private_key(ec.SECP256R1())
    made = x509.load_pem_x509_certificate(KEY.certificate)
    builder = x509.CertificateBuilder(
        made.issuer,
        made.subject,
        private.public_key(),
        made.serial_number,
        made.not_valid_before_utc,
        made.not_valid_after_utc,
    )

    with pytest.raises(BadValue, match="its key is not an RSA key of at least 2048 bits"):
        EnvelopeVerifier(certificate=builder.sign(private, SHA256()).public_bytes(Encoding.PEM), clock=clock)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "Say whose signatures count"),
        ({"cert_hosts": ["a"], "certificate": KEY.certificate}, "give either cert_hosts"),
        ({"cert_hosts": "queue.example.com"}, "it must be a list of hosts"),
        ({"cert_hosts": ["https://queue.example.com"]}, "write each as a host"),
        ({"cert_hosts": ["*.example.com"]}, "write each as a host"),
        ({"certificate": "nothing"}, "The certificate can't be used"),
        ({"certificate": 7}, "The certificate can't be used"),
        ({"cert_hosts": ["a"], "max_age_seconds": -1}, "max_age_seconds can't be -1"),
        ({"cert_hosts": ["a"], "timeout_seconds": 0}, "timeout_seconds can't be 0"),
        ({"cert_hosts": ["a"], "tls": True}, "tls can't be True"),
    ],
)
def test_a_verifier_that_could_not_work_is_not_made(options, sentence):
    with pytest.raises(BadValue, match=sentence):
        EnvelopeVerifier(**options)


def test_a_missing_package_is_told_when_the_verifier_is_made(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(BadValue, match=r"needs the package cryptography. Install it"):
        EnvelopeVerifier(cert_hosts=["queue.example.com"])
