"""A server's run, on a file or a database, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sqew import __version__
from sqew.background.service import Background
from sqew.core.broker import Broker
from sqew.core.engine import Engine, RemoteEngine, limits_of, open_database, open_file
from sqew.envelopes.sns import reachable
from sqew.errors import BadSetting, OutcomeUnknown, SqewError, StoreClosed, StoreTooNew, StoreUnavailable
from sqew.http.app import App
from sqew.http.dialects import sqew
from sqew.http.routes import make_router
from sqew.http.security.guard import Guard, check_exposure
from sqew.http.service import Service
from sqew.http.wire.contract import ConnectionLimits
from sqew.http.wire.server import Server, raise_file_limit
from sqew.ids import MessageUuids
from sqew.observe.log import announce, logging_to_stderr
from sqew.observe.tracing import Tracing, tracing_of
from sqew.operations import ReadSalt, Sweep
from sqew.settings import Settings, without_password

_log = logging.getLogger("sqew.server")
R = TypeVar("R")

_TICK_S = 1.0
_START_S = 30.0
"""Seconds that a server tries to start on a database that goes away meanwhile."""
_LATE_S = 0.5
"""Seconds that the loop may be late for its next tick before that is logged: something held it up."""


Ready = Callable[[list[str], str], None]


def serve(settings: Settings, ready: Ready, notices: Sequence[str] = ()) -> None:
    """Serve until SIGTERM or SIGINT; a second signal ends it at once.

    When the server listens, ``ready`` gets its addresses and the place of the queues if the log is for people; a log in
    JSON has a line for that. ``notices`` are logged as warnings.
    """
    if settings.linger_ms and not settings.database_url:
        raise BadSetting(
            f"linger_ms can't be {settings.linger_ms} ms here ({settings.sources.get('linger_ms')}): the queues are in "
            "a file, where what arrives together is stored together and nothing waits for more. Leave it out."
        )
    raise_file_limit()
    # What is there now stays; and requests leave no cycles behind, so the collector need not look every 700 objects.
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    with contextlib.suppress(ImportError):
        from uvloop import new_event_loop as new_loop
    with (
        logging_to_stderr(settings.log_level, settings.log_format),
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        try:
            for notice in notices:
                _log.warning(notice)
            runner.run(_serve(settings, ready))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None


async def _serve(settings: Settings, ready: Ready) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    main = asyncio.current_task()
    assert main is not None

    def stop() -> None:
        if stopped.is_set():
            main.cancel()
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    check_exposure(settings)
    if settings.aws_credentials and not settings.auth_token:
        _log.warning("aws_credentials guard SQS and SNS only: without auth_token every other dialect is open")
    tls = tls_context(settings)
    tracing = tracing_of(settings, __version__)
    engine = (
        await _in_time(lambda: open_database(settings), stopped, was_there=False)
        if settings.database_url
        else open_file(settings)[0]
    )
    broker = Broker(engine, limits_of(settings))
    try:
        guard = Guard(settings, broker)
        salt = await _in_time(lambda: _look_around(engine, broker, guard), stopped)
        service = make_service(broker, settings, guard, MessageUuids(salt), tracing)
        server = make_server(service, guard)
        addresses = await server.listen(settings.host, settings.port, tls, settings.unix_socket or None)
        place = _place(settings)
        facts = {"version": __version__, "pid": os.getpid(), **place, "durability": settings.durability}
        if not announce("listening", {**facts, "addresses": addresses}):
            ready(addresses, next(iter(place.values())))
        service.publisher.flows.base_url = settings.base_url or reachable(addresses[0])
        background = Background(service)
        upkeep = asyncio.create_task(_keep_up(server, broker, guard))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait({stopping, upkeep, *background.tasks}, return_when=asyncio.FIRST_COMPLETED)
        waited_for = {"connections": len(server.connections), "deliveries": background.deliveries}
        _log.info("draining", extra={"fields": waited_for})
        broker.dismiss()
        drained, _ = await asyncio.gather(
            server.drain(settings.drain_ms / 1000), background.stop(settings.drain_ms / 1000)
        )
        if not drained:
            _log.warning("some requests were not answered within drain_ms; they are cut off")
        for task in (upkeep, *background.tasks):
            if task.done() and not task.cancelled():
                # The store has failed for good: whoever watches over this process must start it anew.
                task.result()
        upkeep.cancel()
    finally:
        await broker.close()
        if tracing is not None:
            tracing.close()
    _log.info("stopped")


async def _look_around(engine: Engine | RemoteEngine, broker: Broker, guard: Guard) -> int:
    """Check the store now, rather than with the first client; return the salt of its ids."""
    if isinstance(engine, RemoteEngine):
        await engine.store.check_space()
    await guard.keep_up()
    # It could be written to: that a standby is away keeps nobody from starting.
    with contextlib.suppress(OutcomeUnknown):
        await broker.run(Sweep())
    return await broker.run(ReadSalt())


async def _in_time(begin: Callable[[], Awaitable[R]], stopped: asyncio.Event, was_there: bool = True) -> R:
    """Begin, and retry for a while if the database was there and has gone: it may be starting as well."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _START_S
    while True:
        try:
            return await begin()
        except StoreUnavailable as error:
            was_there = was_there or error.was_there
            if not was_there or stopped.is_set() or loop.time() > deadline:
                raise
            _log.warning("the database went away while the server starts", extra={"fields": {"error": str(error)}})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TICK_S):
                await stopped.wait()


def _place(settings: Settings) -> dict[str, str]:
    """Return the place of the queues, as the log may show it."""
    if settings.database_url:
        return {"database": without_password(settings.database_url)}
    return {"db": settings.db}


def make_service(
    broker: Broker, settings: Settings, guard: Guard, uuids: MessageUuids, tracing: Tracing | None = None
) -> Service:
    """Return the service that the handlers of all dialects work with."""
    service = Service(broker, settings, make_router(), guard.keys, guard.backpressure, uuids, tracing)
    broker.observe_batch = service.counters.observe_batch
    return service


def make_server(service: Service, guard: Guard) -> Server:
    """Return a server for all dialects, not listening yet."""
    settings = service.settings
    application = App(service, guard, fallback=sqew.DIALECT)
    bounds = ConnectionLimits(
        header_s=settings.header_timeout_ms / 1000,
        body_s=settings.body_timeout_ms / 1000,
        idle_s=settings.idle_timeout_ms / 1000,
        write_s=settings.write_timeout_ms / 1000,
        max_body_bytes=settings.max_request_bytes,
        # One of the largest must have room.
        max_buffered_bytes=max(settings.max_buffered_bytes, settings.max_request_bytes),
        max_connections=settings.max_connections,
    )
    return Server(application, bounds)


async def _keep_up(server: Server, broker: Broker, guard: Guard) -> None:
    """Enforce deadlines, load changed keys, and sweep, which an idle server would never come to: once a second."""
    while True:
        due = server.now() + _TICK_S
        await asyncio.sleep(_TICK_S)
        if (late_s := server.now() - due) >= _LATE_S:
            _log.warning("slow tick", extra={"fields": {"late_ms": round(late_s * 1000)}})
        server.tick()
        try:
            await asyncio.gather(broker.keep_up(), guard.keep_up())
        except (StoreClosed, StoreTooNew):
            raise
        except StoreUnavailable as error:
            # The store says so itself, once and not every second.
            _log.debug("upkeep has to wait: %s", error)
        except SqewError as error:
            _log.warning("upkeep failed", extra={"fields": {"error": str(error), "code": error.code}})
        except Exception:  # noqa: BLE001 (a mistake in the code must not take down a server that answers requests)
            _log.exception("upkeep met a mistake in the code and has to wait")


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context for HTTPS, or None if it is not set up."""
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
