"""A wire between a server and its database that breaks at an exact moment, and both ends notice."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

COMMIT = b"COMMIT\0"
_KEPT = 4_096
"""Bytes sent that are remembered: what is looked for may come in two pieces."""


class _Plan(NamedTuple):
    """A plan of when to cut: after a connection has sent one thing, and then (or with it) another."""

    first: bytes
    then: bytes
    is_heard: bool
    """True if the database still gets ``then``: it acts on it, and its answer is lost."""


class Cutter:
    """A proxy before a database. It passes everything on until it is given something to cut at."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port
        self._plan: _Plan | None = None
        self._cut = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def cut_answer(self, first: bytes, then: bytes = b"") -> None:
        """Lose the answer to ``then`` on the connection that sent ``first`` before it (or: to that itself)."""
        self._arm(_Plan(first, then, is_heard=True))

    def cut_question(self, first: bytes, then: bytes = b"") -> None:
        """Do the same, but lose ``then`` itself: the database never gets it."""
        self._arm(_Plan(first, then, is_heard=False))

    def _arm(self, plan: _Plan) -> None:
        self._cut.clear()
        self._plan = plan

    def has_cut(self, within: float = 20) -> bool:
        """Return True if the cut comes in time."""
        return self._cut.wait(within)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._lead(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # A task that is cancelled before it has begun closes nothing itself.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends, cut = [writer], asyncio.Event()
        try:
            beyond, to_beyond = await asyncio.open_connection(self._host, self._port)
            ends.append(to_beyond)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._ask(reader, to_beyond, cut))
                both.create_task(self._answer(beyond, writer, cut))
        except* OSError:
            pass  # one of them has gone, or it was cut
        finally:
            for end in ends:
                end.transport.abort()
            for end in ends:
                # Aborted, it is closed a moment later: the loop must not end before.
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        said, is_marked, followed = b"", False, None
        while data := await reader.read(65_536):
            plan = self._plan
            if plan is not followed:
                # A token was said when its message was claimed, too: an upkeep statement next must not be cut for it.
                said, is_marked, followed = b"", False, plan
            said = (said + data)[-max(_KEPT, len(data)) :]
            if plan is not None and not is_marked and plan.first in said:
                is_marked, said = True, said.partition(plan.first)[2]
            if plan is not None and is_marked and plan.then in said:
                self._plan = None
                if not plan.is_heard:
                    self._cut.set()
                    raise ConnectionAbortedError
                cut.set()
            writer.write(data)
        raise ConnectionAbortedError

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        while data := await reader.read(65_536):
            if cut.is_set():
                # It has done it.
                self._cut.set()
                raise ConnectionAbortedError
            writer.write(data)
        raise ConnectionAbortedError


@contextlib.contextmanager
def cutter(url: str) -> Iterator[tuple[Cutter, str]]:
    """Run a wire to a database in a thread of its own, and yield it with the URL that leads through it."""
    wire = Cutter(url)
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    ports: list[int] = []
    ready = threading.Event()

    async def serve() -> None:
        server = await asyncio.start_server(wire.accept, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        server.close()
        await wire.end()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    try:
        yield wire, url.replace(f":{urlsplit(url).port}", f":{ports[0]}")
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()
