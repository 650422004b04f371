"""`EnvelopeVerifier`: proof, for receivers of webhooks, that an envelope says what its sender signed."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
from msgspec import Struct

from sqew.client.webhooks.certificates import CertificateCache, Signer, signers_in
from sqew.clock import Clock
from sqew.envelopes.signing import SignatureVersion, cryptography_explained, hash_of, string_to_sign
from sqew.errors import BadSignature, BadValue
from sqew.model import NOTIFICATION, Notice
from sqew.rules.values import seconds_as_ms, shown

DEFAULT_MAX_AGE_S = 3600.0
DEFAULT_TIMEOUT_S = 10.0

_AHEAD_MS = 300_000
"""Milliseconds that the sender's clock may be ahead of this one."""
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)
_EPOCH = datetime.fromtimestamp(0, UTC)
_VERSIONS: dict[str, SignatureVersion] = {"1": 1, "2": 2}
_NEEDED = ("Type", "MessageId", "TopicArn", "Message", "Timestamp", "SignatureVersion", "Signature")
_CERT_URL = "SigningCertURL"


class VerifiedNotice(Notice, frozen=True):
    """The contents of an envelope, but only what its signature covers."""

    type: str = NOTIFICATION
    """``Notification``, or ``SubscriptionConfirmation`` or ``UnsubscribeConfirmation`` with the two that follow."""
    token: str | None = None
    subscribe_url: str | None = None


class _Claim(Struct, frozen=True):
    """An envelope, of which everything has been checked but the signature."""

    notice: VerifiedNotice
    signed: bytes
    signature: bytes
    version: SignatureVersion
    cert_url: str


class EnvelopeVerifier:
    """A verifier of the signatures of envelopes that a server posts to you.

        verifier = EnvelopeVerifier(cert_hosts=["queue.example.com"])

        def webhook(request):
            notice = verifier.verify(request.body)  # raises sqew.errors.BadSignature
            handle(notice.message)

    Either ``cert_hosts`` names the servers that may sign, as in the URL of their certificate: ``host``, or
    ``host:port`` where the URL has a port; over https unless ``allow_http``. The certificate is fetched when it is
    first needed, and cached for an hour; one that can't be had is asked for again after some seconds. Or
    ``certificate`` is what a server serves at ``/v1/cert``, and nothing is fetched; it may hold several certificates,
    as while a key is being changed.

    An envelope older than ``max_age_seconds`` is refused; None: any age will do. It may come twice within that time:
    deliveries are made at least once, and ``message_id`` is the same in each. ``only_version_2`` refuses signatures
    that are made with SHA-1. ``tls`` is for a certificate of your own, as in `sqew.Client`; ``clock`` for tests.

    Make one for the whole program. It may be shared by threads, and by tasks through `verify_async`.
    """

    def __init__(
        self,
        *,
        cert_hosts: Sequence[str] = (),
        certificate: bytes | str | None = None,
        allow_http: bool = False,
        only_version_2: bool = False,
        max_age_seconds: float | None = DEFAULT_MAX_AGE_S,
        timeout_seconds: float = DEFAULT_TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        with cryptography_explained():
            import cryptography.x509  # noqa: F401 (better missed when a program starts than at its first webhook)
        _check_options(cert_hosts, certificate, timeout_seconds, tls)
        self._clock = clock or Clock()
        self._only_version_2 = only_version_2
        self._max_age_ms = None if max_age_seconds is None else seconds_as_ms("max_age_seconds", max_age_seconds, 1)
        self._pinned = None if certificate is None else _pinned(certificate)
        self._certificates = CertificateCache(
            cert_hosts, allow_http=allow_http, timeout_seconds=timeout_seconds, tls=tls, clock=self._clock
        )

    def verify(self, envelope: bytes | str | Mapping[str, Any]) -> VerifiedNotice:
        """Verify an envelope, given as the body of a request or as what its JSON holds; return what it says.

        Raises `BadSignature` if it can't be trusted, and `Unreachable` if the certificate can't be fetched.
        """
        claim = self._read(envelope)
        return self._checked(claim, self._pinned or self._certificates.signers(claim.cert_url))

    async def verify_async(self, envelope: bytes | str | Mapping[str, Any]) -> VerifiedNotice:
        """Verify like `verify`, without blocking the loop while a certificate is fetched."""
        claim = self._read(envelope)
        return self._checked(claim, self._pinned or await self._certificates.signers_async(claim.cert_url))

    def _read(self, envelope: object) -> _Claim:
        fields = _texts_in(_parsed(envelope), (*_NEEDED, _CERT_URL) if self._pinned is None else _NEEDED)
        version = _VERSIONS.get(fields["SignatureVersion"])
        if version is None:
            raise BadSignature(f"SignatureVersion can't be {shown(fields['SignatureVersion'])}: it must be '1' or '2'.")
        if self._only_version_2 and version != 2:
            raise BadSignature("The envelope is signed by version 1, and only_version_2 demands version 2.")
        claim = _Claim(
            _notice_of(fields), _string_to_sign(fields), _signature_of(fields), version, fields.get(_CERT_URL, "")
        )
        self._check_age(claim.notice.at_ms)
        return claim

    def _check_age(self, at_ms: int) -> None:
        age_ms = self._clock.now() - at_ms
        if self._max_age_ms is None:
            return
        if age_ms > self._max_age_ms:
            raise BadSignature(
                f"The envelope is {age_ms / 1000:.0f} s old, and {self._max_age_ms / 1000:g} s are allowed. "
                "Compare the clocks, or set max_age_seconds."
            )
        if age_ms < -_AHEAD_MS:
            raise BadSignature(f"The envelope is dated {-age_ms / 1000:.0f} s ahead of this clock. Compare the clocks.")

    def _checked(self, claim: _Claim, signers: list[Signer]) -> VerifiedNotice:
        if not any(_is_by(signer, claim) for signer in self._valid(signers)):
            raise BadSignature(
                "The signature does not fit: the envelope was changed on its way, or another key signed it."
            )
        return claim.notice

    def _valid(self, signers: list[Signer]) -> list[Signer]:
        now = datetime.fromtimestamp(self._clock.now() / 1000, UTC)
        begun = [signer for signer in signers if signer.certificate.not_valid_before_utc <= now]
        if not begun:
            raise BadSignature("The certificate is not valid yet. Compare the clocks.")
        valid = [signer for signer in begun if now <= signer.certificate.not_valid_after_utc]
        if not valid:
            ended = max(signer.certificate.not_valid_after_utc for signer in begun)
            raise BadSignature(f"The certificate expired on {ended:%Y-%m-%d}. The sender must make a new key.")
        return valid


def _check_options(hosts: object, certificate: object, timeout_seconds: object, tls: object) -> None:
    if isinstance(hosts, str) or not isinstance(hosts, Sequence):
        raise BadValue(f"cert_hosts can't be {shown(hosts)}: it must be a list of hosts, like ['queue.example.com'].")
    if bool(hosts) == (certificate is not None):
        raise BadValue(
            "Say whose signatures count: give either cert_hosts=['queue.example.com'] or certificate=…, the text of "
            "the server's certificate."
        )
    seconds_as_ms("timeout_seconds", timeout_seconds, at_least=1)
    if tls is not None and not isinstance(tls, ssl.SSLContext):
        raise BadValue(f"tls can't be {shown(tls)}: it must be an ssl.SSLContext, or None.")


def _pinned(certificate: object) -> list[Signer]:
    pem = certificate.encode() if isinstance(certificate, str) else certificate
    try:
        return signers_in(cast(bytes, pem))
    except (ValueError, TypeError) as error:
        raise BadValue(
            f"The certificate can't be used ({error}). Give the text that the server serves at /v1/cert."
        ) from error


def _parsed(envelope: object) -> Mapping[str, Any]:
    if isinstance(envelope, (bytes, bytearray, memoryview, str)):
        try:
            envelope = msgspec.json.decode(envelope)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadSignature(f"The envelope is not JSON ({error}). Pass the body as it came.") from error
    if not isinstance(envelope, Mapping):
        raise BadSignature(f"The envelope is not a JSON object but {shown(envelope)}. Is it a raw delivery?")
    return envelope


def _texts_in(envelope: Mapping[str, Any], needed: Sequence[str]) -> dict[str, str]:
    for name in needed:
        if name not in envelope:
            raise BadSignature(f"The envelope has no {name}. Is it a raw delivery?")
    # A field that is null is one that is not there.
    fields = {name: value for name, value in envelope.items() if value is not None or name in needed}
    for name in (*needed, "Subject", "Token", "SubscribeURL"):
        if not isinstance(fields.get(name, ""), str):
            raise BadSignature(f"{name} can't be {shown(fields[name])}: it must be a text.")
    return fields


def _notice_of(fields: dict[str, str]) -> VerifiedNotice:
    # Of these only what the signature of such an envelope is about.
    is_notification = fields["Type"] == NOTIFICATION
    return VerifiedNotice(
        message_id=fields["MessageId"],
        topic_arn=fields["TopicArn"],
        message=fields["Message"],
        at_ms=_epoch_ms(fields["Timestamp"]),
        subject=fields.get("Subject") if is_notification else None,
        type=fields["Type"],
        token=None if is_notification else fields.get("Token"),
        subscribe_url=None if is_notification else fields.get("SubscribeURL"),
    )


def _epoch_ms(timestamp: str) -> int:
    try:
        if not _TIMESTAMP.fullmatch(timestamp):
            raise ValueError
        return (datetime.fromisoformat(timestamp) - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        raise BadSignature(
            f"Timestamp can't be {shown(timestamp)}: it must be like '2024-01-01T00:00:00.000Z'."
        ) from None


def _string_to_sign(fields: dict[str, str]) -> bytes:
    try:
        return string_to_sign(fields)
    except BadValue as error:
        raise BadSignature(f"The envelope can't have been signed. {error}") from error


def _signature_of(fields: dict[str, str]) -> bytes:
    try:
        return base64.b64decode(fields["Signature"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadSignature("Signature is not base64.") from error


def _is_by(signer: Signer, claim: _Claim) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

    try:
        signer.key.verify(claim.signature, claim.signed, PKCS1v15(), hash_of(claim.version))
    except InvalidSignature:
        return False
    return True
