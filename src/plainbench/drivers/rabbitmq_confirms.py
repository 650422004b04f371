"""Sending to RabbitMQ with a confirm for each message, many at a time.

pika's blocking channel waits for every confirm before it sends the next message, which would measure round trips. So
this runs pika's own loop, in the sender's thread, until all of a batch are confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pika
from pika.channel import Channel
from pika.spec import Basic

from sqew.errors import OutcomeUnknown, StoreUnavailable, Unreachable

Outgoing = tuple[str, bytes, pika.BasicProperties]
"""The queue, the body, and the properties."""


class Confirming:
    """A connection that sends, and tracks which messages were confirmed."""

    def __init__(self, parameters: pika.URLParameters, timeout_s: float) -> None:
        self._parameters, self._timeout_s = parameters, timeout_s
        self._connection: pika.SelectConnection | None = None
        self._channel: Channel | None = None
        self._sent = 0
        self._open: set[int] = set()
        self._refused: set[int] = set()
        self._failure = ""

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Send messages, and return when all are confirmed; raise if none is stored, or if that is unknown."""
        channel = self._opened()
        self._refused.clear()
        for queue, body, properties in messages:
            channel.basic_publish("", queue, body, properties)
            self._sent += 1
            self._open.add(self._sent)
        self._run_until(lambda: self._failure or not self._open)
        if self._failure or self._open:
            sentence = self._failure or f"not all was confirmed within {self._timeout_s:g} s"
            self.close()
            raise OutcomeUnknown(f"No answer came from RabbitMQ: {sentence}.")
        if len(self._refused) == len(messages):
            raise StoreUnavailable("RabbitMQ has refused what was sent: a queue is full, or not available.")
        if self._refused:
            raise OutcomeUnknown("RabbitMQ has stored some of the messages and refused others.")

    def _opened(self) -> Channel:
        if self._channel is not None and self._channel.is_open and not self._failure:
            return self._channel
        self.close()
        self._failure, self._sent = "", 0
        self._open.clear()
        self._connection = pika.SelectConnection(
            self._parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._ask_for_confirms),
            on_open_error_callback=lambda _, error: self._stop(str(error) or type(error).__name__),
            on_close_callback=lambda _, error: self._stop(str(error)),
        )
        self._run_until(lambda: self._failure or self._channel is not None)
        if self._channel is None:
            failure = self._failure or f"no answer within {self._timeout_s:g} s"
            self.close()
            raise Unreachable(f"RabbitMQ can't be reached: {failure}.")
        return self._channel

    def _ask_for_confirms(self, channel: Channel) -> None:
        channel.add_on_close_callback(lambda _, error: self._stop(str(error)))

        def confirms(_: object) -> None:
            self._channel = channel
            self._loop.stop()

        channel.confirm_delivery(self._confirmed, callback=confirms)

    def _confirmed(self, frame: pika.frame.Method[Basic.Ack | Basic.Nack]) -> None:
        answer = frame.method
        done = {tag for tag in self._open if tag <= answer.delivery_tag} if answer.multiple else {answer.delivery_tag}
        self._open -= done
        if isinstance(answer, Basic.Nack):
            self._refused |= done
        if not self._open:
            self._loop.stop()

    @property
    def _loop(self) -> pika.adapters.select_connection.IOLoop:
        assert self._connection is not None
        return self._connection.ioloop

    def _stop(self, failure: str) -> None:
        self._failure = self._failure or failure or "it was closed"
        self._loop.stop()

    def _run_until(self, is_done: Callable[[], object]) -> None:
        deadline = time.monotonic() + self._timeout_s
        timer = self._loop.call_later(self._timeout_s, self._loop.stop)
        while not is_done() and time.monotonic() < deadline:
            self._loop.start()
        self._loop.remove_timeout(timer)

    def close(self) -> None:
        connection = self._connection
        if connection is None:
            return
        if connection.is_open:
            connection.close()
            self._run_until(lambda: connection.is_closed)
        connection.ioloop.close()
        self._connection = self._channel = None
