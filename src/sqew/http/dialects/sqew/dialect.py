"""The parts that the whole Sqew dialect shares: its error body, and its table of routes."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from sqew.errors import SqewError
from sqew.http.router import Dialect, Routes

encode = msgspec.json.Encoder().encode


class Trouble(Struct):
    """An error: a code for machines, and a sentence that says what to do."""

    code: str
    message: str
    """The error in a sentence: what went wrong, and what to do about it."""


class SqewFailure(Struct):
    error: Trouble


def failure(error: SqewError, _status: int) -> bytes:
    return encode(SqewFailure(Trouble(error.code, error.public_text)))


DIALECT = Dialect("Sqew", "Queues, messages, leases and dead letters, in JSON.", failure, SqewFailure)
routes = Routes(DIALECT)
