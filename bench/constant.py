"""The ceiling of the HTTP benchmark: Sqew's own connection, which answers every request with the same few bytes.

A send costs more than this by the router, the guard, JSON and the queue itself.
"""

from __future__ import annotations

import asyncio
import sys

from sqew.errors import SqewError
from sqew.http.statuses import status_of
from sqew.http.wire.contract import ConnectionLimits
from sqew.http.wire.exchange import Request, Response
from sqew.http.wire.server import Server, raise_file_limit

ANSWER = Response(201, b'{"message_id":12345,"duplicate":false}')


class Constant:
    """Implementation of `sqew.http.wire.contract.Application`."""

    def begin(self, request: Request) -> None:
        request.id = request.connection.server.new_id()

    def expect_large(self, request: Request) -> None:
        """Allow any body."""

    def handle(self, request: Request) -> None:
        request.connection.respond(request, ANSWER)

    def handler_of_head(self, _request: Request) -> None:
        return None

    def keep_up(self) -> None:
        pass

    def refuse(self, request: Request, error: SqewError) -> None:
        request.connection.respond(request, Response(status_of(error), str(error).encode()))


async def _serve(port: int) -> None:
    server = Server(Constant(), ConnectionLimits())
    await server.listen("127.0.0.1", port)
    while True:
        await asyncio.sleep(1)
        server.tick()


def main(port: int) -> None:
    import uvloop

    raise_file_limit()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(port))


if __name__ == "__main__":
    main(int(sys.argv[1]))
