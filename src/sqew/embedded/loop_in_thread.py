"""Queues in a database for many threads: the engine lives in an event loop, and that in a thread of its own."""

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
"""How many messages an export reads at a time: each may be large."""


class LoopInThread:
    """An engine on a database for many threads. Implements `sqew.core.thread_executors.ThreadExecutor`.

    What threads ask for at the same time goes to the database together. An interrupt (Ctrl-C) may come at any time:
    what was not begun is not done then, and what was received is given back.
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
        """All that the thread does."""
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
        """Once a second: store the figures, and sweep what time has ended. There may be no server that would."""
        while True:
            try:
                await self._broker.keep_up()
            except SqewError as error:
                _log.warning("upkeep failed: %s", error)
            except Exception:  # noqa: BLE001 (what is over must be swept all the same)
                _log.exception("upkeep failed")
            await asyncio.sleep(UPKEEP_EVERY_MS / 1000)

    def run(self, operation: Operation[R]) -> R:
        """One operation: its result, or its error raised."""
        result: R = self._wait_for(self._carry_out, operation)
        return result

    def send_plain(self, queue: str, body: bytes, format: Format) -> int | None:
        """To the database there is but one way."""
        return None

    def run_all(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        """Operations one after the other: their results, or the first of their errors raised."""
        return self._wait_for(self._carry_out_all, operations)

    async def _carry_out_all(self, operations: Sequence[Operation[Any]]) -> list[Any]:
        return [await self._carry_out(operation) for operation in operations]

    async def _carry_out(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, Receive):
            # Unlike `run`, it gives back what nobody is there to take.
            return await self._broker.receive(operation)
        return await self._broker.run(operation)

    def _wait_for(self, work: Callable[..., Coroutine[Any, Any, R]], *arguments: Any) -> R:
        """Have something done in the loop, and wait for it here."""
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
        """Refused: the caller's own writes are not on these connections."""
        raise BadValue(
            "transaction() joins your own writes to a queue in the same file; a queue in PostgreSQL is in no file. "
            "Use enqueue_many and ack_many, and give messages a key so that sending them again does no harm."
        )

    def flush(self) -> None:
        """Store the figures that are still in memory."""
        self._wait_for(self.engine.flush)

    def idle(self) -> None:
        """The database tidies up by itself."""

    def maintain(self) -> None:
        """The database's autovacuum does that."""
        self.check_open()

    def backup(self, to: str | Path, progress: Callable[[int, int], object] | None) -> None:
        """Refused: PostgreSQL has tools for it."""
        self._refuse(f"pg_dump --format=custom --file={to}")

    def check(self, progress: Callable[[int], object] | None) -> CheckReport:
        """Refused: PostgreSQL has tools for it."""
        self._refuse("pg_amcheck")

    def _refuse(self, instead: str) -> NoReturn:
        self.check_open()
        raise BadValue(f"{self._where} is no file of Sqew's. PostgreSQL's own tool does this: {instead}.")

    def export(self, queue: str) -> Iterator[Message]:
        """The messages of a queue in the order of their ids. What is sent meanwhile is not among them."""
        up_to = self.run(LastId())
        after: int | None = 0
        while after is not None:
            page = self.run(Scan(queue, after, up_to, _PAGE))
            yield from page.messages
            after = page.after

    def export_archive(self, queue: str) -> Iterator[ArchivedMessage]:
        """The archived messages of a queue in the order of their ids."""
        after: int | None = 0
        while after is not None:
            page = self.run(ListArchive(queue, _PAGE, after))
            yield from page.messages
            after = page.after

    def close(self) -> None:
        """Finish what was begun and hang up, once. In a forked child nothing is touched: it is the parent's."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def check_open(self) -> None:
        """Raise `StoreClosed` unless this process has the queue open.

        To be asked before the lock is taken: in a forked child, the thread that holds it may not exist.
        """
        check_usable(self._pid, self._closed, self._where)

    def check_outside(self, what: str) -> None:
        """There is no `transaction` that a thread could be in."""
