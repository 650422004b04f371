"""A generator: it sends the planned messages when they are due, and records how far it falls behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from plainbench.config.model import AtOnce, Closed
from plainbench.config.model import Workload as WorkloadConfig
from plainbench.drivers.base import Driver, Item, NotOffered
from plainbench.record.events import Event
from plainbench.run.context import RunContext
from plainbench.verdict.checksums import check_of
from plainbench.workload import Planned
from sqew.errors import Invalid, OutcomeUnknown, SqewError

_REPORT_EVERY_US = 1_000_000
_AFTER_ERROR_S = 0.05


def clients_of(workload: WorkloadConfig) -> int:
    """Return the number of senders that send side by side."""
    return workload.arrivals.clients if isinstance(workload.arrivals, Closed) else workload.senders


class Source:
    """The plan of a workload, shared by its senders."""

    def __init__(self, planned: Iterator[Planned]) -> None:
        self._planned = planned
        self._lock = threading.Lock()

    def take(self, most: int) -> list[Planned]:
        """Return up to ``most`` of the next messages; an empty list means that none are left."""
        with self._lock:
            return [planned for _, planned in zip(range(most), self._planned, strict=False)]


class Sender:
    """A sender of a workload. All senders of a workload take from one source."""

    def __init__(
        self, context: RunContext, workload: WorkloadConfig, name: str, source: Source, driver: Driver
    ) -> None:
        self._context, self._workload, self._name = context, workload, name
        self._source, self._driver = source, driver
        self._time, self._record = context.time, context.recorder.record
        self._worst_lag_us = self._dropped = 0
        self._report_at = 0

    def run(self) -> None:
        arrivals = self._workload.arrivals
        together = arrivals.batch if isinstance(arrivals, AtOnce) else 1
        try:
            while not self._context.stop.is_set() and (planned := self._source.take(together)):
                self._send_in_time(planned)
                if isinstance(arrivals, Closed) and arrivals.think_ms:
                    self._time.sleep(arrivals.think_ms / 1000)
            self._report()
        finally:
            self._driver.close()

    def _send_in_time(self, planned: Sequence[Planned]) -> None:
        due = planned[0].due_us
        if due is not None:
            self._time.sleep_until_us(due)
            lag = self._time.now_us() - due
            self._worst_lag_us = max(self._worst_lag_us, lag)
            if self._workload.late_ms is not None and lag > self._workload.late_ms * 1000:
                self._drop(planned[0], lag)
                return
        self._send([one.item for one in planned], due)
        if self._time.now_us() >= self._report_at:
            self._report()

    def _send(self, items: Sequence[Item], due: int | None) -> None:
        topic, first, last = self._workload.topic, items[0].number, items[-1].number
        lane = (items[0].lane or "") if len({item.lane for item in items}) == 1 else ""
        group = (items[0].group or "") if len(items) == 1 else ""

        def event(kind: str, **fields: object) -> Event:
            return Event(
                self._time.now_us(), kind, topic, lane, first, last if last != first else 0,  # type: ignore[arg-type]
                worker=self._name, group=group, **fields,  # type: ignore[arg-type]
            )  # fmt: skip

        due = self._time.now_us() if due is None else due
        checks = [check_of(item.body, item.lane, item.group) for item in items]
        self._record(event("sending", due=due, **{"check": checks[0]} if len(items) == 1 else {"checks": checks}))
        # If this process dies now, it is known that these may have been stored.
        self._context.recorder.flush()
        while True:
            began = self._time.now_us()
            try:
                self._driver.send(topic, items)
            except SqewError as error:
                unknown = isinstance(error, OutcomeUnknown)
                self._record(
                    event("unsent", what=type(error).__name__, reason=self._context.said(error), unknown=unknown)
                )
                if isinstance(error, Invalid | NotOffered):
                    # The queue will never take it: the run can't be what was asked for.
                    raise
                if unknown or self._context.stop.is_set():
                    # Sent again it might be there twice: so it is left at that, and the verdict counts it apart.
                    return
                self._time.sleep(_AFTER_ERROR_S)
                continue
            self._record(event("sent", due=due, took=self._time.now_us() - began))
            self._time.rouse(topic, len(items))
            return

    def _drop(self, planned: Planned, lag: int) -> None:
        self._dropped += 1
        item = planned.item
        self._record(
            Event(
                self._time.now_us(), "dropped", self._workload.topic, item.lane or "", item.number,
                worker=self._name, due=planned.due_us, ms=lag / 1000,
            )
        )  # fmt: skip

    def _report(self) -> None:
        """Record the greatest lag since the last report: an unreported lag would make the queue look better."""
        now = self._time.now_us()
        self._report_at = now + _REPORT_EVERY_US
        figures = {"lag_us": float(self._worst_lag_us), "dropped": float(self._dropped)}
        self._record(Event(now, "generator", self._workload.topic, worker=self._name, figures=figures))
        self._worst_lag_us = 0
