"""Routes of every dialect, and of the pages beside them."""

from __future__ import annotations

from sqew.http.dialects import hq, mailbox, sqew, web
from sqew.http.dialects.aws import gateway
from sqew.http.dialects.native import (
    archive,
    certificates,
    consumers,
    deliveries,
    events,
    export,
    messages,
    queues,
    schedules,
    writers,
)
from sqew.http.dialects.sqew import keys
from sqew.http.docs import routes as docs
from sqew.http.router import Router
from sqew.http.telemetry import health, metrics_route


def make_router() -> Router:
    """Return a router with every route of every dialect."""
    router = Router()
    for routes in (
        sqew.routes,
        keys.routes,
        hq.routes,
        web.routes,
        mailbox.routes,
        queues.routes,
        messages.routes,
        archive.routes,
        export.routes,
        consumers.routes,
        writers.routes,
        events.routes,
        deliveries.routes,
        schedules.routes.routes,
        schedules.previews.routes,
        certificates.routes,
        health.routes,
        metrics_route.routes,
        docs.routes,
        gateway.routes,
    ):
        router.include(routes)
    return router
