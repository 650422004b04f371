"""Synthetic workloads: every value of a message is a hash of the seed and of the message's number.

So the same seed gives the same messages, however many tasks make them and in whatever order.
"""

from __future__ import annotations

import math
import string
from random import Random
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import Column, functions
from pyspark.sql.functions import (
    coalesce,
    col,
    concat,
    exp,
    floor,
    greatest,
    least,
    length,
    lit,
    shiftrightunsigned,
    substring,
    when,
    xxhash64,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Arrivals = Literal["at-once", "constant", "poisson", "bursts"]
Shape = Literal["uniform", "log"]

_LETTERS = string.ascii_letters + string.digits + "+/"
_TEXT_BYTES = 65_536
_STEP = 7_919
"""The distance between the starts of two messages' texts. A prime: it takes long until one is repeated."""
_END = '"}'
_FRACTION_BITS = 53


class Workload(Struct, frozen=True, kw_only=True):
    """The messages of a workload, and when they are due."""

    count: int
    seed: int = 0
    arrivals: Arrivals = "at-once"
    rate: float = 1_000.0
    """Messages a second."""
    burst: int = 1_000
    """The number of messages in a burst, if they come in bursts."""
    smallest: int = 100
    largest: int = 100
    """The sizes of bodies in bytes …"""
    shape: Shape = "uniform"
    """… all equally likely, or all orders of magnitude."""
    keys: int = 1_000
    skew: float = 0.0
    """The skew of the keys that messages are about: of ``keys``, the k-th occurs in proportion to ``k ** -skew``."""
    lanes: dict[str, float] = {}
    """Lanes and their shares."""


def generated(numbers: DataFrame, workload: Workload) -> DataFrame:
    """Return the messages of these numbers (column ``id``, from 0): n, due_us, lane, key, size and body.

    ``due_us`` is when the message is due, in microseconds since the beginning.
    """
    number = col("id")
    drawn = numbers.select(
        (number + 1).alias("n"),
        due_us(number, workload).cast("long").alias("due_us"),
        _lane(workload).alias("lane"),
        key(_roll("key", workload.seed), workload).cast("long").alias("key"),
        size(_roll("size", workload.seed), workload).cast("int").alias("size"),
    )
    return drawn.withColumn("body", _body(workload))


def to_send(messages: DataFrame, workload: Workload, *, grouped: bool) -> DataFrame:
    """Return the columns of a write. ``grouped``: the queue is FIFO, and the messages about one key are a group."""
    columns = [col("body")]
    if workload.lanes:
        columns.append(col("lane"))
    if workload.arrivals != "at-once":
        columns.append((col("due_us") / 1_000).cast("long").alias("delay_ms"))
    if grouped:
        columns.append(col("key").cast("string").alias("group"))
    return messages.select(*columns)


def due_us(number: Column, workload: Workload) -> Column:
    """Return the time at which the message of that number is due."""
    match workload.arrivals:
        case "constant":
            return number * 1e6 / workload.rate
        case "poisson":
            # As many points at random in as much time as they take: sorted, they are those of a Poisson process.
            return _roll("due", workload.seed) * (workload.count / workload.rate * 1e6)
        case "bursts":
            return floor(number / workload.burst) * (workload.burst / workload.rate * 1e6)
        case "at-once":
            return lit(0)


def key(roll: Column, workload: Workload) -> Column:
    """Return the key that a message is about, by a number from 0 to 1."""
    if not workload.skew:
        return least(floor(roll * workload.keys) + 1, lit(workload.keys))
    bounds = np.cumsum(np.arange(1, workload.keys + 1, dtype=float) ** -workload.skew)

    @functions.arrow_udf("long")  # type: ignore[attr-defined, untyped-decorator] # its stubs don't know it
    def drawn(rolls: pa.Array) -> pa.Array:
        # The last bound is left out: no roll may land beyond it.
        return pa.array(np.searchsorted(bounds[:-1], rolls.to_numpy() * bounds[-1], side="right") + 1)

    return drawn(roll)  # type: ignore[no-any-return]


def size(roll: Column, workload: Workload) -> Column:
    """Return the size of a body in bytes, by a number from 0 to 1."""
    low, high = workload.smallest, workload.largest
    if workload.shape == "uniform":
        return least(floor(roll * (high - low + 1)) + low, lit(high))
    return least(floor(exp(math.log(low) + roll * (math.log(high + 1) - math.log(low)))), lit(high))


def _roll(what: str, seed: int) -> Column:
    """Return a random number from 0 to just below 1 for each message, independent for each ``what``."""
    bits = shiftrightunsigned(xxhash64(lit(seed), lit(what), col("id")), 64 - _FRACTION_BITS)
    return bits / float(1 << _FRACTION_BITS)


def _lane(workload: Workload) -> Column:
    if not workload.lanes:
        return lit(None).cast("string")
    total, sofar = sum(workload.lanes.values()), 0.0
    chosen = None
    for name, share in workload.lanes.items():
        sofar += share / total
        is_it = _roll("lane", workload.seed) < sofar
        chosen = when(is_it, name) if chosen is None else chosen.when(is_it, name)
    assert chosen is not None
    return coalesce(chosen, lit(list(workload.lanes)[-1]))


def _body(workload: Workload) -> Column:
    """Return ``{"n":17,"key":3,"text":"…"}``, filled up with letters to its size; larger if they have no room."""
    start = concat(lit('{"n":'), col("n"), lit(',"key":'), col("key"), lit(',"text":"'))
    rest = greatest(col("size") - length(start) - len(_END), lit(0))
    at = (col("n") * _STEP % _TEXT_BYTES + 1).cast("int")
    # As bytes: in a text Spark would count the letters from its beginning each time.
    return concat(start, substring(lit(_text(workload)), at, rest).cast("string"), lit(_END))


def _text(workload: Workload) -> bytearray:
    letters = Random(workload.seed).choices(_LETTERS.encode(), k=_TEXT_BYTES + workload.largest)
    return bytearray(letters)
