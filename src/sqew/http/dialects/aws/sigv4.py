"""AWS Signature Version 4: proof that the owner of an access key signed a request, and signed it just now.

A signature comes in the header ``Authorization`` or, presigned, in the query string. ``scope_of`` reads only the
signer, the region and the service; `Verifier` checks all of it.

    >>> scope_of(b"AWS4-HMAC-SHA256 Credential=AKID/20260101/eu-west-1/sqs/aws4_request, Signature=0", b"")
    Scope(access_key='AKID', date='20260101', region='eu-west-1', service='sqs')
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote_from_bytes, unquote_to_bytes

from msgspec import Struct

from sqew.errors import (
    AwsAuthError,
    BadSetting,
    IncompleteSignature,
    InvalidClientTokenId,
    MissingAuthenticationToken,
    RequestExpired,
    SignatureDoesNotMatch,
)

SKEW_S = 900
"""Seconds that a signature's time may differ from the server's: as many as AWS allows."""
MOST_EXPIRES_S = 604_800
"""The most seconds that a presigned URL may be good for: a week."""

_ALGORITHM = b"AWS4-HMAC-SHA256"
_PAYLOAD_HEADER = b"x-amz-content-sha256"
_DECIDING = (b"host", b"x-amz-target", b"x-amz-security-token")
"""Headers that must be signed if they come: they decide the host, the action and the session of a request."""
_MOST_NAMES_BYTES = 4_096
"""The most bytes of a list of signed headers."""
_IN_QUERY = (b"X-Amz-Algorithm", b"X-Amz-Credential", b"X-Amz-Date", b"X-Amz-Expires", b"X-Amz-SignedHeaders")
"""The parameters that a presigned query string needs besides the signature."""

# Anything that can be seen but a comma.
_ACCESS_KEY = r"[!-+\--~]{1,128}"
_CREDENTIAL = re.compile(_ACCESS_KEY.encode() + rb"/[0-9]{8}/[A-Za-z0-9_.-]{1,64}/[A-Za-z0-9_.-]{1,64}/aws4_request")
_NAMES = re.compile(rb"[a-z0-9!#$%&'*+.^_`|~-]+(?:;[a-z0-9!#$%&'*+.^_`|~-]+)*")
_DATES = (
    (re.compile(rb"([0-9]{8}T[0-9]{6})Z"), "%Y%m%dT%H%M%S"),
    (re.compile(rb"(\w{3}, [0-9]{2} \w{3} [0-9]{4} [0-9:]{8}) (?:GMT|[+-]0000)"), "%a, %d %b %Y %H:%M:%S"),
)

Pair = tuple[bytes, bytes]


class Scope(Struct, frozen=True):
    """The scope of a signature: the access key, the day (``20260101``), the region and the service."""

    access_key: str
    date: str
    region: str
    service: str


class SignatureClaim(Struct, frozen=True, gc=False):
    """The signature of a request, and what the request says about it. It is not verified yet."""

    scope: Scope
    signed_at: int
    """The time of the signature, in epoch seconds."""
    names: tuple[bytes, ...]
    """The headers that are signed."""
    signature: bytes
    expires_s: int | None = None
    """The seconds that it is good for, if it is presigned."""


def scope_of(authorization: bytes | None, query: bytes) -> Scope | None:
    """Return the scope that a request says it was signed for, which is not verified; None: it is not signed.

    A signature that can't be read raises `IncompleteSignature`.
    """
    if authorization is not None:
        _check_algorithm(authorization)
        start = authorization.find(b"Credential=")
        if start < 0:
            raise _missing_from_header("Credential")
        end = authorization.find(b",", start)
        return _scope(authorization[start + 11 : end if end >= 0 else None].rstrip())
    _, found, rest = (b"&" + query).partition(b"&X-Amz-Credential=")
    if found:
        return _encoded_scope(rest.partition(b"&")[0])
    if _is_presigned(query):
        raise _missing_from_query(b"X-Amz-Credential")
    return None


def credentials_of(setting: str) -> dict[str, str]:
    """Return the secret of each access key in the setting ``aws_credentials``.

    >>> credentials_of("AKID:secret, other:one")
    {'AKID': 'secret', 'other': 'one'}
    """
    credentials: dict[str, str] = {}
    for position, pair in enumerate(setting.split(",") if setting.strip() else (), 1):
        key, _, secret = (part.strip() for part in pair.partition(":"))
        # The pair itself is not shown: it may hold a secret.
        if not re.fullmatch(_ACCESS_KEY, key) or not secret or not secret.isprintable():
            raise BadSetting(f"aws_credentials: pair {position} can't be read. Write it as ACCESS_KEY:SECRET.")
        if key in credentials:
            raise BadSetting(f"aws_credentials: pair {position} repeats an access key. Give each one secret.")
        credentials[key] = secret
    return credentials


class Verifier:
    """A verifier of signatures by the secrets of the known access keys.

    ``advice``: what to do, for the error about an unknown access key.
    """

    def __init__(
        self,
        credentials: Mapping[str, str],
        skew_s: int = SKEW_S,
        advice: str = "Use one that aws_credentials names.",
    ) -> None:
        self._secrets = {key: b"AWS4" + secret.encode() for key, secret in credentials.items()}
        self._advice = advice
        self._skew_s = skew_s
        # Clients choose the region, so there is no end to the keys that could be asked for.
        self._signing_key = functools.lru_cache(maxsize=256)(_signing_key)

    def check(
        self, method: bytes, path: bytes, query: bytes, headers: Mapping[bytes, bytes], body: bytes, now_s: float
    ) -> Scope:
        """Return the scope of a signed request; raise the `AwsAuthError` that AWS would unless all of it is signed.

        ``path`` and ``query`` are as they were sent, and the names of ``headers`` in lower case.
        """
        pairs = _pairs(query)
        claim, secret = self._claimed(pairs, query, headers, now_s)
        if claim.expires_s is not None:
            pairs = [pair for pair in pairs if pair[0] != b"X-Amz-Signature"]
        start = b"%b\n%b\n%b\n" % (method, _canonical_path(path), _canonical_query(pairs))
        end = b"\n%b\n%b" % (b";".join(claim.names), _payload(headers, body))
        for signed in _canonical_headers(claim.names, headers):
            if hmac.compare_digest(self._sign(secret, claim, start + signed + end), claim.signature):
                return claim.scope
        raise SignatureDoesNotMatch(
            "The signature does not fit the request. Check the secret of the access key, and that nothing between "
            "client and server changes the path, the Host or another signed header."
        )

    def check_head(self, query: bytes, headers: Mapping[bytes, bytes], now_s: float) -> None:
        """Raise what `check` would raise for any body: an unknown key, a wrong time, or no signature at all."""
        self._claimed(_pairs(query), query, headers, now_s)

    def _claimed(
        self, pairs: list[Pair], query: bytes, headers: Mapping[bytes, bytes], now_s: float
    ) -> tuple[SignatureClaim, bytes]:
        """Return what a request says about its signature, and the secret it must be made with."""
        claim = _claim(headers, query, pairs)
        secret = self._secrets.get(claim.scope.access_key)
        if secret is None:
            raise InvalidClientTokenId(f"There is no access key '{claim.scope.access_key}' here. {self._advice}")
        self._check_time(claim, int(now_s))
        _check_names(claim, headers)
        return claim, secret

    def _check_time(self, claim: SignatureClaim, now_s: int) -> None:
        skew_s, signed = self._skew_s, _stamp(claim.signed_at)
        if claim.signed_at > now_s + skew_s:
            raise SignatureDoesNotMatch(
                f"Signature not yet current: {signed} is still later than {_stamp(now_s + skew_s)} "
                f"({_stamp(now_s)} + {skew_s // 60} min.). Set the clock of the machine that signs."
            )
        if claim.expires_s is None and claim.signed_at < now_s - skew_s:
            raise SignatureDoesNotMatch(
                f"Signature expired: {signed} is now earlier than {_stamp(now_s - skew_s)} "
                f"({_stamp(now_s)} - {skew_s // 60} min.). Set the clock of the machine that signs, or sign again."
            )
        if claim.expires_s is not None and claim.signed_at + claim.expires_s < now_s:
            raise RequestExpired(
                f"Request has expired: {_stamp(claim.signed_at + claim.expires_s)} is now earlier than "
                f"{_stamp(now_s)}. Presign it again, or for longer."
            )
        if signed[:8] != claim.scope.date:
            raise SignatureDoesNotMatch(
                f"The credential is for {claim.scope.date} and the request was signed at {signed}. "
                "Use the same day (UTC) for both."
            )

    def _sign(self, secret: bytes, claim: SignatureClaim, canonical_request: bytes) -> bytes:
        scope = claim.scope
        text = (
            f"AWS4-HMAC-SHA256\n{_stamp(claim.signed_at)}\n{scope.date}/{scope.region}/{scope.service}/aws4_request\n"
            + hashlib.sha256(canonical_request).hexdigest()
        )
        key = self._signing_key(secret, scope.date, scope.region, scope.service)
        return hmac.digest(key, text.encode(), "sha256").hex().encode()


def _signing_key(secret: bytes, date: str, region: str, service: str) -> bytes:
    key = secret
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _claim(headers: Mapping[bytes, bytes], query: bytes, pairs: list[Pair]) -> SignatureClaim:
    authorization = headers.get(b"authorization")
    if authorization is not None:
        return _claim_of_header(authorization, headers)
    if _is_presigned(query):
        return _claim_of_query(pairs)
    raise MissingAuthenticationToken(
        "The request is not signed. Sign it with Signature Version 4, in the header Authorization or in the URL."
    )


def _claim_of_header(authorization: bytes, headers: Mapping[bytes, bytes]) -> SignatureClaim:
    _check_algorithm(authorization)
    parts = [part.strip().partition(b"=") for part in authorization[len(_ALGORITHM) :].split(b",")]
    fields = {name: value for name, _, value in parts}
    for name in (b"Credential", b"SignedHeaders", b"Signature"):
        if not fields.get(name):
            raise _missing_from_header(name.decode())
    if len(parts) != 3:
        raise IncompleteSignature(
            "The header Authorization says more than Credential, SignedHeaders and Signature, each once. "
            "Leave out the rest."
        )
    dated = b"x-amz-date" if b"x-amz-date" in headers else b"date"
    if dated not in headers:
        raise IncompleteSignature("The request has no date. Sign it with the header X-Amz-Date, or Date.")
    names = _names(fields[b"SignedHeaders"])
    if dated not in names:
        raise IncompleteSignature(f"The header {dated.decode()} is not signed. Name it among the signed headers.")
    return SignatureClaim(_scope(fields[b"Credential"]), _seconds(headers[dated]), names, fields[b"Signature"])


def _claim_of_query(pairs: list[Pair]) -> SignatureClaim:
    given = dict(pairs)
    for name in (*_IN_QUERY, b"X-Amz-Signature"):
        if not given.get(name):
            raise _missing_from_query(name)
        if sum(pair[0] == name for pair in pairs) > 1:
            raise IncompleteSignature(f"The query string has {name.decode()} more than once. Send it once.")
    algorithm, credential, date, expires, names = (given[name] for name in _IN_QUERY)
    _check_algorithm(algorithm + b" ")
    if not re.fullmatch(rb"[0-9]{1,6}", expires) or not 1 <= int(expires) <= MOST_EXPIRES_S:
        raise IncompleteSignature(f"X-Amz-Expires is not a number of seconds from 1 to {MOST_EXPIRES_S}. Choose one.")
    return SignatureClaim(_scope(credential), _seconds(date), _names(names), given[b"X-Amz-Signature"], int(expires))


def _is_presigned(query: bytes) -> bool:
    return b"X-Amz-Credential=" in query or b"X-Amz-Signature=" in query


def _check_algorithm(written: bytes) -> None:
    if not written.startswith(b"AWS4-HMAC-SHA256 "):
        raise IncompleteSignature("The request is not signed with AWS4-HMAC-SHA256. Use Signature Version 4.")


def _missing_from_header(name: str) -> AwsAuthError:
    return IncompleteSignature(
        f"The header Authorization has no {name}. "
        "Write it as: AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…."
    )


def _missing_from_query(name: bytes) -> AwsAuthError:
    return IncompleteSignature(f"The presigned query string has no {name.decode()}. Presign the URL again.")


@functools.lru_cache(maxsize=1024)
def _scope(credential: bytes) -> Scope:
    if not _CREDENTIAL.fullmatch(credential):
        raise IncompleteSignature(
            "The credential can't be read. Write it as ACCESS_KEY/YYYYMMDD/REGION/SERVICE/aws4_request."
        )
    return Scope(*credential.decode("ascii").rsplit("/", 4)[:4])


@functools.lru_cache(maxsize=1024)
def _encoded_scope(credential: bytes) -> Scope:
    return _scope(unquote_to_bytes(credential))


@functools.lru_cache(maxsize=256)
def _names(written: bytes) -> tuple[bytes, ...]:
    """Return the names of the signed headers; raise if they can't be read."""
    if len(written) > _MOST_NAMES_BYTES or not _NAMES.fullmatch(written):
        raise IncompleteSignature("SignedHeaders can't be read. Write the names in lower case with ';' between.")
    return tuple(written.split(b";"))


def _check_names(claim: SignatureClaim, headers: Mapping[bytes, bytes]) -> None:
    """Raise unless the headers that change a request's meaning are signed, and all signed headers have come."""
    for name in _DECIDING:
        if name not in claim.names and (name == b"host" or name in headers):
            raise SignatureDoesNotMatch(f"The header {name.decode()} is not signed. Name it among the signed headers.")
    for name in claim.names:
        if name not in headers:
            raise SignatureDoesNotMatch(
                f"The header {name.decode()} was signed and has not come. "
                "Send it, and see that nothing between client and server takes it away."
            )


@functools.lru_cache(maxsize=256)
def _seconds(written: bytes) -> int:
    """Return a date as ``20260101T000000Z``, or as HTTP has it, in epoch seconds."""
    for pattern, shape in _DATES:
        if found := pattern.fullmatch(written):
            with contextlib.suppress(ValueError):  # a 13th month
                return int(datetime.strptime(found[1].decode(), shape).replace(tzinfo=UTC).timestamp())
    raise IncompleteSignature("The date can't be read. Write it as YYYYMMDDThhmmssZ, in UTC.")


@functools.lru_cache(maxsize=256)
def _stamp(seconds: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(seconds))


def _payload(headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    """Return the hash of the body; raise if the request names another one: only S3 lets a body go unsigned."""
    declared = headers.get(_PAYLOAD_HEADER)
    if declared is not None and declared.startswith(b"STREAMING-"):
        raise IncompleteSignature("A body that is signed in chunks is not understood. Sign the body as a whole.")
    found = hashlib.sha256(body).hexdigest().encode()
    if declared is not None and declared != found:
        raise SignatureDoesNotMatch(
            "x-amz-content-sha256 is not the hash of the body. Sign the body, and send it as it was signed."
        )
    return found


def _canonical_headers(names: tuple[bytes, ...], headers: Mapping[bytes, bytes]) -> Iterable[bytes]:
    """Return the signed headers with single blanks in them, and in a second form if one may have been sent twice."""
    lines = b"".join([name + b":" + b" ".join(headers[name].split()) + b"\n" for name in names])
    # Of a header that is sent twice we have "a, b", and its sender has signed "a,b".
    return (lines, lines.replace(b", ", b",")) if b", " in lines else (lines,)


def _canonical_path(path: bytes) -> bytes:
    """Return the path without ``.``, ``..`` and empty segments, encoded once more than it was sent."""
    if b"//" in path or b"/." in path:
        kept: list[bytes] = []
        for segment in path.split(b"/"):
            if segment == b"..":
                del kept[-1:]
            elif segment not in (b"", b"."):
                kept.append(segment)
        last = b"/" if kept and path.endswith(b"/") else b""
        path = b"/" + b"/".join(kept) + last
    return quote_from_bytes(path, safe="/").encode()


def _pairs(query: bytes) -> list[Pair]:
    """Return the names and values of a query string, in its order and without its encoding."""
    if not query:
        return []
    split = (pair.partition(b"=") for pair in query.replace(b"+", b" ").split(b"&"))
    return [(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in split]


def _canonical_query(pairs: Iterable[Pair]) -> bytes:
    """Return names and values, encoded and then sorted: ``a`` is before ``a-b``, although ``a-b=`` is before ``a=``."""
    encoded = sorted((quote_from_bytes(name, safe=""), quote_from_bytes(value, safe="")) for name, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded).encode()
