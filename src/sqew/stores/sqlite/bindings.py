"""The subscriptions as a publish needs them: in memory, in a trie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from sqew.model import Form, Protocol
from sqew.patterns import PatternTrie
from sqew.stores.sqlite.statements import sql
from sqew.stores.sqlite.work import Execute, Row

if TYPE_CHECKING:
    from sqew.stores.sqlite.publishing import Fan

_VERSION = sql("subscriptions_version")
_AFTER = sql("subscriptions_after")
_REMOVED = sql("unsubscriptions_since")

_MOST_REMEMBERED = 50_000
"""How many targets are remembered at most, over all routing keys: some 10 MB."""
_WEIGHT_OF_A_KEY = 10
"""What a routing key takes besides, in targets."""


class Binding(Struct, frozen=True, gc=False):
    """Where events that match a pattern go."""

    id: int
    protocol: Protocol
    target: str
    form: Form


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
        # By routing key, as `publishing` keeps them.
        self.fans: dict[str, Fan] = {}
        self._remembered = 0

    def remember(self, routing_key: str, fan: Fan, targets: int) -> None:
        """Keep where the events of a routing key go. Where that is too much, the others are forgotten."""
        weight = targets + _WEIGHT_OF_A_KEY
        if self._remembered + weight > _MOST_REMEMBERED:
            self._forget_fans()
        self.fans[routing_key] = fan
        self._remembered += weight

    def _forget_fans(self) -> None:
        self.fans.clear()
        self._remembered = 0

    def refresh(self, execute: Execute) -> None:
        """Learn what others have changed: from what they added and removed, or else from all that there are."""
        if self.is_current:
            return
        self.is_current = True
        version = execute(_VERSION).get
        if version == self._version:
            return
        if not self._version or not self._follow(execute, version):
            self._trie, self._last_id = PatternTrie(), 0
            self._add(execute(_AFTER, (0,)).fetchall())
        self._version, self._changed = version, True
        self._forget_fans()

    def _follow(self, execute: Execute, version: int) -> bool:
        """Do what others have done since. False where not all of it is known any more: each step counts one version."""
        added = execute(_AFTER, (self._last_id,)).fetchall()
        removed = execute(_REMOVED, (self._version,)).fetchall()
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
        for id, pattern, protocol, target, form in rows:
            self._trie.add(pattern, Binding(id, protocol, target, form))
            self._last_id = id

    def match(self, routing_key: str) -> list[Binding]:
        """Those whose pattern matches, the oldest first."""
        found = self._trie.match(routing_key)
        found.sort(key=_id)
        return found

    def added(self, pattern: str, binding: Binding, version: int) -> None:
        """This transaction has added one. What was not known before it is read by the next `refresh`."""
        if self._version == version - 1:
            self._trie.add(pattern, binding)
            self._version, self._last_id, self._changed = version, binding.id, True
            self._forget_fans()
        else:
            self.is_current = False

    def removed(self, pattern: str, binding: Binding, version: int) -> None:
        """This transaction has removed one."""
        if self._version == version - 1:
            self._trie.remove(pattern, binding)
            self._version, self._changed = version, True
            self._forget_fans()
        else:
            self.is_current = False

    def committed(self) -> None:
        self._changed = False

    def undone(self) -> None:
        """The transaction was rolled back: what it changed must be read again."""
        if self._changed:
            self._version, self._changed, self.is_current = 0, False, False


def _id(binding: Binding) -> int:
    return binding.id
