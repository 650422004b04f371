"""Previews of how an expression is understood, and of when it would fire."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from sqew.http.dialects.native.dialect import DIALECT, encode
from sqew.http.dialects.native.schedules.bodies import Expression, expression_of
from sqew.http.dialects.native.schedules.views import fires, local_fires, stored_as
from sqew.http.router import NoParameters, Routes
from sqew.http.service import Service
from sqew.http.wire.exchange import Request, Response
from sqew.schedules.preview import MOST_FIRES, preview

routes = Routes(DIALECT)


class PreviewRequest(Expression, kw_only=True, omit_defaults=True):
    """A time expression to try out: one of `cron`, `every`, `when` and `fire_at`."""

    count: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MOST_FIRES})] | UnsetType = UNSET
    """The number of next fires to show. Left out: as the server's `schedule_preview_count` says."""


class PreviewView(Struct, omit_defaults=True, kw_only=True):
    """An expression as it is understood. `cron` and `fire_at` are left out if it is stored otherwise."""

    cron: str | None = None
    fire_at: str | None = None
    canonical: str
    timezone: str
    human_readable: str
    next_fires: list[str]
    """The times when it would fire, in UTC."""
    next_fires_local: list[str]
    """The same times as the clocks of the time zone show them."""


@routes.post("/v1/previews", scope="admin", query=NoParameters, body=PreviewRequest, answers={200: PreviewView})
async def show_preview(service: Service, request: Request) -> Response:
    """Show how an expression is understood and when it would fire. Nothing is stored."""
    given: PreviewRequest = request.data
    count = max(service.settings.schedule_preview_count, 1) if given.count is UNSET else given.count
    now = service.broker.now()
    # Beside the loop: a hundred fires of what seldom fires take 30 ms to find.
    made = await asyncio.to_thread(preview, **expression_of(given), now=now, count=count)
    shown = PreviewView(
        canonical=made.canonical,
        timezone=made.timezone,
        human_readable=made.human_readable,
        next_fires=fires(made.next_fires),
        next_fires_local=local_fires(made.next_fires),
        **stored_as(None, made.canonical),
    )
    return Response(200, encode(shown))
