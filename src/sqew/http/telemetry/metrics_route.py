"""`/metrics`, for Prometheus."""

from __future__ import annotations

from sqew.http.router import Routes
from sqew.http.service import Service
from sqew.http.telemetry.health import DIALECT
from sqew.http.wire.exchange import Request, Response
from sqew.observe.exposition import CONTENT_TYPE

routes = Routes(DIALECT)


@routes.get("/metrics", scope="open", answers={200: "text/plain"}, long=True)
async def metrics(service: Service, request: Request) -> Response:
    """Return requests, durations, depths and totals in the text format of Prometheus. Needs no token."""
    text = await service.scraper.render(request.connection.server.connections)
    return Response(200, text, CONTENT_TYPE.encode())
