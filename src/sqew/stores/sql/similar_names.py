"""Names that are there, for the sentence about one that is not."""

from __future__ import annotations

from sqew.stores.sql.transaction import Execute

_EACH_SIDE = 20
"""Of so many before it in the order of names, and so many after it, the nearest is picked when the sentence is read.

A name whose first letters are wrong finds others there, where there are more. All names would find it: among 1,000 that
took 63 ms of a transaction, and everybody else waited, each time that a consumer polled a queue that was deleted.
"""
_LONGEST = 100


def names_near(execute: Execute, statement: str, name: str, *of: int) -> list[str]:
    """Return the neighbours of a name; ``of`` is what they belong to. Bytes are names that may be damaged."""
    rows = execute(statement, (*of, name[:_LONGEST], _EACH_SIDE))
    return [row[0] if isinstance(row[0], str) else row[0].decode(errors="replace") for row in rows]
