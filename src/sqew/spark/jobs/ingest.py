"""`sqew spark ingest`: the lines of files into a queue, once however often it is run."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from pyspark import StorageLevel

from sqew.errors import BadValue, UnknownLane
from sqew.rules import Limits
from sqew.spark.files import SPLIT_BYTES, Part, located, parts_of
from sqew.spark.jobs.ledger import is_done, note_done
from sqew.spark.transforms import ingesting
from sqew.spark.transforms.ingesting import Manner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqew.model import Policy
    from sqew.spark.source.wire import Wire


class Into(Struct, frozen=True):
    """Where the messages go."""

    queue: str
    lane: str | None = None
    priority: int = 0


class Ingested(Struct, frozen=True):
    """What a run has done."""

    job_id: str
    files: int
    sent: int
    repeated: int
    """How many messages an earlier run had sent."""
    rejected: int
    rejects: str | None
    """The folder that holds what was set aside."""


class Tally(Struct, frozen=True):
    """What a part has."""

    part: int
    file: str
    lines: int
    good: int
    digest: str


def check_target(policy: Policy, into: Into, group_by: str | None) -> Limits:
    """Raise where the queue would refuse everything; else how large its bodies may be."""
    if into.lane is not None and into.lane not in policy.lanes:
        raise UnknownLane(into.queue, into.lane, policy.lanes)
    if policy.fifo and group_by is None:
        raise BadValue(f"Queue '{into.queue}' is FIFO, so each message needs a group: give --group-by FIELD.")
    limits = Limits()
    return limits if policy.max_body_bytes is None else Limits(max_body_bytes=policy.max_body_bytes)


class Ingest:
    """One ingest: which files go where, and how they are read."""

    def __init__(
        self,
        spark: SparkSession,
        wire: Wire,
        into: Into,
        manner: Manner,
        options: Mapping[str, str],
        *,
        job_id: str | None = None,
        in_order: bool = False,
        split_bytes: int = SPLIT_BYTES,
    ) -> None:
        """``options`` are those of a write by ``format("sqew")``; ``in_order``: the queue is FIFO."""
        self._spark, self._wire, self._into, self._manner, self._options = spark, wire, into, manner, options
        self._job_id, self._in_order, self._split_bytes = job_id, in_order, split_bytes

    def run(self, patterns: Sequence[str], quarantine: str) -> Ingested:
        """Send what was not sent before. What can't be goes into a folder of this job's own in ``quarantine``."""
        parts = parts_of(patterns, self._manner.format, self._split_bytes)
        checked = ingesting.checked(ingesting.parts_frame(self._spark, parts), self._manner)
        # Only rejects and tallies are kept: good lines are read again, which is quicker than to store them.
        checked.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            tallies = [Tally(*row) for row in ingesting.tallies(checked).collect()]
            names = self._names(tallies)
            folder = f"{located(quarantine)}/{self._job_id or _named('ingest', names.values())}"
            rejects = self._quarantined(checked, tallies, folder)
        finally:
            checked.unpersist()
        return self._sent(parts, tallies, names, rejects)

    def _quarantined(self, checked: DataFrame, tallies: Sequence[Tally], folder: str) -> tuple[int, str | None]:
        rejected = checked.where("reason IS NOT NULL").count()
        if not rejected:
            return 0, None
        before = ingesting.lines_before([(tally.part, tally.file, tally.lines) for tally in tallies])
        frame = self._spark.createDataFrame(before, "part int, before long")
        ingesting.rejects(checked, frame).coalesce(1).write.mode("overwrite").json(folder)
        return rejected, folder

    def _sent(
        self, parts: Sequence[Part], tallies: Sequence[Tally], names: Mapping[str, str], rejects: tuple[int, str | None]
    ) -> Ingested:
        known = self._known(names)
        new = [tally for tally in tallies if tally.file not in known]
        job_id = self._job_id or _named("ingest", (names[file] for file in names.keys() - known))
        good = sum(tally.good for tally in new)
        sent = 0 if not good or is_done(self._wire, self._into.queue, job_id) else good
        if sent:
            self._write([part for part in parts if part.file not in known], new, job_id)
        if not self._job_id:
            # For runs on some of these files together with others.
            for file in names.keys() - known:
                note_done(self._wire, self._into.queue, names[file])
        return Ingested(job_id, len(names), sent, sum(tally.good for tally in tallies) - sent, *rejects)

    def _known(self, names: Mapping[str, str]) -> set[str]:
        """The files that were sent before. A job that the user has named is known by that name alone."""
        if self._job_id:
            return set()
        return {file for file, name in names.items() if is_done(self._wire, self._into.queue, name)}

    def _write(self, parts: Sequence[Part], tallies: Sequence[Tally], job_id: str) -> None:
        digests = {tally.part: tally.digest for tally in tallies}
        frame = ingesting.parts_frame(self._spark, parts)
        messages = ingesting.messages(frame, self._manner, digests)
        if self._manner.group_by is None:
            messages = messages.drop("group")
        elif self._in_order:
            messages = ingesting.in_order(messages)
        rows = ingesting.addressed(messages, self._into.lane, self._into.priority)
        rows.write.format("sqew").options(**self._options, jobId=job_id).mode("append").save()

    def _names(self, tallies: Iterable[Tally]) -> dict[str, str]:
        """What each file is known by on the server: its content, how it is read and where its messages go."""
        digests = defaultdict[str, list[str]](list)
        for tally in sorted(tallies, key=lambda tally: tally.part):
            digests[tally.file].append(tally.digest)
        schema = self._manner.schema
        how = [self._manner.format, self._manner.delimiter, schema and schema.json(), self._manner.group_by]
        said = msgspec.json.encode([*how, self._into.lane, self._into.priority]).decode()
        return {file: _named("file", ["/".join([said, *parts])]) for file, parts in digests.items()}


def _named(kind: str, digests: Iterable[str]) -> str:
    return f"{kind}-{hashlib.sha256('/'.join(sorted(digests)).encode()).hexdigest()[:24]}"
