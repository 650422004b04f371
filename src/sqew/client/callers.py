"""How a request is made and its answer read: what the parts of a client are given by it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from sqew.client.calls import Call

R = TypeVar("R")


class Do(Protocol):
    """Makes a call, again if need be: its result, or its error raised."""

    def __call__(self, call: Call[R], /) -> R: ...


class AsyncDo(Protocol):
    """The same, to be awaited."""

    async def __call__(self, call: Call[R], /) -> R: ...
