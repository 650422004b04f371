"""Envelopes: the fields that are signed, the signatures, and refusals."""

import base64
import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import Encoding

from sqew.envelopes.signing import envelope, new_signing_key, string_to_sign
from sqew.errors import BadValue
from sqew.model import Notice, SigningKey

NOW = 1_700_000_000_123
ARN = "arn:aws:sns:us-east-1:000000000000:orders.new"
URL = "https://queue.example.com/SimpleNotificationService.pem"


@pytest.fixture(scope="module")
def key():
    return new_signing_key(NOW)


@pytest.fixture(scope="module")
def certificate(key):
    return x509.load_pem_x509_certificate(key.certificate)


def notice(message="hi", subject=None):
    return Notice("0b9c2f1e", ARN, message, NOW, subject)


def test_a_notification_is_signed_field_by_field_in_the_order_of_their_names(key):
    fields = json.loads(envelope(notice("two\nlines", "news"), key, URL))

    assert string_to_sign(fields) == (
        b"Message\ntwo\nlines\nMessageId\n0b9c2f1e\nSubject\nnews\nTimestamp\n2023-11-14T22:13:20.123Z\n"
        b"TopicArn\narn:aws:sns:us-east-1:000000000000:orders.new\nType\nNotification\n"
    )


@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation"])
def test_a_confirmation_is_signed_with_its_token_and_without_a_subject(kind):
    fields = {"Type": kind, "MessageId": "7", "TopicArn": "arn", "Message": "hi", "Timestamp": "now", "Subject": "no"}

    signed = string_to_sign({**fields, "Token": "t", "SubscribeURL": "u"})

    lines = f"Message hi MessageId 7 SubscribeURL u Timestamp now Token t TopicArn arn Type {kind}"
    assert signed.decode().split("\n") == [*lines.split(), ""]


def test_an_envelope_is_one_line_of_json_with_the_fields_of_sns(key):
    line = envelope(notice("two\nlines"), key, URL)

    fields = json.loads(line)
    assert b"\n" not in line
    assert list(fields) == [
        "Type",
        "MessageId",
        "TopicArn",
        "Message",
        "Timestamp",
        "SignatureVersion",
        "Signature",
        "SigningCertURL",
    ]
    assert fields["SigningCertURL"] == URL
    assert fields["SignatureVersion"] == "2"


def test_a_timestamp_always_has_three_digits_of_a_second(key):
    line = envelope(Notice("7", ARN, "hi", 1_704_067_200_000), key, URL)

    assert json.loads(line)["Timestamp"] == "2024-01-01T00:00:00.000Z"


@pytest.mark.parametrize(("version", "digest"), [(1, hashes.SHA1()), (2, hashes.SHA256())], ids=["sha1", "sha256"])
@pytest.mark.parametrize("message", ["", "hi", "größer — 好 🎉", '{"sku":7}', "a\n\nb\n"])
def test_the_certificate_proves_the_signature_of_each_version(key, certificate, version, digest, message):
    fields = json.loads(envelope(notice(message, "news"), key, URL, version))

    # verify returns nothing, and raises where the signature does not fit.
    certificate.public_key().verify(base64.b64decode(fields["Signature"]), string_to_sign(fields), PKCS1v15(), digest)
    assert fields["Message"] == message
    assert fields["SignatureVersion"] == str(version)


def test_a_key_is_rsa_with_a_certificate_for_ten_years_that_signs_messages_only(certificate):
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)

    certificate.verify_directly_issued_by(certificate)
    assert certificate.public_key().key_size == 2048
    assert certificate.subject.rfc4514_string() == certificate.issuer.rfc4514_string() == "CN=sqew"
    assert certificate.not_valid_before_utc < datetime(2023, 11, 14, tzinfo=UTC)
    assert certificate.not_valid_after_utc.year == 2033
    assert usage.critical
    assert usage.value.digital_signature
    assert not usage.value.key_cert_sign
    assert constraints.value.ca is False


def test_a_key_is_named_after_its_certificate(key, certificate):
    assert key.id == hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()[:32]
    assert key.created_at == NOW


def test_two_keys_are_never_the_same(key):
    assert new_signing_key(NOW).id != key.id


def test_a_key_is_shown_without_what_is_secret(key):
    assert repr(key) == f"SigningKey(id='{key.id}', created_at={NOW})"


@pytest.mark.parametrize("field", ["message_id", "topic_arn", "subject"])
def test_a_line_break_outside_the_message_is_refused_because_it_could_move_the_border_of_a_field(key, field):
    given = {"message_id": "7", "topic_arn": ARN, "message": "hi", "at_ms": NOW, "subject": "news", field: "a\nb"}

    with pytest.raises(BadValue, match="has a line break in it"):
        envelope(Notice(**given), key, URL)


def test_a_lone_surrogate_is_refused(key):
    with pytest.raises(BadValue, match="valid Unicode"):
        envelope(notice("\ud800"), key, URL)


def test_an_unknown_version_is_refused(key):
    with pytest.raises(BadValue, match="no version 3 of signatures"):
        envelope(notice(), key, URL, 3)


def test_an_unknown_type_is_refused():
    with pytest.raises(BadValue, match="of the type 'Notice' can't be signed"):
        string_to_sign({"Type": "Notice"})


def test_a_missing_field_is_named():
    with pytest.raises(BadValue, match="has no MessageId"):
        string_to_sign({"Type": "Notification", "Message": "hi"})


@pytest.mark.parametrize("damaged", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_damaged_private_key_is_told_and_what_to_do(damaged):
    key = SigningKey("0", damaged, b"", NOW)

    with pytest.raises(BadValue, match=r"can't be read\. Make a new one"):
        envelope(notice(), key, URL)


def test_a_missing_package_is_named(key, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)

    with pytest.raises(BadValue, match=r"needs the package cryptography. Install it"):
        new_signing_key(NOW)
    with pytest.raises(BadValue, match=r"needs the package cryptography. Install it"):
        envelope(notice(), key, URL)


def test_nothing_is_loaded_for_signatures_before_one_is_made():
    code = "import sys, sqew.envelopes.signing, sqew.client; sys.exit('cryptography' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code])

    assert done.returncode == 0
