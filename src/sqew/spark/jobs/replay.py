"""`sqew spark replay`: messages of the lake into a queue, once however often it is run.

The messages that one commit added to the lake are replayed as one job, whose id says which commit, which messages and
where to; the server knows which jobs are done. So a run that was stopped resumes where it was, and of a lake that has
grown only the new messages are sent.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sqew.errors import BadValue, WriterNotFound
from sqew.spark.jobs.query import first_line
from sqew.spark.lake.commits import Lake, LakeCommit
from sqew.spark.lake.read import read_files
from sqew.spark.source import calls
from sqew.spark.source.requests import requests
from sqew.spark.source.wire import Wire
from sqew.spark.transforms.lake import SENT_AGAIN, chosen, to_send_again

if TYPE_CHECKING:
    from pyspark.sql import Row

PACED_TOGETHER = 500
"""The number of messages in a batch if there is a rate; each is delayed until its own time. A resumed run must make the
same batches, whatever its rate: so this must not change."""
IN_ORDER_TOGETHER = 50
"""The same for a FIFO queue, where other senders' messages of a group wait behind those that are delayed."""
_SEEN_AT_ONCE = 12
"""Characters of a hash, enough to tell apart all jobs that one user would ever run."""
_SAID_OF_JOB = 80
"""Characters of a job's id that its writers' names contain."""

Step = Callable[[int], object]
"""A callback that is called with the number of messages sent so far."""


class Choice(Struct, frozen=True, kw_only=True):
    """The messages of the lake to replay: of one queue, or of all."""

    queue: str | None = None
    where: str | None = None
    since: int | None = None
    """In epoch milliseconds: those that finished then or later."""
    until: int | None = None
    """In epoch milliseconds: those that finished before."""
    outcome: str | None = None

    def may_be_in(self, commit: LakeCommit) -> bool:
        """Return True if a commit may hold any of them."""
        return any(
            (self.since is None or file.last_finished_at >= self.since)
            and (self.until is None or file.first_finished_at < self.until)
            for file in commit.files
        )


class Replayed(Struct, frozen=True):
    """The result of a run."""

    job_id: str
    sent: int
    repeated: int
    """The number of messages that an earlier run had sent."""


def job_id_of(lake: Lake, choice: Choice, target: str, lane: str | None) -> str:
    """Return the id of a replay that the user has given none: the same for the same messages to the same queue."""
    said = msgspec.json.encode([lake.id, choice, target, lane], order="deterministic")
    return f"replay-{hashlib.sha256(said).hexdigest()[:_SEEN_AT_ONCE]}"


class Replay:
    """A run of a replay: which messages go where, under which id."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        choice: Choice,
        options: Mapping[str, str],
        wire: Wire,
        *,
        job_id: str | None = None,
        lane: str | None = None,
        in_order: bool = False,
    ) -> None:
        """Prepare a run. ``options`` are those of a write by ``format("sqew")``; ``in_order``: the queue is FIFO."""
        self._spark, self._lake, self._choice = spark, lake, choice
        self._options, self._wire = options, wire
        self._target = options["queue"]
        self._lane, self._in_order = lane, in_order
        self.job_id = job_id or job_id_of(lake, choice, self._target, lane)

    def run(self, rate: float | None = None, step: Step = lambda _count: None) -> Replayed:
        """Send what was not sent before, at most ``rate`` messages a second if given."""
        self._lake.settle(self._choice.queue)
        pace = Pace(rate)
        sent = repeated = 0
        for commit in self._lake.commits(self._choice.queue):
            if self._choice.may_be_in(commit):
                done, known = self._send(commit, pace, partial(_output_of, step, sent))
                sent, repeated = sent + done, repeated + known
                step(sent)
        return Replayed(self.job_id, sent, repeated)

    def _send(self, commit: LakeCommit, pace: Pace, step: Step) -> tuple[int, int]:
        """Send the messages of a commit. Return how many were sent now, and how many had been sent before."""
        whole = self._writer_of(commit)
        paced = f"{whole}-paced"
        if (before := self._known(whole)) is not None:
            return 0, before.promoted
        if pace.rate or self._known(paced) is not None:
            return self._send_paced(commit, paced, pace, step)
        messages = self._messages(commit)
        writable = messages.coalesce(1).sortWithinPartitions("id") if self._in_order else messages
        writable.drop("id").write.format("sqew").options(**self._options, jobId=whole).mode("append").save()
        sent = self._known(whole)
        return 0 if sent is None else sent.promoted, 0

    def _writer_of(self, commit: LakeCommit) -> str:
        """Return the writer's name under which a commit is sent. The hash tells apart those with the same beginning."""
        said = msgspec.json.encode([self.job_id, self._lake.id, commit.queue, commit.number])
        short = hashlib.sha256(said).hexdigest()[: 2 * _SEEN_AT_ONCE]
        return f"{self.job_id[:_SAID_OF_JOB]}-{commit.number}-{short}"

    def _messages(self, commit: LakeCommit) -> DataFrame:
        rows, choice = read_files(self._spark, self._lake, commit.files), self._choice
        try:
            some = chosen(rows, choice.where, choice.since, choice.until, choice.outcome)
        except AnalysisException as error:
            raise BadValue(
                f"{choice.where!r} can't be asked of messages: {first_line(error)} Correct --where."
            ) from error
        return to_send_again(some, self._lane)

    def _send_paced(self, commit: LakeCommit, writer: str, pace: Pace, step: Step) -> tuple[int, int]:
        known, sent, repeated = self._known(writer), 0, 0
        rows = self._messages(commit).orderBy("id").toLocalIterator(prefetchPartitions=True)
        together = IN_ORDER_TOGETHER if self._in_order else PACED_TOGETHER
        for epoch, batch in enumerate(_batches(rows, together)):
            if known is not None and epoch <= known.epoch:
                repeated += len(batch)
                continue
            pace.wait()
            self._send_batch(writer, epoch, batch, pace.delays_ms(len(batch)))
            sent += len(batch)
            step(sent)
        return sent, repeated

    def _send_batch(self, writer: str, epoch: int, rows: Sequence[Row], delays: Sequence[int]) -> None:
        # A part of its own each time: one that a stopped run has handed in is not promoted, and swept.
        part, handed_in = uuid.uuid4().hex, 0
        for request in requests([_batch(rows, delays)], "json"):
            self._wire.ask(calls.stage(self._target, writer, epoch, part, request.body, offset=handed_in))
            handed_in += request.count
        self._wire.ask(calls.promote(self._target, writer, epoch, {part: len(rows)}))

    def _known(self, writer: str) -> _Known | None:
        """Return the server's record of a writer that has committed an epoch, or None."""
        try:
            info = self._wire.ask(calls.writer(self._target, writer))
        except WriterNotFound:
            return None
        return None if info.epoch is None else _Known(info.epoch, info.promoted)


class _Known(Struct, frozen=True):
    """The last epoch that a writer has committed to the queue, and its number of messages."""

    epoch: int
    promoted: int


class Pace:
    """The times at which messages are due at a given rate; without a rate, at once."""

    def __init__(self, rate: float | None) -> None:
        self.rate = rate
        self._due = time.monotonic()

    def wait(self) -> None:
        """Wait until the next message is due."""
        pause = self._due - time.monotonic()
        if pause > 0:
            time.sleep(pause)

    def delays_ms(self, count: int) -> list[int]:
        """Return the delay in the queue for each of the next messages."""
        if not self.rate:
            return [0] * count
        self._due += count / self.rate
        return [int(1000 * number / self.rate) for number in range(count)]


_SENT = pa.schema(
    [
        ("body", pa.string()),
        ("format", pa.string()),
        ("lane", pa.string()),
        ("priority", pa.int32()),
        ("group", pa.string()),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("delay_ms", pa.int64()),
    ]
)


def _output_of(step: Step, before: int, count: int) -> None:
    step(before + count)


def _batch(rows: Sequence[Row], delays: Sequence[int]) -> pa.RecordBatch:
    columns = [[row[name] for row in rows] for name in SENT_AGAIN[:-1]]
    headers = [None if row["headers"] is None else list(row["headers"].items()) for row in rows]
    arrays = [pa.array(values, kind) for values, kind in zip([*columns, headers, delays], _SENT.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SENT)


def _batches(rows: Iterator[Row], together: int) -> Iterator[list[Row]]:
    while batch := list(islice(rows, together)):
        yield batch
