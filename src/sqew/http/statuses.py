"""Which HTTP status stands for which error, and what else goes with it."""

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
"""When to ask a store again that is busy or away."""
CODE_HEADER = b"x-sqew-error"
"""Where every refusal says which error it is: in some dialects a sentence is all that a body can hold."""


def status_of(error: SqewError) -> int:
    """The status that a dialect without a mind of its own answers with."""
    if isinstance(error, AwsAuthError):
        return error.status
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return 500


def headers_of(error: SqewError) -> Headers:
    """What a client may need besides the sentence: which error it is, and what that one calls for."""
    return ((CODE_HEADER, error.code.encode()), *_called_for(error))


def _called_for(error: SqewError) -> Headers:
    """When to come back, what is allowed, how to say who it is."""
    if isinstance(error, RateLimited | Overloaded | ConsumerInUse):
        return ((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_ms / 1000))),)
    if isinstance(error, Limited | StoreBusy | StoreClosed | StoreTooNew):
        return COME_BACK
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", ", ".join(error.allowed).encode()),)
    if isinstance(error, Unauthorized):
        return ((b"www-authenticate", b'Bearer realm="sqew"'),)
    return ()
