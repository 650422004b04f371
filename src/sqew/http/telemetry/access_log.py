"""The access log: which requests it shows, and never a header, a query string or a body, which may hold secrets."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from msgspec import Struct

from sqew.observe.log import SEVERITIES, timestamp, write
from sqew.settings import LogLevel, Settings

if TYPE_CHECKING:
    from sqew.http.wire.exchange import Request

OF_NOTE = frozenset({401, 403, 408, 413, 429, 431})
"""Statuses of refusals that may say something about the server: clients that are kept out, cut off or held up."""
_PROBES = frozenset({"/readyz", "/healthz", "/health"})
_LONGEST_PATH = 300


class AccessLine(Struct, omit_defaults=True):
    """A request in the log."""

    time: str
    level: LogLevel
    event: str
    request_id: str
    method: str
    path: str
    route: str | None
    status: int
    duration_ms: float
    rows: int
    bytes_in: int
    bytes_out: int
    peer: str
    trace_id: str = ""


class AccessLog:
    """A log of requests, which decides about each whether it is logged."""

    def __init__(self, settings: Settings) -> None:
        self._all = settings.access_log == "all"
        self._slow_s = settings.slow_ms / 1000
        self._least = SEVERITIES[settings.log_level]
        nothing = settings.access_log == "none"
        self.logged_from = math.inf if nothing else 0 if self._all else 400
        """Lowest status that is noted: responses below it that are quick as well need not come here at all."""
        self.slow_s = math.inf if nothing else self._slow_s

    def note(self, request: Request, status: int, seconds: float, size: int) -> None:
        """Log an answered request, if it is to be logged."""
        # An export takes as long as its client does.
        is_long = request.route is not None and request.route.long
        slow = seconds - request.waited_s >= self._slow_s and not is_long
        if not (self._all or status >= 500 or status in OF_NOTE or slow):
            return
        level: LogLevel = "error" if status >= 500 else "warning" if status in OF_NOTE or slow else "info"
        if status == 503 and request.route is not None and request.route.pattern in _PROBES:
            # It is what was asked, and the log has said it.
            level = "warning"
        if SEVERITIES[level] < self._least:
            return
        write(
            AccessLine(
                timestamp(time.time()),
                level,
                "slow request" if slow else "request",
                request.id.decode("latin-1"),
                request.method.decode("latin-1"),
                request.path[:_LONGEST_PATH].decode("latin-1"),
                None if request.route is None else request.route.pattern,
                status,
                round(seconds * 1000, 2),
                request.rows,
                len(request.body),
                size,
                request.connection.peer,
                "" if request.trace is None else request.trace.id,
            )
        )
