"""Names that exist, for the error about one that does not."""

from __future__ import annotations

from sqew.stores.sql.transaction import Execute

_EACH_SIDE = 20
"""Names before it in their order, and as many after it, of which the nearest is picked when the error is read. If a
name's first letters are wrong, and there are more names, the right one is not among them. All names would find it, but
among 1,000 that took 63 ms of a transaction, for which all others waited, each time that a consumer polled a deleted
queue.
"""
_LONGEST = 100


def names_near(execute: Execute, statement: str, name: str, *of: int) -> list[str]:
    """Return the neighbours of a name; ``of`` is what they belong to. Bytes are names that may be damaged."""
    rows = execute(statement, (*of, name[:_LONGEST], _EACH_SIDE))
    return [row[0] if isinstance(row[0], str) else row[0].decode(errors="replace") for row in rows]
