"""`Queue.open`: a durable queue in a file or a database, used as a library, without a server."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqew import operations as ops
from sqew.clock import Clock
from sqew.core.checks import check_operation
from sqew.core.engine import change, creation, limits_of, open_file
from sqew.core.fields import flag
from sqew.core.flows import Flow, IfWanted, InThread, InTurn, Read, StoreCounts, Unchecked, run_now
from sqew.core.flows import messages as flows
from sqew.core.flows.steps import Stepwise, in_steps
from sqew.core.paging import all_of
from sqew.core.thread_executors import GroupCommitExecutor, ThreadExecutor, Transaction
from sqew.core.waiting import IDLE_MS, pause
from sqew.envelopes.request_signature import new_key
from sqew.errors import BadValue, SqewError, StoreError
from sqew.formats import ndjson
from sqew.model import (
    ArchivedMessage,
    Extension,
    Finished,
    KeyInfo,
    KeyScope,
    Message,
    NewMessage,
    NewMessages,
    Outcome,
    QueueInfo,
    QueueStats,
    Received,
    Ref,
    Release,
    Settled,
)
from sqew.rules.bodies import encode_body
from sqew.rules.limits import check_batch
from sqew.rules.messages import check_message, check_new_message
from sqew.rules.names import check_lane, check_queue_name
from sqew.rules.policies import in_milliseconds
from sqew.rules.values import (
    LONGEST_NAME,
    check_collection,
    check_id,
    check_int,
    check_iterable,
    check_ms,
    check_path,
    check_right,
    check_text,
    check_unicode,
    seconds_as_ms,
    seconds_of,
    shown,
)
from sqew.settings import DATABASE_SCHEMES, Settings, resolve, without_password
from sqew.stores.sqlite.upkeep import CheckReport
from sqew.worker.threads import Handler, Worker

# What is imported in the properties below takes 0.1 s, and most who open a queue need none of it.
if TYPE_CHECKING:
    from sqew.embedded.certificates import EmbeddedCertificates
    from sqew.embedded.consumers import EmbeddedConsumers
    from sqew.embedded.deliveries import EmbeddedDeliveries
    from sqew.embedded.events import EmbeddedEvents
    from sqew.embedded.publishing import EmbeddedPublisher
    from sqew.embedded.schedules import EmbeddedSchedules
    from sqew.embedded.writers import EmbeddedWriters


R = TypeVar("R")
Held = Message | int
"""A message that was claimed, or its id together with the name of the consumer that holds it."""


class Queue:
    """Queues in a file, or in a PostgreSQL database.

        >>> with Queue.open(":memory:") as q:
        ...     _ = q.create("orders", lanes={"priority": 3, "normal": 1}, max_attempts=5)
        ...     id = q.enqueue("orders", {"sku": 7}, lane="priority")
        ...     m = q.claim("orders", lease_seconds=30, consumer="w1")
        ...     q.ack(m)
        ...     m.value
        {'sku': 7}

    Threads may share it: operations they run at the same time are committed together. Processes that use the same queue
    each open the file. After a fork, open it anew.
    """

    def __init__(self, executor: ThreadExecutor, settings: Settings) -> None:
        self._executor = executor
        self._engine = executor.engine
        self._settings = settings
        self._limits = limits_of(settings)
        self._workers: list[Worker] = []
        # The last Receive that was given as a whole and found fit: a worker comes with the same one time and again.
        self._checked: object = ops.Receive("")

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        create: bool = True,
        **changes: Any,
    ) -> Self:
        """Open the file, creating it if need be. ``changes`` are settings by name: ``durability="fast"``.

        The path may also be the URL of a database, which any number of machines share: ``postgresql://user@host/name``.
        """
        if settings is None:
            place = "database_url" if isinstance(path, str) and path.startswith(DATABASE_SCHEMES) else "db"
            settings = resolve({**changes, place: path}, {}, None)
            if settings.linger_ms and not settings.database_url:
                raise BadValue("linger_ms is for a database: in a file nothing waits for others. Leave it out.")
        elif changes or path is not None:
            raise BadValue("Give settings, or their names and values, but not both.")
        if settings.database_url:
            return cls(_in_database(settings, clock, random, create), settings)
        return cls(GroupCommitExecutor(*open_file(settings, clock, random, create)), settings)

    def __repr__(self) -> str:
        settings = self._settings
        return f"<Queue {without_password(settings.database_url) if settings.database_url else settings.db!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers, store the counters and close the file. Closing twice is fine."""
        self._executor.check_outside("The queue can't be closed")
        for worker in self._workers:
            worker.stop()
        self._executor.close()

    def run(self, operation: ops.Operation[R]) -> R:
        """Execute one of `sqew.operations`: return its result, or raise its error. The other methods use this."""
        check_operation(operation, self._limits)
        return self._executor.run(operation)

    # Queues

    def create(self, name: str, *, exist_ok: bool = False, **policy: Any) -> QueueInfo:
        """Create a queue. The keywords are fields of `sqew.Policy`.

        Defaults: 5 attempts and a dead-letter queue ``NAME-dlq``. The dead-letter queue, whatever its name, is created
        as well if there is none. ``lanes`` may be a mapping from names to weights or a list of names;
        ``base_backoff_ms`` is short for ``backoff``.
        """
        return self.run(creation(self._settings, name, in_milliseconds(policy), exist_ok=exist_ok))

    def update(self, name: str, **changes: Any) -> QueueInfo:
        """Change fields of a queue's policy. A dead-letter queue that they name is created if there is none."""
        return self.run(change(name, in_milliseconds(changes)))

    def delete(self, name: str) -> None:
        """Delete a queue and its messages. Its dead-letter queue stays: it may hold what you still need."""
        # Figures are stored by the queue's name: what is kept back now would be those of the next one of that name.
        self._store_counts()
        self.run(ops.DeleteQueue(name))

    def info(self, name: str) -> QueueInfo:
        """Return a queue and its policy."""
        return self.run(ops.GetQueue(name))

    def queues(self, prefix: str = "") -> list[QueueInfo]:
        """Return all queues by name."""
        return self.run(ops.ListQueues(prefix))

    # Keys for a server on this file

    def create_key(
        self, queue: str, scopes: Sequence[KeyScope], label: str = "", *, signing: bool = False
    ) -> tuple[KeyInfo, str, str | None]:
        """Make a key for this queue alone on a server; return its info, the key, and a secret to sign with, if any.

        The key and the secret can't be retrieved later.
        """
        made = new_key(queue, scopes, label, signing=signing)
        return self.run(made.creation), made.key, made.secret

    def keys(self, queue: str) -> list[KeyInfo]:
        """Return the keys of a queue, without their secrets."""
        check_queue_name(queue)
        return self.run(ops.ListKeys(queue))

    def delete_key(self, queue: str, id: str) -> None:
        """Delete a key: within a second it gives no access."""
        self.run(ops.DeleteKey(queue, id))

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
        """Send a message; return its id, or that of the first with its ``key``. It is on disk when this returns.

        A string is sent as text, anything else as JSON. ``sync_commit``: True to wait for the disk, False not to,
        whatever the setting `durability` says.
        """
        # The hottest of all: what nearly always holds is asked in place, and a check is called to refuse the rest.
        limits = self._limits
        if type(queue) is not str or not queue.isascii():
            check_queue_name(queue)
        if type(body) is not dict and isinstance(body, NewMessage | NewMessages):
            raise BadValue("A NewMessage says everything of itself. Send it with enqueue_many, in a list.")
        encoded, format = encode_body(body, limits)
        if (
            type(priority) is int
            and not priority
            and lane is None
            and headers is None
            and key is None
            and group is None
            and delay_seconds is None
            and ttl_seconds is None
            and sync_commit is None
            and delay_ms is None
            and ttl_ms is None
            and len(encoded) <= limits.max_body_bytes
        ):
            id = self._executor.send_plain(queue, encoded, format)
            if id is not None:
                return id
        if lane is not None:
            check_lane(lane)
        if sync_commit is not None:
            flag("sync_commit", sync_commit)
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        ttl_seconds = seconds_of("ttl_", ttl_seconds, ttl_ms, at_least=1)
        message = NewMessage(
            encoded,
            format,
            headers,
            priority,
            lane,
            group,
            key,
            None if delay_seconds is None else seconds_as_ms("delay_seconds", delay_seconds),
            None if ttl_seconds is None else seconds_as_ms("ttl_seconds", ttl_seconds, at_least=1),
        )
        check_message(message, limits)
        return self._executor.run(ops.Send(queue, (message,), sync_commit=sync_commit))[0].id

    def enqueue_many(self, queue: str, bodies: Iterable[Any], *, sync_commit: bool | None = None) -> list[int]:
        """Send a batch in one transaction: bodies, or `sqew.NewMessage` objects for more than a body each.

        Such messages may also be given in columns: as `sqew.NewMessages`.
        """
        check_queue_name(queue)
        if sync_commit is not None:
            flag("sync_commit", sync_commit)
        if type(bodies) is NewMessages:
            operation = ops.Send(queue, bodies, sync_commit=sync_commit)
            check_operation(operation, self._limits)
        else:
            operation = ops.Send(queue, self._messages(bodies), sync_commit=sync_commit)
        if not len(operation.messages):
            return []
        sent = self._executor.run(operation)
        return [one.id for one in sent]

    def _messages(self, bodies: Iterable[Any]) -> Sequence[NewMessage] | NewMessages:
        """Return bodies as messages: in columns if all are plain bodies, which takes three quarters of the time."""
        check_iterable("bodies", bodies)
        limits, bodies = self._limits, list(bodies)
        check_batch(len(bodies), limits)
        if not bodies:
            return ()
        if any(issubclass(kind, NewMessage) for kind in set(map(type, bodies))):
            return [self._message(body) for body in bodies]
        encoded, formats = zip(*[encode_body(body, limits) for body in bodies], strict=True)
        longest = max(encoded, key=len)
        if len(longest) > limits.max_body_bytes:
            # All else in it is a default.
            check_message(NewMessage(longest), limits)
        alike = formats.count(formats[0]) == len(formats)
        return NewMessages(list(encoded), formats[0] if alike else list(formats))

    def _message(self, body: Any) -> NewMessage:
        if isinstance(body, NewMessage):
            check_new_message(body, self._limits)
            return body
        message = NewMessage(*encode_body(body, self._limits))
        check_message(message, self._limits)
        return message

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
        messages = self._claim(queue, 1, lane, lease_seconds, consumer, wait_seconds)
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
        check_int("limit", limit, 1, self._limits.max_batch)
        return self._claim(queue, limit, lane, lease_seconds, consumer, wait_seconds)

    def _claim(
        self,
        queue: str,
        limit: int,
        lane: str | None,
        lease_seconds: float | None,
        consumer: str | None,
        wait_seconds: float,
    ) -> list[Message]:
        if type(queue) is not str or not queue.isascii():
            check_queue_name(queue)
        if lane is not None and type(lane) is not str:
            check_lane(lane)
        if consumer is not None and not (
            type(consumer) is str and consumer.isprintable() and 0 < len(consumer) <= LONGEST_NAME
        ):
            check_text("consumer", consumer)
        lease_ms = None if lease_seconds is None else seconds_as_ms("lease_seconds", lease_seconds)
        operation = ops.Receive(queue, limit, lane, lease_ms, consumer)
        return self._receive(operation, seconds_as_ms("wait_seconds", wait_seconds), None).messages

    def receive(self, operation: ops.Receive, wait_ms: int = 0, stopping: Callable[[], bool] | None = None) -> Received:
        """Receive messages; if none is ready, wait for up to ``wait_ms``, or until woken and ``stopping``."""
        if operation is not self._checked:
            if type(operation) is not ops.Receive:
                raise BadValue(f"receive takes a Receive, and not {shown(operation)}.")
            check_operation(operation, self._limits)
            self._checked = operation
        check_ms("wait_ms", wait_ms)
        return self._receive(operation, wait_ms, stopping)

    def _receive(self, operation: ops.Receive, wait_ms: int, stopping: Callable[[], bool] | None) -> Received:
        received = self._executor.run(operation)
        if received.messages or not wait_ms or self._executor.in_transaction:
            return received
        return self._wait(operation, wait_ms, stopping)

    def _wait(self, operation: ops.Receive, wait_ms: int, stopping: Callable[[], bool] | None) -> Received:
        waiters, clock, queue, lane = self._engine.waiters, self._engine.clock, operation.queue, operation.lane
        deadline = clock.now() + wait_ms
        while True:
            # Where the clock is set back, nobody waits for as much longer.
            deadline = min(deadline, clock.now() + wait_ms)
            woken = threading.Event()
            waiters.add(queue, lane, woken.set)
            is_notified = self._engine.notifier.listen(waiters)
            try:
                # Again, now that nothing can be missed.
                received = self._executor.run(operation)
                stop = stopping is not None and stopping()
                pause_ms = pause(clock.now(), deadline, received.next_due_at, is_notified)
                if not received.messages and not stop and pause_ms:
                    self._engine.sweep_if_overdue(received.next_due_at)
                    if pause_ms >= IDLE_MS:
                        self._idle()
                    woken.wait(pause_ms / 1000)
            except BaseException:
                waiters.leave(queue, lane, woken.set, nothing_left=False)
                raise
            if received.messages or stop or clock.now() >= deadline:
                nothing_left = not received.messages and received.next_due_at is None and not woken.is_set()
                waiters.leave(queue, lane, woken.set, nothing_left=nothing_left)
                return received
            waiters.discard(queue, lane, woken.set)

    def ack(self, message: Held, consumer: str | None = None) -> None:
        """Finish a message whose work is done: it is deleted (or archived, as the policy says).

        Raises `sqew.StaleLease` if the lease was lost: another consumer has the message, or will get it.
        """
        queue, ref = _ref(message, consumer)
        _raise_refusal(self._executor.run(ops.Ack(queue, (ref,))))

    def ack_many(self, messages: Sequence[Held], consumer: str | None = None) -> list[SqewError | None]:
        """Ack a batch: return, for each message, None or why not."""
        return self._settle_many(messages, consumer, ops.Ack)

    def nack(
        self,
        message: Held,
        consumer: str | None = None,
        *,
        delay_seconds: float | None = None,
        reason: str = "",
        delay_ms: int | None = None,
    ) -> None:
        """Give back a message whose work failed: it is retried after the queue's backoff, or ``delay_seconds``."""
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        queue, ref = _ref(message, consumer)
        delay_ms = None if delay_seconds is None else seconds_as_ms("delay_seconds", delay_seconds)
        _raise_refusal(self.run(ops.Nack(queue, (Release(ref, delay_ms, reason=reason),))))

    def nack_many(
        self,
        messages: Sequence[Held],
        consumer: str | None = None,
        *,
        delay_seconds: float | None = None,
        reason: str = "",
        delay_ms: int | None = None,
    ) -> list[SqewError | None]:
        """Nack a batch, all of it for one reason: return, for each message, None or why not."""
        delay_seconds = seconds_of("delay_", delay_seconds, delay_ms)
        check_unicode("reason", reason)
        delay_ms = None if delay_seconds is None else seconds_as_ms("delay_seconds", delay_seconds)
        return self._settle_many(
            messages,
            consumer,
            lambda queue, refs: ops.Nack(queue, [Release(ref, delay_ms, reason=reason) for ref in refs]),
        )

    def dead_letter(self, message: Held, consumer: str | None = None, *, reason: str = "") -> None:
        """Give up a message whose work can never succeed: it is dead at once."""
        queue, ref = _ref(message, consumer)
        _raise_refusal(self.run(ops.Nack(queue, (Release(ref, dead=True, reason=reason),))))

    def extend_lease(
        self, message: Held, seconds: float | None = None, consumer: str | None = None, *, ms: int | None = None
    ) -> None:
        """Have the lease end ``seconds`` from now."""
        queue, ref = _ref(message, consumer)
        _raise_refusal(
            self.run(ops.Extend(queue, (Extension(ref, seconds_as_ms("seconds", seconds_of("", seconds, ms))),)))
        )

    def extend_many(
        self,
        messages: Sequence[Held],
        seconds: float | None = None,
        consumer: str | None = None,
        *,
        ms: int | None = None,
    ) -> list[SqewError | None]:
        """Extend the leases of a batch: return, for each message, None or why not."""
        lease_ms = seconds_as_ms("seconds", seconds_of("", seconds, ms))
        return self._settle_many(
            messages, consumer, lambda queue, refs: ops.Extend(queue, [Extension(ref, lease_ms) for ref in refs])
        )

    def _settle_many(
        self,
        messages: Sequence[Held],
        consumer: str | None,
        operation: Callable[[str | None, list[Ref]], ops.Operation[list[Settled | SqewError]]],
    ) -> list[SqewError | None]:
        check_collection("messages", messages)
        check_batch(len(messages), self._limits)
        refs: list[Ref] = []
        queues: set[str | None] = set()
        for message in messages:
            queue, ref = _ref(message, consumer)
            queues.add(queue)
            refs.append(ref)
        queue = queues.pop() if len(queues) == 1 else None
        results = self._executor.run(operation(queue, refs))
        return [result if isinstance(result, SqewError) else None for result in results]

    # Looking, and cleaning up

    def peek(self, queue: str, limit: int = 10, *, lane: str | None = None) -> list[Message]:
        """Return the next messages, without taking them."""
        check_int("limit", limit, 1, self._limits.max_batch)
        return self._inspect(ops.Peek(queue, limit, lane))

    def get(self, queue: str, id: int) -> Message:
        """Return one message by its id, without taking it."""
        check_queue_name(queue)
        return self._inspect(ops.Get(queue, id))

    def remove(self, queue: str, ids: Sequence[int]) -> list[bool]:
        """Delete messages by their ids, even if they are leased: return, for each, whether it was there."""
        check_collection("ids", ids)
        check_batch(len(ids), self._limits)
        return self.run(ops.Remove(queue, ids))

    def purge(self, queue: str) -> int:
        """Delete every message that is in the queue now; return how many there were."""
        return self._run_flow(flows.purge(queue, self._limits))

    def stats(self, queue: str) -> QueueStats:
        """Return depths by lane and state, totals, rates and latencies."""
        check_queue_name(queue)
        return self._run_flow(flows.stats(queue, self._engine.clock.now, self._limits))

    def _store_counts(self) -> None:
        # Inside a transaction they stay in memory: they are of other threads too, and must not be undone with it.
        if not self._executor.in_transaction:
            self._executor.flush()

    def dead_letters(self, queue: str, limit: int = 100, after: int = 0) -> list[Message]:
        """Return messages of this queue that died, by id, after the given one."""
        self._run_flow(flows.catch_up(self._engine.clock.now))
        return all_of(lambda most, last: self.run(ops.ListDead(queue, most, last)), limit, after)

    def requeue(self, queue: str, ids: Sequence[int] | None = None) -> int:
        """Bring dead letters of this queue back to it, with attempts 0: all, or those given. Return how many came."""
        return self._in_steps(ops.RequeueDead(queue, ids))

    def purge_dead(self, queue: str, ids: Sequence[int] | None = None) -> int:
        """Delete dead letters of this queue: all, or those given. Return how many there were."""
        return self._in_steps(ops.PurgeDead(queue, ids))

    def redrive(self, dead_letter: str, to: str | None = None) -> int:
        """Send the messages of a dead-letter queue back to the queues they came from, or all of them to one queue."""
        return self._in_steps(ops.Redrive(dead_letter, to))

    def archive(
        self, queue: str, limit: int = 100, after: int = 0, outcome: Outcome | None = None
    ) -> list[ArchivedMessage]:
        """Return finished messages by id, after the given one."""
        return all_of(lambda most, last: self.run(ops.ListArchive(queue, most, last, outcome)), limit, after)

    def delete_archived(self, queue: str, finished: Sequence[Finished]) -> int:
        """Delete finished messages from the archive, unless they have changed since. Return how many there were."""
        return self.run(ops.DeleteArchived(queue, finished))

    def _inspect(self, operation: ops.Operation[R]) -> R:
        return self._run_flow(flows.inspect(operation, self._engine.clock.now, self._limits))

    def _in_steps(self, operation: Stepwise) -> int:
        return self._run_flow(in_steps(operation, self._limits))

    def _run_flow(self, flow: Flow[R]) -> R:
        return run_now(flow, self._execute)

    def _execute(self, effect: Any) -> Any:
        match effect:
            case ops.Operation():
                return self.run(effect)
            case Unchecked():
                return self._executor.run(effect.operation)
            case IfWanted():
                return self.run(effect.operation)
            case Read():
                for operation in effect.operations:
                    check_operation(operation, self._limits)
                # In one transaction: as of one moment.
                return self._executor.run_all(effect.operations)
            case InThread():
                return effect.function()
            case InTurn():
                return self._run_flow(effect.begin())
            case StoreCounts():
                with contextlib.suppress(StoreError):
                    self._store_counts()
                return None
        raise TypeError(f"a flow can't await {effect!r}")

    # Events and schedules

    @cached_property
    def events(self) -> EmbeddedEvents:
        """Publishing under routing keys, and subscriptions."""
        from sqew.embedded.events import EmbeddedEvents

        return EmbeddedEvents(self.run, self._publisher, self._settings, self._limits)

    @cached_property
    def deliveries(self) -> EmbeddedDeliveries:
        """Events on their way to HTTP endpoints."""
        from sqew.embedded.deliveries import EmbeddedDeliveries

        return EmbeddedDeliveries(self.run, self._run_flow, self._engine.clock, self._limits)

    @cached_property
    def schedules(self) -> EmbeddedSchedules:
        """Messages and events sent by the clock."""
        from sqew.embedded.schedules import EmbeddedSchedules

        return EmbeddedSchedules(self.run, self._publisher, self._engine.clock, self._settings, self._limits)

    @cached_property
    def consumers(self) -> EmbeddedConsumers:
        """Reading in claims that outlast the reader."""
        from sqew.embedded.consumers import EmbeddedConsumers

        return EmbeddedConsumers(self.run, self._run_flow, self._limits)

    @cached_property
    def writers(self) -> EmbeddedWriters:
        """Sending in whole epochs, each exactly once."""
        from sqew.embedded.writers import EmbeddedWriters

        return EmbeddedWriters(self.run, self._run_flow, self._limits)

    @cached_property
    def certificates(self) -> EmbeddedCertificates:
        """Certificates that receivers check the signatures of envelopes with."""
        from sqew.embedded.certificates import EmbeddedCertificates

        return EmbeddedCertificates(self._publisher)

    @cached_property
    def _publisher(self) -> EmbeddedPublisher:
        from sqew.embedded.publishing import EmbeddedPublisher

        return EmbeddedPublisher(self._run_flow, self._engine.clock, self._settings)

    # Together with the caller's own writes

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open one transaction for several operations, and the caller's own SQL on the same file.

            with q.transaction() as tx:
                tx.execute("INSERT INTO orders (sku) VALUES (?)", (7,))
                q.enqueue("orders", {"sku": 7})

        Everything that this thread does with the queue inside the block joins in. All of it is committed at the end of
        the block, or none if the block raises. Other threads and processes wait meanwhile: keep it short. Only queues
        in a file have it, not those in a database.
        """
        return self._executor.transaction()

    # Workers

    def wake_waiters(self) -> None:
        """Wake all waiters in this process, so that they check whether to stop."""
        self._engine.waiters.wake_all()

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

        @q.worker("orders", concurrency=4)
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

    def maintain(self) -> None:
        """Sweep everything that is due, refresh the planner's statistics, give free pages back, empty the WAL."""
        self._executor.check_outside("Upkeep can't be done")
        while self.run(ops.Sweep(self._limits.max_batch)).count:
            pass
        self._executor.maintain()

    def backup(self, to: str | Path, progress: Callable[[int, int], object] | None = None) -> None:
        """Copy the file as it is now to another, while it is in use. ``progress`` gets the pages done and in all."""
        check_path("to", to)
        self._executor.backup(to, progress)

    def check(self, progress: Callable[[int], object] | None = None) -> CheckReport:
        """Read the whole file and compare every body with its checksum. ``progress`` gets messages checked."""
        return self._executor.check(progress)

    def export(self, queue: str, *, archive: bool = False) -> Iterator[bytes]:
        """Yield the messages of a queue, or of its archive, as they are now, as lines of JSON.

        From a database they are read page by page: messages that others settle meanwhile may or may not be among them.
        """
        check_queue_name(queue)
        if archive:
            return map(ndjson.archived_line, self._executor.export_archive(queue))
        return map(ndjson.line, self._executor.export(queue))

    def import_lines(self, queue: str, lines: Iterable[bytes]) -> Iterator[int]:
        """Send the messages that `export` wrote, in batches; yield the number of messages of each batch.

        Priorities, lanes, headers, groups, keys, delays and lifetimes are kept; ids and attempts start anew. A bad line
        raises an error that names it; the batches before it are sent. Expired messages are left out.
        """
        self.run(ops.GetQueue(queue))
        for batch in ndjson.batches(lines, self._engine.clock.now(), self._limits):
            yield len(self.enqueue_many(queue, batch))

    def _idle(self) -> None:
        """Use idle time to make the next start quick and the files small."""
        self._executor.idle()


def _in_database(settings: Settings, clock: Clock | None, random: Random | None, create: bool) -> ThreadExecutor:
    # Here, because it costs 0.1 s, and most who open a queue have it in a file.
    from sqew.embedded.loop_in_thread import LoopInThread

    if clock is not None:
        raise BadValue("A database has a clock of its own, which all of its users share. Leave clock out.")
    return LoopInThread(settings, random, create)


def _ref(message: Held, consumer: str | None) -> tuple[str | None, Ref]:
    if isinstance(message, Message):
        lease = message.lease
        if lease is None or not lease.token:
            raise BadValue(f"Message {message.id} was looked at, not claimed: only its holder can settle it.")
        return message.queue, Ref(message.id, lease.token)
    check_id(message)
    check_right(message, None, consumer)
    check_text("consumer", consumer)
    return None, Ref(message, by=consumer)


def _raise_refusal(results: list[Settled | SqewError]) -> None:
    for result in results:
        if isinstance(result, SqewError):
            raise result
