"""Signed requests: each must be what its sender signed, be signed just now, and come for the first time."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable

from sqew.envelopes.request_signature import mac_of
from sqew.errors import Unauthorized
from sqew.http.wire.exchange import Request
from sqew.model import GuardKey

HEADER = b"x-sqew-signature"
LEEWAY_S = 300
"""Seconds that a signature's time may be from the server's."""
MOST_REMEMBERED = 65_536
"""Most signatures of one key that are remembered. A client that signs more in the time allowed gets less time."""

_TIME = re.compile(rb"[0-9]{1,12}(\.[0-9]{1,9})?")
_MAC = re.compile(rb"[0-9A-Fa-f]{64}")


class Signatures:
    """The signatures that were used, by key."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        # What was signed before that may have come before that as well, and nobody remembers.
        self._started_ms = now_ms()
        self._used: dict[str, UsedSignatures] = {}

    def check(self, key: GuardKey, request: Request) -> None:
        """Raise `Unauthorized` unless the request is signed with the key's secret, just now and for the first time."""
        assert key.secret is not None
        id = key.info.id
        given = request.headers.get(HEADER)
        if given is None:
            raise Unauthorized(f"Requests with key '{id}' must be signed. Add the header X-Sqew-Signature: see /docs.")
        parsed = _parse(given)
        if parsed is None:
            raise Unauthorized("X-Sqew-Signature can't be read. Write it as t=EPOCH_SECONDS,v1=HMAC_SHA256_IN_HEX.")
        at, mac = parsed
        signed_ms, now_ms = int(float(at) * 1000), self._now_ms()
        if abs(now_ms - signed_ms) > LEEWAY_S * 1000:
            ago = (now_ms - signed_ms) // 1000
            raise Unauthorized(f"The request was signed {ago} s ago by this server's clock. Sign it again.")
        if signed_ms < self._started_ms:
            raise Unauthorized("The request was signed before this server started. Sign it again, a second later.")
        target = request.path + b"?" + request.query if request.query else request.path
        if not hmac.compare_digest(mac, mac_of(key.secret, at, request.method, target, request.body)):
            raise Unauthorized(
                "The signature does not fit the request. Sign 't.METHOD.path?query.' and the body exactly as they are "
                "sent, with the key's signing secret."
            )
        if not self._used.setdefault(id, UsedSignatures()).add(signed_ms // 1000, mac, now_ms // 1000):
            raise Unauthorized(
                "The signature was used before, or is too old by now. "
                "Sign each request anew, with a fraction in its time if two may be alike."
            )

    def forget_all_but(self, ids: set[str]) -> None:
        """Forget the signatures of all keys but these, which still exist."""
        for id in self._used.keys() - ids:
            del self._used[id]


class UsedSignatures:
    """The signatures of one key that have been seen, by the second in which they were made.

    When there are too many, the oldest are forgotten, and everything signed so long ago is refused from then on.
    """

    def __init__(self) -> None:
        self._by_second: dict[int, set[bytes]] = {}
        self._count = 0
        self._not_before = 0

    def add(self, at: int, mac: bytes, now: int) -> bool:
        """Remember a signature; return False if it may have been seen before."""
        if at < self._not_before:
            return False
        macs = self._by_second.get(at)
        if macs is None:
            self._forget_before(now - LEEWAY_S)
            macs = self._by_second[at] = set()
        elif mac in macs:
            return False
        macs.add(mac)
        self._count += 1
        if self._count > MOST_REMEMBERED:
            self._forget_before(min(self._by_second) + 1)
        return True

    def _forget_before(self, second: int) -> None:
        for old in [known for known in self._by_second if known < second]:
            self._count -= len(self._by_second.pop(old))
        self._not_before = max(self._not_before, second)


def _parse(header: bytes) -> tuple[bytes, bytes] | None:
    """Return the time, as it was signed, and the HMAC; None if the header can't be read."""
    fields = dict(field.strip().partition(b"=")[::2] for field in header.split(b","))
    at, mac = fields.get(b"t", b""), fields.get(b"v1", b"")
    if not _TIME.fullmatch(at) or not _MAC.fullmatch(mac):
        return None
    return at, bytes.fromhex(mac.decode("ascii"))
