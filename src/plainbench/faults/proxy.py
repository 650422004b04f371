"""A TCP proxy between the actors and a server, which treats the traffic as a bad network would.

It runs in a thread of the lab's own process, outside both sides, so neither knows. The seed decides, per connection
and answer, which answers are slow or cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from plainbench.config.model import Network
from plainbench.faults.latency import Latencies
from plainbench.run.context import RunContext

_READ_BYTES = 64 * 1024
_STALL_LOOK_S = 0.01


class Proxy:
    """A proxy that passes connections on to one address."""

    def __init__(self, context: RunContext, host: str, port: int) -> None:
        self._context, self._network = context, context.config.faults.network
        self._host, self._port = host, port
        self._numbers = itertools.count()
        self._stalled: set[int] = set()

    async def serve(self, listening: socket.socket) -> asyncio.Server:
        return await asyncio.start_server(self._accept, sock=listening)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self._context, self._network, next(self._numbers), self)
        try:
            await connection.carry(reader, writer, self._host, self._port)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    async def pass_stall(self) -> None:
        """Wait while nothing gets through."""
        while (window := self._stall()) is not None:
            if window not in self._stalled:
                self._stalled.add(window)
                self._context.note(
                    "stall", "network", "network/stall", window, ms=self._network.stall[window].for_s * 1000
                )
            await asyncio.sleep(_STALL_LOOK_S)

    def _stall(self) -> int | None:
        now_s = self._context.time.now_us() / 1e6
        for place, window in enumerate(self._network.stall):
            is_now = window.at_s <= now_s < window.at_s + window.for_s
            if is_now and self._context.allows("network/stall", place):
                return place
        return None


class _Connection:
    """A connection, both ways. Data that comes back from the server in one piece is an answer."""

    def __init__(self, context: RunContext, network: Network, number: int, proxy: Proxy) -> None:
        self._context, self._network, self._proxy = context, network, proxy
        self._stream = f"network/{number}"
        streams = context.streams
        self._latencies = None
        if network.latency is not None:
            generator = streams.generator("network", "latency", number)
            self._latencies = Latencies(network.latency, generator, context.folder)
        self._resets = streams.dice("network", "reset", number)
        self._answers = 0
        self._recorded: set[str] = set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, port)
        try:
            ways = [
                asyncio.ensure_future(self._way(reader, there_writer, self._nothing)),
                asyncio.ensure_future(self._way(there_reader, writer, self._answer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            there_writer.close()
            writer.close()

    async def _way(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, before: Callable[[], Awaitable[None]]
    ) -> None:
        while data := await reader.read(_READ_BYTES):
            await self._proxy.pass_stall()
            try:
                await before()
            except _Reset:
                # Half of the answer gets through: that is where it hurts.
                writer.write(data[: len(data) // 2])
                _reset(writer)
                raise
            await self._write(writer, data)

    async def _nothing(self) -> None:
        pass

    async def _answer(self) -> None:
        """Delay the next answer, or raise `_Reset`, as the seed decides."""
        self._answers += 1
        index = self._answers
        delay_ms = 0.0 if self._latencies is None else self._latencies.draw_ms()
        reset = self._resets.roll() < self._network.reset_rate
        if delay_ms and self._allowed("latency", index):
            self._context.note("latency", "network", f"{self._stream}/latency", index, round(delay_ms, 3))
            await asyncio.sleep(delay_ms / 1000)
        if reset and self._allowed("reset", index):
            self._context.note("reset", "network", f"{self._stream}/reset", index)
            raise _Reset

    def _allowed(self, fault: str, index: int) -> bool:
        return self._context.allows(f"{self._stream}/{fault}", index)

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        rate = self._network.bytes_per_s
        for piece in self._pieces(data):
            # The shortest rest keeps pieces from being put together again on their way.
            await asyncio.sleep(len(piece) / rate if rate else 0)
            writer.write(piece)
            await writer.drain()

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        slice_, rate = self._network.slice_bytes, self._network.bytes_per_s
        if slice_ and len(data) > slice_:
            self._note_once("slice")
        if rate:
            self._note_once("limit")
        # At a limited rate what passes at once is no more than it allows in a twentieth of a second.
        size = min(slice_ or len(data), max(1, rate // 20) if rate else len(data))
        return (data[start : start + size] for start in range(0, len(data), size))

    def _note_once(self, what: str) -> None:
        """Record a fault that affects everything on a connection: once for each connection."""
        if what not in self._recorded:
            self._recorded.add(what)
            self._context.note(what, "network", f"{self._stream}/{what}", 1)


class _Reset(Exception):
    """A decision to cut the connection off."""


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        # To linger for no time means RST instead of FIN.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def proxied(context: RunContext, host: str, port: int) -> Iterator[int]:
    """Start a proxy on this machine that leads to the address, and yield its port."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    # Connections inherit it. Without it each answer in several pieces would wait 40 ms for nothing.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    loop = asyncio.new_event_loop()
    proxy = Proxy(context, host, port)
    server = loop.run_until_complete(proxy.serve(listening))
    thread = threading.Thread(target=loop.run_forever, name="plainbench proxy", daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(_end(server))
        loop.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    connections = asyncio.all_tasks() - {asyncio.current_task()}
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
    # What was closed is really closed a turn later.
    await asyncio.sleep(0)
