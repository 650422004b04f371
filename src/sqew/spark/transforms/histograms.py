"""Exact quantiles of many durations without sorting them: for each group, how often each microsecond occurs.

A task counts the samples of its messages; the counts of a group then come together in one task, which finds the
quantiles. A quantile is the least sample that at least that part of all does not exceed: numpy's ``inverted_cdf``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from sqew.spark.transforms.percentiles import CUT, OF_MESSAGES, PARTS
from sqew.spark.transforms.timelines import NONE, EventNames, Flags, Followed, Numbers, are_first, place_of

MEASURES = (*OF_MESSAGES, "held")
COUNTS = np.dtype([("at", "i8"), ("group", "i8"), ("us", "i8"), ("count", "i8")])
"""The number of times that a duration occurs in a group. ``at`` is NONE for the whole log."""
LATENCIES = pa.schema(
    [
        ("at", pa.int64()),
        *((name, pa.string()) for name in (*CUT, "measure")),
        *((name, pa.int64()) for name in ("count", "missing")),
        *((name, pa.float64()) for name in (*PARTS, "max")),
    ]
)
"""The number of samples of a group, how many of them never happened, and quantiles in milliseconds: null is infinite.

``to_stored``, ``to_claim`` and ``to_ack`` are of messages, from when they were due; ``held`` is of deliveries, from
claim to ack. ``at`` is null for the whole log, and else the beginning of the step that the messages were due in.
"""
_SORTS = ("queue", "lane", "process")
"""The kinds of names in `CUT`: for a worker it is the process, and not a slot of it."""
_FOR_EVER = np.iinfo(np.int64).max
_MEANT = (-1, *(place_of(end) for end in ("acked", "refused", "unanswered")))
"""The ends of deliveries that were to be acked: not those that were given back on purpose."""


class _Part(Struct, frozen=True):
    """A part of the samples, by the columns that have their queue, lane and worker; the others are empty.

    A sample that lacks one of them is not counted.
    """

    of: dict[str, str]
    measures: tuple[str, ...]
    over_time: bool = False


_BY_LANE: tuple[dict[str, str], ...] = ({"queue": "queue"}, {"queue": "queue", "lane": "lane"})
_PARTS_OF_MESSAGES = (
    *(_Part(of, OF_MESSAGES) for of in _BY_LANE),
    _Part({"worker": "claimed_process"}, ("to_stored", "to_claim")),
    _Part({"worker": "acked_process"}, ("to_ack",)),
    _Part({"queue": "queue"}, ("to_ack",), over_time=True),
    _Part({}, ("to_ack",), over_time=True),
)
_PARTS_OF_DELIVERIES = tuple(_Part(of, ("held",)) for of in (*_BY_LANE, {"worker": "process"}))
_PARTS_OF_DROPS = tuple(_Part(of, ("to_stored",)) for of in _BY_LANE)


def counts_of(found: Followed, names: EventNames, step_us: int, began_at: int) -> np.ndarray[Any, Any]:
    """Return the number of times that each duration occurs in each group of messages and deliveries: `COUNTS`."""
    messages, deliveries = found.messages, found.deliveries
    sampled = (messages["due"] != NONE) & ~messages["is_found"]
    at = (messages["due"] - began_at) // step_us * step_us
    samples = [
        *_samples({**messages, "at": at, "count": np.ones_like(at)}, sampled, _PARTS_OF_MESSAGES, names),
        *_samples(
            {**deliveries, "count": np.ones_like(deliveries["at"])},
            np.isin(deliveries["end"], _MEANT),
            _PARTS_OF_DELIVERIES,
            names,
        ),
    ]
    rows = pa.table({name: np.concatenate([one[name] for one in samples]) for name in COUNTS.names or ()})
    keys = ["at", "group", "us"]
    return _as_counts(rows.group_by(keys, use_threads=False).aggregate([("count", "sum")]))


def counts_of_drops(drops: pa.Table, names: EventNames) -> np.ndarray[Any, Any]:
    """Count messages that were due and that a generator dropped: ``drops`` has their number by queue and lane."""
    columns = {name: names.places(name, drops[name].to_pylist()) for name in ("queue", "lane")}
    columns |= {"to_stored": np.full(drops.num_rows, NONE), "count": drops["events"].to_numpy()}
    samples = _samples(columns, np.ones(drops.num_rows, bool), _PARTS_OF_DROPS, names)
    return np.concatenate([_as_counts(pa.table(one)) for one in samples])


def _samples(
    columns: Mapping[str, Numbers], wanted: Flags, parts: Sequence[_Part], names: EventNames
) -> Iterator[dict[str, Numbers]]:
    """Yield the samples of each part and measure, with the columns of `COUNTS`."""
    for part in parts:
        rows = wanted
        for column in part.of.values():
            rows = rows & (columns[column] > 0)
        count = columns["count"][rows]
        nobody = np.zeros_like(count)
        of = [columns[part.of[name]][rows] if name in part.of else nobody for name in CUT]
        at = columns["at"][rows] if part.over_time else np.full_like(count, NONE)
        for measure in part.measures:
            group = np.ravel_multi_index((nobody + MEASURES.index(measure), *of), _sizes(names))
            us = columns[measure][rows]
            yield {"at": at, "group": group, "us": np.where(us == NONE, _FOR_EVER, us), "count": count}


def _sizes(names: EventNames) -> tuple[int, ...]:
    return (len(MEASURES), *(len(names.texts[sort]) for sort in _SORTS))


def _as_counts(rows: pa.Table) -> np.ndarray[Any, Any]:
    counts = np.empty(rows.num_rows, COUNTS)
    for name, column in zip(COUNTS.names or (), rows.columns, strict=True):
        counts[name] = column.to_numpy()
    return counts


def latencies(counts: np.ndarray[Any, Any], names: EventNames) -> pa.Table:
    """Return the quantiles of groups (`LATENCIES`) from all their counts."""
    if not len(counts):
        return LATENCIES.empty_table()
    counts = counts[np.lexsort((counts["us"], counts["group"], counts["at"]))]
    at, group, us, count = (counts[name] for name in COUNTS.names or ())
    starts = np.flatnonzero(are_first(at, group))
    ends = np.append(starts[1:], len(at)) - 1
    so_far = np.cumsum(count)
    before = so_far[starts] - count[starts]
    total = so_far[ends] - before
    missing = np.add.reduceat(np.where(us == _FOR_EVER, count, 0), starts)
    texts = [MEASURES, *(names.texts[sort] for sort in _SORTS)]
    places = np.unravel_index(group[starts], _sizes(names))
    measure, *of = (
        pa.array(some, pa.string()).take(pa.array(those)) for some, those in zip(texts, places, strict=True)
    )
    columns = [pa.array(at[starts], mask=at[starts] == NONE), *of, measure]
    columns += [pa.array(total), pa.array(missing)]
    for part in PARTS.values():
        rank = np.clip(np.ceil(part * total).astype(np.int64), 1, total)
        columns.append(_ms(us[np.searchsorted(so_far, before + rank)]))
    return pa.table([*columns, _ms(us[ends])], schema=LATENCIES)


def _ms(us: Numbers) -> pa.Array:
    return pa.array(us / 1000, mask=us == _FOR_EVER)
