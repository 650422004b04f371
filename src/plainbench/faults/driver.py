"""Faults round a driver, for queues whose store the lab can't wrap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, TypeVar

from plainbench.drivers.base import Delivered, Driver, Item, Left, Topic
from plainbench.faults.injector import Call, Injector
from sqew.errors import SqewError

R = TypeVar("R")


class FaultyDriver:
    """A driver whose calls are slow, fail and kill as an injector decides. See `plainbench.drivers.base.Driver`.

    No transaction can be seen from outside: ``before_commit`` is before the call, and ``after_commit`` and
    ``before_reply`` are when it has returned.
    """

    name: ClassVar[str] = "faulty"
    does: ClassVar[str] = "Another driver, with faults."
    needs: ClassVar[Sequence[str]] = ()
    options: ClassVar[Mapping[str, str]] = {}
    runs_in_virtual_time: ClassVar[bool] = False
    faults_inside: ClassVar[bool] = False
    shows_dead: ClassVar[bool] = False
    leases_outlive: ClassVar[bool] = False

    def __init__(self, driver: Driver, injector: Injector) -> None:
        self._driver, self._injector = driver, injector

    def _call(self, call: Call, function: Callable[[], R]) -> R:
        injector = self._injector
        decision = injector.decide(call)
        injector.delay(decision)
        if decision.error is not None:
            injector.fail(decision)
        injector.reach("before_commit", decision)
        result = function()
        injector.reach("after_commit", decision)
        injector.reach("before_reply", decision)
        return result

    @property
    def durability(self) -> str:
        return self._driver.durability

    def create(self, topic: Topic) -> None:
        self._driver.create(topic)

    def send(self, topic: str, items: Sequence[Item]) -> None:
        self._call("send", lambda: self._driver.send(topic, items))

    def receive(self, topic: str, limit: int, lease_ms: int, wait_s: float) -> Sequence[Delivered]:
        return self._call("receive", lambda: self._driver.receive(topic, limit, lease_ms, wait_s))

    def ack(self, topic: str, deliveries: Sequence[Delivered]) -> Sequence[SqewError | None]:
        return self._call("ack", lambda: self._driver.ack(topic, deliveries))

    def retry(self, topic: str, delivery: Delivered, after_ms: int | None) -> None:
        self._call("retry", lambda: self._driver.retry(topic, delivery, after_ms))

    def bury(self, topic: str, delivery: Delivered, reason: str) -> None:
        self._call("retry", lambda: self._driver.bury(topic, delivery, reason))

    def extend(self, topic: str, delivery: Delivered, lease_ms: int) -> None:
        self._call("extend", lambda: self._driver.extend(topic, delivery, lease_ms))

    def left(self, topic: str) -> Iterable[Left]:
        return self._driver.left(topic)

    def depths(self, topic: str) -> Mapping[str, Mapping[str, int]]:
        return self._driver.depths(topic)

    def close(self) -> None:
        self._driver.close()
