"""A schedule that fires at night, and the few things that tests do with schedules."""

from __future__ import annotations

from typing import Any

from tests.http.dialects.vocabularies import new_name
from tests.support.serving import Serving

NIGHTLY = {"target_kind": "queue", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "message": {"job": "report"}}


def make(server: Serving, **fields: Any) -> Any:
    """A new schedule; one that fires at night unless it is told otherwise."""
    answer = server.call("POST", "/v1/schedules", {"name": new_name(), **NIGHTLY, **fields})
    assert answer.status == 201, answer
    return answer.json


def show(server: Serving, name: str) -> Any:
    answer = server.call("GET", f"/v1/schedules/{name}")
    assert answer.status == 200, answer
    return answer.json


def patch(server: Serving, name: str, **fields: Any) -> Any:
    answer = server.call("PATCH", f"/v1/schedules/{name}", fields)
    assert answer.status == 200, answer
    return answer.json
