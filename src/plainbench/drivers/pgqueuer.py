"""The driver of PostgreSQL through pgqueuer: a table of jobs, in which a topic is an entrypoint."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import asyncpg
import msgspec
from pgqueuer.errors import PgqException
from pgqueuer.models import Job
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.queries import Queries
from pgqueuer.types import QueueEntrypoint, QueueManagerId

from plainbench.drivers.base import Delivered, Item, Left, Place, Topic
from plainbench.drivers.other_queues import NUMBER, Policies, number_of, refuse_fifo, refuse_lanes
from sqew.errors import BadValue, NotFound, OutcomeUnknown, SqewError, StoreUnavailable, Unreachable

T = TypeVar("T")

_TIMEOUT_S = 10.0
_SLICE_S = 0.1
"""Seconds between looks at the queue: PostgreSQL notifies waiters of new jobs, but not when a delay or a lease ends."""
_STATE = """
CASE status WHEN 'picked' THEN 'leased' WHEN 'queued' THEN
  CASE WHEN execute_after > now() THEN 'delayed' ELSE 'ready' END ELSE 'dead' END AS state
"""
_LEFT = "SELECT id, headers, {state} FROM {table} WHERE entrypoint = $1 AND id > $2 ORDER BY id LIMIT 5000"
_DEPTHS = "SELECT {state}, count(*) AS count FROM {table} WHERE entrypoint = $1 GROUP BY 1"


class PgQueuerDriver:
    """A driver of pgqueuer; see `plainbench.drivers.base.Driver`."""

    name: ClassVar[str] = "pgqueuer"
    does: ClassVar[str] = "PostgreSQL through pgqueuer, in its own tables: a topic is an entrypoint."
    needs: ClassVar[Sequence[str]] = ("pgqueuer", "asyncpg")
    options: ClassVar[Mapping[str, str]] = {
        "url": "Where it is: postgresql://user:password@host:5432/database; without one, as libpq's variables say.",
    }
    runs_in_virtual_time: ClassVar[bool] = False
    faults_inside: ClassVar[bool] = False
    shows_dead: ClassVar[bool] = True
    leases_outlive: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self._url = place.options.get("url")
        self._policies = Policies(place)
        self._manager = QueueManagerId(uuid.uuid4())
        self._connection: Any = None
        self._loop = asyncio.new_event_loop()
        self._something_new = asyncio.Event()
        try:
            self.durability = self._ask(_promised)
        except SqewError:
            self._loop.close()
            raise

    def _ask(self, call: Callable[[Queries], Awaitable[T]]) -> T:
        """Run a call and return its result; errors become those of the lab."""
        try:
            return self._loop.run_until_complete(self._called(call))
        except asyncpg.UndefinedTableError as error:
            raise NotFound("pgqueuer has no tables in this database: `plainbench run` makes them.") from error
        except (OSError, asyncpg.InterfaceError, asyncpg.PostgresConnectionError) as error:
            raise OutcomeUnknown(f"No answer came from PostgreSQL: {_sentence(error)}.") from error
        except (asyncpg.PostgresError, PgqException) as error:
            raise StoreUnavailable(f"PostgreSQL says: {error}.") from error

    async def _called(self, call: Callable[[Queries], Awaitable[T]]) -> T:
        if self._connection is None or self._connection.is_closed():
            self._connection = await _connect(self._url)
            self._queries = Queries.from_asyncpg_connection(self._connection)
            # Who waits for messages is woken as pgqueuer's own workers are.
            await self._queries.driver.add_listener(self._queries.qbq.settings.channel, self._hear)
        return await call(self._queries)

    def _hear(self, _payload: object) -> None:
        self._something_new.set()

    def create(self, topic: Topic) -> None:
        refuse_lanes(topic, "pgqueuer")
        refuse_fifo(topic, "pgqueuer")
        if not self._ask(lambda queries: queries.schema_is_installed()):
            self._ask(lambda queries: queries.install())

    def send(self, topic: str, items: Sequence[Item]) -> None:
        self._ask(
            lambda queries: queries.enqueue(
                [topic] * len(items),
                [item.body for item in items],
                [item.priority for item in items],
                dedupe_key=[item.key for item in items],
                headers=[_headers(item) for item in items],
            )
        )

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        entrypoints = {QueueEntrypoint(topic): EntrypointExecutionParameter(concurrency_limit=0)}
        lease = timedelta(milliseconds=lease_ms)

        async def receive(queries: Queries) -> list[Job]:
            deadline = self._loop.time() + wait_s
            while True:
                self._something_new.clear()
                jobs = await queries.dequeue(limit, entrypoints, self._manager, None, lease)
                left_s = deadline - self._loop.time()
                if jobs or left_s <= 0:
                    return jobs
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._something_new.wait(), min(left_s, _SLICE_S))

        return [_delivered(job) for job in self._ask(receive)]

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        """Finish jobs. pgqueuer does not say if a job was still there, nor ask whose it is."""
        self._ask(lambda queries: queries.log_jobs([(one.handle, "successful", None) for one in deliveries]))
        return [None] * len(deliveries)

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        if self._policies.is_spent(topic, delivery.attempt):
            self.bury(topic, delivery, "")
            return
        wait = timedelta(milliseconds=self._policies.wait_ms(topic, delivery.attempt, after_ms))
        self._ask(lambda queries: queries.retry_job(delivery.handle, wait, None))

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        self._ask(lambda queries: queries.log_jobs([(delivery.handle, "failed", None)]))

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        """Restart the lease. Its length is set by the receiver that looks for lost jobs, not by ``lease_ms``."""
        self._ask(lambda queries: queries.update_heartbeat([delivery.handle.id]))

    def left(self, topic: str) -> Iterator[Left]:
        after = 0
        while rows := self._fetch(_LEFT, topic, after):
            for row in rows:
                yield Left(number_of(_number(row["headers"]), row["id"]), row["state"])
            after = rows[-1]["id"]

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        counted = {row["state"]: row["count"] for row in self._fetch(_DEPTHS, topic)}
        return {"": {**dict.fromkeys(("ready", "leased", "delayed", "dead"), 0), **counted}}

    def _fetch(self, sql: str, *parameters: object) -> list[dict[str, Any]]:
        def fetch(queries: Queries) -> Awaitable[list[dict[str, Any]]]:
            return queries.driver.fetch(sql.format(table=_table(queries), state=_STATE), *parameters)

        return self._ask(fetch)

    def close(self) -> None:
        if self._loop.is_closed():
            return
        if self._connection is not None:
            with suppress(OSError, asyncpg.InterfaceError, asyncpg.PostgresError):
                self._loop.run_until_complete(self._connection.close(timeout=_TIMEOUT_S))
        self._loop.close()


async def _connect(url: object) -> Any:
    try:
        return await asyncpg.connect(None if url is None else str(url), timeout=_TIMEOUT_S)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise Unreachable(f"PostgreSQL can't be reached: {_sentence(error)}.") from error
    except ValueError as error:
        raise BadValue(f"target.options.url must be as postgresql://user@host:5432/database: {error}.") from error


def _sentence(error: Exception) -> str:
    # A timeout says nothing.
    return str(error) or type(error).__name__


async def _promised(queries: Queries) -> str:
    (said,) = await queries.driver.fetch(
        "SELECT current_setting('synchronous_commit') AS commit, current_setting('fsync') AS fsync, "
        "(SELECT relpersistence = 'u' FROM pg_class WHERE oid = to_regclass($1)) AS unlogged",
        _table(queries),
    )
    if said["unlogged"] or said["fsync"] == "off":
        return "none: unlogged tables" if said["unlogged"] else "none: fsync=off"
    return f"{'fast' if said['commit'] == 'off' else 'durable'}: synchronous_commit={said['commit']}"


def _table(queries: Queries) -> str:
    return queries.qbe.settings.qualified.queue_table


def _headers(item: Item) -> dict[str, str]:
    return {**(item.headers or {}), NUMBER: str(item.number)}


def _number(headers: Any) -> object:
    """Return the lab's number in the headers of a job, which PostgreSQL returns as a JSON string."""
    known = msgspec.json.decode(headers) if isinstance(headers, str) else headers
    return (known or {}).get(NUMBER)


def _delivered(job: Job) -> Delivered:
    headers = {name: value for name, value in (job.headers or {}).items() if name != NUMBER}
    number = number_of(_number(job.headers), job.id)
    return Delivered(number, job.payload or b"", "", job.attempts + 1, None, headers or None, job)
