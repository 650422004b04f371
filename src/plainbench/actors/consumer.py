"""A consumer of a worker: it receives messages, has them handled and settles them, in a loop."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from plainbench.config.model import WorkerConfig
from plainbench.drivers.base import Delivered, Driver
from plainbench.faults.latency import Latencies
from plainbench.record.events import Event
from plainbench.run.context import RunContext
from plainbench.verdict.checksums import check_of
from plainbench.workers import Dead, Done, Handler, Retry, Verdict
from sqew.errors import SqewError

_WAIT_S = 0.5
"""Seconds that a receive waits for a message in real time: a worker takes this long to notice the end of a run."""
_LOOK_AGAIN_S = 0.01
_DOZE_S = 0.25
"""Seconds between receives in virtual time, at most, while the queue is empty and nothing is sent."""
_AFTER_ERROR_S = 0.05


class Held:
    """The messages that a worker's consumers hold, for `Heart` to extend their leases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, tuple[str, Sequence[Delivered]]] = {}

    def take(self, consumer: str, topic: str, deliveries: Sequence[Delivered]) -> None:
        """Record all messages that a consumer holds now."""
        with self._lock:
            self._held[consumer] = topic, deliveries

    def drop(self, consumer: str, settled: Delivered) -> None:
        """Forget a message that its consumer is about to give back."""
        with self._lock:
            topic, deliveries = self._held[consumer]
            self._held[consumer] = topic, [delivery for delivery in deliveries if delivery is not settled]

    def drop_all(self, consumer: str) -> None:
        with self._lock:
            del self._held[consumer]

    def now(self) -> list[tuple[str, str, Delivered]]:
        with self._lock:
            return [
                (consumer, topic, one) for consumer, (topic, deliveries) in self._held.items() for one in deliveries
            ]


class Heart:
    """The heartbeat of a worker: it extends the leases of held messages, at least three times per lease."""

    def __init__(self, context: RunContext, worker: WorkerConfig, held: Held, driver: Driver) -> None:
        self._context, self._worker, self._held, self._driver = context, worker, held, driver

    def run(self) -> None:
        lease_ms = self._worker.lease_ms
        try:
            while not self._context.stop.is_set():
                self._context.time.sleep(min(lease_ms / 3000, 0.5 if not self._context.time.is_virtual else 1e9))
                for consumer, topic, delivery in self._held.now():
                    self._extend(consumer, topic, delivery, lease_ms)
        finally:
            self._driver.close()

    def _extend(self, consumer: str, topic: str, delivery: Delivered, lease_ms: int) -> None:
        time, began = self._context.time, self._context.time.now_us()
        try:
            self._driver.extend(topic, delivery, lease_ms)
        except SqewError:
            # Whoever lost the lease is told so when the message is settled.
            return
        now = time.now_us()
        self._context.recorder.record(
            Event(now, "extended", topic, delivery.lane, delivery.number, worker=consumer, took=now - began)
        )


def _work_of(context: RunContext, worker: WorkerConfig, name: str, life: int) -> Latencies | None:
    if worker.work is None:
        return None
    return Latencies(worker.work, context.streams.generator("work", name, life), context.folder)


class ConsumerActor:
    """A consumer, which takes one message, or one batch of ``prefetch``, at a time."""

    def __init__(
        self,
        context: RunContext,
        worker: WorkerConfig,
        name: str,
        life: int,
        driver: Driver,
        handler: Handler,
        held: Held,
    ) -> None:
        self._context, self._worker, self._name = context, worker, name
        self._driver, self._handler, self._held = driver, handler, held
        self._time = context.time
        self._topics = worker.topics or [topic.name for topic in context.config.topics]
        self._work = _work_of(context, worker, name, life)
        self._with_lanes = {topic.name for topic in context.config.topics if topic.lanes}
        self._look_again_s = _LOOK_AGAIN_S

    def run(self) -> None:
        try:
            while not self._context.stop.is_set():
                self._round()
        finally:
            self._handler.close()
            self._driver.close()

    def _round(self) -> None:
        found = False
        for topic in self._topics:
            try:
                deliveries = self._receive(topic)
            except SqewError:
                # It was an injected fault, or the queue is away: the log has it, and the next round tries again.
                self._time.sleep(_AFTER_ERROR_S)
                continue
            if deliveries:
                found = True
                self._process(topic, deliveries)
        if found:
            self._look_again_s = _LOOK_AGAIN_S
            return
        self._time.doze(self._look_again_s, self._topics)
        if self._time.is_virtual:
            # Else hours without messages would take hours.
            self._look_again_s = min(self._look_again_s * 2, _DOZE_S)

    def _receive(self, topic: str) -> Sequence[Delivered]:
        waits = 0.0 if self._time.is_virtual or len(self._topics) > 1 else _WAIT_S
        began = self._time.now_us()
        deliveries = self._driver.receive(topic, self._worker.prefetch, self._worker.lease_ms, waits)
        at, has_lanes = self._time.now_us(), topic in self._with_lanes
        self._context.recorder.record_all(
            Event(
                at, "received", topic, delivery.lane, delivery.number, worker=self._name, attempt=delivery.attempt,
                group=delivery.group or "", took=at - began,
                check=check_of(delivery.body, delivery.lane if has_lanes else None, delivery.group),
            )
            for delivery in deliveries
        )  # fmt: skip
        # Before anybody may learn of it: else a message could be acked that nobody seems to have received.
        self._context.recorder.flush()
        return deliveries

    def _process(self, topic: str, deliveries: Sequence[Delivered]) -> None:
        self._held.take(self._name, topic, deliveries)
        done: list[Delivered] = []
        try:
            for delivery in deliveries:
                verdict = self._verdict(topic, delivery)
                if isinstance(verdict, Done):
                    done.append(delivery)
                else:
                    self._held.drop(self._name, delivery)
                    self._give_back(topic, delivery, verdict)
        finally:
            self._held.drop_all(self._name)
        if done:
            self._ack(topic, done)

    def _verdict(self, topic: str, delivery: Delivered) -> Verdict:
        if self._work is not None:
            self._time.sleep(self._work.draw_ms() / 1000)
        return self._handler.handle(topic, delivery)

    def _ack(self, topic: str, done: Sequence[Delivered]) -> None:
        began = self._time.now_us()
        try:
            refusals = self._driver.ack(topic, done)
        except SqewError as error:
            refusals = [error] * len(done)
        at = self._time.now_us()
        self._context.recorder.record_all(
            self._settled(at, "acked" if refusal is None else "refused", topic, delivery, at - began, refusal)
            for delivery, refusal in zip(done, refusals, strict=True)
        )

    def _give_back(self, topic: str, delivery: Delivered, verdict: Retry | Dead) -> None:
        began = self._time.now_us()
        refusal: SqewError | None = None
        try:
            if isinstance(verdict, Retry):
                self._driver.retry(topic, delivery, verdict.after_ms)
            else:
                self._driver.bury(topic, delivery, verdict.reason)
        except SqewError as error:
            refusal = error
        kind = "refused" if refusal is not None else "retried" if isinstance(verdict, Retry) else "died"
        at = self._time.now_us()
        self._context.recorder.record(self._settled(at, kind, topic, delivery, at - began, refusal, verdict.reason))

    def _settled(
        self, at: int, kind: str, topic: str, delivery: Delivered, took: int, refusal: SqewError | None,
        reason: str = "",
    ) -> Event:  # fmt: skip
        return Event(
            at, kind, topic, delivery.lane, delivery.number,  # type: ignore[arg-type]
            worker=self._name, attempt=delivery.attempt, group=delivery.group or "", took=took,
            what="" if refusal is None else type(refusal).__name__,
            reason=reason if refusal is None else self._context.said(refusal),
        )  # fmt: skip
