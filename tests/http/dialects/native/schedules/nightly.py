"""A schedule that fires at night, and helpers for tests of schedules."""

from __future__ import annotations

from typing import Any

from tests.http.dialects.vocabularies import new_name
from tests.support.serving import Serving

NIGHTLY = {"target_kind": "queue", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "message": {"job": "report"}}


def make(server: Serving, **fields: Any) -> Any:
    """Make a schedule that fires at night, unless other fields are given."""
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
