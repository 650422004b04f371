"""Requests to the servers of a queue: retried where that does no harm, at the next server if there are several."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Any, Self, TypeVar

from sqew.client import calls
from sqew.client.address import ServerAddress, address_of
from sqew.client.calls import ApiCall, ServerAnswer
from sqew.client.connect import route_to, target_of
from sqew.client.retries import DEFAULT_RETRIES, DEFAULT_TIMEOUT_S, Patience, check_plain, explained, timeouts_of
from sqew.client.streams import headers_of
from sqew.client.transport.failures import TransportError
from sqew.client.transport.sockets import BlockingResponse, BlockingTransport
from sqew.errors import SqewError
from sqew.spark.source.options import Target

R = TypeVar("R")
ARROW = "application/vnd.apache.arrow.stream"
PATIENT = 12
"""The number of retries in the middle of the work: for some 15 seconds, in which a server may have been restarted."""


class Wire:
    """The connection of one task, or of the driver. ``turn`` selects the server that it begins with.

    It is made where it is used and never pickled, so that no connection and no header travels with a plan.
    """

    def __init__(self, target: Target, turn: int = 0, *, retries: int = DEFAULT_RETRIES) -> None:
        addresses = [address_of(url) for url in target.urls]
        first = turn % len(addresses)
        self._addresses = addresses[first:] + addresses[:first]
        self._token = target.token
        self._patience = Patience(retries)
        self._connection: BlockingTransport | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, call: ApiCall[R]) -> R:
        """Return the result of a call, or raise the server's error."""
        for tried in count():
            try:
                with self._sent(call) as response:
                    answer = ServerAnswer(response.status, response.read(), response.headers)
                return calls.read(call, answer, self._address.name)
            except SqewError as error:
                self.wait_or_raise(call, error, tried)
        raise AssertionError("counting never ends")

    @contextmanager
    def stream(self, call: ApiCall[Any]) -> Iterator[Iterator[bytes]]:
        """Yield the body of a response in pieces. It is not retried: pieces already yielded can't be taken back."""
        with self._sent(call, {"accept": ARROW}) as response:
            if response.status != 200:
                raise calls.refusal(
                    call, ServerAnswer(response.status, response.read(), response.headers), self._address.name
                )
            yield response.pieces()

    def wait_or_raise(self, call: ApiCall[Any], error: SqewError, tried: int) -> None:
        """Wait until the call may be retried, at the next server; raise the error if it may not be."""
        pause = self._patience.pause(call, error, tried)
        if pause is None:
            raise error
        self.close()
        self._addresses = [*self._addresses[1:], self._addresses[0]]
        time.sleep(pause)

    @property
    def _address(self) -> ServerAddress:
        return self._addresses[0]

    @contextmanager
    def _sent(self, call: ApiCall[Any], headers: dict[str, str] | None = None) -> Iterator[BlockingResponse]:
        address = self._address
        said = {**headers_of(call, streamed=False), **(headers or {})}
        timeouts = timeouts_of(call, DEFAULT_TIMEOUT_S)
        try:
            response = self._connected().send(call.method, target_of(call), said, call.body, timeouts)
            try:
                check_plain(address, response.status, response.headers)
                yield response
            finally:
                response.close()
        except TransportError as error:
            raise explained(error, address, is_closed=False) from error

    def _connected(self) -> BlockingTransport:
        if self._connection is None:
            self._connection = BlockingTransport(route_to(self._address, self._token, tls=None))
        return self._connection
