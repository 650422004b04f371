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
"""Most targets that are remembered, over all routing keys: some 10 MB."""
_WEIGHT_OF_A_KEY = 10
"""Weight of a routing key itself, in targets."""


_decode_details = msgspec.json.Decoder(SubscriptionDetails).decode


class Binding(Struct, frozen=True, gc=False, eq=False):
    """A subscription as a publish needs it: the target of events that match a pattern."""

    id: int
    protocol: Protocol
    target: str
    form: Form
    uuid: str = ""
    """Name of the subscription in its ARN, if SNS knows it."""
    filter: Filter | None = None
    """Filter for the events that it wants; None: all."""
    dead_letter: str = ""
    """Queue for events that its own queue can't take any more because it is gone."""

    @property
    def takes_few(self) -> bool:
        """True if a message that goes this way may have only a few attributes."""
        return self.form == RAW and self.protocol == "queue" and self.uuid != ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binding) and other.id == self.id

    def __hash__(self) -> int:
        return self.id


def binding_of(
    id: int, protocol: Protocol, target: str, form: Form, uuid: str | None, details: SubscriptionDetails
) -> Binding:
    """Return a subscription as a publish needs it."""
    wanted = compile_filter(details.filter_policy, details.filter_scope) if details.filter_policy else None
    return Binding(id, protocol, target, form, uuid or "", wanted, details.dead_letter)


def details_of(stored: str | None) -> SubscriptionDetails:
    """Return the stored details that SNS knows of a subscription."""
    return _decode_details(stored) if stored else SubscriptionDetails()


class Bindings:
    """A copy of the subscriptions. It is current after `refresh`, until the end of the transaction."""

    def __init__(self) -> None:
        self._trie = PatternTrie[Binding]()
        self._version = 0
        self._last_id = 0
        # Changed, or read, in this transaction: not true if that is undone.
        self._changed = False
        self.is_current = False
        """True if no other connection has written since the subscriptions were read."""
        # By routing key, and by the ids of the bindings where filters chose among them, as `fanouts` keeps them.
        self.fanouts: dict[FanoutName, Fanout] = {}
        self._remembered = 0

    def remember(self, name: FanoutName, fanout: Fanout, targets: int) -> None:
        """Keep the targets of a routing key's events. If there are too many of all keys, forget the others."""
        weight = targets + _WEIGHT_OF_A_KEY
        if self._remembered + weight > _MOST_REMEMBERED:
            self._forget_fanouts()
        self.fanouts[name] = fanout
        self._remembered += weight

    def _forget_fanouts(self) -> None:
        self.fanouts.clear()
        self._remembered = 0

    def refresh(self, work: Work) -> None:
        """Read what others have changed: what they added and removed, or else all subscriptions."""
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
        """Apply what others have done since. Return False if some of it is forgotten: each step counts one version."""
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
        """Return the bindings whose pattern matches, the oldest first."""
        found = self._trie.match(routing_key)
        found.sort(key=_id)
        return found

    def added(self, pattern: str, binding: Binding, version: int, *, counts: bool = True) -> None:
        """Add a subscription of this transaction. If others were added before it, the next `refresh` reads all of them.

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
        """Remove a subscription that this transaction has deleted."""
        if self._version == version - 1:
            if counts:
                self._trie.remove(pattern, binding)
            self._version, self._changed = version, True
            self._forget_fanouts()
        else:
            self.is_current = False

    def replaced(self, pattern: str, before: Binding | None, after: Binding | None, version: int) -> None:
        """Replace a subscription that this transaction has changed. None: it did not, or does not, get events."""
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
        """Read all subscriptions again before the next publish: this transaction has changed many."""
        self._version, self._changed, self.is_current = 0, True, False

    def committed(self) -> None:
        self._changed = False

    def undone(self) -> None:
        """Forget what a transaction has changed that was rolled back: it must be read again."""
        if self._changed:
            self._version, self._changed, self.is_current = 0, False, False


def _id(binding: Binding) -> int:
    return binding.id
