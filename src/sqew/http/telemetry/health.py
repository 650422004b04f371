"""Health of the server: for whatever starts, watches and restarts it. Open to all."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, UnsetType

from sqew import __version__
from sqew.errors import SqewError, StoreFull, StoreUnavailable
from sqew.http.router import Dialect, Routes
from sqew.http.service import NO_STORE, Service
from sqew.http.statuses import COME_BACK
from sqew.http.wire.exchange import Request, Response

encode = msgspec.json.Encoder().encode


class OpsHealth(Struct):
    """`ok`, or `degraded` and why."""

    status: str
    version: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


def _failure(error: SqewError, _status: int) -> bytes:
    return encode(OpsHealth("degraded", error=error.public_text))


DIALECT = Dialect("Ops", "Health, for load balancers and supervisors.", _failure, OpsHealth)
routes = Routes(DIALECT)


@routes.get("/livez", scope="open", answers={200: OpsHealth})
def livez(_service: Service, _request: Request) -> Response:
    """Check that the server runs, whatever the state of its store: restart it when this fails."""
    return Response(200, encode(OpsHealth("ok", __version__)), headers=NO_STORE)


@routes.get("/healthz", scope="open", answers={200: OpsHealth, 503: OpsHealth})
async def healthz(service: Service, _request: Request) -> Response:
    """Check that the server runs and its store can be used."""
    return await _store_health(service)


@routes.get("/readyz", scope="open", answers={200: OpsHealth, 503: OpsHealth})
async def readyz(service: Service, request: Request) -> Response:
    """Check that the server should get requests: its store can be used, and it is not about to stop."""
    if request.connection.server.is_draining:
        return _degraded("The server is stopping. Use another, or wait until it has started again.")
    return await _store_health(service)


async def _store_health(service: Service) -> Response:
    try:
        await service.check_store()
    except StoreUnavailable:
        return _degraded("The database does not answer just now. The server's log says why.")
    except StoreFull:
        return _degraded("The store has no room left. Free some on its disk.")
    except SqewError:
        return _degraded("The store does not answer. The server's log says why.")
    return Response(200, encode(OpsHealth("ok", __version__)), headers=NO_STORE)


def _degraded(why: str) -> Response:
    return Response(503, encode(OpsHealth("degraded", __version__, why)), headers=(*NO_STORE, *COME_BACK))
