"""A history of the calls that clients of a FIFO queue made, with checks that its order is possible."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import NamedTuple


class Message(NamedTuple):
    """The ``number``-th message of a group."""

    group: str
    number: int


@dataclass
class Holding:
    """A delivery, and the time for which its receiver certainly held the message, on the clock of the test."""

    message: Message
    asked_at: float
    told_at: float
    until: float
    """Earliest end of the holding: the lease runs out, or the receiver asks to end it."""
    call: int
    """Number of the receive: messages of one call were received together."""


class Deletion(NamedTuple):
    """A delete that succeeded, or whose outcome is unknown."""

    message: Message
    asked_at: float
    told_at: float
    is_certain: bool


@dataclass
class History:
    """All events of a test. Each list is only appended to, which any thread may do."""

    sent: list[Message] = field(default_factory=list)
    """Messages whose send was answered."""
    holdings: list[Holding] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)

    def came_again(self) -> int:
        """Return how many deliveries were not a message's first."""
        holdings = list(self.holdings)
        return len(holdings) - len({holding.message for holding in holdings})

    def counts(self) -> str:
        return f"{len(self.sent)} sent, {len(self.holdings)} deliveries, {self.came_again()} of them again"

    def problems(self) -> list[str]:
        return [*self._lost(), *self._unsent(), *self._out_of_order(), *self._delivered_too_early()]

    def _lost(self) -> Iterator[str]:
        deleted = {deletion.message for deletion in self.deletions}
        for message in self.sent:
            if message not in deleted:
                yield f"{message} was sent, and nobody has deleted it"

    def _unsent(self) -> Iterator[str]:
        sent = set(self.sent)
        for message in {holding.message for holding in self.holdings} - sent:
            yield f"{message} was delivered, and nobody has sent it"

    def _out_of_order(self) -> Iterator[str]:
        """Yield a problem for each message that was gone before any client had asked to delete an earlier one."""
        begun: dict[Message, float] = {}
        gone: dict[Message, float] = {}
        for deletion in self.deletions:
            message = deletion.message
            begun[message] = min(begun.get(message, deletion.asked_at), deletion.asked_at)
            if deletion.is_certain:
                gone[message] = min(gone.get(message, deletion.told_at), deletion.told_at)
        for earlier, later in pairwise(sorted(begun)):
            if earlier.group == later.group and gone.get(later, inf) < begun[earlier]:
                yield f"{later} was deleted before {earlier}"

    def _delivered_too_early(self) -> Iterator[str]:
        """Yield a problem for each message delivered while it, or an earlier one of its group, was in flight."""
        groups: dict[str, list[Holding]] = defaultdict(list)
        for holding in self.holdings:
            groups[holding.message.group].append(holding)
        for holdings in groups.values():
            for first in holdings:
                for second in holdings:
                    if (
                        first.call != second.call
                        and first.message.number <= second.message.number
                        and first.told_at < second.asked_at
                        and second.told_at < first.until
                    ):
                        yield f"{second.message} was delivered while {first.message} was in flight"
