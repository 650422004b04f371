"""`sqew spark analyse`: tables from event logs: each message's fate, rates, latencies, depths.

Tasks in Python read the lines once, follow each message, write their results as Parquet, and count: rows that Java need
not see cost a fraction.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.pandas.types import from_arrow_schema

from sqew.errors import BadValue, Conflict, NotFound
from sqew.formats.files import files_of as matching
from sqew.spark.files import FilePart, parts_of
from sqew.spark.jobs import small_tables
from sqew.spark.jobs.analyse_tasks import (
    COUNTS,
    DONE,
    HOW_MANY,
    MOST,
    SLOWEST,
    SPEEDS,
    STEPS,
    TALLIES,
    FindQuantiles,
    Follow,
    Over,
    ReadLogs,
    Task,
    hand_on_counts,
)
from sqew.spark.lake.files import Files, files_of
from sqew.spark.tables import FILES, OUTPUT, Tables, from_bytes
from sqew.spark.transforms.depth import happenings
from sqew.spark.transforms.events import EVENTS, KINDS, tallied_together, with_codes
from sqew.spark.transforms.histograms import LATENCIES, counts_of_drops
from sqew.spark.transforms.ingest import parts_frame
from sqew.spark.transforms.log_lines import SPLIT_BYTES
from sqew.spark.transforms.timelines import DELIVERIES as DELIVERY_ROWS
from sqew.spark.transforms.timelines import MESSAGES as MESSAGE_ROWS
from sqew.spark.transforms.timelines import EventNames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLES = (
    "events", "names", "deliveries", "messages", "latencies", "latencies_over_time", "throughput", "rates", "depths",
    "looks", "faults", "slowest",
)  # fmt: skip
MESSAGES = ("events", "names", "deliveries", "messages")
"""The tables that all others are computed from."""
REPORT = "report"
RUN_LOGS = "*.events.jsonl"
"""The pattern of the logs' names in the folder of a run of PlainBench."""

_UNFINISHED = ".unfinished"
_MOST_TASKS = 2_000
_PACKED = 10
"""The assumed compression ratio of logs."""
_STEPS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600)
_MOST_STEPS = 240
Step = Callable[[str], object]
"""A callback that is called with the name of each step before it begins."""


class Analysed(Struct, frozen=True):
    """A summary of the logs, and where the tables are."""

    to: str
    files: int
    events: int
    messages: int
    kinds: dict[str, int]
    unknown: dict[str, int]
    """Events of kinds that this version does not know, by kind: they are skipped."""
    broken: dict[str, int]
    """By file: the number of lines that are no events. A killed process leaves half a line at the end."""
    began_at: int
    """The time at which steps begin: 0 in a log of PlainBench, the first event in a server's."""
    ended_at: int
    step_us: int
    """The width of the steps in all tables over time."""


def analyse(
    spark: SparkSession,
    logs: Sequence[str],
    to: str,
    *,
    step_us: int | None = None,
    wanted: Sequence[str] = TABLES,
    step: Step = lambda _doing: None,
) -> Analysed:
    """Compute tables from event logs, and put them into a folder: all that are wanted, or none.

    ``step_us`` is the width of the steps of time; by default one that suits the log. ``step`` is called before each
    step of the work.
    """
    found, target = log_files(logs), files_of(spark, to)
    _check_folder(target)
    with _alone(target):
        target.remove(_UNFINISHED)
        try:
            tables = Tables(spark, f"{target.root}/{_UNFINISHED}")
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
    """Lock the folder against other analyses, where the file system can."""
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


def add_report(spark: SparkSession, found: Analysed) -> str:
    """Put a report beside the tables, and return its path."""
    from sqew.spark.report.page import page

    target, name = files_of(spark, found.to), f"{REPORT}/index.html"
    target.remove(REPORT)
    target.create(name, page(Tables(spark, found.to), found).encode())
    return f"{target.root}/{name}"


def log_files(logs: Sequence[str]) -> list[str]:
    """Return the files to read: all logs in the folder of a run; a server's log together with its rotated files."""
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
    """Return the width of steps of a round length, few enough to plot.

    >>> step_for(60_000_000), step_for(86_400_000_000)
    (500000, 600000000)
    """
    rounded = (round(step_s * 1e6) for step_s in _STEPS_S)
    return next((step for step in rounded if span_us <= step * _MOST_STEPS), -(-span_us // _MOST_STEPS))


class _Making:
    """An analysis in progress: each table is computed from those before it."""

    def __init__(self, tables: Tables, wanted: set[str], step: Step) -> None:
        self._tables, self._wanted, self._step = tables, wanted, step
        self._kept = ExitStack()

    def make(self, files: Sequence[str], root: str, step_us: int | None) -> Analysed:
        """Make all tables that are wanted, and return the summary."""
        with self._kept:
            self._step("reading the logs")
            steps, events, tally = self._read(parts_of(files, "jsonl", SPLIT_BYTES))
            about = _counted(tally, root, files, step_us)
            self._over = {"step_us": about.step_us, "began_at": about.began_at}
            happened = happenings(events, **self._over).toArrow()
            names = small_tables.names(tally, happened)
            self._tables.put("names", names)
            self._put(
                faults=small_tables.faults(happened, about.step_us), looks=small_tables.looks(happened, about.step_us)
            )
            self._step("following the messages")
            followed = self._follow(steps, names, small_tables.deaths(happened))
            output = _output_of(followed, HOW_MANY, SPEEDS, DONE, SLOWEST)
            if self._wanted & {"latencies", "latencies_over_time"}:
                self._latencies(followed.where(F.col("what") == COUNTS), names, tally)
            self._count(output, names)
        return replace(about, messages=sum(map(int, output[HOW_MANY])))

    def _read(self, parts: Sequence[FilePart]) -> tuple[DataFrame, DataFrame, pa.Table]:
        """Return the steps of messages, the table of events, and a tally of them."""
        self._tasks = _tasks_for(parts)
        table = self._tables.by_tasks("events", EVENTS)
        read = self._done(ReadLogs(table, self._tasks), parts_frame(self._tables.spark, parts))
        output = _output_of(read, FILES, TALLIES)
        tally = with_codes(tallied_together([from_bytes(content) for content in output[TALLIES]]))
        return read.where(F.col("what") == STEPS), self._tables.take(table, read, output[FILES]), tally

    def _follow(self, steps: DataFrame, names: pa.Table, deaths: pa.Table) -> DataFrame:
        """Make the tables of messages and deliveries; return the other output of the tasks."""
        tables = self._tables.by_tasks("messages", MESSAGE_ROWS), self._tables.by_tasks("deliveries", DELIVERY_ROWS)
        over = Over(**self._over) if self._wanted - {*MESSAGES, "faults", "looks"} else None
        followed = self._done(Follow(names, deaths, *tables, self._tasks, over), self._spread(steps))
        files = _output_of(followed, FILES)[FILES]
        for table in tables:
            self._tables.take(table, followed, files)
        return followed

    def _latencies(self, counts: DataFrame, names: pa.Table, tally: pa.Table) -> None:
        self._step("working out latencies")
        drops = tally.filter(pc.equal(tally["kind"], "dropped"))
        if drops.num_rows:
            dropped = hand_on_counts(counts_of_drops(drops, EventNames(names)), self._tasks)
            counts = counts.unionByName(self._tables.spark.createDataFrame(pa.Table.from_batches([dropped])))
        found = self._spread(counts).mapInArrow(FindQuantiles(names), from_arrow_schema(LATENCIES)).toArrow()
        is_whole = pc.is_null(found["at"])
        self._put(
            latencies=found.filter(is_whole).drop_columns("at"),
            latencies_over_time=found.filter(pc.invert(is_whole)).drop_columns(["lane", "worker"]),
        )

    def _done(self, task: Task, rows: DataFrame) -> DataFrame:
        """Run a task in Python on rows. Its output is persisted, so that reading it again does not run it again."""
        output = rows.mapInArrow(task, from_arrow_schema(OUTPUT)).persist(StorageLevel.DISK_ONLY)
        self._kept.callback(output.unpersist)
        return output

    def _spread(self, output: DataFrame) -> DataFrame:
        """Return the contents with each part in a task of its own."""
        return output.repartitionById(self._tasks, "part").select("content")

    def _count(self, output: Mapping[str, Sequence[bytes]], names: pa.Table) -> None:
        """Make the tables of what tasks have counted."""
        if not output[DONE]:
            return
        speeds, tallies, slowest = (pa.concat_tables(map(from_bytes, output[what])) for what in (SPEEDS, DONE, SLOWEST))
        step_us = self._over["step_us"]
        self._put(
            rates=small_tables.rates(speeds, names, step_us),
            throughput=small_tables.throughput(tallies),
            depths=small_tables.depths(tallies, step_us),
            slowest=small_tables.slowest(slowest, MOST),
        )

    def _put(self, **tables: pa.Table) -> None:
        for name, rows in tables.items():
            if name in self._wanted:
                self._tables.put(name, rows)


def _tasks_for(parts: Sequence[FilePart]) -> int:
    """Return the number of tasks to spread the messages over: each task's messages must fit into its memory."""
    sizes = [part.end - part.start for part in parts]
    # What was not split is compressed.
    unpacked = sum(size * _PACKED if size > SPLIT_BYTES else size for size in sizes)
    return max(1, min(-(-unpacked // SPLIT_BYTES), _MOST_TASKS))


def _output_of(done: DataFrame, *whats: str) -> dict[str, list[Any]]:
    """Return the contents that tasks have output, by kind."""
    rows = done.where(F.col("what").isin(*whats)).select("what", "content").toArrow().to_pylist()
    return {what: [row["content"] for row in rows if row["what"] == what] for what in whats}
