"""`sqew spark analyse`: event logs into tables: what became of each message, rates, latencies, depths.

The lines are read once, into Parquet; all else is worked out from there.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from sqew.body_files import files_of as matching
from sqew.errors import BadValue, Conflict, NotFound
from sqew.spark.files import parts_of
from sqew.spark.jobs import small_tables
from sqew.spark.lake.files import Files, files_of
from sqew.spark.tables import Tables
from sqew.spark.transforms import percentiles, rates, timelines
from sqew.spark.transforms.depth import happenings
from sqew.spark.transforms.events import KINDS, as_events, tallied
from sqew.spark.transforms.ingesting import parts_frame
from sqew.spark.transforms.lines import SPLIT_BYTES, lines

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
    with _alone(target):
        target.remove(_UNFINISHED)
        try:
            tables = Tables(spark, f"{target.root}/{_UNFINISHED}")
            with _groups_in_memory(spark):
                analysed = _Making(tables, {*MESSAGES, *wanted}, step).make(found, target.root, step_us)
            # Those of an earlier analysis first: tables of two logs must never lie side by side.
            for name in (REPORT, *TABLES):
                target.remove(name)
            for name in {*MESSAGES, *wanted}:
                target.move(f"{_UNFINISHED}/{name}", name)
        finally:
            with suppress(OSError):
                target.remove(_UNFINISHED)
    return analysed


@contextmanager
def _alone(target: Files) -> Iterator[None]:
    """Keep others from writing to the folder meanwhile, where the file system lets us."""
    if "://" in target.root:
        yield
        return
    Path(target.root).mkdir(parents=True, exist_ok=True)
    folder = os.open(target.root, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Conflict(f"Another analysis is writing to {target.root}. Wait for it, or name another folder.") from None
    else:
        yield
    finally:
        os.close(folder)


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
    return as_events(lines(parts_frame(spark, parts_of(files, "jsonl", SPLIT_BYTES))))


def _check_folder(target: Files) -> None:
    others = set(target.names("")) - {*TABLES, REPORT}
    if others:
        raise BadValue(
            f"{target.root} holds something else ({min(others)}). Name a new folder, or that of an earlier analysis."
        )


def _counted(tally: pa.Table, root: str, files: Sequence[str], step_us: int | None) -> Analysed:
    rows = tally.to_pylist()
    events = [row for row in rows if row["kind"] is not None]
    if not events:
        raise BadValue(_nothing_in(files, bool(rows)))
    kinds, broken = Counter[str](), Counter[str]()
    for row in rows:
        if row["kind"] is None:
            broken[row["broken_in"]] += row["events"]
        else:
            kinds[row["kind"]] += row["events"]
    first, last = min(row["first_at"] for row in events), max(row["last_at"] for row in events)
    began_at = 0 if "run" in kinds or first < 0 else first
    return Analysed(
        to=root,
        files=len(files),
        events=kinds.total(),
        messages=0,
        kinds={kind: count for kind, count in sorted(kinds.items()) if kind in KINDS},
        unknown={kind: count for kind, count in sorted(kinds.items()) if kind not in KINDS},
        broken=dict(broken),
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


class _Making:
    """An analysis in the making: each table is made of those before it."""

    def __init__(self, tables: Tables, wanted: set[str], step: Step) -> None:
        self._tables, self._wanted, self._step = tables, wanted, step

    def make(self, files: Sequence[str], root: str, step_us: int | None) -> Analysed:
        """Make all tables that are wanted; what was found."""
        self._step("reading the logs")
        events = self._tables.write("events", read_lines(self._tables.spark, files))
        tally = tallied(events).toArrow()
        about = _counted(tally, root, files, step_us)
        self._over = {"step_us": about.step_us, "began_at": about.began_at}
        happened = happenings(events, **self._over).toArrow()
        known = self._tables.put("names", small_tables.names(tally, happened))
        self._put(
            faults=small_tables.faults(happened, about.step_us), looks=small_tables.looks(happened, about.step_us)
        )
        self._step("following the messages")
        came = self._tables.write("deliveries", timelines.with_names(timelines.deliveries(events), known))
        messages = self._messages(events, came, known, small_tables.deaths(happened))
        self._latencies(messages, came, _drops(events) if "dropped" in about.kinds else None)
        self._step("counting")
        if "rates" in self._wanted:
            self._tables.write("rates", rates.rates(events, known, **self._over))
        self._tallies(messages, came)
        return replace(about, messages=messages.count())

    def _messages(self, events: DataFrame, came: DataFrame, known: DataFrame, dead: pa.Table) -> DataFrame:
        unheard = timelines.unheard(came, self._tables.spark.createDataFrame(dead)) if dead.num_rows else None
        return self._tables.write("messages", timelines.timelines(events, known, unheard))

    def _latencies(self, messages: DataFrame, came: DataFrame, drops: DataFrame | None) -> None:
        if not self._wanted & {"latencies", "latencies_over_time"}:
            return
        self._step("working out latencies")
        found = percentiles.latencies(messages, came, drops, **self._over).toArrow()
        is_whole = pc.is_null(found["at"])
        self._put(
            latencies=found.filter(is_whole).drop_columns("at"),
            latencies_over_time=found.filter(pc.invert(is_whole)).drop_columns(["lane", "worker"]),
        )

    def _tallies(self, messages: DataFrame, came: DataFrame) -> None:
        if self._wanted & {"throughput", "depths"}:
            found = rates.tallies(messages, came, **self._over).toArrow()
            self._put(
                throughput=small_tables.throughput(found), depths=small_tables.depths(found, self._over["step_us"])
            )
        if "slowest" in self._wanted:
            self._put(slowest=rates.slowest(messages, SLOWEST).toArrow())

    def _put(self, **tables: pa.Table) -> None:
        for name, rows in tables.items():
            if name in self._wanted:
                self._tables.put(name, rows)


def _drops(events: DataFrame) -> DataFrame:
    """What a generator was too late for, and did not send."""
    return events.where(F.col("kind") == "dropped").select("queue", "lane")
