"""`sqew spark ingest`: the lines of files into a queue, once however often it is run."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from pyspark import StorageLevel
from pyspark.sql.pandas.types import from_arrow_schema

from sqew.errors import AlreadyPromoted, BadValue, Conflict, PartIncomplete, SqewError, UnknownLane
from sqew.rules.limits import Limits
from sqew.spark.files import SPLIT_BYTES, FilePart, located, parts_of
from sqew.spark.jobs.ledger import is_done
from sqew.spark.jobs.upload import EPOCH, UPLOADED, Upload
from sqew.spark.source import calls
from sqew.spark.source.options import options_of
from sqew.spark.transforms import ingest
from sqew.spark.transforms.ingest import Manner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from sqew.model import Policy
    from sqew.spark.source.wire import Wire

_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_OF_REFUSED = "part int, file string, line long, reason string, raw string"


class Into(Struct, frozen=True):
    """The queue that the messages go to, with lane and priority."""

    queue: str
    lane: str | None = None
    priority: int = 0


class Ingested(Struct, frozen=True):
    """The result of a run."""

    job_id: str
    files: int
    sent: int
    repeated: int
    """The number of messages that an earlier run had sent."""
    rejected: int
    rejects: str | None
    """The folder with the rejected lines, or None."""


class PartCounts(Struct, frozen=True):
    """The counts of lines in a part, and its digest."""

    part: int
    file: str
    lines: int
    good: int
    bad: int
    digest: str


def check_target(policy: Policy, into: Into, group_by: str | None) -> Limits:
    """Return the size limit of the queue's bodies. Raise if the queue would refuse every message."""
    if into.lane is not None and into.lane not in policy.lanes:
        raise UnknownLane(into.queue, into.lane, policy.lanes)
    if policy.fifo and group_by is None:
        raise BadValue(f"Queue '{into.queue}' is FIFO, so each message needs a group: give --group-by FIELD.")
    limits = Limits()
    return limits if policy.max_body_bytes is None else Limits(max_body_bytes=policy.max_body_bytes)


class Ingest:
    """A run of an ingest: which files go where, and how they are read."""

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
        """Prepare a run. ``options`` are those of a write by ``format("sqew")``; ``in_order``: the queue is FIFO."""
        self._spark, self._wire, self._into, self._manner = spark, wire, into, manner
        self._target = options_of(options).target
        self._job_id, self._in_order, self._split_bytes = job_id, in_order, split_bytes

    def run(self, patterns: Sequence[str], quarantine: str) -> Ingested:
        """Send what was not sent before. Rejected lines go into a folder of this job's own in ``quarantine``."""
        parts = parts_of(patterns, self._manner.format, self._split_bytes)
        checked = ingest.checked(ingest.parts_frame(self._spark, parts), self._manner)
        # Only rejects and tallies are kept: good lines are read again, which is quicker than to store them.
        checked.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            tallies = sorted((PartCounts(*row) for row in ingest.tallies(checked).collect()), key=lambda one: one.part)
            writers = self._writers(tallies)
            new = self._unknown(writers.values())
            good, files = sum(tally.good for tally in tallies), len(writers)
            if not new:
                # What was set aside is where the run has put it that sent the rest.
                return Ingested(self._job_id or _named("ingest", writers.values()), files, 0, good, 0, None)
            job_id = self._job_id or _named("ingest", new)
            folder = f"{located(quarantine)}/{_folder_name(job_id)}"
            some = [tally for tally in tallies if writers[tally.file] in new]
            sent, refused, rejected = self._sent(parts, some, writers, new, checked, folder)
        finally:
            checked.unpersist()
        return Ingested(job_id, files, sent, good - sent - refused, rejected, folder if rejected else None)

    def _sent(
        self, parts: Sequence[FilePart], tallies: Sequence[PartCounts], writers: Mapping[str, str],
        new: Mapping[str, None], checked: DataFrame, folder: str,
    ) -> tuple[int, int, int]:  # fmt: skip
        """Send new files. Return how many messages were sent and how many refused, and how many lines were rejected."""
        try:
            handed_in = self._handed_in(parts, tallies, writers)
            refused = [row for row in handed_in if row["reason"] is not None]
            rejected = self._quarantined(checked, refused, tallies, folder)
            return self._promoted(new, handed_in), len(refused), rejected
        except BaseException:
            self._abort(new)
            raise

    def _writers(self, tallies: Iterable[PartCounts]) -> dict[str, str]:
        """Return each file's writer: by it the server knows which files were sent, whichever files a run has.

        It is derived from the file's content, how it is read and where it goes, so a file may be moved; copies of the
        same content are numbered. If the user has named the job, all files have that name as their writer.
        """
        digests = defaultdict[str, list[str]](list)
        for tally in tallies:
            digests[tally.file].append(tally.digest)
        if self._job_id:
            return dict.fromkeys(digests, self._job_id)
        schema = self._manner.schema
        how = [self._manner.format, self._manner.delimiter, schema and schema.json(), self._manner.group_by]
        said = msgspec.json.encode([*how, self._into.lane, self._into.priority]).decode()
        copies = Counter[str]()
        found = {}
        for file, parts in digests.items():
            name = _named("file", ["/".join([said, *parts])])
            copies[name] += 1
            found[file] = name if copies[name] == 1 else f"{name}-{copies[name]}"
        return found

    def _unknown(self, writers: Iterable[str]) -> dict[str, None]:
        """Return the writers whose files were not sent before, in the order of the files."""
        names = dict.fromkeys(writers)
        return dict.fromkeys(name for name in names if not is_done(self._wire, self._into.queue, name))

    def _handed_in(
        self, parts: Sequence[FilePart], tallies: Sequence[PartCounts], writers: Mapping[str, str]
    ) -> list[Row]:
        """Have tasks upload the good lines of files. None of them is in the queue yet."""
        digests = {tally.part: tally.digest for tally in tallies}
        some = [part for part in parts if part.number in digests]
        names = {part.number: writers[part.file] for part in some}
        into, grouped = self._into, self._manner.group_by is not None
        hand_in = Upload(self._target, names, into.lane, into.priority, grouped)
        frame = ingest.parts_frame(self._spark, some)
        if self._in_order:
            messages = ingest.in_order(ingest.messages(frame, self._manner, digests))
            return messages.mapInArrow(hand_in, from_arrow_schema(UPLOADED)).collect()
        return ingest.messages(frame, self._manner, digests, then=hand_in, schema=UPLOADED).collect()

    def _quarantined(
        self, checked: DataFrame, refused: Sequence[Row], tallies: Sequence[PartCounts], folder: str
    ) -> int:
        """Write the lines that we or the server rejected; return their number."""
        rejected = sum(tally.bad for tally in tallies) + len(refused)
        if not rejected:
            return 0
        found = checked.where("reason IS NOT NULL").select("part", "file", "line", "reason", "raw")
        if refused:
            files = {tally.part: tally.file for tally in tallies}
            rows = [(row["part"], files[row["part"]], row["line"], row["reason"], row["raw"]) for row in refused]
            found = found.union(self._spark.createDataFrame(rows, _OF_REFUSED))
        before = ingest.lines_before([(tally.part, tally.file, tally.lines) for tally in tallies])
        rejects = ingest.rejects(found, self._spark.createDataFrame(before, "part int, before long"))
        rejects.coalesce(1).write.mode("overwrite").json(folder)
        return rejected

    def _promoted(self, writers: Iterable[str], handed_in: Sequence[Row]) -> int:
        """Promote what was uploaded to the queue, file by file; return the number of messages."""
        sent = 0
        staged = defaultdict[str, dict[str, int]](dict)
        for row in handed_in:
            if row["count"]:
                staged[row["writer"]][row["staged"]] = row["count"]
        for writer in writers:
            # Also where a file has nothing: it need not be looked at again.
            if not self._promote(writer, staged[writer]):
                sent += sum(staged[writer].values())
        return sent

    def _promote(self, writer: str, staged: Mapping[str, int]) -> bool:
        """Promote a writer's file to the queue; return True if another run had already done so."""
        try:
            return self._wire.ask(calls.promote(self._into.queue, writer, EPOCH, staged)).repeated
        except PartIncomplete as error:
            raise Conflict(
                "Another run with the same files was stopped meanwhile, and what was handed in is gone. Run it again."
            ) from error

    def _abort(self, writers: Iterable[str]) -> None:
        # Something else is wrong that is about to be told. The server drops in time what nobody promotes.
        with suppress(SqewError):
            for writer in writers:
                with suppress(AlreadyPromoted):
                    self._wire.ask(calls.abort(self._into.queue, writer, EPOCH))


def _named(kind: str, digests: Iterable[str]) -> str:
    return f"{kind}-{hashlib.sha256('/'.join(sorted(digests)).encode()).hexdigest()[:24]}"


def _folder_name(job_id: str) -> str:
    """Return the name of a job's folder. Its content is overwritten, so no two jobs may share one."""
    return job_id if _FOLDER_NAME.fullmatch(job_id) else _named("job", [job_id])
