"""The fate of every message and of every delivery, computed by tasks in Python, each for some of the messages.

All that happened to a message goes to the task that follows it, as bytes (`STEPS`): Spark moves a few large values many
times as fast as millions of rows. There it is sorted once by message and time; the results are the first and the last
step of each kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from sqew.spark.transforms.events import ENDS, REMOVALS, SENDS

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

STEPS = np.dtype(
    [("n", "i8"), ("whose", "i8"), ("at", "i8"), ("took", "i8"), ("due", "i8"), ("attempt", "i4"), ("kind", "i1")],
    align=True,
)
"""An event of a message. ``kind`` is the place in `_FOLLOWED`."""
NONE = np.iinfo(np.int64).min
"""The mark for a time that is missing. Every time in a log is nearer to 0."""

_LEFT_DEAD = "left dead"
_FOLLOWED = (*SENDS, "received", *ENDS, *REMOVALS, "found", "left", _LEFT_DEAD)
_IS_END = np.array([kind in ENDS for kind in _FOLLOWED])
_OUTCOMES = ("sent", "unsent", "unsure")
_SPREAD = np.uint64(0x9E3779B97F4A7C15)

DELIVERIES = pa.schema(
    [
        ("queue", pa.string()),
        ("lane", pa.string()),
        ("n", pa.int64()),
        ("worker", pa.string()),
        ("process", pa.string()),
        ("attempt", pa.int32()),
        ("at", pa.int64()),
        ("took", pa.int64()),
        ("end", pa.string()),
        ("end_at", pa.int64()),
        ("held", pa.int64()),
    ]
)
"""A delivery: by whom, when, how it ended and when, and how long it was held until it was acked.

Without an end, ``end`` is null.
"""
MESSAGES = pa.schema(
    [
        ("queue", pa.string()),
        ("lane", pa.string()),
        ("n", pa.int64()),
        ("outcome", pa.string()),
        ("sender", pa.string()),
        ("claimed_by", pa.string()),
        ("acked_by", pa.string()),
        ("due", pa.int64()),
        ("began_at", pa.int64()),
        ("sent_at", pa.int64()),
        ("received_at", pa.int64()),
        ("acked_at", pa.int64()),
        ("died_at", pa.int64()),
        ("removed_at", pa.int64()),
        ("done_at", pa.int64()),
        ("deliveries", pa.int64()),
        ("retries", pa.int64()),
        ("attempts", pa.int32()),
        ("is_found", pa.bool_()),
        ("is_left", pa.bool_()),
        ("is_left_dead", pa.bool_()),
        ("to_stored", pa.int64()),
        ("to_claim", pa.int64()),
        ("to_finish", pa.int64()),
        ("to_ack", pa.int64()),
        ("claimed_process", pa.string()),
        ("acked_process", pa.string()),
    ]
)
"""A message: when it was due, sent, received and done, by whom, and how long that took.

Times and durations are microseconds. What did not happen is null. ``done_at`` is when it was acked or, if an ack got no
answer, when its worker died. ``outcome`` is the result of sending it: sent; unsent, if it was refused to the end;
unsure, if no answer came.
"""


def steps_of(events: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """Return the events of messages (`STEPS`). An event of several messages becomes one for each."""
    kinds = events["kind"]
    places = {kind: place for place, kind in enumerate(_FOLLOWED)}
    followed = np.array([places.get(kind, -1) for kind in kinds.dictionary.to_pylist()] + [-1], np.int8)
    kind = followed[kinds.indices.fill_null(-1).to_numpy()]
    mine = np.flatnonzero(kind >= 0)
    n, last = (events[name].to_numpy()[mine] for name in ("n", "last"))
    if (last > n).any():
        counts = np.maximum(last - n, 0) + 1
        mine, n = np.repeat(mine, counts), np.repeat(n, counts) + _counting(counts)
    steps = np.empty(len(mine), STEPS)
    steps["n"], steps["kind"] = n, kind[mine]
    steps["due"] = events["due"].fill_null(NONE).to_numpy()[mine]
    for name in ("whose", "at", "took", "attempt"):
        steps[name] = events[name].fill_null(0).to_numpy()[mine]
    _mark_left_dead(steps, events["what"], mine)
    return steps


def _counting(counts: Numbers) -> Numbers:
    """Return 0, 1, … up to each of the counts.

    >>> _counting(np.array([1, 3, 2])).tolist()
    [0, 0, 1, 2, 0, 1]
    """
    starts = np.cumsum(counts) - counts
    return np.asarray(np.arange(counts.sum()) - np.repeat(starts, counts))


def _mark_left_dead(steps: np.ndarray[Any, Any], what: pa.Array, mine: Numbers) -> None:
    left = np.flatnonzero(steps["kind"] == place_of("left"))
    dead = np.array(what.take(pa.array(mine[left])).to_pylist(), object) == "dead"
    steps["kind"][left[dead]] = place_of(_LEFT_DEAD)


def place_of(kind: str) -> int:
    """Return the number that stands for a kind in steps and deliveries."""
    return _FOLLOWED.index(kind)


def spread(rows: np.ndarray[Any, Any], keys: Numbers, parts: int) -> dict[int, bytes]:
    """Return the rows as bytes by part, those of a key in the same part."""
    mixed = keys.astype(np.uint64) * _SPREAD >> np.uint64(40)
    part = (mixed % np.uint64(parts)).astype(np.int16)
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part, minlength=parts))
    cut = np.split(rows[order], ends[:-1])
    return {number: rows.tobytes() for number, rows in enumerate(cut) if len(rows)}


class EventNames:
    """The names behind the codes of events. A name is known by its place among those of its kind; 0 is the empty
    name."""

    SORTS = ("queue", "lane", "worker", "process")

    def __init__(self, known: pa.Table) -> None:
        known = known.sort_by("whose")
        self._whose = known["whose"].to_numpy()
        self.is_dead: Flags = known["is_dead"].to_numpy()
        self.texts = {sort: sorted({"", *known[sort].to_pylist()}) for sort in self.SORTS}
        self._places = {sort: self.places(sort, known[sort].to_pylist()) for sort in self.SORTS}

    def places(self, sort: str, texts: Sequence[str]) -> Numbers:
        known = {text: place for place, text in enumerate(self.texts[sort])}
        return np.array([known[text] for text in texts], np.int64)

    def find(self, whose: Numbers) -> Numbers:
        """Return the rows of names that codes stand for."""
        return np.searchsorted(self._whose, whose)

    def of(self, sort: str, found: Numbers) -> Numbers:
        """Return the places of such names; -1 where there is none."""
        return np.where(found < 0, -1, self._places[sort][found])


def _chosen(texts: Sequence[str], places: Numbers) -> pa.Array:
    """Return a column of strings by their places, null where there is none."""
    indices = pa.array(places.astype(np.int32), mask=places < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


class Deaths:
    """The deaths of slots, and of processes of workers and generators: when, and if their last requests may be done."""

    def __init__(self, deaths: pa.Table) -> None:
        self._by_who: dict[str, list[tuple[int, bool]]] = {}
        for death in deaths.sort_by("died_at").to_pylist():
            self._by_who.setdefault(death["who"], []).append((death["died_at"], death["settling"]))

    def of(self, worker: str, process: str) -> tuple[Numbers, Flags]:
        """Return the times at which a worker died, in order, and whether it was settling something."""
        own, all_ = self._by_who.get(worker, []), self._by_who.get(process, [])
        found = sorted([*own, *(all_ if process != worker else [])], key=lambda death: death[0])
        return np.array([at for at, _ in found], np.int64), np.array([settling for _, settling in found], bool)


class Followed(Struct, frozen=True):
    """The fate of messages and their deliveries: columns of numbers, encoded by `EventNames` and `NONE`."""

    messages: Mapping[str, Numbers]
    deliveries: Mapping[str, Numbers]


def followed(steps: np.ndarray[Any, Any], names: EventNames, deaths: Deaths) -> Followed:
    """Return the fate of messages, from all that happened to them."""
    following = _Following(steps, names)
    deliveries = following.deliveries()
    first_gone, last_gone = following.gone(deliveries, deaths)
    return Followed(following.messages(first_gone, last_gone), deliveries)


class _Following:
    """All that happened to some messages, by message and time."""

    def __init__(self, steps: np.ndarray[Any, Any], names: EventNames) -> None:
        whose = names.find(steps["whose"])
        queue = names.of("queue", whose)
        # In virtual time much happens at the same time, and then a delivery comes before its end.
        rank = steps["attempt"].astype(np.int64) * 256 + _IS_END[steps["kind"]] * 128 + steps["kind"]
        order = np.lexsort((whose, rank, steps["at"], steps["n"], queue))
        steps = steps[order]
        self._names, self._whose = names, whose[order]
        self._at, self._took, self._attempt = steps["at"], steps["took"], steps["attempt"]
        self._due, self._kind, self._is_end = steps["due"], steps["kind"], _IS_END[steps["kind"]]
        queue, n = queue[order], steps["n"]
        begins = are_first(queue, n)
        self._message: Numbers = np.cumsum(begins) - 1
        self._queue, self._n = queue[begins], n[begins]

    def deliveries(self) -> dict[str, Numbers]:
        handled = np.flatnonzero(self._is(("received",)) | self._is_end)
        # Which end belongs to which delivery is a matter of order, among what the same worker did with the message.
        rows = handled[np.lexsort((self._whose[handled], self._message[handled]))]
        is_last = np.append(are_first(self._message[rows], self._whose[rows])[1:], True)[: len(rows)]
        after = np.append(rows[1:], rows[:1])
        ended = self._is_end[after] & ~is_last
        came = ~self._is_end[rows]
        rows, after, ended = rows[came], after[came], ended[came]
        end = np.where(ended, self._kind[after], -1)
        end_at = np.where(ended, self._at[after], NONE)
        whose, at = self._whose[rows], self._at[rows]
        return {
            "message": self._message[rows],
            "whose": whose,
            **{sort: self._names.of(sort, whose) for sort in EventNames.SORTS},
            "n": self._n[self._message[rows]],
            "attempt": self._attempt[rows],
            "at": at,
            "took": self._took[rows],
            "end": end,
            "end_at": end_at,
            "held": np.where(end == place_of("acked"), end_at - at, NONE),
        }

    def gone(self, deliveries: Mapping[str, Numbers], deaths: Deaths) -> tuple[Numbers, Numbers]:
        """Return for each message the first and last time at which a worker died while its delivery may have been
        acked.

        These are deliveries whose end never became known.
        """
        first, last = self._nothing(np.iinfo(np.int64).max), self._nothing()
        is_open = np.flatnonzero(deliveries["end"] < 0)
        by_worker = is_open[np.argsort(deliveries["whose"][is_open], kind="stable")]
        starts = np.flatnonzero(are_first(deliveries["whose"][by_worker]))
        for rows in np.split(by_worker, starts[1:]) if len(starts) else []:
            texts = (self._names.texts[sort][deliveries[sort][rows[0]]] for sort in ("worker", "process"))
            died_at, settling = deaths.of(*texts)
            following = np.searchsorted(died_at, deliveries["at"][rows])
            rows, following = rows[following < len(died_at)], following[following < len(died_at)]
            may_be = settling[following]
            of, at = deliveries["message"][rows[may_be]], died_at[following[may_be]]
            np.minimum.at(first, of, at)
            np.maximum.at(last, of, at)
        return np.where(last == NONE, NONE, first), last

    def messages(self, first_gone: Numbers, last_gone: Numbers) -> dict[str, Numbers]:
        came, is_send, is_left = self._is(("received",)), self._is(SENDS), self._are_any(("left", _LEFT_DEAD))
        sender, claimed_by, acked_by = (self._by(which) for which in (is_send, came, self._is(("acked",))))
        due, sent_at, received_at = self._most(self._due, is_send), self._last_at("sent"), self._first_at("received")
        sending_at, acked_at = self._last_at("sending"), self._first_at("acked")
        last_began = self._of_last(self._at - self._took, came)
        gone_by = np.where(first_gone >= last_began, first_gone, np.where(last_gone >= last_began, last_gone, NONE))
        done_at = np.where((acked_at == NONE) & ~is_left, gone_by, acked_at)
        lane, first_lane = (np.maximum(self._names.of("lane", by), 0) for by in (sender, claimed_by))
        return {
            "queue": self._queue,
            "lane": np.where(lane > 0, lane, first_lane),
            "n": self._n,
            "outcome": self._outcome(sent_at, sender),
            "sender": self._names.of("worker", sender),
            "claimed_by": self._names.of("worker", claimed_by),
            "acked_by": self._names.of("worker", acked_by),
            "due": due,
            "began_at": np.where(sending_at == NONE, sent_at, sending_at),
            "sent_at": sent_at,
            "received_at": received_at,
            "acked_at": acked_at,
            "died_at": self._first_at("died"),
            "removed_at": self._first_at(*REMOVALS),
            "done_at": done_at,
            "deliveries": self._count(came),
            "retries": self._count(self._is(("retried",))),
            "attempts": np.maximum(self._most(self._attempt, came), 0),
            "is_found": self._are_any(("found",)),
            "is_left": is_left,
            "is_left_dead": self._are_any((_LEFT_DEAD,)),
            "to_stored": _since(due, sent_at),
            "to_claim": _since(due, received_at),
            "to_finish": np.where((acked_at == NONE) | (received_at == NONE), NONE, acked_at - received_at),
            "to_ack": _since(due, done_at),
            "claimed_process": self._names.of("process", claimed_by),
            "acked_process": self._names.of("process", acked_by),
        }

    def _outcome(self, sent_at: Numbers, sender: Numbers) -> Numbers:
        # A sender that was refused, tried again and died meanwhile can't tell whether the last try was stored.
        doubtful = self._are_any(("unsure",)) | self._names.is_dead[sender]
        unsent = self._are_any(("unsent",)) & ~doubtful
        cases = [sent_at != NONE, unsent, sender >= 0]
        return np.select(cases, list(range(len(_OUTCOMES))), -1)

    def _is(self, kinds: Sequence[str]) -> Flags:
        wanted = np.array([kind in kinds for kind in _FOLLOWED])
        return np.asarray(wanted[self._kind])

    def _nothing(self, value: int = NONE) -> Numbers:
        return np.full(len(self._n), value, np.int64)

    def _count(self, which: Flags) -> Numbers:
        return np.bincount(self._message[which], minlength=len(self._n))

    def _are_any(self, kinds: Sequence[str]) -> Flags:
        return self._count(self._is(kinds)) > 0

    def _most(self, values: Numbers, which: Flags) -> Numbers:
        most = self._nothing()
        np.maximum.at(most, self._message[which], values[which])
        return most

    def _of_first(self, values: Numbers, which: Flags, nothing: int = NONE) -> Numbers:
        rows = np.flatnonzero(which)
        rows = rows[are_first(self._message[rows])]
        found = self._nothing(nothing)
        found[self._message[rows]] = values[rows]
        return found

    def _of_last(self, values: Numbers, which: Flags) -> Numbers:
        rows = np.flatnonzero(which)
        rows = rows[np.append(are_first(self._message[rows])[1:], True)[: len(rows)]]
        found = self._nothing()
        found[self._message[rows]] = values[rows]
        return found

    def _first_at(self, *kinds: str) -> Numbers:
        return self._of_first(self._at, self._is(kinds))

    def _last_at(self, *kinds: str) -> Numbers:
        return self._of_last(self._at, self._is(kinds))

    def _by(self, which: Flags) -> Numbers:
        """Return the first to do it in each message, by the row of names; -1: none."""
        return self._of_first(self._whose, which, -1)


def are_first(*columns: Numbers) -> Flags:
    """Return a mask of the rows that differ from the row before."""
    begins = np.zeros(len(columns[0]), bool)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins


def _since(due: Numbers, at: Numbers) -> Numbers:
    # A message may be received before the answer to its send is noted, never before it was due.
    took = np.where(due == NONE, 0, np.maximum(at - due, 0))
    return np.where(at == NONE, NONE, took)


def messages_of(found: Followed, names: EventNames) -> pa.Table:
    """Return the messages: `MESSAGES`."""
    texts = {
        "queue": "queue", "lane": "lane", "sender": "worker", "claimed_by": "worker", "acked_by": "worker",
        "claimed_process": "process", "acked_process": "process",
    }  # fmt: skip
    return _table(MESSAGES, found.messages, {**_texts(texts, names), "outcome": _OUTCOMES})


def deliveries_of(found: Followed, names: EventNames) -> pa.Table:
    """Return the deliveries: `DELIVERIES`."""
    return _table(
        DELIVERIES, found.deliveries, {**_texts({sort: sort for sort in EventNames.SORTS}, names), "end": _FOLLOWED}
    )


def _texts(sorts: Mapping[str, str], names: EventNames) -> dict[str, Sequence[str]]:
    return {column: names.texts[sort] for column, sort in sorts.items()}


def _table(schema: pa.Schema, columns: Mapping[str, Numbers], texts: Mapping[str, Sequence[str]]) -> pa.Table:
    """Return columns as a table, strings as small dictionaries."""
    made = {}
    for field in schema:
        values = columns[field.name]
        if field.name in texts:
            made[field.name] = _chosen(texts[field.name], values)
        else:
            made[field.name] = pa.array(values, field.type, mask=values == NONE)
    return pa.table(made)
