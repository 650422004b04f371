"""Waiting for the database in code that does not say ``await``.

Code that stores share is written as for SQLite, whose answers are there at once. Here it runs in a greenlet: whenever
it has to wait, the event loop goes on with other work and comes back to it. That takes half a microsecond, and a
statement takes a hundred.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

R = TypeVar("R")


def wait_for(awaitable: Awaitable[R]) -> R:
    """Return the result of an awaitable, in code that was called by `carried`."""
    loop = getcurrent().parent
    assert loop is not None
    return cast("R", loop.switch(awaitable))


async def carried(function: Callable[..., R], *arguments: Any) -> R:
    """Call a function that may `wait_for` something, in the event loop's own thread."""
    carrier = greenlet(function)
    step = carrier.switch(*arguments)
    while not carrier.dead:
        try:
            answer = await step
        except BaseException as error:  # noqa: BLE001 (it is raised where it was waited for)
            step = carrier.throw(error)
        else:
            step = carrier.switch(answer)
    return cast("R", step)
