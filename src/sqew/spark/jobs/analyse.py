"""`sqew spark analyse`: event logs into tables: what became of each message, rates, latencies, depths.

The lines are read once, into Parquet; all else is worked out from there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from sqew.body_files import files_of as matching
from sqew.errors import BadValue, NotFound
from sqew.spark.lake.files import Files, files_of
from sqew.spark.transforms import depth, percentiles, rates, timelines
from sqew.spark.transforms.events import BROKEN, KINDS, SCHEMA, as_events, broken_lines, census, names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = (
    "events", "names", "deliveries", "messages", "latencies", "latencies_over_time", "throughput", "rates", "depths",
    "looks", "faults", "slowest",
)  # fmt: skip
MESSAGES = ("events", "names", "deliveries", "messages")
"""The tables that all others are worked out from."""
REPORT = "report"
SLOWEST = 100
"""How many of the slowest messages are kept."""
RUN_LOGS = "*.events.jsonl"
"""What the logs in the folder of a run of PlainBench are called."""

_UNFINISHED = ".unfinished"
_GROUPS, _MOST_GROUPS = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold", 10_000
_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_MOST_STEPS = 240
Step = Callable[[str], object]
"""Told what is about to be done."""


class Analysed(Struct, frozen=True):
    """What was found, and where the tables are."""

    to: str
    files: int
    events: int
    messages: int
    kinds: dict[str, int]
    unknown: dict[str, int]
    """Events of kinds that this version does not know: they are passed over."""
    broken: dict[str, int]
    """How many lines of a file are no events. Half a line at the end is what a killed process leaves."""
    began_at: int
    """Where time begins: 0 in a log of PlainBench, the first event in a server's."""
    ended_at: int
    step_us: int
    """The width of the steps of all that is told over time."""


def analyse(
    spark: SparkSession,
    logs: Sequence[str],
    to: str,
    *,
    step_us: int | None = None,
    wanted: Sequence[str] = TABLES,
    step: Step = lambda _doing: None,
) -> Analysed:
    """Work out tables of event logs, and put them into a folder: all that are wanted, or none.

    ``step_us`` is the width of the steps of time, else one that suits the log; ``step`` is told what is being done.
    """
    found, target = log_files(logs), files_of(spark, to)
    _check_folder(target)
    target.remove(_UNFINISHED)
    try:
        tables = Tables(spark, f"{target.root}/{_UNFINISHED}")
        step("reading the logs")
        tables.write("events", read_lines(spark, found))
        analysed = _counted(tables.read("events"), target.root, found, step_us)
        with _groups_in_memory(spark):
            messages = _work_out(tables, analysed, {*MESSAGES, *wanted}, step)
        for name in {*MESSAGES, *wanted}:
            target.remove(name)
            target.move(f"{_UNFINISHED}/{name}", name)
        target.remove(REPORT)
    finally:
        target.remove(_UNFINISHED)
    return replace(analysed, messages=messages)


@contextmanager
def _groups_in_memory(spark: SparkSession) -> Iterator[None]:
    """Have Spark keep thousands of groups of samples at once. By itself it sorts all of them when there are 128."""
    before = spark.conf.get(_GROUPS, "128")
    spark.conf.set(_GROUPS, _MOST_GROUPS)
    try:
        yield
    finally:
        spark.conf.set(_GROUPS, str(before))


def add_report(spark: SparkSession, found: Analysed) -> str:
    """Put a report beside the tables; where it is."""
    from sqew.spark.report.page import page

    target, name = files_of(spark, found.to), f"{REPORT}/index.html"
    target.remove(REPORT)
    target.create(name, page(Tables(spark, found.to), found).encode())
    return f"{target.root}/{name}"


class Tables:
    """The tables of an analysis, by name."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._folder = spark, folder

    def read(self, name: str) -> DataFrame:
        return self._spark.read.parquet(f"{self._folder}/{name}")

    def write(self, name: str, rows: DataFrame) -> DataFrame:
        """Write a table; what is read from there is worked out no more."""
        rows.write.parquet(f"{self._folder}/{name}", mode="overwrite")
        return self.read(name)


def log_files(logs: Sequence[str]) -> list[str]:
    """The files that are meant: of the folder of a run all its logs, of a server's log what was rotated as well."""
    found: list[str] = []
    for log in logs:
        parts = urlsplit(log)
        if parts.scheme not in ("", "file"):
            found.append(log)
            continue
        path = Path(unquote(parts.path) if parts.scheme else log).expanduser()
        found += [str(file.absolute()) for file in _local(path)]
    return list(dict.fromkeys(found))


def _local(path: Path) -> list[Path]:
    if path.is_dir():
        inside = sorted(path.glob(RUN_LOGS))
        if not inside:
            raise NotFound(f"There is no event log in {path}. Give the folder of a run of PlainBench, or a log's file.")
        return inside
    rotated = [file for file in path.parent.glob(f"{path.name}.*") if file.name.removeprefix(f"{path.name}.").isdigit()]
    if rotated and not path.is_file():
        return sorted(rotated)
    return [*matching(str(path), Path.cwd()), *sorted(rotated)]


def read_lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """The events of files, a line each."""
    lines = spark.read.schema(SCHEMA).json(list(files), columnNameOfCorruptRecord=BROKEN)
    return as_events(lines.withColumn("file", F.col("_metadata.file_path")))


def _check_folder(target: Files) -> None:
    others = set(target.names("")) - {*TABLES, REPORT}
    if others:
        raise BadValue(
            f"{target.root} holds something else ({min(others)}). Name a new folder, or that of an earlier analysis."
        )


def _counted(events: DataFrame, root: str, files: Sequence[str], step_us: int | None) -> Analysed:
    counts = {row["kind"]: row for row in census(events).collect()}
    lines = counts.pop(None, None)
    if not counts:
        raise BadValue(_nothing_in(files, lines is not None))
    broken = {unquote(row["file"]): row["lines"] for row in broken_lines(events).collect()} if lines else {}
    of_kinds = {kind: row["events"] for kind, row in sorted(counts.items())}
    first, last = min(row["first_at"] for row in counts.values()), max(row["last_at"] for row in counts.values())
    began_at = 0 if "run" in counts or first < 0 else first
    return Analysed(
        to=root,
        files=len(files),
        events=sum(of_kinds.values()),
        messages=0,
        kinds={kind: count for kind, count in of_kinds.items() if kind in KINDS},
        unknown={kind: count for kind, count in of_kinds.items() if kind not in KINDS},
        broken=broken,
        began_at=began_at,
        ended_at=last,
        step_us=step_us or step_for(last - began_at),
    )


def _nothing_in(files: Sequence[str], has_lines: bool) -> str:
    where = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more files"
    if has_lines:
        return f"No line of {where} is an event. Give event logs: those of `plainbench run`, or what event_log names."
    return f"{where} is empty: there is nothing to analyse."


def step_for(span_us: int) -> int:
    """Steps of a round length, few enough to plot.

    >>> step_for(60_000_000), step_for(86_400_000_000)
    (500000, 600000000)
    """
    rounded = (round(step_s * 1e6) for step_s in _STEPS_S)
    return next((step for step in rounded if span_us <= step * _MOST_STEPS), -(-span_us // _MOST_STEPS))


def _work_out(tables: Tables, about: Analysed, wanted: Collection[str], step: Step) -> int:
    """The tables besides the events; how many messages there are."""
    events, write = tables.read("events"), tables.write
    over = {"step_us": about.step_us, "began_at": about.began_at}
    step("following the messages")
    known = write("names", names(events))
    dead = timelines.deaths(events)
    came = write("deliveries", timelines.with_names(timelines.deliveries(events), known))
    messages = _messages(tables, events, came, known, dead)
    for doing, name, rows in (
        ("working out latencies", "latencies", partial(percentiles.latencies, messages, came, _drops(events))),
        ("working out latencies", "latencies_over_time", partial(percentiles.over_time, messages, **over)),
        ("counting", "throughput", partial(rates.throughput, messages, came)),
        ("counting", "rates", partial(rates.rates, events, known, **over)),
        ("counting", "depths", partial(depth.depths, messages, **over)),
        ("counting", "looks", partial(depth.looks, events, **over)),
        ("counting", "faults", partial(depth.faults, events, **over)),
        ("counting", "slowest", partial(rates.slowest, messages, SLOWEST)),
    ):
        if name in wanted:
            step(doing)
            write(name, rows())
    return messages.count()


def _messages(tables: Tables, events: DataFrame, came: DataFrame, known: DataFrame, dead: DataFrame) -> DataFrame:
    unheard = timelines.unheard(came, dead)
    found = timelines.timelines(events, unheard, dead, known)
    return tables.write("messages", timelines.with_processes(found))


def _drops(events: DataFrame) -> DataFrame:
    """What a generator was too late for, and did not send."""
    return events.where(F.col("kind") == "dropped").select("queue", "lane")
