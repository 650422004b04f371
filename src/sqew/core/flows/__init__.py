"""Flows: requests that take several operations, written once for surfaces with and without an event loop.

A flow is a coroutine that awaits effects, mostly operations: ``info = await GetQueue(name)``. It imports no loop and no
thread: `run_now` runs it for callers that wait, `run_in_loop` beside all else in an event loop. A flow checks its
arguments before its first ``await``, so that a request that is refused has changed nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from sqew.operations import Operation

R = TypeVar("R")
Flow = Coroutine[Any, Any, R]


class Effect(Generic[R]):
    """A request of a flow to its runner that is no operation, or one to be run in a special way."""

    __slots__ = ()

    def __await__(self) -> Generator[Effect[R], Any, R]:
        """Have the runner carry it out, and resume with its result."""
        result: R = yield self
        return result


class Unchecked(Effect[R]):
    """An operation made from one that was checked: its fields are not checked again."""

    __slots__ = ("operation",)

    def __init__(self, operation: Operation[R]) -> None:
        self.operation = operation


class IfWanted(Effect[R]):
    """An operation that is not executed if the caller has gone meanwhile: the flow ends there."""

    __slots__ = ("operation",)

    def __init__(self, operation: Operation[R]) -> None:
        self.operation = operation


class Read(Effect[list[Any]]):
    """Operations that only read and may take long: they run beside everything else."""

    __slots__ = ("operations",)

    def __init__(self, *operations: Operation[Any]) -> None:
        self.operations = operations


class InThread(Effect[R]):
    """A call that takes long, such as a signature: in an event loop it runs in a thread beside it."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[[], R]) -> None:
        self.function = function


class InTurn(Effect[R]):
    """A flow that only one caller of a broker runs at a time, such as making the first key. It must not await another.

    It is begun when its turn has come: a caller that is cancelled before leaves none behind that was never run.
    """

    __slots__ = ("begin",)

    def __init__(self, begin: Callable[[], Flow[R]]) -> None:
        self.begin = begin


class StoreCounts(Effect[None]):
    """A request to store the counters that are in memory, unless the store is busy or fails."""

    __slots__ = ()


def run_now(flow: Flow[R], execute: Callable[[Any], Any]) -> R:
    """Run a flow to its end in this thread; ``execute`` carries out each of its effects, or raises."""
    try:
        effect = flow.send(None)
        while True:
            try:
                answer = execute(effect)
            except Exception as error:  # noqa: BLE001 (whatever it is, the flow may handle it, or raises it)
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as done:
        result: R = done.value
        return result
    finally:
        flow.close()


async def run_in_loop(flow: Flow[R], execute: Callable[[Any], Awaitable[Any]]) -> R:
    """Run a flow to its end in an event loop; ``execute`` carries out each of its effects, or raises."""
    try:
        effect = flow.send(None)
        while True:
            try:
                answer = await execute(effect)
            except Exception as error:  # noqa: BLE001 (whatever it is, the flow may handle it, or raises it)
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as done:
        result: R = done.value
        return result
    finally:
        flow.close()
