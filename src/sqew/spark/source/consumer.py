"""The driver's end of a consumer, which one query holds at a time: opening it, keeping it, and losing it to another
query.

While a batch is worked on, the claim before it is acked and the one after it is made, so that Spark need not wait for
that between batches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from sqew.errors import ClaimSpent, ConsumerInUse, Fenced, NotFound, SqewError
from sqew.model import Claim, ClaimPart, OpenedConsumer
from sqew.spark.source import calls
from sqew.spark.source.options import Options
from sqew.spark.source.wire import PATIENT, Wire

_RENEWALS = 3
"""The number of times that a hold, or a lease, is renewed before it would end."""
_IDLE_S = 0.1
"""Seconds to wait if nothing is ready: Spark asks again after 10 ms, and the server need not be asked so often."""
_PATIENT_S = 1.0
"""Seconds between checks of whether the consumer's previous holder is still alive."""
_RENEWED_S = 1.5
"""A hold that ends so many seconds later than before was renewed: the server reports its end in whole seconds."""
_SHORTEST_HOLD_MS = 1
_LEAVING_S = 5.0
"""Seconds to wait at the end for a claim that is under way."""


class _Ahead(threading.Thread):
    """A claim that is made while the one before it, ``after``, is worked on."""

    def __init__(self, after: int, make: Callable[[], Claim]) -> None:
        super().__init__(name="sqew-claim-ahead", daemon=True)
        self.after, self._make = after, make
        self.has_messages = False
        self.start()

    def run(self) -> None:
        # When its turn comes it is asked for again, and that says what is wrong.
        with suppress(SqewError):
            self.has_messages = self._make().count > 0


class Consumer:
    """A consumer of a queue that this query holds."""

    def __init__(self, options: Options, owner: str) -> None:
        self._options, self._owner = options, owner
        self._wire = Wire(options.target)
        try:
            opened = self._opened()
        finally:
            self._wire.close()
        # It was reached, so it is worth waiting for from now on.
        self._wire = Wire(options.target, retries=PATIENT)
        self._epoch = opened.epoch
        self.found_open = frozenset(opened.claims)
        """The claims that an earlier run of the query, or another query, has left open."""
        self._base = min(opened.claims, default=opened.last + 1) - 1
        """The claim before the first one that a new query gets."""
        self._parts: dict[int, list[ClaimPart]] = {}
        self._acked = 0
        """The last claim up to which all are acked, as far as this query knows."""
        self._ahead: _Ahead | None = None
        self._lost: SqewError | None = None
        self._left = threading.Event()
        self._keeping = threading.Thread(target=self._keep, name="sqew-consumer", daemon=True)
        self._keeping.start()

    def check_held(self) -> None:
        """Raise if another query has taken the consumer over."""
        if self._lost is not None:
            raise self._lost

    def claim_after(self, number: int, most: int) -> Claim | None:
        """Ack all claims up to one, and return the next; None if nothing is ready."""
        number = number or self._base
        claim = self._claimed_ahead(number) or self._next_claim(number, most)
        if not claim.count:
            if most:
                time.sleep(_IDLE_S)
            return None
        self._parts = {claim.number: claim.parts}
        return claim

    def go_ahead(self, claim: Claim, most: int) -> None:
        """Ack the claims before this one while it is worked on, and make the next of up to ``most`` messages, if
        any."""
        if most or self._acked < claim.number - 1:
            self._ahead = _Ahead(claim.number, partial(self._claim_ahead, claim.number, most))

    def parts_of(self, number: int) -> list[ClaimPart]:
        """Return the parts of a claim that was made in this run of the driver or in an earlier one."""
        if number in self._parts:
            return self._parts[number]
        if number not in self.found_open:
            # Nobody came back for it in time, so its messages are in the queue again, for a later claim.
            return []
        return self._claim(self._wire, number - 1, 0, done=number - 1).parts

    def leave(self) -> None:
        """Release the consumer, so that another query can have it at once. Claims stay open for the next holder."""
        self._left.set()
        self._keeping.join()
        options = self._options
        with suppress(SqewError):
            self._wire.ask(
                calls.renew(options.queue, options.consumer, self._epoch, _SHORTEST_HOLD_MS, options.lease_ms)
            )
        self._wire.close()
        if self._ahead is not None:
            self._ahead.join(_LEAVING_S)

    def _opened(self) -> OpenedConsumer:
        opened = self._open_patiently()
        if not opened.claims:
            return opened
        # A lease may be about to end. What is still open after it was renewed stays open.
        self._renew(self._wire, opened.epoch)
        return self._open()

    def _open_patiently(self) -> OpenedConsumer:
        """Open the consumer, if need be after a dead holder's hold has ended; raise if the holder still renews it."""
        ends_at = None
        while True:
            try:
                return self._open()
            except ConsumerInUse as error:
                seen_to_end_at = time.monotonic() + error.retry_after_ms / 1000
                if ends_at is not None and seen_to_end_at > ends_at + _RENEWED_S:
                    raise
                ends_at = seen_to_end_at if ends_at is None else min(ends_at, seen_to_end_at)
            time.sleep(_PATIENT_S)

    def _open(self) -> OpenedConsumer:
        options = self._options
        return self._wire.ask(calls.open_consumer(options.queue, options.consumer, self._owner, options.hold_ms))

    def _claimed_ahead(self, number: int) -> Claim | None:
        """Return the claim after one, if it was made ahead and, according to the server, is still open and ours."""
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            return None
        ahead.join()
        if ahead.after != number or not ahead.has_messages:
            return None
        claim = self._claim(self._wire, number, 0, done=self._acked)
        return claim if claim.count else None

    def _next_claim(self, number: int, most: int) -> Claim:
        """Return the next claim; skip one that was made ahead and whose lease ran out meanwhile."""
        while True:
            try:
                return self._claim(self._wire, number, most, done=number)
            except ClaimSpent:
                # Its messages are in the queue again: a later claim has them.
                number += 1

    def _claim_ahead(self, after: int, most: int) -> Claim:
        with Wire(self._options.target, retries=PATIENT) as wire:
            return self._claim(wire, after, most, done=after - 1)

    def _claim(self, wire: Wire, after: int, most: int, *, done: int) -> Claim:
        options = self._options
        call = calls.claim(options.queue, options.consumer, self._epoch, after, most, options.lease_ms, done)
        claim = wire.ask(call)
        self._acked = max(self._acked, done)
        return claim

    def _renew(self, wire: Wire, epoch: int) -> None:
        options = self._options
        wire.ask(calls.renew(options.queue, options.consumer, epoch, options.hold_ms, options.lease_ms))

    def _keep(self) -> None:
        """Renew the hold, and the leases of open claims, until the consumer is released or lost."""
        with Wire(self._options.target) as wire:
            while not self._left.wait(min(self._options.hold_ms, self._options.lease_ms) / 1000 / _RENEWALS):
                try:
                    self._renew(wire, self._epoch)
                except (Fenced, NotFound) as error:
                    self._lost = error
                    return
                except SqewError:
                    # The server may come back in time. If it does not, the next claim says what is wrong.
                    continue
