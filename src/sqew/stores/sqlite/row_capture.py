"""Statements that capture the rows they change, as they were before.

They call a function of ours at the end of their WHERE. RETURNING says it more plainly, but SQLite builds a table for
what it returns: that takes 1.5 µs of an ack's 18, and several times that where the commit waits for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import apsw
import msgspec

from sqew.model import Policy
from sqew.stores.sql.rows import MOST_ADDED_UP, are_odd, checksum
from sqew.stores.sql.transaction import Row

_decode_policy = msgspec.json.Decoder(Policy).decode

Change = Callable[[str, Row], Row | None]
"""Function that executes a statement which changes at most one row; returns what it captured of that row, or None."""
Delete = Callable[[str, Iterable[Row]], list[Row]]
"""Function that executes a statement which deletes, for every row of parameters; returns what it captured of all."""


def capturing(connection: apsw.Connection) -> tuple[Change, Delete]:
    """Enable the statements of this connection to capture rows.

    ``sqew_capture(…)`` keeps its arguments, ``sqew_intact({delivered})`` as well, but leaves the row alone if its body
    is not what was sent or its numbers are no numbers, and ``sqew_captures(…)`` adds what it is given to the rest.
    ``sqew_is_text(…)`` is true of bytes that are UTF-8, ``sqew_is_policy(…)`` of those that are a queue's policy, and
    ``sqew_may_be_lane(policy, name)`` unless the policy is one and has no lane of this name.
    """
    captured: Row = ()
    all_captured: list[Row] = []
    lanes_of_last: tuple[Any, frozenset[bytes] | None] = None, None

    def capture(*row: Any) -> bool:
        nonlocal captured
        captured = row
        return True

    def is_intact(*row: Any) -> bool:
        nonlocal captured
        captured = row
        # Positions: is_text 12, checksum 13, headers 14, body 15. A large body is elsewhere.
        is_text, expected, headers, body = row[12:16]
        try:
            # Attempts and three times are numbers, unless the row is damaged; so are lane and priority, which the
            # statement compares.
            added_up = row[3] + row[4] + row[5] + row[16]
            if type(added_up) is not int or added_up > MOST_ADDED_UP:
                return False
            # Positions: expires_at 6, key 7, group 8, origin 9, reason 10, died_at 11, first_received_at 17.
            if not (row[6] is row[7] is row[8] is row[9] is row[17] is None) and are_odd(
                row[7:11], (row[6], row[11], row[17])
            ):
                return False
            if body is None:
                return True
            intact: bool = (checksum(body, headers, is_text) if headers else crc32(body, is_text)) == expected
        except TypeError:
            return False
        return intact

    def add(*row: Any) -> bool:
        all_captured.append(row)
        return True

    def is_text(*value: Any) -> bool:
        try:
            return value[0] is None or value[0].decode() is not None
        except UnicodeDecodeError:
            return False

    def is_policy(*value: Any) -> bool:
        return _policy(value[0]) is not None

    def may_be_lane(*values: Any) -> bool:
        nonlocal lanes_of_last
        stored, name = values
        if lanes_of_last[0] != stored:
            # There may be a thousand lanes, and each is asked for.
            lanes_of_last = stored, _lanes(stored)
        lanes = lanes_of_last[1]
        return lanes is None or name in lanes

    functions = {
        "sqew_capture": capture,
        "sqew_intact": is_intact,
        "sqew_captures": add,
        "sqew_is_text": is_text,
        "sqew_is_policy": is_policy,
        "sqew_may_be_lane": may_be_lane,
    }
    for name, function in functions.items():
        connection.create_scalar_function(name, function, flags=apsw.SQLITE_DIRECTONLY)
    execute, changes, executemany = connection.cursor().execute, connection.changes, connection.executemany

    def change(statement: str, parameters: Row) -> Row | None:
        execute(statement, parameters)
        return captured if changes() else None

    def delete(statement: str, parameters: Iterable[Row]) -> list[Row]:
        # An interrupt may have left some.
        all_captured.clear()
        executemany(statement, parameters)
        rows = all_captured.copy()
        all_captured.clear()
        return rows

    return change, delete


def _lanes(stored: Any) -> frozenset[bytes] | None:
    policy = _policy(stored)
    return None if policy is None else frozenset(lane.encode() for lane in policy.lanes)


def _policy(stored: Any) -> Policy | None:
    try:
        return _decode_policy(stored)
    except (TypeError, ValueError):
        return None
