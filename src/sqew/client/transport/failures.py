"""Failures of an exchange with a server."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager


class TransportError(Exception):
    """A failure to get a proper answer; the message says why in a few words."""


class NoConnection(TransportError):
    """A server that could not be reached: nothing was sent."""


class NotSafe(NoConnection):
    """A server that was reached, but without TLS."""


class TooSlowToConnect(NoConnection):
    """A server that could not be reached in time."""


class BadHost(NoConnection):
    """A name that no host can have."""


class TooSlow(TransportError):
    """A request that was not taken, or an answer that did not come, in time."""


class ConnectionBroken(TransportError):
    """A connection that ended before the answer did, or an answer that can't be understood."""


def in_words(error: Exception) -> str:
    """Return an error's message, or its class's name: some have no message."""
    return str(error) or type(error).__name__


@contextmanager
def while_connecting() -> Iterator[None]:
    """Translate errors from before there is a connection into failures of this module."""
    try:
        yield
    except (TimeoutError, TooSlow) as error:
        raise TooSlowToConnect("no connection in time") from error
    except ssl.SSLError as error:
        raise NotSafe(in_words(error)) from error
    except (OSError, ConnectionBroken) as error:
        raise NoConnection(in_words(error)) from error
    except UnicodeError as error:
        raise BadHost(in_words(error)) from error
