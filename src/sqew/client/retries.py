"""Retries: which requests are repeated and after what pause; and the meaning of failures of the network."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from sqew.client.address import ServerAddress
from sqew.client.calls import ApiCall
from sqew.client.transport.failures import BadHost, NoConnection, NotSafe, TooSlow, TooSlowToConnect, TransportError
from sqew.client.transport.route import Timeouts
from sqew.errors import (
    NoAnswer,
    NotSqew,
    OutcomeUnknown,
    Overloaded,
    RequestTimeout,
    SqewError,
    StoreBusy,
    StoreClosed,
    StoreTooNew,
    Unreachable,
)

DEFAULT_RETRIES = 5
DEFAULT_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
LONG_TIMEOUT_S = 3600.0
"""Seconds for requests that take as long as there is work: a purge, an export."""
LONGEST_WAIT_MS = 20_000
"""Milliseconds that the server is asked to wait at a time. If it were much longer, proxies on the way would hang up."""
HASTY_S = 0.05
"""Least seconds between two requests to a server that does not wait."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_GATEWAYS = (502, 503, 504)


class Patience(Struct, frozen=True):
    """The number of times that a request is retried."""

    retries: int = DEFAULT_RETRIES

    def pause(self, call: ApiCall[Any], error: SqewError, tried: int) -> float | None:
        """Return the seconds to wait before the next try; None: there is none."""
        if tried >= self.retries or not _may_be_repeated(call, error):
            return None
        pause: float = min(_FIRST_PAUSE_S * 2 ** min(tried, 10), _LONGEST_PAUSE_S)
        asked: int = getattr(error, "retry_after_ms", 0)
        # Not all at the same moment, where many wait for one server.
        return max(pause * random.uniform(0.5, 1.0), min(asked / 1000, _LONGEST_PAUSE_S))


_NOT_DONE = (Unreachable, Overloaded, StoreBusy, StoreTooNew)
"""Errors after which a try has certainly done nothing."""


def _may_be_repeated(call: ApiCall[Any], error: SqewError) -> bool:
    if isinstance(error, _NOT_DONE):
        return True
    match error:
        case NoAnswer() | RequestTimeout() | OutcomeUnknown() | StoreClosed():
            return call.repeatable
        case NotSqew():
            return call.repeatable and error.status in _GATEWAYS
        case _:
            return False


def outcome_of(call: ApiCall[Any], error: SqewError, before: SqewError | None) -> SqewError:
    """Return the error that says what is known of a call after another try; ``before``: the one until then.

    The last try may certainly have done nothing, and one before it something. For a call that only reads, that does
    not matter.
    """
    if before is None or isinstance(before, _NOT_DONE) or not isinstance(error, _NOT_DONE) or call.method == "GET":
        return error
    return before


def timeouts_of(call: ApiCall[Any], seconds: float) -> Timeouts:
    """Return the seconds that each part of a request may take."""
    read = LONG_TIMEOUT_S if call.long else seconds + call.wait_ms / 1000
    return Timeouts(connect=min(seconds, CONNECT_TIMEOUT_S), write=seconds, read=read)


CLOSED = "The client was closed. Make a new one."


def check_plain(address: ServerAddress, status: int, headers: Mapping[str, str]) -> None:
    """Raise if the body of an answer is compressed: we ask for it plain, and a Sqew server sends it so."""
    if headers.get("content-encoding", "identity") != "identity":
        raise NotSqew(address.name, status)


def explained(error: TransportError, address: ServerAddress, *, is_closed: bool) -> SqewError:
    """Return the error that a failure of the network means."""
    if is_closed:
        return StoreClosed(CLOSED)
    why = str(error).strip().rstrip(".")
    match error:
        case TooSlowToConnect():
            return Unreachable(
                f"{address.name} did not accept a connection in time. Check the URL, and whether a firewall is between."
            )
        case NotSafe():
            return Unreachable(
                f"There is no safe connection to {address.name} ({why}). "
                "Check that it speaks HTTPS, and name a certificate of your own in SSL_CERT_FILE."
            )
        case BadHost():
            return Unreachable(f"{address.name} can't be the URL of a server ({why}). Check it.")
        case NoConnection():
            return Unreachable(
                f"There is no server at {address.name} ({why}). Start one with `sqew serve`, or check the URL."
            )
        case TooSlow():
            return RequestTimeout(
                f"{address.name} did not answer in time, and may have done what was asked or not. "
                "Look, then ask again, or allow more time."
            )
        case _:
            return NoAnswer(
                f"The connection to {address.name} broke ({why}), and the server may have done what was asked or not. "
                "Look, then ask again."
            )
