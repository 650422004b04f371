"""`Queue.writers`: sending in whole epochs, each exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqew.core.flows import writers
from sqew.embedded.publishing import ExecuteOperation, RunFlow
from sqew.formats.columns import columns
from sqew.model import NewMessage, Promotion, Staged, WriterInfo
from sqew.operations import AbortStaging, GetWriter, ListWriters, Promote, Stage
from sqew.rules.bodies import encode_body
from sqew.rules.limits import Limits
from sqew.rules.messages import check_new_message
from sqew.rules.values import check_iterable

Found = list[WriterInfo]


class EmbeddedWriters:
    """Writers to queues: they stage messages in parts, then promote them together: all are in the queue, once, or none.

    >>> from sqew import Queue
    >>> with Queue.open(":memory:") as q:
    ...     _ = q.create("orders")
    ...     _ = q.writers.stage("orders", "nightly-load", 0, "part-1", [{"sku": 7}, {"sku": 8}])
    ...     for _ in range(2):
    ...         q.writers.promote("orders", "nightly-load", 0, {"part-1": 2}).repeated
    False
    True
    """

    def __init__(self, run: ExecuteOperation, run_flow: RunFlow, limits: Limits) -> None:
        self._run, self._run_flow, self._limits = run, run_flow, limits

    def stage(
        self, queue: str, writer: str, epoch: int, part: str, bodies: Iterable[Any], *, offset: int | None = None
    ) -> Staged:
        """Stage bodies, or `sqew.NewMessage` objects: none can be received before their epoch is promoted.

        ``part`` is a name of your own for one attempt of one task. With ``offset`` (the number of the part's messages
        staged before), messages that are staged a second time are stored once.
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
        """Put the staged messages of an epoch into the queue: all of them, once, however often this is called.

        ``parts`` has the number of messages of each part. Messages of other parts are dropped. Inside a transaction all
        of them are moved in it; otherwise in steps, with others' operations in between: if that is interrupted, the
        next call resumes it.
        """
        return self._run_flow(writers.promote(Promote(queue, writer, epoch, parts)))

    def abort(self, queue: str, writer: str, epoch: int) -> None:
        """Forget the staged messages of an epoch, if there are any."""
        self._run(AbortStaging(queue, writer, epoch))

    def get(self, queue: str, writer: str) -> WriterInfo:
        """Return a writer: its last promoted epoch, and what it has staged."""
        return self._run(GetWriter(queue, writer))

    def list(self, queue: str, *, limit: int = 100, after: str = "") -> Found:
        """Return the writers of a queue, by name, after the given one."""
        return self._run(ListWriters(queue, after, limit))
