"""Protocols for making a request and reading its answer, which a client passes to its parts."""

from __future__ import annotations

from typing import Protocol, TypeVar

from sqew.client.calls import ApiCall

R = TypeVar("R")


class Do(Protocol):
    """A function that makes a call, with retries if need be, and returns its result or raises its error."""

    def __call__(self, call: ApiCall[R], /) -> R: ...


class AsyncDo(Protocol):
    """The same, to be awaited."""

    async def __call__(self, call: ApiCall[R], /) -> R: ...
