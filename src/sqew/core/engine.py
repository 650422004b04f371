"""The engine: what surrounds every transaction of a store, with and without an event loop.

It passes the time to the store, notifies observers and waiters of what was committed, and adds a small step of upkeep
to others' transactions when one is due. So an embedded queue needs no thread of its own, and an idle one does nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from sqew.clock import Clock, Correction
from sqew.core.waiting import Notifier, Waiters
from sqew.errors import BadValue, StoreError, StoreUnusable
from sqew.installing import to_install
from sqew.model import Activity, Commit, Corrected, Fact, Format, Swept
from sqew.observe.eventlog import EventLog
from sqew.observe.meter import Meter
from sqew.operations import (
    CorrectDates,
    CreateQueue,
    LookAhead,
    Operation,
    RecordActivity,
    Sweep,
    UpdateQueue,
)
from sqew.rules.limits import JOB_BODY_BYTES, JOB_DEPTH, Limits
from sqew.rules.names import check_new_queue_name
from sqew.rules.policies import checked_changes, dead_letter_policy, default_policy
from sqew.settings import Settings
from sqew.stores.contract import RemoteStore, Store, Unfinished
from sqew.stores.sqlite import SQLiteStore
from sqew.stores.sqlite.notifier import SocketNotifier

_log = logging.getLogger("sqew.engine")

UPKEEP_EVERY_MS = 1_000
"""Least number of milliseconds between transactions that also sweep and store counters; a backlog is swept at once."""
_NOT_SOON = 1 << 62
"""A time that never comes."""


class ObservedEngine:
    """The base of engines: notifies observers, waiters and other processes of what a transaction did."""

    def __init__(self, clock: Clock, notifier: Notifier, event_log: EventLog | None = None) -> None:
        self.clock = clock
        self.waiters = Waiters()
        self.notifier = notifier
        self.listeners: dict[str, list[Callable[[], None]]] = {}
        """Callbacks by place, called in the committing thread by each commit that wakes it. Waiters get one call."""
        self._event_log = event_log
        self._meter = Meter()
        self._next_sweep_at = 0
        self.ran_at = 0
        """The time of the last transaction: messages sent in it were created then."""

    def _schedule_sweep(self, swept: object, now: int) -> None:
        """Set when the next step of upkeep is due, after one has run."""
        backlog = isinstance(swept, Swept) and swept.next_at is not None and swept.next_at <= now
        self._next_sweep_at = now if backlog else now + UPKEEP_EVERY_MS

    def committed(self, facts: Sequence[Fact], woken: Collection[str], now: int) -> None:
        """Notify observers, waiters and other processes of a commit."""
        try:
            if facts:
                self._meter.record(facts, now)
                if self._event_log is not None:
                    self._event_log.record(facts, self.clock.now_us())
            if woken:
                if self.listeners:
                    for place in self.listeners.keys() & set(woken):
                        for listener in self.listeners[place]:
                            listener()
                self.waiters.wake(woken)
                self.notifier.notify(woken)
        except Exception:  # noqa: BLE001 (it must not look as if the transaction had failed: that would be repeated)
            _log.exception("a transaction was committed, but not everybody could be told of it")

    def sweep_if_overdue(self, due_at: int | None) -> None:
        """Have the next transaction sweep if something is overdue that only a sweep can end, such as a death."""
        if due_at is not None and due_at <= self.clock.now():
            self._next_sweep_at = 0

    def dates_corrected(self, operation: CorrectDates, corrected: Any) -> None:
        """Log the result of a correction, and wake all waiters: they sleep until times that are no longer right."""
        self.waiters.wake_all()
        if not isinstance(corrected, Corrected):
            _log.warning("dates in the future could not be set right", extra={"fields": {"error": str(corrected)}})
            return
        fields = {
            "ahead_s": round(corrected.ahead_ms / 1000, 1), "messages": corrected.messages, "others": corrected.others,
        }  # fmt: skip
        if operation.is_certain:
            _log.warning("the clock was ahead and is set back, and so are the dates", extra={"fields": fields})
        elif corrected.messages or corrected.others:
            _log.warning(
                "dates lie in the future: the clock was ahead, or it is slow now. Check it", extra={"fields": fields}
            )

    @property
    def has_counts(self) -> bool:
        """True if counters are in memory that the next step of upkeep will store."""
        return not self._meter.is_empty


class Engine(ObservedEngine):
    """An engine for a store that answers at once. Use it from one thread at a time."""

    def __init__(self, store: Store, clock: Clock, notifier: SocketNotifier, event_log: EventLog | None = None) -> None:
        super().__init__(clock, notifier, event_log)
        self.store = store

    def now(self) -> int:
        """Return epoch milliseconds. If the clock was ahead, the dates stored meanwhile are corrected first."""
        now = self.clock.now()
        if self.clock.correction is not None:
            self._correct(self.clock.correction)
        return now

    def _correct(self, correction: Correction) -> None:
        self.clock.correction = None
        self._next_sweep_at = 0
        try:
            self._correct_dates(correction_of(correction))
        except StoreError as error:
            self.clock.postpone(correction)
            _log.warning("dates in the future could not be set right yet", extra={"fields": {"error": str(error)}})

    def _correct_dates(self, operation: CorrectDates) -> None:
        now = self.clock.now()
        commit = self.store.run([operation], now)
        self.committed(commit.facts, commit.woken, now)
        self.dates_corrected(operation, commit.results[0])

    def start(self) -> None:
        """Compare the newest date of the store with the clock, and correct dates that lie in the future."""
        ahead_ms = self.store.run([LookAhead()], self.clock.now()).results[0]
        if isinstance(ahead_ms, int) and ahead_ms:
            self._correct_dates(CorrectDates(ahead_ms))

    def run(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Execute operations in one transaction: return a result or an error for each."""
        now = self.ran_at = self.clock.now()
        if self.clock.correction is not None:
            self._correct(self.clock.correction)
        if now >= self._next_sweep_at and _write(operations):
            return self._run_with_upkeep(operations, now)
        commit = self.store.run(operations, now)
        self.committed(commit.facts, commit.woken, now)
        return commit.results

    def send_plain(self, queue: str, body: bytes, format: Format) -> int | None:
        """Send a message with only a body: return its id, or None if it has to be sent with `run`."""
        now = self.clock.now()
        if now >= self._next_sweep_at or self.clock.correction is not None:
            return None
        fact = self.store.send_plain(queue, body, format, now)
        if fact is None:
            return None
        self.ran_at = now
        self.committed((fact,), (fact.queue,), now)
        return fact.id

    def _run_with_upkeep(self, operations: Sequence[Operation[Any]], now: int) -> list[Any]:
        commit = self._run_and_record([*operations, Sweep()], self._meter.drain(now), now)
        self.committed(commit.facts, commit.woken, now)
        *results, swept, _ = commit.results
        self._schedule_sweep(swept, now)
        return results

    def _run_and_record(self, operations: Sequence[Operation[Any]], counts: list[Activity], now: int) -> Commit:
        try:
            return self.store.run([*operations, RecordActivity(counts)], now)
        except Exception:
            # The figures are not lost with the transaction.
            self._meter.restore(counts)
            raise

    def flush(self) -> None:
        """Store the counters that are still in memory."""
        now = self.clock.now()
        counts = self._meter.drain(now)
        if counts:
            self._run_and_record([], counts, now)

    def close(self) -> None:
        """Store the counters, close the store and stop listening."""
        try:
            with contextlib.suppress(StoreError):
                # A store that failed can't keep its last second of figures; closing it must still work.
                self.flush()
        finally:
            self.waiters.wake_all()
            self.notifier.close()
            self.store.close()
            if self._event_log is not None:
                self._event_log.close()


class RemoteEngine(ObservedEngine):
    """An engine for a store in a database, which answers later and runs several transactions at a time."""

    def __init__(
        self,
        store: RemoteStore,
        clock: Clock,
        notifier: Notifier,
        event_log: EventLog | None = None,
        linger_ms: int = 0,
    ) -> None:
        super().__init__(clock, notifier, event_log)
        self.store = store
        # Somebody sweeps once a second: only what is overdue goes with other operations.
        self._next_sweep_at = _NOT_SOON
        self.linger_ms = linger_ms
        """Milliseconds that an operation waits for others to share its transaction."""

    async def run(
        self, operations: Sequence[Operation[Any]], may_wait: Callable[[list[Any]], bool] | None = None
    ) -> list[Any]:
        """Execute operations: return a result or an error for each.

        ``may_wait`` is called with the results of operations that did not have to wait for locks, as soon as these are
        done, and a `Unfinished` for each of the others. It returns whether to execute the others as well.
        """
        now = self.clock.now()
        if self.clock.correction is not None:
            await self._correct(self.clock.correction)
        overdue = now >= self._next_sweep_at and _write(operations)
        if overdue:
            self._next_sweep_at = _NOT_SOON

        def observed(commit: Commit) -> list[Any]:
            self.ran_at = now if commit.ran_at is None else commit.ran_at
            self.committed(commit.facts, commit.woken, self.ran_at)
            return commit.results[: len(operations)]

        asked = None if may_wait is None else lambda commit: may_wait(observed(commit))
        commit = await self.store.run([*operations, Sweep()] if overdue else operations, now, asked)
        if overdue and isinstance(commit.results[-1], Unfinished):
            self._next_sweep_at = now
        return observed(commit)

    async def _correct(self, correction: Correction) -> None:
        self.clock.correction = None
        await self._correct_dates(correction_of(correction))

    async def _correct_dates(self, operation: CorrectDates) -> None:
        now = self.clock.now()
        try:
            commit = await self.store.run([operation], now)
        except StoreError as error:
            self.dates_corrected(operation, error)
        else:
            self.committed(commit.facts, commit.woken, now)
            self.dates_corrected(operation, commit.results[0])

    async def start(self) -> None:
        """Compare the newest date of the store with the clock, and correct dates that lie in the future."""
        ahead_ms = (await self.store.run([LookAhead()], self.clock.now())).results[0]
        if isinstance(ahead_ms, int) and ahead_ms:
            await self._correct_dates(CorrectDates(ahead_ms))

    async def flush(self) -> None:
        """Store the counters that are still in memory."""
        now = self.clock.now()
        counts = self._meter.drain(now)
        if not counts:
            return
        try:
            await self.store.run([RecordActivity(counts)], now)
        except Exception:
            self._meter.restore(counts)
            raise

    async def close(self) -> None:
        """Store the counters, close the connections and stop listening."""
        try:
            with contextlib.suppress(StoreError):
                await self.flush()
        finally:
            self.waiters.wake_all()
            self.notifier.close()
            await self.store.close()
            if self._event_log is not None:
                self._event_log.close()


def correction_of(correction: Correction) -> CorrectDates:
    """Return the operation that corrects the dates stored before a clock was corrected."""
    return CorrectDates(correction.ahead_ms, correction.since_ms is not None, correction.since_ms)


def _write(operations: Sequence[Operation[Any]]) -> bool:
    return any(operation.writes for operation in operations)


_FROM_SETTINGS = ("visibility_ms", "max_attempts", "key_retention_ms", "archive_retention_ms")
"""Fields of a policy whose defaults are settings."""


def creation(
    settings: Settings,
    name: str,
    fields: Mapping[str, Any],
    *,
    exist_ok: bool = False,
    new: bool = False,
    any_name: bool = False,
) -> CreateQueue:
    """Return the operation that creates a queue; for fields of its policy that are not given, the settings decide.

    It gets a dead-letter queue ``NAME-dlq`` unless ``fields`` says otherwise, created with it if there is none of that
    name. ``base_backoff_ms`` is short for ``backoff``. ``any_name``: allow a name that not every dialect can write.
    """
    if not any_name:
        check_new_queue_name(name)
    policy = dict(fields)
    assumed = tuple(field for field in _FROM_SETTINGS if field not in fields)
    for field in assumed:
        policy[field] = getattr(settings, field)
    base_backoff_ms = policy.pop("base_backoff_ms", None)
    if base_backoff_ms is not None:
        if "backoff" in policy:
            raise BadValue("base_backoff_ms is short for backoff. Give one of the two.")
        policy["backoff"] = {"base_ms": base_backoff_ms}
    chosen = default_policy(name, policy)
    dead_letters = None if chosen.dead_letter is None else dead_letter_policy(chosen.dead_letter)
    return CreateQueue(name, chosen, exist_ok, dead_letters, new=new, assumed=assumed, any_name=any_name)


def change(name: str, fields: Mapping[str, Any]) -> UpdateQueue:
    """Return the operation that changes a queue's policy, and creates its dead-letter queue if there is none."""
    changes = checked_changes(fields)
    target = changes.get("dead_letter")
    return UpdateQueue(name, changes, dead_letters=None if target is None else dead_letter_policy(target))


def open_file(
    settings: Settings, clock: Clock | None = None, random: Random | None = None, create: bool = True
) -> tuple[Engine, SQLiteStore]:
    """Open the engine on the file that the settings name."""
    _check_settings(settings)
    clock = clock or Clock()
    event_log = _event_log(settings)
    try:
        store = SQLiteStore(
            settings.db,
            now=clock.now(),
            durability=settings.durability,
            busy_timeout_ms=settings.busy_timeout_ms,
            wal_autocheckpoint_pages=settings.wal_autocheckpoint_pages,
            cache_kib=settings.cache_kib,
            disk_reserve_bytes=settings.disk_reserve_bytes,
            delivery_keep_ms=settings.delivery_keep_ms,
            create=create,
            random=random,
        )
    except BaseException:
        if event_log is not None:
            event_log.close()
        raise
    engine = Engine(store, clock, SocketNotifier(settings.db), event_log)
    with contextlib.suppress(StoreError):
        # Whatever it is, the first who needs the store is told.
        engine.start()
    return engine, store


async def open_database(settings: Settings, random: Random | None = None, create: bool = True) -> RemoteEngine:
    """Open the engine on the database that the settings name."""
    try:
        from sqew.stores.postgres import DatabaseClock, ListenNotifier, PostgresStore
    except ImportError as error:
        raise StoreUnusable(f"PostgreSQL needs more than the base install: {to_install('postgres')}.") from error

    _check_settings(settings)
    event_log = _event_log(settings)
    try:
        store = await PostgresStore.open(
            settings.database_url,
            create=create,
            connections=settings.database_connections,
            timeout_ms=settings.database_timeout_ms,
            synchronous=settings.durability == "durable",
            delivery_keep_ms=settings.delivery_keep_ms,
            listen_url=settings.database_listen_url,
            pooler=settings.database_pooler,
            random=random,
        )
        clock = DatabaseClock()
        await store.keep_time(clock)
    except BaseException:
        if event_log is not None:
            event_log.close()
        raise
    notifier = ListenNotifier(store.connect_to_listen, store.notify, store.counters)
    engine = RemoteEngine(store, clock, notifier, event_log, settings.linger_ms)
    with contextlib.suppress(StoreError):
        # Whatever it is, the first who needs the database is told.
        await engine.start()
    return engine


def _check_settings(settings: Settings) -> None:
    if settings.delivery_allow:
        from sqew.rules.webhook_addresses import (
            WebhookAddresses,  # here, because it costs 30 ms and most runs don't set it
        )

        # What is wrong with it is better found out now than when somebody subscribes an endpoint.
        WebhookAddresses(settings.delivery_allow)


def _event_log(settings: Settings) -> EventLog | None:
    if not settings.event_log:
        return None
    return EventLog(settings.event_log, max_bytes=settings.event_log_max_bytes, keep=settings.event_log_keep)


def limits_of(settings: Settings) -> Limits:
    """Return the limits on messages and batches that the settings give."""
    limits = Limits(
        max_body_bytes=settings.max_body_bytes,
        max_headers_bytes=settings.max_headers_bytes,
        max_batch=settings.max_batch,
        max_depth=settings.max_depth,
    )
    assumed = {
        name: value
        for name, value in (("max_body_bytes", JOB_BODY_BYTES), ("max_depth", JOB_DEPTH))
        if settings.sources.get(name, "default") == "default"
    }
    return replace(limits, jobs=replace(limits, **assumed)) if assumed else limits
