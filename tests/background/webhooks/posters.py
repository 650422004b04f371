"""A poster that may post to this machine, on either kind of loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from sqew.background.webhooks.poster import Poster
from sqew.rules.webhook_addresses import WebhookAddresses

Scenario = Callable[[Poster], Awaitable[Any]]
Lookup = Callable[[str], list[str]]
BODY = b'{"id": 1}'
JSON = {"content-type": "application/json"}


class Runner:
    """A runner of scenarios, each with its own poster. Names resolve to this machine, or as ``lookup`` says."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._factory = factory

    def __call__(
        self,
        scenario: Scenario,
        timeout_s: float = 10,
        allowed: str = "127.0.0.0/8 [::1] *.example",
        lookup: Lookup = lambda _: ["127.0.0.1"],
        **kept: Any,
    ) -> Any:
        async def with_poster() -> Any:
            async with Poster(WebhookAddresses(allowed, lookup), timeout_s, **kept) as poster:
                return await scenario(poster)

        with asyncio.Runner(loop_factory=self._factory) as runner:
            return runner.run(with_poster())


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Runner:
    return Runner(uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop)


def posting(*urls: str, body: bytes = BODY) -> Scenario:
    """Return a scenario that posts to each URL in turn and returns the statuses."""

    async def scenario(poster: Poster) -> list[int]:
        return [(await poster.post(url, body, JSON)).status for url in urls]

    return scenario
