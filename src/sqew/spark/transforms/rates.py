"""Rates and counts over time, by queue, lane and worker. Each task counts its share, by Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqew.spark.transforms.timelines import MESSAGES, NONE, Followed, place_of

COUNTED = ("sent", "received", "acked", "retried", "died")
SPEEDS = pa.schema([("step", pa.int64()), ("whose", pa.int64()), *((kind, pa.int64()) for kind in COUNTED)])
"""The number of messages that a worker sent, received, acked, retried and gave up in a step of time."""
TALLIES = pa.schema(
    [
        *((name, pa.string()) for name in ("queue", "lane", "claimed_process", "acked_process", "process")),
        *(
            (name, pa.int64())
            for name in (
                "claimed", "sent", "first_began", "last_sent", "first_due", "done", "last_done",
                "deliveries", "retries", "deaths", "step", "waiting", "unfinished",
            )
        ),
    ]
)  # fmt: skip
"""The basis of throughput and depths, in one table of few rows: sends, receives and changes.

Each of the three has only its own columns; the others are null. Rows with the same keys may come from several tasks.
"""


def speeds(steps: np.ndarray[Any, Any], step_us: int, began_at: int) -> pa.Table:
    """Count what happened to messages: `SPEEDS`."""
    kinds = {kind: pa.array((steps["kind"] == place_of(kind)).astype(np.int64)) for kind in COUNTED}
    rows = pa.table({"step": (steps["at"] - began_at) // step_us, "whose": steps["whose"], **kinds})
    counted = rows.filter(pc.is_in(pa.array(steps["kind"]), pa.array([*map(place_of, COUNTED)], pa.int8())))
    return together(counted)


def together(counted: pa.Table) -> pa.Table:
    """Merge `SPEEDS` to one row for each step and worker."""
    found = counted.group_by(["step", "whose"], use_threads=False).aggregate([(kind, "sum") for kind in COUNTED])
    return found.rename_columns(SPEEDS.names).cast(SPEEDS)


def tallies(messages: pa.Table, deliveries: pa.Table, step_us: int, began_at: int) -> pa.Table:
    """Count messages and their deliveries: `TALLIES`."""
    parts = [sends(messages), receives(deliveries), changes(messages, step_us, began_at)]
    plain = [part.cast(pa.schema([TALLIES.field(name) for name in part.column_names])) for part in parts]
    return pa.concat_tables([TALLIES.empty_table(), *plain], promote_options="default")


def sends(messages: pa.Table) -> pa.Table:
    """Return counts, firsts and lasts by the workers that received and acked a message: few rows from many messages."""
    sampled = messages.filter(pc.and_(pc.is_valid(messages["due"]), pc.invert(messages["is_found"])))
    is_sent = pc.fill_null(pc.equal(sampled["outcome"].cast(pa.string()), "sent"), False)
    keys = ["queue", "lane", "claimed_process", "acked_process"]
    rows = sampled.select([*keys, "due", "done_at"])
    rows = rows.append_column("sent", pc.cast(is_sent, pa.int64()))
    for name in ("began_at", "sent_at"):
        rows = rows.append_column(name, pc.if_else(is_sent, sampled[name], pa.scalar(None, pa.int64())))
    figures = {
        "claimed": ([], "count_all"), "sent": ("sent", "sum"), "first_began": ("began_at", "min"),
        "last_sent": ("sent_at", "max"), "first_due": ("due", "min"), "done": ("done_at", "count"),
        "last_done": ("done_at", "max"),
    }  # fmt: skip
    found = rows.group_by(keys, use_threads=False).aggregate(list(figures.values()))
    return found.rename_columns([*keys, *figures])


def receives(deliveries: pa.Table) -> pa.Table:
    """Return the number of deliveries of each queue, lane and worker, and how many ended in a retry or in death."""
    keys = ["queue", "lane", "process"]
    end = deliveries["end"].cast(pa.string())
    rows = deliveries.select(keys)
    for name, how in (("retries", "retried"), ("deaths", "died")):
        rows = rows.append_column(name, pc.cast(pc.fill_null(pc.equal(end, how), False), pa.int64()))
    figures = [([], "count_all"), ("retries", "sum"), ("deaths", "sum")]
    found = rows.group_by(keys, use_threads=False).aggregate(figures)
    return found.rename_columns([*keys, "deliveries", "retries", "deaths"])


def changes(messages: pa.Table, step_us: int, began_at: int) -> pa.Table:
    """Return by how much the messages in a queue and lane became more or fewer in each step.

    ``waiting``: stored, and never received so far; ``unfinished``: stored, and neither acked, dead nor removed.
    Messages that were there before the log began are not counted.
    """
    stored = messages.filter(pc.is_valid(messages["sent_at"]))
    sent = stored["sent_at"]
    ended = pc.min_element_wise(*(stored[name] for name in ("done_at", "died_at", "removed_at")))
    # A message may be received before the answer to its send is noted.
    received, ended = (pc.max_element_wise(at, sent, skip_nulls=False) for at in (stored["received_at"], ended))
    rows = pa.concat_tables(
        [_change(stored, sent, 1, 1), _change(stored, received, -1, 0), _change(stored, ended, 0, -1)]
    )
    step = (rows["at"].to_numpy() - began_at) // step_us
    return summed(rows.append_column("step", pa.array(step)))


def _change(stored: pa.Table, at: Any, waiting: int, unfinished: int) -> pa.Table:
    rows = stored.select(["queue", "lane"]).append_column("at", at).filter(pc.is_valid(at))
    for name, by in (("waiting", waiting), ("unfinished", unfinished)):
        rows = rows.append_column(name, pa.repeat(pa.scalar(by, pa.int64()), rows.num_rows))
    return rows


def summed(changes: pa.Table) -> pa.Table:
    """Merge changes to one row for each queue, lane and step."""
    keys = ["queue", "lane", "step"]
    found = changes.group_by(keys, use_threads=False).aggregate([("waiting", "sum"), ("unfinished", "sum")])
    return found.rename_columns([*keys, "waiting", "unfinished"])


def slowest(found: Followed, messages: pa.Table, most: int) -> pa.Table:
    """Return the messages that took the longest from due to ack; first those that were never acked."""
    columns = found.messages
    sampled = np.flatnonzero((columns["due"] != NONE) & ~columns["is_found"])
    to_ack = np.where(columns["to_ack"] == NONE, np.iinfo(np.int64).max, columns["to_ack"])
    order = np.lexsort((columns["n"][sampled], columns["queue"][sampled], -to_ack[sampled]))
    return messages.take(pa.array(sampled[order[:most]])).cast(MESSAGES)
