"""Previews: how an expression is understood, and when it would fire."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from sqew.forecast import MOST_FIRES, preview
from sqew.http.dialects.native import DIALECT, encode
from sqew.http.dialects.schedules.bodies import Expression, expression_of
from sqew.http.dialects.schedules.views import FireView, fires
from sqew.http.exchange import Request, Response
from sqew.http.router import Routes
from sqew.http.service import Service

routes = Routes(DIALECT)


class PreviewRequest(Expression, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When something would fire, to be tried out: one of `cron`, `every`, `when` and `fire_at`."""

    count: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MOST_FIRES})] | UnsetType = UNSET
    """How many of its next fires to show. Left out: as the server's `schedule_preview_count` says."""


class PreviewView(Struct):
    """How an expression is understood."""

    canonical: str
    timezone: str
    human_readable: str
    next_fires: list[FireView]


@routes.post("/v1/previews", scope="admin", body=PreviewRequest, answers={200: PreviewView})
async def show_preview(service: Service, request: Request) -> Response:
    """Say how an expression is understood and when it would fire. Nothing is stored."""
    given: PreviewRequest = request.data
    count = max(service.settings.schedule_preview_count, 1) if given.count is UNSET else given.count
    now = service.broker.now()
    # Beside the loop: a hundred fires of what seldom fires take 30 ms to find.
    made = await asyncio.to_thread(preview, **expression_of(given), now=now, count=count)
    shown = PreviewView(made.canonical, made.timezone, made.human_readable, fires(made.next_fires))
    return Response(200, encode(shown))
