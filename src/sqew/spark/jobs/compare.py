"""`sqew spark compare`: two runs of PlainBench, message by message. Is one faster, and how sure is that?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from sqew.errors import BadValue
from sqew.spark.jobs.analyse import MESSAGES, analyse
from sqew.spark.tables import Tables
from sqew.spark.transforms.pairs import by_block, differences, pairs, unpaired
from sqew.spark.transforms.percentiles import PARTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

ANALYSIS = "analysis"
"""The folder for its tables in the folder of a run."""
_RESAMPLES = 2_000
_SEED = 0


class Paired(Struct, frozen=True):
    """A latency of a queue in both runs. Quantiles are milliseconds by name; None: it never happened."""

    queue: str
    measure: str
    messages: int
    """The number of messages that both runs were to send."""
    base: dict[str, float | None]
    other: dict[str, float | None]
    longer: dict[str, float | None]
    """Quantiles of how much longer a message took in the other run."""
    faster: int
    slower: int
    share: float
    """The share, of the messages that differ, that was faster in the other run."""
    low: float
    high: float
    """The 95 % confidence interval of that share is from `low` to this. Stretches of the load are resampled, not
    messages: a fault slows neighbouring messages together."""

    @property
    def finding(self) -> str:
        if self.low > 0.5:
            return "faster"
        return "slower" if self.high < 0.5 else "no difference shown"


class Compared(Struct, frozen=True):
    """The comparison of two runs."""

    figures: list[Paired]
    unpaired: dict[str, int]
    """By queue: the number of messages that only one of the runs was to send."""


def compare(spark: SparkSession, base: str, other: str) -> Compared:
    """Compare two runs by the tables of their logs, which are made anew in their folders."""
    found = [analyse(spark, [run], f"{run}/{ANALYSIS}", wanted=MESSAGES) for run in (base, other)]
    return compare_messages(*(Tables(spark, one.to).read("messages") for one in found))


def compare_messages(base: DataFrame, other: DataFrame) -> Compared:
    """Compare two runs by their tables of messages."""
    paired = pairs(base, other)
    blocks: dict[tuple[str, str], list[Row]] = {}
    for row in by_block(paired).collect():
        blocks.setdefault((row["queue"], row["measure"]), []).append(row)
    if not blocks:
        raise BadValue("The runs have no message in common: there is nothing to compare.")
    found = sorted(differences(paired).collect(), key=lambda row: (row["queue"], row["measure"]))
    figures = [_figure(row, blocks[row["queue"], row["measure"]]) for row in found]
    return Compared(figures, {row["queue"]: row["messages"] for row in unpaired(base, other).collect()})


def _figure(row: Row, blocks: Sequence[Row]) -> Paired:
    ordered = sorted(blocks, key=lambda block: int(block["block"]))
    counts = np.array([[block["faster"], block["slower"]] for block in ordered], np.float64)
    faster, slower = (int(total) for total in counts.sum(axis=0))
    share = faster / (faster + slower) if faster + slower else 0.5
    low, high = _interval(counts)
    return Paired(
        row["queue"],
        row["measure"],
        row["messages"],
        _quantiles(row, "base"),
        _quantiles(row, "other"),
        _quantiles(row, "longer"),
        faster,
        slower,
        share,
        low,
        high,
    )


def _quantiles(row: Row, of: str) -> dict[str, float | None]:
    return {part: row[f"{of}_{part}"] for part in PARTS}


def _interval(counts: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the share, by bootstrapping blocks."""
    generator = np.random.default_rng(_SEED)
    drawn = generator.multinomial(len(counts), [1 / len(counts)] * len(counts), size=_RESAMPLES) @ counts
    differ = drawn.sum(axis=1)
    shares = np.where(differ > 0, drawn[:, 0] / np.maximum(differ, 1), 0.5)
    low, high = np.quantile(shares, (0.025, 0.975), method="nearest")
    return float(low), float(high)
