"""`Queue.writers`: sending in whole epochs, each exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqew.embedded.publishing import Execute
from sqew.formats.columns import columns
from sqew.model import NewMessage, Promotion, Staged, WriterInfo
from sqew.operations import AbortStaging, GetWriter, ListWriters, Promote, Stage, StepPromotion
from sqew.rules.rules import Limits, encode_body
from sqew.rules.values import check_iterable, check_new_message

Found = list[WriterInfo]


class Writers:
    """Stage messages in parts, then promote them together: all are in the queue, once, or none is.

    >>> from sqew import Queue
    >>> with Queue.open(":memory:") as q:
    ...     _ = q.create("orders")
    ...     _ = q.writers.stage("orders", "nightly-load", 0, "part-1", [{"sku": 7}, {"sku": 8}])
    ...     for _ in range(2):
    ...         q.writers.promote("orders", "nightly-load", 0, {"part-1": 2}).repeated
    False
    True
    """

    def __init__(self, run: Execute, limits: Limits) -> None:
        self._run, self._limits = run, limits

    def stage(
        self, queue: str, writer: str, epoch: int, part: str, bodies: Iterable[Any], *, offset: int | None = None
    ) -> Staged:
        """Hand in bodies, or `sqew.NewMessage` objects: nobody receives them before their epoch is promoted.

        ``part`` is a name of your own for one attempt of one task. With ``offset`` (how many of the part came before)
        what is handed in a second time is stored once.
        """
        check_iterable("bodies", bodies)
        messages = columns(map(self._message, bodies))
        return self._run(Stage(queue, writer, epoch, part, messages, offset))

    def _message(self, body: Any) -> NewMessage:
        if isinstance(body, NewMessage):
            # Here, because columns would take a value of another type as that of all.
            check_new_message(body, self._limits)
            return body
        return NewMessage(*encode_body(body, self._limits))

    def promote(self, queue: str, writer: str, epoch: int, parts: Mapping[str, int]) -> Promotion:
        """Put what was staged of an epoch into the queue: all of it, once, however often this is called.

        ``parts`` says how many messages each has. What other parts hold is dropped. Inside a transaction all of them
        are moved in it; otherwise in steps, with others in between, and when that is interrupted, the next call goes on
        from there.
        """
        promotion = self._run(Promote(queue, writer, epoch, parts))
        while not promotion.done:
            promotion = self._run(StepPromotion(queue, writer, epoch))
        return promotion

    def abort(self, queue: str, writer: str, epoch: int) -> None:
        """Forget what was staged of an epoch, if anything was."""
        self._run(AbortStaging(queue, writer, epoch))

    def get(self, queue: str, writer: str) -> WriterInfo:
        """A writer: the last of its epochs that was promoted, and what is staged."""
        return self._run(GetWriter(queue, writer))

    def list(self, queue: str, *, limit: int = 100, after: str = "") -> Found:
        """The writers of a queue by name, those after the given one."""
        return self._run(ListWriters(queue, after, limit))
