"""A small application on a real server, in a thread of this process: connections, without queues behind them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator

from sqew.errors import SqewError, Unauthorized
from sqew.http.wire.contract import ConnectionLimits
from sqew.http.wire.exchange import TEXT, BodyStream, Request, Response, Stream
from sqew.http.wire.server import Server

LOOPS = ["asyncio", "uvloop"]
CHUNK = b"x" * 65_536


class Echo:
    """An application that answers by path. Gated requests wait until the test opens the gate."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.handled: list[bytes] = []
        self.uploaded = self.streamed = 0
        self.cut_off: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def expect_large(self, request: Request) -> None:
        """Accept any body."""

    def begin(self, request: Request) -> None:
        request.id = b"test"
        if request.path == b"/private":
            raise Unauthorized("Not for you.")
        if request.path.startswith(b"/upload"):
            request.stream = BodyStream(request.connection)

    def handle(self, request: Request) -> None:
        self.handled.append(request.path)
        if request.refusal is not None:
            request.connection.respond(request, self.failure(request, request.refusal))
        elif request.path in (b"/gated", b"/stream", b"/endless", b"/broken", b"/upload", b"/upload-gated"):
            request.task = asyncio.get_running_loop().create_task(self._carry_out(request))
            self._tasks.add(request.task)
            request.task.add_done_callback(self._tasks.discard)
        elif request.path == b"/upload-refused":
            request.connection.respond(request, Response(409, b"no", TEXT))
        elif request.path == b"/big":
            request.connection.respond(request, Response(200, b"x" * 8_000_000, TEXT))
        elif request.path == b"/nothing":
            request.connection.respond(request, Response(204))
        else:
            said = request.method + b" " + request.path + b" " + request.query + b" " + request.body
            request.connection.respond(request, Response(200, said, TEXT))

    def handler_of_head(self, _request: Request) -> None:
        return None

    def keep_up(self) -> None:
        pass

    def refuse(self, request: Request, error: SqewError) -> None:
        request.connection.respond(request, self.failure(request, error))

    def failure(self, _request: Request, error: SqewError) -> Response:
        status = {"too_large": 413, "headers_too_large": 431, "request_timeout": 408, "unauthorized": 401}
        return Response(status.get(error.code, 400), str(error).encode(), TEXT)

    async def _carry_out(self, request: Request) -> None:
        try:
            answer = await self._answer(request)
        except SqewError as error:
            answer = self.failure(request, error)
        except asyncio.CancelledError:
            self.cut_off.append(request.path.decode())
            raise
        if isinstance(answer, Response):
            request.connection.respond(request, answer)
            return
        with contextlib.suppress(ZeroDivisionError):
            await request.connection.stream(request, answer)

    async def _answer(self, request: Request) -> Response | Stream:
        if request.path == b"/gated" or request.path == b"/upload-gated":
            await self.gate.wait()
        if request.stream is not None:
            size = 0
            async for chunk in request.stream:
                size += len(chunk)
                self.uploaded += len(chunk)
            return Response(200, b"%d bytes" % size, TEXT)
        if request.path == b"/gated":
            return Response(200, b"open", TEXT)
        return Stream(self._chunks(request.path), TEXT)

    async def _chunks(self, path: bytes) -> AsyncIterator[bytes]:
        if path == b"/stream":
            for piece in (b"one,", b"", b"two,", b"three"):
                yield piece
        elif path == b"/broken":
            yield b"half"
            raise ZeroDivisionError
        while path == b"/endless":
            self.streamed += len(CHUNK)
            yield CHUNK
            await asyncio.sleep(0)


class Running:
    """The server, as a test sees it from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: Server, echo: Echo, port: int) -> None:
        self.loop, self.server, self.echo, self.port = loop, server, echo, port
        self.tls: ssl.SSLContext | None = None

    def connect(self, timeout: float = 10) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout)
        if self.tls is None:
            return plain
        return self.tls.wrap_socket(plain, server_hostname="localhost")

    def talk(self, raw: bytes) -> bytes:
        """Send bytes, and read until the server closes."""
        with self.connect() as connection:
            connection.sendall(raw)
            return read_all(connection)

    def run(self, action: Callable[[], object]) -> None:
        """Run a function in the server's thread."""
        asyncio.run_coroutine_threadsafe(_call(action), self.loop).result(10)

    def open_gate(self) -> None:
        self.run(self.echo.gate.set)


async def _call(action: Callable[[], object]) -> None:
    action()


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(1_048_576):
        received += chunk
    return received


def read_until(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while not received.endswith(end):
        chunk = connection.recv(1_048_576)
        assert chunk, f"closed after {received[:2_000]!r}"
        received += chunk
    return received


@contextlib.contextmanager
def echoing(
    loop: str = "asyncio",
    bounds: ConnectionLimits | None = None,
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
) -> Iterator[Running]:
    """Run the application for the block. Deadlines are checked every 20 ms, so that they may be short."""
    started: list[Running] = []
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        echo = Echo()
        server = Server(echo, bounds or ConnectionLimits())
        (address,) = await server.listen("127.0.0.1", 0, tls[0] if tls else None)
        started.append(Running(asyncio.get_running_loop(), server, echo, int(address.rpartition(":")[2])))
        ready.set()
        while not stop.is_set():
            server.tick()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await stop.wait()
        await server.drain(0.5)

    def run() -> None:
        import uvloop

        factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    running = started[0]
    running.tls = tls[1] if tls else None
    try:
        yield running
    finally:
        running.loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()
