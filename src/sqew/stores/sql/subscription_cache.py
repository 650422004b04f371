"""The subscriptions as a publish needs them: in memory, in a trie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from sqew.matching.filters import Filter, compile_filter
from sqew.matching.routing import PatternTrie
from sqew.model import RAW, Form, Protocol, SubscriptionDetails
from sqew.stores.sql.transaction import Row, Work

if TYPE_CHECKING:
    from sqew.stores.sql.fanout import Fanout

FanoutName = str | tuple[str, tuple[int, ...]]


_MOST_REMEMBERED = 50_000
"""How many targets are remembered at most, over all routing keys: some 10 MB."""
_WEIGHT_OF_A_KEY = 10
"""What a routing key takes besides, in targets."""


_decode_details = msgspec.json.Decoder(SubscriptionDetails).decode


class Binding(Struct, frozen=True, gc=False, eq=False):
    """Where events that match a pattern go."""

    id: int
    protocol: Protocol
    target: str
    form: Form
    uuid: str = ""
    """What the subscription is called in its ARN, where SNS knows it."""
    filter: Filter | None = None
    """Which events it wants; None: all."""
    dead_letter: str = ""
    """The queue for what its own queue can't take any more because it is gone."""

    @property
    def takes_few(self) -> bool:
        """Whether a message may have only a few attributes that goes this way."""
        return self.form == RAW and self.protocol == "queue" and self.uuid != ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binding) and other.id == self.id

    def __hash__(self) -> int:
        return self.id


def binding_of(
    id: int, protocol: Protocol, target: str, form: Form, uuid: str | None, details: SubscriptionDetails
) -> Binding:
    """A subscription as a publish needs it."""
    wanted = compile_filter(details.filter_policy, details.filter_scope) if details.filter_policy else None
    return Binding(id, protocol, target, form, uuid or "", wanted, details.dead_letter)


def details_of(stored: str | None) -> SubscriptionDetails:
    """What SNS says of a subscription, as it is stored."""
    return _decode_details(stored) if stored else SubscriptionDetails()


class Bindings:
    """A copy of the subscriptions. It is true after `refresh`, until the end of the transaction."""

    def __init__(self) -> None:
        self._trie = PatternTrie[Binding]()
        self._version = 0
        self._last_id = 0
        # Changed, or read, in this transaction: not true if that is undone.
        self._changed = False
        self.is_current = False
        """Nobody else has written since they were looked at."""
        # By routing key, and by the ids of the bindings where filters chose among them, as `fanouts` keeps them.
        self.fanouts: dict[FanoutName, Fanout] = {}
        self._remembered = 0

    def remember(self, name: FanoutName, fanout: Fanout, targets: int) -> None:
        """Keep where the events of a routing key go. Where that is too much, the others are forgotten."""
        weight = targets + _WEIGHT_OF_A_KEY
        if self._remembered + weight > _MOST_REMEMBERED:
            self._forget_fanouts()
        self.fanouts[name] = fanout
        self._remembered += weight

    def _forget_fanouts(self) -> None:
        self.fanouts.clear()
        self._remembered = 0

    def refresh(self, work: Work) -> None:
        """Learn what others have changed: from what they added and removed, or else from all that there are."""
        if self.is_current:
            return
        self.is_current = True
        version = work.execute(work.sql.subscriptions_version).get
        if version == self._version:
            return
        if not self._version or not self._follow(work, version):
            self._trie, self._last_id = PatternTrie(), 0
            self._add(work.execute(work.sql.subscriptions_after, (0,)).fetchall())
        self._version, self._changed = version, True
        self._forget_fanouts()

    def _follow(self, work: Work, version: int) -> bool:
        """Do what others have done since. False where not all of it is known any more: each step counts one version."""
        added = work.execute(work.sql.subscriptions_after, (self._last_id,)).fetchall()
        removed = work.execute(work.sql.unsubscriptions_since, (self._version,)).fetchall()
        gone_again = sum(id > self._last_id for id, *_ in removed)
        if self._version + len(added) + gone_again + len(removed) != version:
            return False
        try:
            for id, pattern, protocol, target, form in removed:
                if id <= self._last_id:
                    self._trie.remove(pattern, Binding(id, protocol, target, form))
        except ValueError:
            return False
        self._add(added)
        return True

    def _add(self, rows: list[Row]) -> None:
        for id, pattern, protocol, target, form, uuid, details, confirmed in rows:
            if confirmed:
                self._trie.add(pattern, binding_of(id, protocol, target, form, uuid, details_of(details)))
            self._last_id = id

    def match(self, routing_key: str) -> list[Binding]:
        """Those whose pattern matches, the oldest first."""
        found = self._trie.match(routing_key)
        found.sort(key=_id)
        return found

    def added(self, pattern: str, binding: Binding, version: int, *, counts: bool = True) -> None:
        """This transaction has added one. What was not known before it is read by the next `refresh`.

        ``counts``: it gets what is published, and does not wait for its confirmation.
        """
        if self._version == version - 1:
            if counts:
                self._trie.add(pattern, binding)
            self._version, self._last_id, self._changed = version, binding.id, True
            self._forget_fanouts()
        else:
            self.is_current = False

    def removed(self, pattern: str, binding: Binding, version: int, *, counts: bool = True) -> None:
        """This transaction has removed one."""
        if self._version == version - 1:
            if counts:
                self._trie.remove(pattern, binding)
            self._version, self._changed = version, True
            self._forget_fanouts()
        else:
            self.is_current = False

    def replaced(self, pattern: str, before: Binding | None, after: Binding | None, version: int) -> None:
        """This transaction has changed one. None: it did not, or does not, get what is published."""
        if self._version == version - 1:
            if before is not None:
                self._trie.remove(pattern, before)
            if after is not None:
                self._trie.add(pattern, after)
            self._version, self._changed = version, True
            self._forget_fanouts()
        else:
            self.is_current = False

    def reread(self) -> None:
        """This transaction has changed many: read them all again before the next publish."""
        self._version, self._changed, self.is_current = 0, True, False

    def committed(self) -> None:
        self._changed = False

    def undone(self) -> None:
        """The transaction was rolled back: what it changed must be read again."""
        if self._changed:
            self._version, self._changed, self.is_current = 0, False, False


def _id(binding: Binding) -> int:
    return binding.id
