"""A delivery that is under way when its server is killed, on both stores."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.endpoint import OK, Hook, endpoint, says, stalls
from tests.support.postgres import new_database
from tests.support.serving import STORES, Serving, serving

TIMEOUT_S = 5.0
"""The default of `delivery_timeout_ms`, in seconds."""
GENEROUS_S = 8.0
"""For a server to look, on a machine that has other things to do. It was 10 s late when it waited for 15."""
FLAGS = ("--delivery-allow", "127.0.0.1")


@pytest.fixture
def hook() -> Iterator[Hook]:
    with endpoint() as running:
        yield running


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str | None:
    return new_database() if request.param == "postgres" else None


BOTH = pytest.mark.parametrize("database", STORES, indirect=True)


def publish(server: Serving, hook: Hook, path: str) -> None:
    subscribed = server.call("POST", "/v1/events/news/subscriptions", {"endpoint": hook.url(path)})
    assert subscribed.status == 201, subscribed
    assert server.call("POST", "/v1/events/news", {"message": 1}).status == 201


@BOTH
@pytest.mark.parametrize("other", ["restarted", "beside it"])
def test_a_delivery_under_way_when_its_server_was_killed_waited_for_fifteen_seconds(
    tmp_path: Path, hook: Hook, database: str | None, other: str
) -> None:
    hook.does("/hook", stalls, says(OK))
    with serving(tmp_path, *FLAGS, database=database) as victim:
        publish(victim, hook, "/hook")
        hook.wait_for("/hook")
        if other == "restarted":
            victim.stop(signal.SIGKILL)
        with serving(tmp_path, *FLAGS, database=database) as survivor:
            if other == "beside it":
                victim.stop(signal.SIGKILL)
            alone_since = time.monotonic()

            first, second = hook.wait_for("/hook", 2)

            assert second.headers["x-sqew-delivery"] == first.headers["x-sqew-delivery"]
            # However long the survivor took to start, or the kill: the claim runs from when it was made.
            assert second.at - max(first.at + TIMEOUT_S, alone_since) < GENEROUS_S
            assert survivor.stop() == 0
