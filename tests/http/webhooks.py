"""A server that may post to this machine, and helpers for tests of events."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from tests.support.serving import Answer, Serving

T = TypeVar("T")

FLAGS = ("--durability", "fast", "--delivery-allow", "127.0.0.1")
_numbers = itertools.count()


def new_key() -> str:
    """Return a routing key without subscriptions."""
    return f"tests.key-{next(_numbers)}"


def try_to_subscribe(server: Serving, pattern: str, **fields: Any) -> Answer:
    return server.call("POST", f"/v1/events/{quote(pattern)}/subscriptions", fields)


def subscribe(server: Serving, pattern: str, **fields: Any) -> Any:
    answer = try_to_subscribe(server, pattern, **fields)
    assert answer.status == 201, answer
    return answer.json


def publish(server: Serving, key: str, message: Any, **fields: Any) -> Any:
    answer = server.call("POST", f"/v1/events/{key}", {"message": message, **fields})
    assert answer.status == 201, answer
    return answer.json


def eventually(look: Callable[[], T], within: float = 30) -> T:
    """Call a function until it returns something, and return that."""
    deadline = time.monotonic() + within
    while not (seen := look()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)
    return seen
