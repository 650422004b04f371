"""Event envelopes and their signatures: RSA over the fields that receivers of SNS notifications check.

`cryptography` is loaded when the first key is made or used: it takes 0.2 s, and most servers sign nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sqew.clock import timestamp
from sqew.errors import BadValue
from sqew.installing import pip_install
from sqew.model import CANCELLATION, CONFIRMATION, NOTIFICATION, Notice, SigningKey

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import HashAlgorithm
    from cryptography.x509 import Certificate

SignatureVersion = Literal[1, 2]

_KEY_BITS = 2048
_VALID_FOR = timedelta(days=3652)
_VALID_SINCE = timedelta(days=1)
"""Validity before its creation: the clock of a receiver may be behind."""
_ID_DIGITS = 32
_LOADED_KEYS = 8

_SIGNED_FIELDS = {
    NOTIFICATION: ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    CONFIRMATION: ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    CANCELLATION: ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
"""The fields that are signed, by the type of the envelope, in the order of signing: that of their bytes."""
_OPTIONAL = "Subject"


@contextmanager
def cryptography_explained() -> Iterator[None]:
    """Name the missing package when signatures can't be made or checked because of it."""
    try:
        yield
    except ImportError as error:
        raise BadValue(
            "Signing and checking envelopes needs the package cryptography. "
            f"Install it with `{pip_install('cryptography')}`, or use raw deliveries."
        ) from error


def new_signing_key(now_ms: int) -> SigningKey:
    """Make an RSA key of 2048 bits, and a self-signed certificate for it, valid for ten years."""
    with cryptography_explained():
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa
    private = rsa.generate_private_key(public_exponent=65_537, key_size=_KEY_BITS)
    certificate = _certificate(private, datetime.fromtimestamp(now_ms // 1000, UTC))
    return SigningKey(
        id=hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()[:_ID_DIGITS],
        private_key=private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        created_at=now_ms,
    )


def _certificate(private: RSAPrivateKey, now: datetime) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sqew")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID_SINCE)
        .not_valid_after(now + _VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_for_signatures_only(), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .sign(private, SHA256())
    )


def _for_signatures_only() -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def envelope(notice: Notice, key: SigningKey, cert_url: str, version: SignatureVersion = 2) -> bytes:
    """Return a notice as one line of signed JSON. ``cert_url`` is the address of the key's certificate."""
    fields = {"Type": NOTIFICATION, "MessageId": notice.message_id, "TopicArn": notice.topic_arn}
    if notice.subject is not None:
        fields["Subject"] = notice.subject
    fields["Message"] = notice.message
    fields["Timestamp"] = timestamp(notice.at_ms)
    signed: dict[str, Any] = _signed(fields, key, cert_url, version)
    if notice.attributes:
        signed["MessageAttributes"] = {name: _attribute(value) for name, value in notice.attributes.items()}
    return msgspec.json.encode(signed)


def confirmation(
    kind: str,
    notice: Notice,
    token: str,
    subscribe_url: str,
    key: SigningKey,
    cert_url: str,
    version: SignatureVersion = 2,
) -> bytes:
    """Return the request to an endpoint to confirm or restore its subscription, as one line of signed JSON."""
    fields = {
        "Type": kind,
        "MessageId": notice.message_id,
        "Token": token,
        "TopicArn": notice.topic_arn,
        "Message": notice.message,
        "SubscribeURL": subscribe_url,
        "Timestamp": timestamp(notice.at_ms),
    }
    return msgspec.json.encode(_signed(fields, key, cert_url, version))


def _signed(fields: dict[str, str], key: SigningKey, cert_url: str, version: SignatureVersion) -> dict[str, str]:
    signature = _sign(string_to_sign(fields), key, version)
    return {
        **fields,
        "SignatureVersion": str(version),
        "Signature": base64.b64encode(signature).decode(),
        "SigningCertURL": cert_url,
    }


def _attribute(value: Mapping[str, Any]) -> dict[str, str]:
    """Return an attribute as it stands in an envelope, where it is not signed."""
    return {"Type": value["DataType"], "Value": value.get("StringValue") or value.get("BinaryValue") or ""}


def string_to_sign(fields: Mapping[str, str]) -> bytes:
    r"""Return the bytes of an envelope that are signed; raise `BadValue` if they are not well-defined.

    >>> fields = {"Type": "Notification", "MessageId": "7", "TopicArn": "arn", "Message": "hi", "Timestamp": "now"}
    >>> string_to_sign(fields)
    b'Message\nhi\nMessageId\n7\nTimestamp\nnow\nTopicArn\narn\nType\nNotification\n'
    """
    kind = fields.get("Type", "")
    if kind not in _SIGNED_FIELDS:
        raise BadValue(f"An envelope of the type {kind!r} can't be signed. The types are: {', '.join(_SIGNED_FIELDS)}.")
    signed = [name for name in _SIGNED_FIELDS[kind] if name in fields or name != _OPTIONAL]
    try:
        return "".join(_pair(name, fields) for name in signed).encode()
    except UnicodeEncodeError as error:
        raise BadValue("An envelope must be valid Unicode. Remove the lone surrogates from it.") from error


def _pair(name: str, fields: Mapping[str, str]) -> str:
    if name not in fields:
        raise BadValue(f"The envelope has no {name}, which must be signed.")
    # The end of a field is a line's end: with one inside, the same signature would fit other fields too.
    if name != "Message" and "\n" in fields[name]:
        raise BadValue(f"{name} has a line break in it. Only the Message of an envelope may have some.")
    return f"{name}\n{fields[name]}\n"


def _sign(data: bytes, key: SigningKey, version: SignatureVersion) -> bytes:
    with cryptography_explained():
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    return _loaded(key.private_key).sign(data, PKCS1v15(), hash_of(version))


def hash_of(version: SignatureVersion) -> HashAlgorithm:
    """Return the hash that a version of the signature is made with."""
    from cryptography.hazmat.primitives import hashes

    if version == 1:
        return hashes.SHA1()
    if version == 2:
        return hashes.SHA256()
    raise BadValue(f"There is no version {version} of signatures. The versions are 1 and 2.")


@lru_cache(_LOADED_KEYS)
def _loaded(pem: bytes) -> RSAPrivateKey:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise BadValue("The private key for envelopes can't be read. Make a new one: rotate the key.") from error
    if not isinstance(key, RSAPrivateKey):
        raise BadValue("The private key for envelopes is not an RSA key. Make a new one: rotate the key.")
    return key
