"""The certificates of senders: the hosts they may come from, and the time for which they are cached."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Lock, Thread
from typing import TYPE_CHECKING

from msgspec import Struct

from sqew.client.connect import USER_AGENT
from sqew.client.transport.failures import TransportError
from sqew.client.transport.route import ServerRoute, Timeouts
from sqew.client.transport.streams import LoopedTransport
from sqew.clock import Clock
from sqew.envelopes.signing import cryptography_explained
from sqew.errors import BadSignature, BadValue, SqewError, Unreachable
from sqew.rules.values import shown

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import Certificate

_HOST = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
_ALLOWED = re.compile(_HOST)
# Stricter than URLs are: what two parsers could read in two ways is refused.
_STEPS = r"(?:/(?!\.\.?/)[A-Za-z0-9._~-]+)*"
_CERT_URL = re.compile(rf"(https?)://{_HOST}({_STEPS}/SimpleNotificationService(?:-[A-Za-z0-9]+)?\.pem)")
_DEFAULT_PORTS = {"http": 80, "https": 443}

_KEPT_AT_ONCE = 64
_KEPT_MS = 3_600_000
"""Milliseconds that a certificate is cached: an hour, so that one that was withdrawn does not count for ever."""
_FAILED_MS = 5_000
"""Milliseconds for which a failed fetch is not repeated: forged envelopes may come by the thousand."""
_GRACE_S = 1.0
"""Seconds that waiters wait beyond a fetch's timeout: an unresolvable name holds up the fetch for longer."""
_LARGEST_FILE = 65_536
_SHORTEST_KEY_BITS = 2048


class Signer(Struct, frozen=True):
    """A parsed certificate, and the key in it."""

    certificate: Certificate
    key: RSAPublicKey


def signers_in(pem: bytes) -> list[Signer]:
    """Return the certificates in a PEM file; raise `ValueError` unless each has an RSA key that is long enough."""
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


class Place(Struct, frozen=True):
    """The place of a certificate: the same one however a URL writes it."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.path}"


class _Outcome(Struct, frozen=True):
    """The outcome of a fetch, and the time until which it counts."""

    until: int
    signers: list[Signer]
    failure: SqewError | None = None

    def result(self) -> list[Signer]:
        if self.failure is not None:
            # Not itself: it may be raised many times, and would grow by a traceback each time.
            raise type(self.failure)(str(self.failure)) from self.failure
        return self.signers


class CertificateCache:
    """A cache of certificates from some hosts and no others. It may be shared by threads."""

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
        self._timeout_s = timeout_seconds
        self._clock = clock
        self._tls = tls
        # Apart, so that what can't be had does not push out what can: anybody may send envelopes that name it.
        self._kept: OrderedDict[Place, _Outcome] = OrderedDict()
        self._failed: OrderedDict[Place, _Outcome] = OrderedDict()
        self._under_way: dict[Place, Future[_Outcome]] = {}
        self._lock = Lock()

    def signers(self, url: str) -> list[Signer]:
        """Return the certificates at a URL; fetch them, unless that was done not long ago.

        Raises `BadSignature` if none may come from there or can be used, and `Unreachable` if the host does not answer.
        """
        place = self.place(url)
        outcome = self._outcome(place)
        if not isinstance(outcome, Future):
            return outcome.result()
        try:
            return outcome.result(self._timeout_s + _GRACE_S).result()
        except TimeoutError:
            raise self._too_slow(place) from None

    async def signers_async(self, url: str) -> list[Signer]:
        """Return the same as `signers`, without blocking the loop."""
        place = self.place(url)
        outcome = self._outcome(place)
        if not isinstance(outcome, Future):
            return outcome.result()
        try:
            async with asyncio.timeout(self._timeout_s + _GRACE_S):
                return (await asyncio.wrap_future(outcome)).result()
        except TimeoutError:
            raise self._too_slow(place) from None

    def place(self, url: str) -> Place:
        """Return the place that a URL leads to; raise `BadSignature` unless a certificate may come from there."""
        parts = _CERT_URL.fullmatch(url)
        if parts is None:
            raise BadSignature(
                f"SigningCertURL can't be {shown(url)}: it must be the plain URL of a SimpleNotificationService….pem."
            )
        place = Place(parts[1], parts[2].lower(), int(parts[3] or _DEFAULT_PORTS[parts[1]]), parts[4])
        if place.scheme == "http" and not self._allow_http:
            raise BadSignature(
                f"SigningCertURL {shown(url)} is not https, so anybody on the way could have put a certificate there. "
                "Have the sender use https, or set allow_http where the network is your own."
            )
        is_default = place.port == _DEFAULT_PORTS[place.scheme]
        if (place.host, place.port) not in self._allowed and not (is_default and (place.host, None) in self._allowed):
            raise BadSignature(
                f"SigningCertURL {shown(url)} is on a host that may not sign. Those that may are: {self._names}."
            )
        return place

    def _outcome(self, place: Place) -> _Outcome | Future[_Outcome]:
        """Return the outcome of the last fetch, if that still counts; else the future of the one under way."""
        with self._lock:
            for known in (self._kept, self._failed):
                outcome = known.get(place)
                if outcome is not None and outcome.until > self._clock.now():
                    known.move_to_end(place)
                    return outcome
            under_way = self._under_way.get(place)
            if under_way is None:
                under_way = Future()
                # Those who wait may leave; the others still get it.
                under_way.set_running_or_notify_cancel()
                # In a thread with a loop of its own: so threads and tasks can wait for the same fetch, and it has an
                # end however slowly an answer trickles in.
                Thread(target=self._fetch, args=(place, under_way), name="sqew-certificate", daemon=True).start()
                self._under_way[place] = under_way
            return under_way

    def _fetch(self, place: Place, promise: Future[_Outcome]) -> None:
        try:
            outcome = self._outcome_of(place)
        except Exception as error:  # noqa: BLE001 (whoever waits for it must hear of it)
            with self._lock:
                del self._under_way[place]
            promise.set_exception(error)
            return
        with self._lock:
            del self._under_way[place]
            known = self._kept if outcome.failure is None else self._failed
            known[place] = outcome
            known.move_to_end(place)
            if len(known) > _KEPT_AT_ONCE:
                known.popitem(last=False)
        promise.set_result(outcome)

    def _outcome_of(self, place: Place) -> _Outcome:
        try:
            pem = asyncio.run(self._downloaded(place))
            return _Outcome(self._clock.now() + _KEPT_MS, _usable(pem, place.url))
        except (BadSignature, Unreachable) as error:
            return _Outcome(self._clock.now() + _FAILED_MS, [], error)

    async def _downloaded(self, place: Place) -> bytes:
        """Download the certificate from its host. Redirects are not followed."""
        headers = {"user-agent": USER_AGENT, "accept-encoding": "identity"}
        http = LoopedTransport(ServerRoute(f"{place.scheme}://{place.host}:{place.port}", headers, tls=self._tls))
        timeouts = Timeouts(self._timeout_s, self._timeout_s, self._timeout_s)
        pem = bytearray()
        try:
            with _failures_explained(place.url):
                async with asyncio.timeout(self._timeout_s):
                    answer = await http.send("GET", place.path, {}, None, timeouts)
                    _check_status(place.url, answer.status)
                    async for chunk in answer.pieces():
                        _add(pem, chunk, place.url)
        except TimeoutError:
            raise self._too_slow(place) from None
        finally:
            await http.close()
        return bytes(pem)

    def _too_slow(self, place: Place) -> Unreachable:
        return Unreachable(
            f"The certificate at {place.url} did not come within {self._timeout_s:g} s, so the envelope could not be "
            "checked. Answer 503, so that the sender tries again."
        )


def _usable(pem: bytes, url: str) -> list[Signer]:
    try:
        return signers_in(pem)
    except ValueError as error:
        raise BadSignature(f"What {url} answers is not a certificate that can be used ({error}).") from error


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
    except TransportError as error:
        why = str(error).strip().rstrip(".")
        raise Unreachable(
            f"The certificate at {url} can't be fetched ({why}), so the envelope could not be checked. "
            "Answer 503, so that the sender tries again, and check that the host can be reached from here."
        ) from error


def _check_status(url: str, status: int) -> None:
    if status == 200:
        return
    if status >= 500:
        raise Unreachable(
            f"{url} answers {status}, so the envelope could not be checked. Answer 503, so that the sender tries again."
        )
    if 300 <= status < 400:
        raise BadSignature(f"{url} leads elsewhere ({status}), and redirects are not followed to a certificate.")
    raise BadSignature(f"There is no certificate at {url} ({status}).")


def _add(pem: bytearray, chunk: bytes, url: str) -> None:
    pem += chunk
    if len(pem) > _LARGEST_FILE:
        raise BadSignature(f"What {url} answers is too large to be a certificate (over {_LARGEST_FILE} bytes).")
