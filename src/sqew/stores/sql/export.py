"""Export of messages by the million: column by column, without an object for each."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq, itemgetter
from typing import Any
from zlib import crc32

from sqew.model import ARCHIVE_COLUMNS, STATES, Bounds, Columns, Same
from sqew.operations import ReadBounds, ReadColumns
from sqew.rules.limits import MOST_BYTES
from sqew.stores.sql.catalog import QueueState
from sqew.stores.sql.rows import INLINE_BODY_BYTES, body_of, decode_headers, shown_key
from sqew.stores.sql.transaction import Row, Work

_NARROW = frozenset({"id", "queue", "body", "format", "headers"})
"""Columns that the narrower statement reads: half of the time is spent on the others."""
_is_plain = itemgetter(-1)
_TRIED = 20
_PLAIN_AT_ONCE = MOST_BYTES // INLINE_BODY_BYTES
"""Plain messages that are read at a time: their bodies may be as large as what is kept with the message."""
_OUTCOMES = ("dead", "done")


def bounds(work: Work, op: ReadBounds) -> Bounds:
    state = work.catalog.queue(op.queue)
    if op.archive:
        found = [work.execute(work.sql.archive_bounds, (state.id, outcome)).fetchall()[0] for outcome in _OUTCOMES]
    else:
        found = [
            work.execute(work.sql.bounds_of_bucket, (state.id, lane, priority)).fetchall()[0]
            for lane, priorities in state.buckets.items()
            for priority in priorities
        ]
        found += work.execute(work.sql.bounds_of_blocked, (state.id,)).fetchall()
    ids = [id for first, last, _ in found for id in (first, last) if id is not None]
    return Bounds(min(ids, default=None), max(ids, default=None), sum(count for _, _, count in found))


def read_columns(work: Work, op: ReadColumns) -> Columns:
    state = work.catalog.queue(op.queue)
    if op.archive:
        return _archived(work, state, op)
    if op.lane is op.state is None and (plain := _plain(work, state, op)) is not None:
        return plain
    lane = None if op.lane is None else state.lane(op.lane)
    wanted = None if op.state is None else STATES.index(op.state)
    narrow = _NARROW.issuperset(op.columns)
    statement = work.sql.export_bodies if narrow else work.sql.export_messages
    end, more = _end(work, op)
    rows = work.execute_at_once(statement, (op.after, end, state.id, work.now, lane, wanted)).fetchall()
    return Columns(len(rows), columns_of(work, state, rows, narrow), end if more else None)


def _end(work: Work, op: ReadColumns) -> tuple[int, bool]:
    """Return the last id of this step, and True if there are more. Large messages make the step shorter."""
    limit = op.limit
    while True:
        end, count, size = work.execute_at_once(work.sql.export_end, (op.after, op.up_to, limit)).fetchall()[0]
        if size <= MOST_BYTES or count <= 1:
            return end or op.after, count == limit
        limit = count // 2


def _plain(work: Work, state: QueueState, op: ReadColumns) -> Columns | None:
    """Return the next messages, if all of them are plain ones of the queue."""
    limit = min(op.limit, _PLAIN_AT_ONCE)
    # The first few tell whether it is worth a try.
    if not _plain_rows(work, state, op, min(limit, _TRIED)) or not (rows := _plain_rows(work, state, op, limit)):
        return None
    return Columns(len(rows), _plain_columns(state, rows), rows[-1][0] if len(rows) == limit else None)


def _plain_rows(work: Work, state: QueueState, op: ReadColumns, limit: int) -> list[Row]:
    """Return the next rows, if all are plain; otherwise none."""
    parameters = (op.after, op.up_to, limit, state.id, state.default_lane, work.now)
    rows = work.execute_at_once(work.sql.export_plain, parameters).fetchall()
    return rows if all(map(_is_plain, rows)) else []


def _plain_columns(state: QueueState, rows: Sequence[Row]) -> dict[str, Any]:
    ids, checks, bodies, created_at, available_at, _ = zip(*rows, strict=True)
    if list(map(crc32, bodies)) != list(checks):
        bodies = tuple(body if crc32(body) == check else None for body, check in zip(bodies, checks, strict=True))
    return {
        "id": ids,
        "queue": Same(state.name),
        "lane": Same(state.lane_names[state.default_lane]),
        "priority": Same(0),
        "body": bodies,
        "format": Same("json"),
        "key": Same(None),
        "group": Same(None),
        "headers": Same({}),
        "attempts": Same(0),
        "state": Same("ready"),
        "created_at": created_at,
        "available_at": available_at,
        "expires_at": Same(None),
    }


def columns_of(work: Work, state: QueueState, rows: Sequence[Row], narrow: bool = False) -> dict[str, Any]:
    """Return rows of {exported}, or of {exported_body} if ``narrow``, as columns by their names."""
    if not rows:
        return {}
    if narrow:
        ids, is_text, checks, headers, bodies = zip(*rows, strict=True)
        values: dict[str, Any] = {}
    else:
        (
            ids, is_text, checks, headers, bodies, lanes, priorities, attempts, states, created_at, available_at,
            expires_at, keys, groups,
        ) = zip(*rows, strict=True)  # fmt: skip
        values = {
            "lane": _named(lanes, state.lane_names),
            "priority": priorities,
            "attempts": attempts,
            "state": _named(states, STATES),
            "created_at": created_at,
            "available_at": available_at,
            "expires_at": expires_at,
            "key": _keys(keys),
            "group": groups,
        }
    try:
        contents = _contents(bodies, headers, is_text, checks)
    except TypeError:
        # Some bodies are kept elsewhere. To look for these among thousands takes as long as their checksums.
        bodies = tuple(body_of(work, id, body) for id, body in zip(ids, bodies, strict=True))
        contents = _contents_but_lost(bodies, headers, is_text, checks)
    return {**values, "id": ids, "queue": Same(state.name), **contents}


def _contents_but_lost(
    bodies: Sequence[bytes | None], headers: Sequence[bytes | None], is_text: Any, checks: Any
) -> dict[str, Any]:
    """Return the same as `_contents`, where some bodies may be lost."""
    # No checksum is negative. What is left of such a message must not match its own (see rows.is_whole).
    checks = [-1 if body is None else check for body, check in zip(bodies, checks, strict=True)]
    return _contents([b"" if body is None else body for body in bodies], headers, is_text, checks)


def _contents(bodies: Sequence[bytes], headers: Sequence[bytes | None], is_text: Any, checks: Any) -> dict[str, Any]:
    """Return bodies and headers as they were sent; None in place of bodies that are not."""
    found = list(map(crc32, bodies, is_text))
    plain = headers.count(None) == len(headers)
    if not plain:
        found = [crc32(one, check) if one else check for one, check in zip(headers, found, strict=True)]
    values = {"body": bodies, "headers": Same({}), "format": _named(is_text, ("json", "text"))}
    if found == list(checks):
        return values if plain else {**values, "headers": list(map(decode_headers, headers))}
    intact = list(map(eq, found, checks))
    return {
        **values,
        "body": [body if whole else None for body, whole in zip(bodies, intact, strict=True)],
        "headers": [decode_headers(one) if whole else {} for one, whole in zip(headers, intact, strict=True)],
    }


def _named(codes: Sequence[int], names: Any) -> Sequence[str] | Same:
    """Return the names that codes stand for. Mostly they are all the same."""
    if len(set(codes)) == 1:
        return Same(names[codes[0]])
    return [names[code] for code in codes]


def _keys(keys: Sequence[str | None]) -> Sequence[str | None]:
    if keys.count(None) == len(keys):
        return keys
    return [None if key is None else shown_key(key) for key in keys]


def _archived(work: Work, state: QueueState, op: ReadColumns) -> Columns:
    end, more = _archive_end(work, state, op)
    rows: list[Row] = []
    for outcome in _OUTCOMES:
        rows += work.execute(work.sql.export_archived, (state.id, outcome, op.after, end)).fetchall()
    if op.lane is not None:
        rows = [row for row in rows if row[5] == op.lane]
    # By their ids, which come first and are all different.
    rows.sort(key=lambda row: row[0])
    return Columns(len(rows), _archive_columns(state, rows), end if more else None)


def _archive_end(work: Work, state: QueueState, op: ReadColumns) -> tuple[int, bool]:
    limit = op.limit
    while True:
        found = [
            work.execute(work.sql.archive_end, (state.id, outcome, op.after, op.up_to, limit)).fetchall()[0]
            for outcome in _OUTCOMES
        ]
        if sum(size for _, _, size in found) <= MOST_BYTES or limit == 1:
            ends = [end for end, count, _ in found if count == limit]
            return min(ends, default=op.up_to), bool(ends)
        limit = max(limit // 2, 1)


def _archive_columns(state: QueueState, rows: Sequence[Row]) -> dict[str, Any]:
    if not rows:
        return {}
    (
        ids, is_text, checks, headers, bodies, lanes, priorities, attempts, created_at, available_at, keys, groups,
        outcomes, finished_at, reasons,
    ) = zip(*rows, strict=True)  # fmt: skip
    values = {
        "id": ids,
        "queue": Same(state.name),
        "lane": lanes,
        "priority": priorities,
        "attempts": attempts,
        "created_at": created_at,
        "available_at": available_at,
        "key": _keys(keys),
        "group": groups,
        "outcome": outcomes,
        "finished_at": finished_at,
        "reason": reasons,
        **_contents_but_lost(bodies, headers, is_text, checks),
    }
    # Those that only a message has that still waits.
    return {**dict.fromkeys(ARCHIVE_COLUMNS, Same(None)), **values}
