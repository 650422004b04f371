"""API keys, and signatures of requests made with them.

A key is 256 random bits, so its SHA-256 is all that a store needs to recognize it, and the key can't be found from it.
A key is shown once, when it is made.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import ClassVar

from sqew.model import Discreet, KeyScope
from sqew.operations import CreateKey

KEY_PREFIX = "sqew"
SECRET_PREFIX = "sqewsig"
_ID_BYTES = 6
_RANDOM_BYTES = 32


class NewKey(Discreet, frozen=True):
    """A new key and its secret, which only its maker has, and the operation that gives the key to a queue."""

    hidden: ClassVar[tuple[str, ...]] = ("key", "secret")
    key: str
    secret: str | None
    creation: CreateKey


def new_key(queue: str, scopes: Sequence[KeyScope], label: str = "", *, signing: bool = False) -> NewKey:
    """Make a key for a queue; with ``signing``, also a secret that every request with the key must be signed with."""
    id = secrets.token_hex(_ID_BYTES)
    key = f"{KEY_PREFIX}_{id}_{secrets.token_urlsafe(_RANDOM_BYTES)}"
    secret = f"{SECRET_PREFIX}_{secrets.token_urlsafe(_RANDOM_BYTES)}" if signing else None
    return NewKey(key, secret, CreateKey(queue, id, digest_of(key.encode()), scopes, label, secret))


def digest_of(key: bytes) -> bytes:
    """Return the digest of a key, which a store keeps in its place."""
    return hashlib.sha256(key).digest()


def mac_of(secret: str, at: bytes, method: bytes, target: bytes, body: bytes) -> bytes:
    """Return the HMAC-SHA256 of a request. ``target`` is the path as it is sent, with the query if there is one."""
    mac = hmac.new(secret.encode(), b"%b.%b.%b." % (at, method, target), hashlib.sha256)
    mac.update(body)
    return mac.digest()


def signature(secret: str, at: float, method: str, target: str, body: bytes = b"") -> str:
    """Return the value of the header ``X-Sqew-Signature`` for a request, at a time in epoch seconds.

    A fraction of a second, as `time.time` has, tells two requests apart that are otherwise the same.

    >>> signature("sqewsig_example", 1_700_000_000, "GET", "/queues/orders/stats")[:19]
    't=1700000000,v1=3ee'
    """
    time = str(at) if isinstance(at, int) else f"{at:.6f}"
    return f"t={time},v1={mac_of(secret, time.encode(), method.encode(), target.encode(), body).hex()}"
