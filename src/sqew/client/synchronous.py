"""`Client`: a queue on a server, used like a queue in a file."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from sqew import operations as ops
from sqew.client import calls, streams
from sqew.client.address import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, address_of
from sqew.client.calls import ApiCall, Held, ServerAnswer
from sqew.client.connect import check_options, route_to, signed, target_of
from sqew.client.consumers import Consumers
from sqew.client.deliveries import Certificates, Deliveries
from sqew.client.events import Events
from sqew.client.in_hand import HeldMessages, log_refused
from sqew.client.retries import (
    CLOSED,
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_S,
    HASTY_S,
    LONGEST_WAIT_MS,
    Patience,
    check_plain,
    explained,
    outcome_of,
    timeouts_of,
)
from sqew.client.schedules import Schedules
from sqew.client.transport.failures import TransportError
from sqew.client.transport.sockets import BlockingResponse, BlockingTransport
from sqew.client.wire import CompactedDocument
from sqew.client.writers import Writers
from sqew.core.paging import all_of
from sqew.errors import MessageNotFound, QueueExists, QueueNotFound, SqewError, StoreClosed
from sqew.model import (
    ArchivedMessage,
    Extension,
    Finished,
    KeyInfo,
    KeyScope,
    Message,
    NewMessage,
    Outcome,
    QueueInfo,
    QueueStats,
    Received,
    Ref,
    Release,
    Settled,
)
from sqew.rules.values import check_ms, seconds_as_ms, seconds_of
from sqew.worker.heartbeat import ATTENTIVE_WAIT_MS
from sqew.worker.threads import Handler, Worker

R = TypeVar("R")


class Client:
    """Queues on a Sqew server, with the methods of `sqew.Queue`.

        with Client("http://127.0.0.1:8888") as q:
            q.create("orders")
            q.enqueue("orders", {"sku": 7})
            for message in q.consume("orders"):
                ship(message.value)

    ``url`` may also be ``unix:/path/to/socket``; without it, ``SQEW_URL`` names the server. ``token`` is the server's
    token or a queue's key; without it, ``SQEW_AUTH_TOKEN``. A key whose requests must be signed needs its
    ``signing_secret`` too. It may be shared by threads.

    Errors are those of `sqew.Queue`, by class and code. Besides, `sqew.errors.Unreachable` says that nothing was sent
    and `sqew.errors.NoAnswer`, as `sqew.errors.OutcomeUnknown`, that the outcome is unknown. Requests that do no harm
    if repeated are retried, ``retries`` times and after longer and longer pauses; a message without a key is never sent
    twice.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        signing_secret: str = "",
        timeout_seconds: float = DEFAULT_TIMEOUT_S,
        retries: int = DEFAULT_RETRIES,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        token = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
        check_options(token, signing_secret, timeout_seconds, retries, tls)
        self._address = address_of(os.environ.get(URL_VARIABLE) or DEFAULT_URL if url is None else url)
        self._secret = signing_secret
        self._timeout_s = timeout_seconds
        self._patience = Patience(retries)
        self._transport = BlockingTransport(route_to(self._address, token, tls))
        self._hand = HeldMessages()
        self.events = Events(self._do)
        """Publishing under routing keys, and subscriptions."""
        self.deliveries = Deliveries(self._do)
        """Events on their way to HTTP endpoints."""
        self.schedules = Schedules(self._do)
        """Messages and events by the clock."""
        self.consumers = Consumers(self._do)
        """Reading in claims that outlast the reader."""
        self.writers = Writers(self._do)
        """Sending in whole epochs, each exactly once."""
        self.certificates = Certificates(self._do)
        """The certificates with which receivers check the signatures of envelopes."""
        self._workers: list[Worker] = []

    def __repr__(self) -> str:
        return f"<Client {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers, give back what is being consumed and close the connections. Closing twice is fine."""
        for worker in self._workers:
            worker.stop()
        for message in self._hand.drop_all():
            self._give_back(message)
        self._transport.close()

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._address.name

    def run(self, operation: ops.Operation[R]) -> R:
        """Have the server execute one of `sqew.operations`; return its result, or raise its error."""
        return self._do(calls.of(operation))

    def _do(self, call: ApiCall[R]) -> R:
        tried = 0
        outcome: SqewError | None = None
        while True:
            self._check_open()
            try:
                return calls.read(call, self._ask(call), self._address.name)
            except SqewError as error:
                outcome = outcome_of(call, error, outcome)
                pause = self._patience.pause(call, error, tried)
                if pause is None:
                    if outcome is error:
                        raise
                    raise outcome from error
            tried += 1
            time.sleep(pause)

    def _check_open(self) -> None:
        if self._transport.is_closed:
            raise StoreClosed(CLOSED)

    def _ask(self, call: ApiCall[Any], content: Iterable[bytes] | None = None) -> ServerAnswer:
        with self._asked(call, content) as response:
            return ServerAnswer(response.status, response.read(), response.headers)

    @contextmanager
    def _asked(self, call: ApiCall[Any], content: Iterable[bytes] | None = None) -> Iterator[BlockingResponse]:
        headers = streams.headers_of(call, content is not None)
        if self._secret:
            headers = signed(headers, call, self._secret)
        body = call.body if content is None else content
        timeouts = timeouts_of(call, self._timeout_s)
        try:
            response = self._transport.send(call.method, target_of(call), headers, body, timeouts)
            try:
                check_plain(self._address, response.status, response.headers)
                yield response
            finally:
                response.close()
        except TransportError as error:
            raise explained(error, self._address, is_closed=self._transport.is_closed) from error

    # Queues

    def create(self, name: str, *, exist_ok: bool = False, **policy: Any) -> QueueInfo:
        """Make a queue. The keywords are fields of `sqew.Policy`; for those left out, the server's settings count."""
        try:
            return self._do(calls.create(name, policy))
        except QueueExists:
            if not exist_ok:
                raise
        return self.info(name)

    def update(self, name: str, **changes: Any) -> QueueInfo:
        """Change fields of a queue's policy."""
        return self._do(calls.update(name, changes))

    def delete(self, name: str) -> None:
        """Delete a queue and its messages. Its dead-letter queue stays: it may hold what you still need."""
        self._do(calls.delete(name))

    def info(self, name: str) -> QueueInfo:
        """Return a queue and its policy."""
        try:
            return self._do(calls.info(name))
        except QueueNotFound:
            # That route says no more than null, as hq's clients expect; others know the name that was meant.
            self._do(calls.peek(name, 1, None))
            raise

    def queues(self, prefix: str = "") -> list[QueueInfo]:
        """Return all queues by name."""
        return self._do(calls.queues(prefix))

    # The life of a message

    def enqueue(
        self,
        queue: str,
        body: Any,
        *,
        lane: str | None = None,
        priority: int = 0,
        headers: dict[str, Any] | None = None,
        key: str | None = None,
        group: str | None = None,
        delay_seconds: float | None = None,
        ttl_seconds: float | None = None,
        sync_commit: bool | None = None,
        delay_ms: int | None = None,
        ttl_ms: int | None = None,
    ) -> int:
        """Send a message; return its id, or the first one's if ``key`` was used before. It is then on disk.

        A string is sent as text, anything else as JSON. With a ``key``, it is sent again if there was no answer.
        ``sync_commit``: True to wait for the disk, False not to, whatever the server's `durability`.
        """
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        ttl_seconds = seconds_of("ttl_", ttl_seconds, ttl_ms, at_least=1)
        message = calls.message_of(body, lane, priority, headers, key, group, delay_seconds, ttl_seconds)
        return self.run(ops.Send(queue, (message,), sync_commit=sync_commit))[0].id

    def enqueue_many(self, queue: str, bodies: Iterable[Any], *, sync_commit: bool | None = None) -> list[int]:
        """Send a batch in one transaction: bodies, or `sqew.NewMessage` objects with more than a body."""
        messages: list[NewMessage] = calls.messages_of(bodies)
        operation = ops.Send(queue, messages, sync_commit=sync_commit)
        return [sent.id for sent in self.run(operation)] if messages else []

    def claim(
        self,
        queue: str,
        *,
        lane: str | None = None,
        lease_seconds: float | None = None,
        consumer: str | None = None,
        wait_seconds: float = 0,
        lease_ms: int | None = None,
        wait_ms: int | None = None,
    ) -> Message | None:
        """Take the next message under a lease, waiting for one if there is none; return None if there still is none."""
        if lease_ms is not None:
            lease_seconds = seconds_of("lease_", lease_seconds, lease_ms)
        if wait_ms is not None:
            wait_seconds = seconds_of("wait_", wait_seconds or None, wait_ms) or 0
        operation = calls.claim(queue, 1, lane, lease_seconds, consumer)
        messages = self.receive(operation, seconds_as_ms("wait_seconds", wait_seconds)).messages
        return messages[0] if messages else None

    def claim_many(
        self,
        queue: str,
        limit: int,
        *,
        lane: str | None = None,
        lease_seconds: float | None = None,
        consumer: str | None = None,
        wait_seconds: float = 0,
        lease_ms: int | None = None,
        wait_ms: int | None = None,
    ) -> list[Message]:
        """Take up to ``limit`` messages under one lease; return as soon as there is at least one."""
        if lease_ms is not None:
            lease_seconds = seconds_of("lease_", lease_seconds, lease_ms)
        if wait_ms is not None:
            wait_seconds = seconds_of("wait_", wait_seconds or None, wait_ms) or 0
        operation = calls.claim(queue, limit, lane, lease_seconds, consumer)
        return self.receive(operation, seconds_as_ms("wait_seconds", wait_seconds)).messages

    def receive(self, operation: ops.Receive, wait_ms: int = 0, stopping: Callable[[], bool] | None = None) -> Received:
        """Receive; if nothing is ready, wait for up to ``wait_ms``, or until ``stopping``."""
        check_ms("wait_ms", wait_ms)
        longest_ms = LONGEST_WAIT_MS if stopping is None else ATTENTIVE_WAIT_MS
        deadline = time.monotonic() + wait_ms / 1000
        while True:
            asked_at = time.monotonic()
            left_ms = max(round((deadline - asked_at) * 1000), 0)
            received = self._do(calls.receive(operation, min(left_ms, longest_ms)))
            if received.messages or time.monotonic() >= deadline or (stopping is not None and stopping()):
                return received
            time.sleep(max(asked_at + HASTY_S - time.monotonic(), 0))

    def ack(self, message: Held, consumer: str | None = None, *, queue: str | None = None) -> None:
        """Acknowledge that the work is done: the message is deleted (or archived, as the policy says).

        Raises `sqew.StaleLease` if the lease was lost: another consumer has the message, or will get it. With an id in
        place of the message, name its ``queue``.
        """
        name, ref = calls.held(message, consumer, queue)
        calls.raise_refusal(self.run(ops.Ack(name, (ref,))))
        self._hand.let_go(message)

    def ack_many(
        self, messages: Sequence[Held], consumer: str | None = None, *, queue: str | None = None
    ) -> list[SqewError | None]:
        """Ack a batch; return for each message None, or the error."""
        return self._settle_many(messages, consumer, queue, ops.Ack)

    def nack(
        self,
        message: Held,
        consumer: str | None = None,
        *,
        delay_seconds: float | None = None,
        reason: str = "",
        queue: str | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """Report that the work failed: it is tried again after the queue's backoff, or after ``delay_seconds``."""
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        name, ref = calls.held(message, consumer, queue)
        delay_ms = None if delay_seconds is None else seconds_as_ms("delay_seconds", delay_seconds)
        calls.raise_refusal(self.run(ops.Nack(name, (Release(ref, delay_ms, reason=reason),))))
        self._hand.let_go(message)

    def nack_many(
        self,
        messages: Sequence[Held],
        consumer: str | None = None,
        *,
        delay_seconds: float | None = None,
        reason: str = "",
        queue: str | None = None,
        delay_ms: int | None = None,
    ) -> list[SqewError | None]:
        """Nack a batch, all of it for one reason; return for each message None, or the error."""
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        delay_ms = None if delay_seconds is None else seconds_as_ms("delay_seconds", delay_seconds)
        return self._settle_many(
            messages,
            consumer,
            queue,
            lambda name, refs: ops.Nack(name, [Release(ref, delay_ms, reason=reason) for ref in refs]),
        )

    def dead_letter(
        self, message: Held, consumer: str | None = None, *, reason: str = "", queue: str | None = None
    ) -> None:
        """Report that the work can never succeed: the message is dead at once."""
        name, ref = calls.held(message, consumer, queue)
        calls.raise_refusal(self.run(ops.Nack(name, (Release(ref, dead=True, reason=reason),))))
        self._hand.let_go(message)

    def extend_lease(
        self,
        message: Held,
        seconds: float | None = None,
        consumer: str | None = None,
        *,
        queue: str | None = None,
        ms: int | None = None,
    ) -> None:
        """Extend the lease: it now ends ``seconds`` from now."""
        name, ref = calls.held(message, consumer, queue)
        calls.raise_refusal(
            self.run(ops.Extend(name, (Extension(ref, seconds_as_ms("seconds", seconds_of("", seconds, ms))),)))
        )

    def extend_many(
        self,
        messages: Sequence[Held],
        seconds: float | None = None,
        consumer: str | None = None,
        *,
        queue: str | None = None,
        ms: int | None = None,
    ) -> list[SqewError | None]:
        """Extend a batch; return for each message None, or the error."""
        lease_ms = seconds_as_ms("seconds", seconds_of("", seconds, ms))
        return self._settle_many(
            messages, consumer, queue, lambda name, refs: ops.Extend(name, [Extension(ref, lease_ms) for ref in refs])
        )

    def _settle_many(
        self,
        messages: Sequence[Held],
        consumer: str | None,
        queue: str | None,
        operation: Callable[[str | None, list[Ref]], ops.Operation[list[Settled | SqewError]]],
    ) -> list[SqewError | None]:
        asked = calls.settlements(messages, consumer, queue, operation)
        results: list[SqewError | None] = [None] * len(messages)
        for number, (places, call) in enumerate(asked):
            try:
                settled = self._do(call)
            except SqewError as error:
                if not number:
                    raise
                # Others are settled already, and their results must not be lost.
                settled = [error] * len(places)
            for place, result in zip(places, settled, strict=True):
                results[place] = result if isinstance(result, SqewError) else None
        return results

    def consume(
        self,
        queue: str,
        *,
        lane: str | None = None,
        lease_seconds: float | None = None,
        consumer: str | None = None,
        wait_seconds: float | None = None,
        lease_ms: int | None = None,
        wait_ms: int | None = None,
    ) -> Iterator[Message]:
        """Yield the messages of a queue as they come.

        A message is acked when the loop asks for the next one. When the loop is left before that, because its body
        raises or breaks, the message is given back, to be tried again with the queue's backoff. The loop ends when
        nothing came for ``wait_seconds``; None: never. The lease must be longer than the body takes; `worker` extends
        it by itself.
        """
        lease_seconds = seconds_of("lease_", lease_seconds, lease_ms)
        wait_seconds = seconds_of("wait_", wait_seconds, wait_ms)
        operation = calls.claim(queue, 1, lane, lease_seconds, consumer)
        longest_ms = None if wait_seconds is None else seconds_as_ms("wait_seconds", wait_seconds)
        while True:
            messages = self.receive(operation, LONGEST_WAIT_MS if longest_ms is None else longest_ms).messages
            if not messages and longest_ms is not None:
                return
            for message in messages:
                self._hand.take(message)
                try:
                    yield message
                except BaseException:
                    if self._hand.drop(message):
                        self._give_back(message)
                    raise
                if self._hand.drop(message):
                    with log_refused(message):
                        self.ack(message)

    def _give_back(self, message: Message) -> None:
        with log_refused(message):
            self.nack(message, reason="its consumer left before it was done")

    # Looking, and cleaning up

    def peek(self, queue: str, limit: int = 10, *, lane: str | None = None) -> list[Message]:
        """Return the next messages, without taking them."""
        return self._do(calls.peek(queue, limit, lane))

    def get(self, queue: str, id: int) -> Message:
        """Return a message by its id, without taking it."""
        return self._do(calls.get(queue, id))

    def remove(self, queue: str, ids: Sequence[int]) -> list[bool]:
        """Delete messages by their ids, even those under a lease; return for each whether it was there."""
        return [self._remove(call) for call in calls.removals(queue, ids)]

    def _remove(self, call: ApiCall[None]) -> bool:
        try:
            self._do(call)
        except MessageNotFound:
            return False
        return True

    def purge(self, queue: str) -> int:
        """Delete every message that is in the queue now; return how many there were."""
        return self._do(calls.purge(queue))

    def stats(self, queue: str) -> QueueStats:
        """Return depths by lane and state, totals, rates and latencies."""
        return self._do(calls.stats(queue))

    def dead_letters(self, queue: str, limit: int = 100, after: int = 0) -> list[Message]:
        """Return messages of this queue that died, by id, those after the given one."""
        return all_of(lambda most, last: self._do(calls.dead_letters(queue, most, last)), limit, after)

    def requeue(self, queue: str, ids: Sequence[int] | None = None) -> int:
        """Bring dead letters of this queue back to it, with attempts 0: all, or those given. Return how many came."""
        return self._do(calls.requeue(queue, ids))

    def purge_dead(self, queue: str, ids: Sequence[int] | None = None) -> int:
        """Delete dead letters of this queue: all, or those given. Return how many there were."""
        return self._do(calls.purge_dead(queue, ids))

    def archive(
        self, queue: str, limit: int = 100, after: int = 0, outcome: Outcome | None = None
    ) -> list[ArchivedMessage]:
        """Return finished messages by id, those after the given one."""
        return all_of(lambda most, last: self._do(calls.archive(queue, most, last, outcome)), limit, after)

    def delete_archived(self, queue: str, finished: Sequence[Finished]) -> int:
        """Delete finished messages from the archive, those that are still there unchanged. Return how many were."""
        return self._do(calls.delete_archived(queue, finished))

    # Keys

    def create_key(
        self, queue: str, scopes: Sequence[KeyScope], label: str = "", *, signing: bool = False
    ) -> tuple[KeyInfo, str, str | None]:
        """Make a key that opens this queue alone; return its info, the key, and the secret if requests must be signed.

        The key and the secret can't be had again.
        """
        return self._do(calls.create_key(queue, scopes, label, signing))

    def keys(self, queue: str) -> list[KeyInfo]:
        """Return the keys of a queue, without their secrets."""
        return self._do(calls.keys(queue))

    def delete_key(self, queue: str, id: str) -> None:
        """Delete a key: from now on it opens nothing."""
        self._do(calls.delete_key(queue, id))

    # Workers

    def wake_waiters(self) -> None:
        """Do nothing: a receive looks up by itself, once a second."""

    def worker(
        self,
        queue: str,
        *,
        lane: str | None = None,
        concurrency: int = 1,
        lease_seconds: float | None = None,
        name: str | None = None,
        lease_ms: int | None = None,
    ) -> Callable[[Handler], Worker]:
        """Make a function the worker of a queue; see `sqew.worker.threads.Worker`.

        @client.worker("orders", concurrency=4)
        def handle(message):
            ship(message.value)      # return: acked. Raise: tried again later.

        handle.run()
        """

        lease_seconds = seconds_of("lease_", lease_seconds, lease_ms, at_least=1)

        def decorate(handler: Handler) -> Worker:
            worker = Worker(
                self,
                queue,
                handler,
                lane=lane,
                concurrency=concurrency,
                lease_seconds=lease_seconds,
                name=f"{socket.gethostname()}-{os.getpid()}" if name is None else name,
            )
            self._workers.append(worker)
            return worker

        return decorate

    # Upkeep

    def compact(self, queue: str) -> CompactedDocument:
        """Sweep, give free space back to the disk and empty the write-ahead log; return the bytes before and after."""
        return self._do(calls.compact(queue))

    def health(self) -> dict[str, Any]:
        """Return what the server says of itself if it is ready to work; else raise its error."""
        return self._do(calls.health())

    def metrics(self) -> str:
        """Return the server's metrics for Prometheus."""
        return self._do(calls.metrics())

    def export(self, queue: str, *, archive: bool = False) -> Iterator[bytes]:
        """Yield the messages of a queue, or of its archive, as lines of JSON. They come as the server reads them."""
        call = calls.export(queue, archive)
        self._check_open()
        with self._asked(call) as response:
            if response.status != 200:
                answer = ServerAnswer(response.status, response.read(), response.headers)
                raise calls.refusal(call, answer, self._address.name)
            splitter = streams.Splitter()
            for chunk in response.pieces():
                yield from splitter.lines(chunk)
            splitter.check_end(self._address.name)

    def import_lines(self, queue: str, lines: Iterable[bytes]) -> Iterator[int]:
        """Send the lines that `export` wrote, in one request; yield how many messages were sent.

        Priorities, lanes, headers, groups, keys, delays and lifetimes come along; ids and attempts start anew. A bad
        line raises an error that names it; the batches before it are sent. Expired messages are left out.
        """
        call = calls.import_lines(queue)
        self._check_open()
        yield calls.read(call, self._ask(call, streams.chunks(lines)), self._address.name)
