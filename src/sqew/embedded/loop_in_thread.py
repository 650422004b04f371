"""Executor for queues in a database that threads share: the engine runs in an event loop, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from random import Random
from typing import Any, NoReturn, TypeVar

from sqew.core.broker import Broker
from sqew.core.engine import UPKEEP_EVERY_MS, RemoteEngine, limits_of, open_database
from sqew.core.thread_executors import Transaction, check_usable
from sqew.errors import BadValue, SqewError
from sqew.model import ArchivedMessage, Format, Message
from sqew.operations import LastId, ListArchive, Operation, Receive, Scan
from sqew.settings import Settings, without_password
from sqew.stores.sqlite.upkeep import CheckReport

_log = logging.getLogger("sqew.database")

R = TypeVar("R")
_PAGE = 200
"""Messages that an export reads at a time: each may be large."""


class LoopInThread:
    """An executor for many threads, on a database. Implements `sqew.core.thread_executors.ThreadExecutor`.

    Operations that threads run at the same time go to the database together. An interrupt (Ctrl-C) may come at any
    time: an operation that was not begun is then not executed, and messages that were received are given back.
    """

    engine: RemoteEngine
    in_transaction = False

    def __init__(self, settings: Settings, random: Random | None = None, create: bool = True) -> None:
        self._settings = settings
        self._where = without_password(settings.database_url)
        self._lock = threading.Lock()
        self._closed = False
        self._pid = os.getpid()
        opened: Future[None] = Future()
        loop = self._run_loop(random, create, opened)
        self._thread = threading.Thread(target=asyncio.run, args=(loop,), name="sqew-database", daemon=True)
        self._thread.start()
        try:
            opened.result()
        except BaseException:
            # Who was interrupted does not wait for the database: the thread ends by itself.
            opened.cancel()
            raise

    async def _run_loop(self, random: Random | None, create: bool, opened: Future[None]) -> None:
        """Run the event loop's work, from opening the database to closing it."""
        try:
            self.engine = await open_database(self._settings, random, create)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is raised in the thread that opens)
            if opened.set_running_or_notify_cancel():
                opened.set_exception(error)
            return
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._broker = Broker(self.engine, limits_of(self._settings))
        upkeep = asyncio.ensure_future(self._keep_up())
        try:
            if opened.set_running_or_notify_cancel():
                opened.set_result(None)
                await self._over.wait()
        finally:
            upkeep.cancel()
            self._broker.dismiss()
            await self._broker.close()

    async def _keep_up(self) -> None:
        """Run a round of upkeep once a second: there may be no server that would."""
        while True:
            try:
                await self._broker.keep_up()
            except SqewError as error:
                _log.warning("upkeep failed: %s", error)
            except Exception:  # noqa: BLE001 (what is over must be swept all the same)
                _log.exception("upkeep failed")
            await asyncio.sleep(UPKEEP_EVERY_MS / 1000)

    def run(self, operation: Operation[R]) -> R:
        """Execute one operation: return its result, or raise its error."""
        result: R = self._wait_for(self._carry_out, operation)
        return result

    def send_plain(self, queue: str, body: bytes, format: Format) -> int | None:
        """Return None: a database has no fast path for a plain message."""
        return None

    def run_all(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Execute operations one after the other: return their results, or raise the first of their errors."""
        return self._wait_for(self._carry_out_all, operations)

    async def _carry_out_all(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        return [await self._carry_out(operation) for operation in operations]

    async def _carry_out(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, Receive):
            # Unlike `run`, it gives back what nobody is there to take.
            return await self._broker.receive(operation)
        return await self._broker.run(operation)

    def _wait_for(self, work: Callable[..., Coroutine[Any, Any, R]], *arguments: Any) -> R:
        """Run a coroutine function in the loop, and wait for its result in the calling thread."""
        self.check_open()
        with self._lock:
            # What is handed in before the end is told of is also begun before it.
            self.check_open()
            doing = asyncio.run_coroutine_threadsafe(work(*arguments), self._loop)
        try:
            return doing.result()
        except CancelledError:
            self.check_open()
            raise
        except BaseException:
            doing.cancel()
            raise

    def transaction(self) -> contextlib.AbstractContextManager[Transaction]:
        """Raise `BadValue`: the caller's own writes are not on these connections."""
        raise BadValue(
            "transaction() joins your own writes to a queue in the same file; a queue in PostgreSQL is in no file. "
            "Use enqueue_many and ack_many, and give messages a key so that sending them again does no harm."
        )

    def flush(self) -> None:
        """Store the counters that are still in memory."""
        self._wait_for(self.engine.flush)

    def idle(self) -> None:
        """Do nothing: the database does its own upkeep."""

    def maintain(self) -> None:
        """Raise `StoreClosed` if the queue was closed; otherwise leave upkeep to the database's autovacuum."""
        self.check_open()

    def backup(self, to: str | Path, progress: Callable[[int, int], object] | None) -> None:
        """Raise `BadValue`, which names PostgreSQL's own tool."""
        self._refuse(f"pg_dump --format=custom --file={to}")

    def check(self, progress: Callable[[int], object] | None) -> CheckReport:
        """Raise `BadValue`, which names PostgreSQL's own tool."""
        self._refuse("pg_amcheck")

    def _refuse(self, instead: str) -> NoReturn:
        self.check_open()
        raise BadValue(f"{self._where} is no file of Sqew's. PostgreSQL's own tool does this: {instead}.")

    def export(self, queue: str) -> Iterator[Message]:
        """Yield the messages of a queue in the order of their ids. Messages sent meanwhile are left out."""
        up_to = self.run(LastId())
        after: int | None = 0
        while after is not None:
            page = self.run(Scan(queue, after, up_to, _PAGE))
            yield from page.messages
            after = page.after

    def export_archive(self, queue: str) -> Iterator[ArchivedMessage]:
        """Yield the archived messages of a queue in the order of their ids."""
        after: int | None = 0
        while after is not None:
            page = self.run(ListArchive(queue, _PAGE, after))
            yield from page.messages
            after = page.after

    def close(self) -> None:
        """Finish what was begun and disconnect, once. In a forked child nothing is touched: it is the parent's."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def check_open(self) -> None:
        """Raise `StoreClosed` unless this process has the queue open.

        Call it before taking the lock: in a forked child, the thread that holds the lock may not exist.
        """
        check_usable(self._pid, self._closed, self._where)

    def check_outside(self, what: str) -> None:
        """Do nothing: a database has no `transaction` that a thread could be in."""
