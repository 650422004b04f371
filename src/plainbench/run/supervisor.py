"""The supervision of a run, in real and virtual time: its topics, the messages found and left in them, and depths."""

from __future__ import annotations

from collections.abc import Mapping

from plainbench.actors.app_database import load_fixtures
from plainbench.drivers.base import Driver, Topic
from plainbench.record.events import NO_FIGURES, Event
from plainbench.run.context import RunContext
from plainbench.run.stop_condition import StopCondition
from sqew.errors import SqewError

Depths = Mapping[str, Mapping[str, Mapping[str, int]]]
"""Number of ready, leased, delayed and dead messages, by topic and lane."""


class Supervisor:
    """The supervisor of one run."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.driver: Driver = context.driver("supervisor", 0, faultless=True)
        self._stop_condition = StopCondition(context.config.until)
        self.depths: Depths = {}

    def prepare(self) -> None:
        """Fill app.db, make the topics, and record the messages in them: they are expected to come out as well."""
        try:
            self._prepare()
        except BaseException:
            self.driver.close()
            raise

    def _prepare(self) -> None:
        sqlite, folder = self._context.config.sqlite, self._context.folder
        if sqlite.app_fixtures:
            fixtures = [folder / fixture for fixture in sqlite.app_fixtures]
            load_fixtures(str(folder / sqlite.app_file), sqlite, fixtures)
        for topic in self._context.config.topics:
            lanes = {lane.name: lane.weight for lane in topic.lanes}
            leases = [worker.lease_ms for worker in self._context.config.workers] or [30_000]
            self.driver.create(
                Topic(topic.name, lanes, topic.fifo, topic.max_attempts, topic.base_backoff_ms, max(leases))
            )
            self._context.recorder.record_all(
                Event(0, "found", topic.name, n=left.number, what=left.where) for left in self.driver.left(topic.name)
            )
        self._context.recorder.flush()

    def look(self, sending: bool) -> str | None:
        """Record the depths, and return why the run is over, or None."""
        context, depths = self._context, {}
        try:
            for topic in context.config.topics:
                depths[topic.name] = self.driver.depths(topic.name)
        except SqewError:
            # It may be away on purpose.
            return self._stop_condition.why(context.time.now_us(), sending=True, depths=self.depths)
        now = context.time.now_us()
        context.recorder.record_all(
            Event(now, "depth", topic, lane, figures={state: float(count) for state, count in counts.items()})
            for topic, lanes in depths.items()
            for lane, counts in lanes.items()
        )
        context.recorder.flush()
        self.depths = depths
        return self._stop_condition.why(now, sending, depths)

    def note(self, what: str, reason: str = "", *, unknown: bool = False) -> None:
        """Record something that happened to the run. ``unknown``: the messages left could not be read."""
        # A driver of somebody's own need not say so.
        known = {name: 1.0 for name in ("shows_dead", "leases_outlive") if getattr(self.driver, name, False)}
        self._context.recorder.record(
            Event(
                self._context.time.now_us(),
                "run",
                what=what,
                reason=reason,
                unknown=unknown,
                figures=known or NO_FIGURES,
            )
        )
        self._context.recorder.flush()

    def finish(self, why: str, reason: str = "") -> None:
        """Record the messages left, now that no actor uses the queue any more."""
        now = self._context.time.now_us()
        failed = []
        for topic in self._context.config.topics:
            try:
                self._context.recorder.record_all(
                    Event(now, "left", topic.name, n=left.number, what=left.where)
                    for left in self.driver.left(topic.name)
                )
            except SqewError as error:
                failed.append(str(error))
        self.note(why, " ".join(filter(None, [reason, *failed])), unknown=bool(failed))
        self.driver.close()
