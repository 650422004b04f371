"""How an exchange with a server may fail."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager


class TransportError(Exception):
    """There is no proper answer; the message says why in a few words."""


class NoConnection(TransportError):
    """Nobody was there: nothing was sent."""


class NotSafe(NoConnection):
    """Somebody was there, but there is no TLS with them."""


class TooSlowToConnect(NoConnection):
    """Nobody was there in time."""


class BadHost(NoConnection):
    """No host can have that name."""


class TooSlow(TransportError):
    """The request was not taken, or the answer did not come, in time."""


class Broken(TransportError):
    """The connection ended before the answer did, or the answer can't be understood."""


def in_words(error: Exception) -> str:
    """What an error says; some say nothing."""
    return str(error) or type(error).__name__


@contextmanager
def while_connecting() -> Iterator[None]:
    """Raise what goes wrong before there is a connection as what it means."""
    try:
        yield
    except (TimeoutError, TooSlow) as error:
        raise TooSlowToConnect("no connection in time") from error
    except ssl.SSLError as error:
        raise NotSafe(in_words(error)) from error
    except (OSError, Broken) as error:
        raise NoConnection(in_words(error)) from error
    except UnicodeError as error:
        raise BadHost(in_words(error)) from error
