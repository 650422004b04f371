"""The small tables of an analysis, by Arrow, from what tasks have counted: few rows, however long the log was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqew.spark.transforms.depth import SEEN
from sqew.spark.transforms.percentiles import CUT
from sqew.spark.transforms.rates import COUNTED, summed, together

_BY_LANE: tuple[dict[str, str], ...] = ({"queue": "queue"}, {"queue": "queue", "lane": "lane"})
_OF_SENDS = ("claimed", "sent", "first_began", "last_sent")
_OF_ACKS = ("first_due", "done", "last_done")
_OF_DELIVERIES = ("deliveries", "retries", "deaths")
_COUNTS = ("claimed", "sent", "done", *_OF_DELIVERIES)


def names(tally: pa.Table, happenings: pa.Table) -> pa.Table:
    """Return the names behind the codes: a row for each queue, lane and worker that occur together."""
    columns = ["whose", "queue_code", "queue", "lane", "worker", "process"]
    found = tally.filter(pc.is_valid(tally["kind"])).group_by(columns, use_threads=False).aggregate([]).select(columns)
    dead = happenings["who"].combine_chunks().drop_null()
    is_dead = pc.or_(pc.is_in(found["worker"], dead), pc.is_in(found["process"], dead))
    return found.append_column("is_dead", is_dead)


def deaths(happenings: pa.Table) -> pa.Table:
    """Return the times at which slots, or processes of workers and generators, died."""
    return happenings.filter(pc.is_valid(happenings["died_at"])).select(["who", "died_at", "settling"])


def faults(happenings: pa.Table, step_us: int) -> pa.Table:
    """Return the number of times that each fault happened in each step."""
    found = happenings.filter(pc.equal(happenings["kind"], "fault"))
    counts = found.group_by(["step", "what", "where"], use_threads=False).aggregate([("count", "sum")])
    return _over_time(counts.rename_columns({"count_sum": "count"}), step_us, ["what", "where", "count"])


def looks(happenings: pa.Table, step_us: int) -> pa.Table:
    """Return the maximum seen in each step with an observation: depths by state, the size of the log file, and lags."""
    found = happenings.filter(pc.is_in(happenings["kind"], pa.array(["depth", "generator"])))
    return _over_time(found, step_us, ["kind", "queue", "lane", *SEEN])


def depths(tallies: pa.Table, step_us: int) -> pa.Table:
    """Return the number of messages in a queue and lane at the end of each step in which it changed."""
    changes = summed(tallies.filter(pc.is_valid(tallies["step"]))).sort_by(
        [(name, "ascending") for name in ("queue", "lane", "step")]
    )
    place = changes.select(["queue", "lane"]).to_pylist()
    begins = np.array([number == 0 or place[number - 1] != here for number, here in enumerate(place)], bool)
    for name in ("waiting", "unfinished"):
        totals = pa.array(_totals(changes[name].to_numpy(), begins))
        changes = changes.set_column(changes.schema.get_field_index(name), name, totals)
    return _over_time(changes, step_us, ["queue", "lane", "waiting", "unfinished"])


def _totals(values: np.ndarray[Any, Any], begins: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return running totals that restart at each position where ``begins`` is true."""
    running = np.cumsum(values, dtype=np.int64)
    starts = np.flatnonzero(begins)
    before = np.append(0, running)[starts]
    return np.asarray(running - np.repeat(before, np.diff(np.append(starts, len(values)))))


def _over_time(rows: pa.Table, step_us: int, columns: Sequence[str]) -> pa.Table:
    at = pc.multiply(rows["step"], step_us)
    return rows.select(columns).add_column(0, "at", at).sort_by("at")


def rates(speeds: pa.Table, names: pa.Table, step_us: int) -> pa.Table:
    """Return the numbers of messages sent, received, acked, retried and given up in each step of time, and per second.

    A row for each step, queue, lane and worker; ``at`` is where the step begins, from the beginning of the log.
    """
    counted = together(speeds)
    places = pc.index_in(counted["whose"], names["whose"])
    counts = {kind: counted[kind] for kind in COUNTED}
    return pa.table(
        {
            "at": pc.multiply(counted["step"], step_us),
            **{name: names[name].take(places) for name in CUT},
            **counts,
            **{
                f"{kind}_per_s": pc.divide(pc.cast(count, pa.float64()), step_us / 1e6)
                for kind, count in counts.items()
            },
        }
    )


def slowest(some: pa.Table, most: int) -> pa.Table:
    """Return the slowest of all, from those of each task: messages that were never acked come first."""
    took = pc.fill_null(some["to_ack"], np.iinfo(np.int64).max)
    order = [("took", "descending"), ("queue", "ascending"), ("n", "ascending")]
    return some.append_column("took", took).sort_by(order).slice(0, most).drop_columns("took")


def throughput(tallies: pa.Table) -> pa.Table:
    """Return for each queue, lane and worker: messages, deliveries, retries and deaths, and average messages per
    second.

    A worker's messages are those that it was the first to receive. Rates are from when the first message was due, or
    was sent, to the last that was stored or acked.
    """
    tallies = tallies.filter(pc.is_null(tallies["step"]))
    done = tallies.filter(pc.is_valid(tallies["last_done"]))
    rows = pa.concat_tables(
        [
            *(_cut(tallies, of, (*_OF_SENDS, *_OF_ACKS, *_OF_DELIVERIES)) for of in _BY_LANE),
            _cut(tallies, {"worker": "claimed_process"}, _OF_SENDS),
            _cut(done, {"worker": "acked_process"}, _OF_ACKS),
            _cut(tallies, {"worker": "process"}, _OF_DELIVERIES),
        ],
        promote_options="default",
    )
    found = rows.group_by(list(CUT), use_threads=False).aggregate(
        [*((name, "sum") for name in _COUNTS), ("first_began", "min"), ("first_due", "min"), ("last_sent", "max"),
         ("last_done", "max")]
    )  # fmt: skip
    counts = {name: pc.fill_null(found[f"{name}_sum"], 0) for name in _COUNTS}
    start = pc.min_element_wise(found["first_began_min"], found["first_due_min"])
    is_worker = pc.not_equal(found["worker"], "")
    return pa.table(
        {
            **{name: found[name] for name in CUT},
            "messages": pc.if_else(is_worker, counts["claimed"], counts["sent"]),
            **{name: counts[name] for name in ("deliveries", "done", "retries", "deaths")},
            "sent_per_s": _per_second(counts["sent"], start, found["last_sent_max"]),
            "acked_per_s": _per_second(counts["done"], start, found["last_done_max"]),
        }
    )


def _cut(rows: pa.Table, of: Mapping[str, str], figures: Sequence[str]) -> pa.Table:
    """Return the rows in which all these columns are known: ``of`` maps queue, lane and worker to their columns."""
    for column in of.values():
        rows = rows.filter(pc.not_equal(pc.fill_null(rows[column], ""), ""))
    empty = pa.array([""] * rows.num_rows, pa.string())
    columns = {name: rows[of[name]] if name in of else empty for name in CUT}
    return pa.table({**columns, **{name: rows[name] for name in figures}})


def _per_second(count: Any, start: Any, last: Any) -> Any:
    seconds = pc.divide(pc.cast(pc.subtract(last, start), pa.float64()), 1e6)
    rate = pc.divide(pc.cast(count, pa.float64()), seconds)
    return pc.fill_null(pc.if_else(pc.greater(seconds, 0), rate, 0.0), 0.0)
