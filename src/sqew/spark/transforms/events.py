"""Lines of event logs as events: PlainBench's (`plainbench.record.events`) and a server's (docs/event-log.md).

Both say the same in other words: a topic is a queue, a number an id, and to nack is to retry. Names are long and many,
so each event also has codes: millions of rows are grouped by numbers several times as fast as by strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from sqew.spark.transforms.log_lines import BROKEN_IN, LINES

if TYPE_CHECKING:
    from pyspark.sql import Column

SENDS = ("sending", "sent", "unsent", "unsure")
"""``unsure``: the send failed, and the message may be stored all the same."""
ENDS = ("acked", "retried", "died", "refused", "unanswered")
"""The ends of a delivery. ``unanswered``: it is unknown if the request was carried out."""
REMOVALS = ("expired", "purged", "removed")
OTHERS = ("found", "left", "dropped", "extended", "requeued", "fault", "worker", "depth", "generator", "run")
KINDS = (*SENDS, "received", *ENDS, *REMOVALS, *OTHERS)

EVENTS = pa.schema(
    [
        ("at", pa.int64()),
        ("kind", pa.string()),
        ("queue", pa.string()),
        ("lane", pa.string()),
        ("worker", pa.string()),
        ("n", pa.int64()),
        ("last", pa.int64()),
        ("attempt", pa.int32()),
        ("due", pa.int64()),
        ("took", pa.int64()),
        ("what", pa.string()),
        ("where", pa.string()),
        ("stream", pa.string()),
        ("figures", LINES.field("figures").type),
        ("queue_code", pa.int64()),
        ("whose", pa.int64()),
        (BROKEN_IN, pa.string()),
    ]
)
"""An event of a log.

``at`` is in microseconds, in a server's log since 1970 and else since the run began. ``last`` is the last number if
several messages are sent in one call. ``whose`` is a code for queue, lane and worker together. A line that is no event
has neither ``at`` nor ``kind`` but ``broken_in``, the file that it stands in.
"""
_TALLIED = ["kind", "queue", "lane", "worker", BROKEN_IN]
TALLY = pa.schema(
    [*((name, pa.string()) for name in _TALLIED), *((name, pa.int64()) for name in ("events", "first_at", "last_at"))]
)
"""The number of events of each kind, queue, lane and worker, and their first and last time.

Lines that are no events have no kind, and the file that they stand in.
"""

_SAME_AS = {"nacked": "retried", "dead": "died"}
_ENDS_SAID, _SENDS_SAID = ("acked", "retried", "died", "refused"), ("sending", "sent", "unsent")
_NO_ANSWER = ("OutcomeUnknown", "NoAnswer", "RequestTimeout")


def as_events(lines: pa.RecordBatch) -> pa.RecordBatch:
    """Return an event for each line (`log_lines`): `EVENTS`, but names and kinds as dictionaries."""
    is_event = pc.is_null(lines[BROKEN_IN])
    n = _first(lines, "n", "id", default=0)
    names = {
        "queue": pc.dictionary_encode(_first(lines, "topic", "queue", default="")),
        "lane": pc.dictionary_encode(_first(lines, "lane", default="")),
        "worker": pc.dictionary_encode(_first(lines, "worker", default="")),
    }
    queue_code, whose = _codes(names)
    columns = {
        "at": pc.if_else(is_event, _first(lines, "at", "t"), pa.scalar(None, pa.int64())),
        "kind": _kinds(lines, is_event),
        **names,
        "n": n,
        "last": pc.max_element_wise(lines["to"], n),
        "attempt": pc.cast(_first(lines, "attempt", "attempts", default=0), pa.int32(), safe=False),
        # A server does not know when a message was meant to be sent: its time begins when it is stored.
        "due": pc.coalesce(lines["due"], pc.if_else(pc.equal(lines["event"], "sent"), lines["t"], None)),
        "took": _first(lines, "took", default=0),
        **{name: lines[name] for name in ("what", "where", "stream", "figures")},
        "queue_code": queue_code,
        "whose": whose,
        BROKEN_IN: lines[BROKEN_IN],
    }
    return pa.RecordBatch.from_pydict(columns)


def _first(lines: pa.RecordBatch, *names: str, default: Any = None) -> pa.Array:
    """Return in each row the first of these columns that is not null."""
    # In most blocks one of them has all, and the others have nothing.
    found = [lines[name] for name in names if lines[name].null_count < lines.num_rows]
    if not found:
        return pa.repeat(pa.scalar(default, lines[names[0]].type), lines.num_rows)
    return found[0] if not found[0].null_count else pc.coalesce(*found, pa.scalar(default, found[0].type))


def _kinds(lines: pa.RecordBatch, is_event: pa.Array) -> pa.DictionaryArray:
    events = pc.dictionary_encode(lines["event"])
    said = events.dictionary.to_pylist()
    kinds = [_SAME_AS.get(name, name) for name in said]
    names = list(dict.fromkeys([*kinds, "unanswered", "unsure"]))
    places = pa.array([*map(names.index, kinds)], pa.int32()).take(events.indices)
    if lines["what"].null_count < lines.num_rows:
        unanswered = pc.is_in(lines["what"], pa.array(_NO_ANSWER)), _of_kinds(events, said, _ENDS_SAID)
        places = pc.if_else(pc.and_(*unanswered), names.index("unanswered"), places)
    if lines["unknown"].null_count < lines.num_rows:
        unsure = pc.fill_null(lines["unknown"], False), _of_kinds(events, said, _SENDS_SAID)
        places = pc.if_else(pc.and_(*unsure), names.index("unsure"), places)
    places = pc.if_else(is_event, places, pa.scalar(None, pa.int32()))
    return pa.DictionaryArray.from_arrays(places.cast(pa.int32()), names)


def _of_kinds(events: pa.DictionaryArray, said: Sequence[str], wanted: Sequence[str]) -> pa.Array:
    are = pa.array([name in wanted for name in said], pa.bool_()).take(events.indices)
    return pc.fill_null(are, False)


def _codes(names: Mapping[str, pa.DictionaryArray]) -> tuple[pa.Array, pa.Array]:
    """Return codes for the queue of each row, and for its queue, lane and worker together."""
    texts = [of.dictionary.to_pylist() for of in names.values()]
    sizes = [max(len(some), 1) for some in texts]
    together = np.ravel_multi_index([of.indices.to_numpy() for of in names.values()], sizes)
    occurring = pc.dictionary_encode(pa.array(together))
    each = np.transpose(np.unravel_index(occurring.dictionary.to_numpy(), sizes))
    whose = [code_of(*(some[place] for some, place in zip(texts, places, strict=True))) for places in each.tolist()]
    queues = pa.array([code_of(queue) for queue in texts[0]], pa.int64())
    return queues.take(names["queue"].indices), pa.array(whose, pa.int64()).take(occurring.indices)


@lru_cache(100_000)
def code_of(*names: str) -> int:
    """Return a number for names: the same in every task."""
    return int.from_bytes(blake2b(msgspec.json.encode(names), digest_size=8).digest(), "little", signed=True)


def tallied(events: pa.RecordBatch) -> pa.Table:
    """Count events: `TALLY`."""
    rows = pa.table({name: events[name] for name in (*_TALLIED, "at")})
    figures = [([], "count_all"), ("at", "min"), ("at", "max")]
    counted = rows.group_by(_TALLIED, use_threads=False).aggregate(figures)
    return _tally(counted)


def tallied_together(tallies: Sequence[pa.Table]) -> pa.Table:
    """Merge several `TALLY` into one."""
    figures = [("events", "sum"), ("first_at", "min"), ("last_at", "max")]
    return _tally(pa.concat_tables(tallies).group_by(_TALLIED, use_threads=False).aggregate(figures))


def _tally(counted: pa.Table) -> pa.Table:
    return counted.rename_columns(TALLY.names).cast(TALLY)


def with_codes(tally: pa.Table) -> pa.Table:
    """Add the codes that events have, and the process of each worker."""
    places = list(zip(*(tally[name].to_pylist() for name in ("queue", "lane", "worker")), strict=True))
    columns = {
        "queue_code": pa.array([code_of(queue) for queue, _, _ in places], pa.int64()),
        "whose": pa.array([code_of(*place) for place in places], pa.int64()),
        "process": pa.array([_process(worker) for _, _, worker in places], pa.string()),
    }
    return pa.table({**{name: tally[name] for name in tally.column_names}, **columns})


def _process(slot: str) -> str:
    return slot.rpartition("/")[0] or slot


def process_of(slot: str) -> Column:
    """Return the worker that a slot belongs to: ``w`` of ``w/3``."""
    process = F.regexp_replace(slot, "/[^/]*$", "")
    return F.when(process == "", F.col(slot)).otherwise(process)
