"""Requests to the servers of a queue: tried again where that does no harm, at the next one if there are several."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from sqew.client import calls
from sqew.client.address import Address, address_of
from sqew.client.calls import Answer, Call
from sqew.client.opening import connection_options, environment_explained
from sqew.client.streams import headers_of
from sqew.client.trying import DEFAULT_RETRIES, DEFAULT_TIMEOUT_S, FAILURES, Patience, explained, timeout_of
from sqew.errors import SqewError
from sqew.spark.source.options import Target

R = TypeVar("R")
ARROW = "application/vnd.apache.arrow.stream"
PATIENT = 12
"""How often to try again in the middle of the work: for some 15 seconds, in which a server may have been restarted."""


class Wire:
    """The connection of one task, or of the driver. ``turn`` says at which of several servers it begins.

    It is made where it is used and never pickled, so that no connection and no header travels with a plan.
    """

    def __init__(self, target: Target, turn: int = 0, *, retries: int = DEFAULT_RETRIES) -> None:
        addresses = [address_of(url) for url in target.urls]
        first = turn % len(addresses)
        self._addresses = addresses[first:] + addresses[:first]
        self._token = target.token
        self._patience = Patience(retries)
        self._connection: httpx2.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up. What is asked next connects anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, call: Call[R]) -> R:
        """The result of a call, or the server's error raised."""
        for tried in count():
            try:
                with self._sent(call) as response:
                    answer = Answer(response.status_code, response.read(), response.headers)
                return calls.read(call, answer, self._address.name)
            except SqewError as error:
                self.wait_or_raise(call, error, tried)
        raise AssertionError("counting never ends")

    @contextmanager
    def stream(self, call: Call[Any]) -> Iterator[Iterator[bytes]]:
        """The body of an answer piece by piece. It is not asked again: what came already can't be taken back."""
        with self._sent(call, {"accept": ARROW}) as response:
            if response.status_code != 200:
                raise calls.refusal(
                    call, Answer(response.status_code, response.read(), response.headers), self._address.name
                )
            yield response.iter_raw()

    def wait_or_raise(self, call: Call[Any], error: SqewError, tried: int) -> None:
        """Wait until the call may be tried again, at the next server; raise the error if it may not be."""
        pause = self._patience.pause(call, error, tried)
        if pause is None:
            raise error
        self.close()
        self._addresses = [*self._addresses[1:], self._addresses[0]]
        time.sleep(pause)

    @property
    def _address(self) -> Address:
        return self._addresses[0]

    @contextmanager
    def _sent(self, call: Call[Any], headers: dict[str, str] | None = None) -> Iterator[httpx2.Response]:
        address, status = self._address, 0
        try:
            connection = self._connected()
            request = connection.build_request(
                call.method,
                address.base + call.path,
                params=call.query or None,
                content=call.body,
                headers={**headers_of(call, streamed=False), **(headers or {})},
                timeout=timeout_of(call, DEFAULT_TIMEOUT_S),
            )
            response = connection.send(request, stream=True)
            status = response.status_code
            try:
                yield response
            finally:
                response.close()
        except FAILURES as error:
            raise explained(error, address, is_closed=False, status=status) from error

    def _connected(self) -> httpx2.Client:
        if self._connection is None:
            address = self._address
            with environment_explained():
                transport = httpx2.HTTPTransport(uds=address.socket) if address.socket else None
                options = connection_options(address, self._token, _tls_for(address))
                self._connection = httpx2.Client(transport=transport, **options)
        return self._connection


@cache
def _tls_for(address: Address) -> ssl.SSLContext | None:
    """None: as usual. Without TLS no certificates are read, which takes 40 ms of each task."""
    return None if address.base.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
