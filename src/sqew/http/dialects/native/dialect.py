"""The native dialect: its name, its encoder and the form of its errors, which its modules share."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from sqew.errors import SqewError
from sqew.http.dialects.native.codes import code_of, native_status_of
from sqew.http.router import Dialect
from sqew.http.statuses import headers_of
from sqew.http.wire.exchange import Response

encode = msgspec.json.Encoder().encode


class NativeFailure(Struct):
    """An error: what is wrong, and what to do about it."""

    error: str
    code: str
    message: str
    """The sentence in `error`, where some clients look for it."""


def _failure(error: SqewError, status: int) -> bytes:
    return encode(NativeFailure(error.public_text, code_of(error, status), error.public_text))


def refused(error: SqewError) -> Response:
    """Return the answer to a request whose operation was refused."""
    status = native_status_of(error)
    return Response(status, _failure(error, status), headers=headers_of(error))


DIALECT = Dialect(
    "Native",
    "Queues and messages under /v1, with times in seconds.",
    _failure,
    NativeFailure,
    status=native_status_of,
)
