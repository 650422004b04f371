"""`Queue.consumers`: reading a queue in claims that outlast the reader."""

from __future__ import annotations

from sqew.core.flows import consumers
from sqew.embedded.publishing import ExecuteOperation, RunFlow
from sqew.errors import ClaimNotFound
from sqew.model import CHUNKS_IN_PART, Claim, ConsumerInfo, Message, OpenedConsumer
from sqew.operations import (
    ListConsumers,
    OpenConsumer,
    ReadClaim,
    RenewConsumer,
)
from sqew.rules.limits import Limits
from sqew.rules.values import LARGEST_ID, check_int, seconds_as_ms

Found = list[ConsumerInfo]
Claimed = list[Message]


class EmbeddedConsumers:
    """Consumers of queues: they claim messages by the thousand, and after a crash resume the claim that was open.

    >>> from sqew import Queue
    >>> with Queue.open(":memory:") as q:
    ...     _ = q.create("orders")
    ...     _ = q.enqueue("orders", {"sku": 7})
    ...     epoch = q.consumers.open("orders", "billing", owner="me").epoch
    ...     claim = q.consumers.claim("orders", "billing", epoch, after=0)
    ...     [m.value for m in q.consumers.read("orders", "billing", claim.number, part=0)]
    ...     q.consumers.claim("orders", "billing", epoch, after=claim.number).count
    [{'sku': 7}]
    0
    """

    def __init__(self, run: ExecuteOperation, run_flow: RunFlow, limits: Limits) -> None:
        self._run, self._run_flow, self._limits = run, run_flow, limits

    def open(
        self, queue: str, consumer: str, *, owner: str, hold_ms: int = 30_000, hold_seconds: float | None = None
    ) -> OpenedConsumer:
        """Open a consumer, making it if need be; for ``hold_ms`` no other ``owner`` can open it.

        Operations with an earlier epoch are refused from now on.
        """
        if hold_seconds is not None:
            hold_ms = seconds_as_ms("hold_seconds", hold_seconds)
        return self._run(OpenConsumer(queue, consumer, owner, hold_ms))

    def claim(
        self,
        queue: str,
        consumer: str,
        epoch: int,
        *,
        after: int,
        limit: int = 10_000,
        lease_ms: int = 3_600_000,
        done: int | None = None,
        lease_seconds: float | None = None,
    ) -> Claim:
        """Ack all claims up to ``after``, and claim ready messages under the next number, or return its open claim.

        The claim's ``count`` is 0 if no message is ready: there is no claim then. With ``done``, only the claims up to
        that one are acked: so the next can be claimed while those before it are worked on.
        """
        if lease_seconds is not None:
            lease_ms = seconds_as_ms("lease_seconds", lease_seconds)
        claiming = consumers.claim(
            queue, consumer, epoch, after=after, limit=limit, lease_ms=lease_ms, done=done, limits=self._limits
        )
        return self._run_flow(claiming)

    def read(self, queue: str, consumer: str, number: int, part: int) -> Claimed:
        """Return the messages of a part of a claim, in the order in which they were received."""
        check_int("part", part, 0, LARGEST_ID)
        messages: Claimed = []
        for chunk in range(part * CHUNKS_IN_PART, (part + 1) * CHUNKS_IN_PART):
            found = self._run(ReadClaim(queue, consumer, number, chunk))
            if found is None and chunk == part * CHUNKS_IN_PART:
                raise ClaimNotFound(queue, consumer, number, part)
            messages += found or []
        return messages

    def renew(
        self,
        queue: str,
        consumer: str,
        epoch: int,
        *,
        hold_ms: int | None = None,
        lease_ms: int = 3_600_000,
        hold_seconds: float | None = None,
        lease_seconds: float | None = None,
    ) -> None:
        """Hold the consumer (for as long as it was opened for, unless given) and all that it has claimed for longer."""
        if hold_seconds is not None:
            hold_ms = seconds_as_ms("hold_seconds", hold_seconds)
        if lease_seconds is not None:
            lease_ms = seconds_as_ms("lease_seconds", lease_seconds)
        self._run(RenewConsumer(queue, consumer, epoch, hold_ms, lease_ms))

    def release(self, queue: str, consumer: str, *, force: bool = False) -> None:
        """Forget a consumer and give back the messages it has claimed. ``force``: even while its owner holds it."""
        self._run_flow(consumers.release(queue, consumer, self._limits, force=force))

    def list(self, queue: str, *, limit: int = 100, after: str = "") -> Found:
        """Return the consumers of a queue, by name, after the given one."""
        return self._run(ListConsumers(queue, after, limit))
