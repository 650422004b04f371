"""The certificates of those who sign: where they may come from, and for how long they are kept."""

from __future__ import annotations

import re
import ssl
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import httpx2
from msgspec import Struct

from sqew import __version__
from sqew.client.opening import environment_explained
from sqew.clock import Clock
from sqew.errors import BadSignature, BadValue, Unreachable
from sqew.rules import shown
from sqew.signing import cryptography_explained

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import Certificate

_HOST = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
_ALLOWED = re.compile(_HOST)
# Stricter than URLs are: what two parsers could read in two ways is refused.
_CERT_URL = re.compile(rf"(https?)://{_HOST}(?:/[A-Za-z0-9._~-]+)*/SimpleNotificationService(?:-[A-Za-z0-9]+)?\.pem")
_DEFAULT_PORTS = {"http": 80, "https": 443}

_KEPT_AT_ONCE = 64
_KEPT_MS = 3_600_000
"""After an hour a certificate is fetched again: one that was withdrawn must not count for ever."""
_LARGEST_FILE = 65_536
_SHORTEST_KEY_BITS = 2048


class Signer(Struct, frozen=True):
    """A certificate that was read, and the key in it."""

    certificate: Certificate
    key: RSAPublicKey


def signers_in(pem: bytes) -> list[Signer]:
    """The certificates in a PEM file; raises `ValueError` unless each has an RSA key that is long enough."""
    with cryptography_explained():
        from cryptography import x509
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    signers = []
    try:
        for certificate in x509.load_pem_x509_certificates(pem):
            key = certificate.public_key()
            if not isinstance(key, RSAPublicKey) or key.key_size < _SHORTEST_KEY_BITS:
                raise ValueError(f"its key is not an RSA key of at least {_SHORTEST_KEY_BITS} bits")
            signers.append(Signer(certificate, key))
    except UnsupportedAlgorithm as error:
        raise ValueError("its key is of an unknown kind") from error
    return signers


class Certificates:
    """Certificates from some hosts and no others, kept for a while. It may be shared by threads."""

    def __init__(
        self,
        hosts: Sequence[str],
        *,
        allow_http: bool,
        timeout_seconds: float,
        tls: ssl.SSLContext | None,
        clock: Clock,
    ) -> None:
        self._allowed = {_host_and_port(host) for host in hosts}
        self._names = ", ".join(hosts)
        self._allow_http = allow_http
        self._clock = clock
        self._http: dict[str, Any] = {
            "headers": {"user-agent": f"sqew/{__version__}", "accept-encoding": "identity"},
            "follow_redirects": False,
            "timeout": timeout_seconds,
            "verify": True if tls is None else tls,
        }
        self._kept: OrderedDict[str, tuple[int, list[Signer]]] = OrderedDict()
        self._lock = Lock()

    def check(self, url: str) -> None:
        """Raise `BadSignature` unless a certificate may come from there."""
        parts = _CERT_URL.fullmatch(url)
        if parts is None:
            raise BadSignature(
                f"SigningCertURL can't be {shown(url)}: it must be the plain URL of a SimpleNotificationService….pem."
            )
        scheme, host, port = parts[1], parts[2].lower(), int(parts[3] or _DEFAULT_PORTS[parts[1]])
        if scheme == "http" and not self._allow_http:
            raise BadSignature(
                f"SigningCertURL {shown(url)} is not https, so anybody on the way could have put a certificate there. "
                "Have the sender use https, or set allow_http where the network is your own."
            )
        is_default = port == _DEFAULT_PORTS[scheme]
        if (host, port) not in self._allowed and not (is_default and (host, None) in self._allowed):
            raise BadSignature(
                f"SigningCertURL {shown(url)} is on a host that may not sign. Those that may are: {self._names}."
            )

    def known(self, url: str) -> list[Signer] | None:
        """What was fetched from there, unless that is too long ago."""
        with self._lock:
            until, signers = self._kept.get(url, (0, None))
            if signers is None or until <= self._clock.now():
                return None
            self._kept.move_to_end(url)
            return signers

    def fetch(self, url: str) -> list[Signer]:
        """Ask the host for the certificate. Redirects are not followed."""
        pem = bytearray()
        with environment_explained():
            http = httpx2.Client(**self._http)
        with http, _failures_explained(url), http.stream("GET", url) as answer:
            _check_status(url, answer.status_code)
            for chunk in answer.iter_raw():
                _add(pem, chunk, url)
        return self._keep(url, bytes(pem))

    async def fetch_async(self, url: str) -> list[Signer]:
        """The same, without holding up the loop."""
        pem = bytearray()
        with environment_explained():
            http = httpx2.AsyncClient(**self._http)
        async with http:
            with _failures_explained(url):
                async with http.stream("GET", url) as answer:
                    _check_status(url, answer.status_code)
                    async for chunk in answer.aiter_raw():
                        _add(pem, chunk, url)
        return self._keep(url, bytes(pem))

    def _keep(self, url: str, pem: bytes) -> list[Signer]:
        try:
            signers = signers_in(pem)
        except ValueError as error:
            raise BadSignature(f"What {url} answers is not a certificate that can be used ({error}).") from error
        with self._lock:
            self._kept[url] = (self._clock.now() + _KEPT_MS, signers)
            self._kept.move_to_end(url)
            while len(self._kept) > _KEPT_AT_ONCE:
                self._kept.popitem(last=False)
        return signers


def _host_and_port(allowed: object) -> tuple[str, int | None]:
    parts = _ALLOWED.fullmatch(allowed) if isinstance(allowed, str) else None
    if parts is None:
        raise BadValue(
            f"cert_hosts can't have {shown(allowed)}: write each as a host, or as a host and a port, "
            "like 'queue.example.com' or 'localhost:8888'."
        )
    return parts[1].lower(), None if parts[2] is None else int(parts[2])


@contextmanager
def _failures_explained(url: str) -> Iterator[None]:
    try:
        yield
    except (httpx2.RequestError, httpx2.InvalidURL, httpx2.StreamError, UnicodeError) as error:
        why = str(error).strip().rstrip(".") or type(error).__name__
        raise Unreachable(
            f"The certificate at {url} can't be fetched ({why}), so the envelope could not be checked. "
            "Answer 503, so that the sender tries again, and check that the host can be reached from here."
        ) from error


def _check_status(url: str, status: int) -> None:
    if status == httpx2.codes.OK:
        return
    if status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        raise Unreachable(
            f"{url} answers {status}, so the envelope could not be checked. Answer 503, so that the sender tries again."
        )
    if httpx2.codes.is_redirect(status):
        raise BadSignature(f"{url} leads elsewhere ({status}), and redirects are not followed to a certificate.")
    raise BadSignature(f"There is no certificate at {url} ({status}).")


def _add(pem: bytearray, chunk: bytes, url: str) -> None:
    pem += chunk
    if len(pem) > _LARGEST_FILE:
        raise BadSignature(f"What {url} answers is too large to be a certificate (over {_LARGEST_FILE} bytes).")
