"""Running a server on a file until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import ssl
from collections.abc import Callable

from sqew.broker import Broker
from sqew.engine import limits_of, open_file
from sqew.errors import BadSetting, SqewError, StoreClosed
from sqew.http.app import App
from sqew.http.auth import Guard
from sqew.http.connection import Bounds
from sqew.http.dialects import hq, sqew
from sqew.http.router import Router
from sqew.http.server import Server, raise_file_limit
from sqew.http.service import Service
from sqew.settings import Settings

_log = logging.getLogger("sqew.server")
_TICK_S = 1.0


def serve(settings: Settings, ready: Callable[[list[str]], None]) -> None:
    """Serve until SIGTERM or SIGINT. ``ready`` is called with the addresses once it listens."""
    raise_file_limit()
    # What is there now stays; and requests leave no cycles behind, so the collector need not look every 700 objects.
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve(settings, ready))
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, ready))


async def _serve(settings: Settings, ready: Callable[[list[str]], None]) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tls = tls_context(settings)
    engine, _ = open_file(settings)
    broker = Broker(engine, limits_of(settings))
    try:
        server = make_server(broker, settings)
        ready(await server.listen(settings.host, settings.port, tls, settings.unix_socket or None))
        upkeep = asyncio.create_task(_keep_up(server, broker))
        told = asyncio.create_task(stopped.wait())
        await asyncio.wait({told, upkeep}, return_when=asyncio.FIRST_COMPLETED)
        broker.dismiss()
        if not await server.drain(settings.drain_ms / 1000):
            _log.warning("some requests were not answered within drain_ms; they are cut off")
        if upkeep.done():
            # The store has failed for good: whoever watches over this process must start it anew.
            upkeep.result()
        upkeep.cancel()
    finally:
        await broker.close()


def make_server(broker: Broker, settings: Settings) -> Server:
    """A server for all dialects, not listening yet."""
    router = Router()
    for routes in (sqew.routes, hq.routes):
        router.include(routes)
    service = Service(broker, settings, router)
    application = App(service, Guard(settings), fallback=sqew.DIALECT)
    bounds = Bounds(
        header_s=settings.header_timeout_ms / 1000,
        body_s=settings.body_timeout_ms / 1000,
        idle_s=settings.idle_timeout_ms / 1000,
        max_body_bytes=settings.max_request_bytes,
        max_connections=settings.max_connections,
    )
    return Server(application, bounds)


async def _keep_up(server: Server, broker: Broker) -> None:
    """Once a second: deadlines, and the sweeping that an idle server would never come to."""
    while True:
        await asyncio.sleep(_TICK_S)
        server.tick()
        try:
            await broker.keep_up()
        except StoreClosed:
            raise
        except SqewError as error:
            _log.warning("upkeep: %s", error)


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """What HTTPS needs, if it is wanted."""
    if not settings.tls_cert and not settings.tls_key:
        return None
    if not settings.tls_cert or not settings.tls_key:
        raise BadSetting("HTTPS needs both tls_cert and tls_key. Give the other one too.")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise BadSetting(
            f"The certificate {settings.tls_cert} and its key {settings.tls_key} can't be used ({error}). "
            "Both must be PEM files that belong together."
        ) from error
    return context
