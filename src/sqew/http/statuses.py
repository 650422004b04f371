"""The HTTP status of each error, and the headers that go with it."""

from __future__ import annotations

import math

from sqew.errors import (
    AwsAuthError,
    BodyDamaged,
    BodyMisfit,
    Conflict,
    ConsumerInUse,
    Forbidden,
    HeadersTooLarge,
    Invalid,
    Limited,
    MethodNotAllowed,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    RateLimited,
    RequestTimeout,
    SqewError,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreTooNew,
    TooLarge,
    Unauthorized,
    WrongContentType,
)
from sqew.http.wire.exchange import Headers

_STATUSES: tuple[tuple[type[SqewError], int], ...] = (
    # The first that fits.
    (TooLarge, 413),
    (HeadersTooLarge, 431),
    (WrongContentType, 415),
    (MethodNotAllowed, 405),
    (BodyMisfit, 422),
    (Invalid, 400),
    (Unauthorized, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (RequestTimeout, 408),
    (Conflict, 409),
    (Limited, 429),
    (StoreFull, 507),
    (StoreBusy, 503),
    (OutcomeUnknown, 503),
    (StoreClosed, 503),
    (StoreTooNew, 503),
    (BodyDamaged, 500),
    (StoreError, 500),
)
_BUSY_RETRY_S = 1

COME_BACK: Headers = ((b"retry-after", b"%d" % _BUSY_RETRY_S),)
"""Headers that say when to retry, if the store is busy or away."""
CODE_HEADER = b"x-sqew-error"
"""The header in which every refusal names its error: in some dialects a body can hold no more than a sentence."""


def status_of(error: SqewError) -> int:
    """Return the status for an error in a dialect that has none of its own."""
    if isinstance(error, AwsAuthError):
        return error.status
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return 500


def headers_of(error: SqewError) -> Headers:
    """Return the headers that a client needs besides the sentence: the error's code, and what the error calls for."""
    return ((CODE_HEADER, error.code.encode()), *_called_for(error))


def _called_for(error: SqewError) -> Headers:
    """Return headers for when to retry, the methods allowed, or the way to authenticate."""
    if isinstance(error, RateLimited | Overloaded | ConsumerInUse):
        return ((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_ms / 1000))),)
    if isinstance(error, Limited | StoreBusy | StoreClosed | StoreTooNew):
        return COME_BACK
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", ", ".join(error.allowed).encode()),)
    if isinstance(error, Unauthorized):
        return ((b"www-authenticate", b'Bearer realm="sqew"'),)
    return ()
