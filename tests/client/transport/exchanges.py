"""Transports of both kinds, driven by the same calls, and servers that send exactly the bytes they are given."""

import asyncio
import contextlib
import socket
import threading

import uvloop

from sqew.client.transport.route import ServerRoute, Timeouts
from sqew.client.transport.sockets import BlockingTransport
from sqew.client.transport.streams import LoopedTransport

KINDS = ["threads", "asyncio", "uvloop"]
AMPLE = Timeouts(20, 20, 20)


class InThreads:
    """A transport for threads."""

    def __init__(self, base, **options):
        self.transport = BlockingTransport(ServerRoute(base, {}, **options))

    @contextlib.contextmanager
    def begun(self, target="/", *, method="GET", headers=None, body=None, timeouts=AMPLE):
        """Yield an exchange after the head of its answer: the response and the pieces of its body."""
        response = self.transport.send(method, target, headers or {}, body, timeouts)
        try:
            yield response, response.pieces()
        finally:
            response.close()

    def ask(self, target="/", **request):
        """Return the status and the body of an answer."""
        with self.begun(target, **request) as (response, _):
            return response.status, response.read()

    def at_once(self, targets):
        """Send requests at the same time, and return the bodies of the answers."""
        found = {}

        def ask(target):
            found[target] = self.ask(target)[1]

        threads = [threading.Thread(target=ask, args=(target,)) for target in targets]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found.get(target) for target in targets]

    def settle(self):
        """Run callbacks that are due; with threads there are none."""

    def close(self):
        self.transport.close()


class InLoop:
    """A transport for a loop, which runs until each exchange is done."""

    def __init__(self, base, *, loop_factory, **options):
        self.runner = asyncio.Runner(loop_factory=loop_factory)
        self.transport = LoopedTransport(ServerRoute(base, {}, **options))

    @contextlib.contextmanager
    def begun(self, target="/", *, method="GET", headers=None, body=None, timeouts=AMPLE):
        content = body if body is None or isinstance(body, bytes) else _awaited(body)
        response = self.runner.run(self.transport.send(method, target, headers or {}, content, timeouts))
        pieces = response.pieces()
        try:
            yield response, self._going_through(pieces)
        finally:
            response.close()
            self.settle()

    def _going_through(self, pieces):
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield self.runner.run(anext(pieces))

    def ask(self, target="/", **request):
        with self.begun(target, **request) as (response, _):
            return response.status, self.runner.run(response.read())

    def at_once(self, targets):
        async def ask(target):
            response = await self.transport.send("GET", target, {}, None, AMPLE)
            try:
                return await response.read()
            finally:
                response.close()

        async def ask_all():
            return await asyncio.gather(*map(ask, targets))

        return self.runner.run(ask_all())

    def settle(self):
        self.runner.run(asyncio.sleep(0.001))

    def close(self):
        self.runner.run(self.transport.close())
        self.runner.close()


async def _awaited(parts):
    for part in parts:
        yield part


@contextlib.contextmanager
def exchanging(kind, base, **options):
    """Yield a transport of a kind, and close it in the end."""
    if kind == "threads":
        made = InThreads(base, **options)
    else:
        factory = uvloop.new_event_loop if kind == "uvloop" else asyncio.new_event_loop
        made = InLoop(base, loop_factory=factory, **options)
    try:
        yield made
    finally:
        made.close()


class Listener:
    """A server that passes each connection to a function, in a thread of its own, and closes it when that returns."""

    def __init__(self, handle, tls=None):
        self._handle, self._tls = handle, tls
        self.connections = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self._socket.getsockname()[1]
        self.host = "127.0.0.1" if tls is None else "localhost"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self):
        return f"{'http' if self._tls is None else 'https'}://{self.host}:{self.port}"

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                thread = threading.Thread(target=self._run, args=(connection, len(self.connections)))
                self.connections.append(connection)
                self._threads.append(thread)
                thread.start()

    def _run(self, connection, number):
        # What the client does to the connection is for the test to judge.
        with contextlib.suppress(OSError):
            if self._tls is not None:
                connection.settimeout(10)
                connection = self.connections[number] = self._tls.wrap_socket(connection, server_side=True)
            self._handle(connection)
        connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for listening in (self._socket, *self.connections):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(listening, socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()


def request_on(connection):
    """Return the next request: its first line, its headers and its body; None at the end."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte:
            return None
        head += byte
    line, *fields = head.decode().split("\r\n")[:-2]
    headers = dict(field.split(": ", 1) for field in fields)
    if headers.get("transfer-encoding") == "chunked":
        return line, headers, b"".join(iter(lambda: _chunk_on(connection), b""))
    return line, headers, _exactly(connection, int(headers.get("content-length", 0)))


def _chunk_on(connection):
    size = b""
    while not size.endswith(b"\r\n"):
        size += _exactly(connection, 1)
    return _exactly(connection, int(size, 16) + 2)[:-2]


def _exactly(connection, size):
    body = b""
    while len(body) < size:
        piece = connection.recv(size - len(body))
        if not piece:
            raise ConnectionError("the request was cut off")
        body += piece
    return body


def answer(body, status="200 OK", *headers):
    """Return an answer with a content length."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def says(data):
    """Return a handler that answers every request on a connection with the same bytes."""

    def handle(connection):
        while request_on(connection):
            connection.sendall(data)

    return handle


def says_once(data):
    """Return a handler that answers with these bytes, and hangs up."""

    def handle(connection):
        request_on(connection)
        connection.sendall(data)

    return handle


def echoes(connection):
    """Answer every request with its path and its body."""
    while asked := request_on(connection):
        line, _, body = asked
        connection.sendall(answer(line.split(" ")[1].encode() + body))
