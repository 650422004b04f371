"""The ingest of files into a topic, line by line. Interrupted, it goes on where it stopped, and sends nothing twice."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from plainbench.drivers.base import Driver, Item
from sqew.errors import BadValue, Conflict, Invalid
from sqew.formats.files import Format, Quarantine, Reject, Row, group_in, rows

BATCH = 1_000
_FAR = 1 << 45
"""A distance beyond the ids of messages that the lab has not sent, and within the range of a log's numbers."""
_REFUSED_IN_A_ROW = 10
"""Number of refusals without a single success that are the fault of all rows, not of some."""


class Source(Struct, frozen=True):
    """A file to ingest, as it was when the ingest began."""

    path: str
    size: int
    changed_ns: int


class Progress(Struct, frozen=True):
    """The progress of an ingest. It is kept in a file while the ingest goes on."""

    sources: list[Source]
    first_number: int
    """Number of its first message; the others count down from there. Numbers of messages sent in runs are above 0."""
    sent: int = 0
    """Number of rows that are in the queue …"""
    rejected: int = 0
    seen: int = 0
    """… and number of rows that were read for that, of all files together."""
    sending: int = 0
    """Number of messages on their way: it is not known yet whether they have arrived."""
    seen_then: int = 0
    rejected_then: int = 0
    """Values of `seen` and `rejected` once they have arrived."""


class Into(Struct, frozen=True):
    """The destination of the messages."""

    topic: str
    lane: str | None = None
    priority: int = 0
    group_by: str | None = None
    """The field that names the group, for a FIFO topic."""


class Ingest:
    """An ingest. ``folder`` keeps its progress and its rejects."""

    def __init__(self, driver: Driver, into: Into, files: Sequence[Path], format: Format, folder: Path) -> None:
        self._driver, self._into, self._files, self._format = driver, into, files, format
        self._folder = folder
        self._file = folder / f"{into.topic}.progress.json"
        self.rejects = folder / "rejects" / f"{into.topic}.jsonl"
        self.progress = Progress([_source(path) for path in files], _some_number())
        self.went_on = False

    def forget(self) -> None:
        """Forget an ingest that was interrupted, and begin anew."""
        self._file.unlink(missing_ok=True)

    def resume(self) -> None:
        """Continue an ingest that was interrupted, if there is one."""
        try:
            kept = msgspec.json.decode(self._file.read_bytes(), type=Progress)
        except FileNotFoundError:
            return
        except msgspec.MsgspecError as error:
            raise BadValue(f"{self._file} can't be read: {error}. Begin anew by --restart.") from error
        if kept.sources != self.progress.sources:
            raise Conflict(
                f"An ingest of {', '.join(source.path for source in kept.sources)} into '{self._into.topic}' was "
                "interrupted: go on with the same files, unchanged, or begin anew by --restart."
            )
        self.went_on = True
        self.progress = self._settled(kept)
        self._keep()

    def _settled(self, kept: Progress) -> Progress:
        """Return the progress once it is known if the last batch has arrived: it did so as a whole, or not at all."""
        if not kept.sending:
            return kept
        first = kept.first_number - kept.sent
        numbers = range(first, first - kept.sending, -1)
        if any(left.number in numbers for left in self._driver.left(self._into.topic)):
            return _arrived(kept)
        return replace(kept, sending=0, seen_then=0, rejected_then=0)

    def run(self, report: Callable[[Progress], None], delimiter: str = ",") -> Progress:
        """Send the remaining rows. ``report`` is called after each batch."""
        quarantine = Quarantine(self.rejects, kept=self.progress.rejected)
        read = self._read(delimiter)
        for _ in islice(read, self.progress.seen):
            """These were dealt with before."""
        while batch := list(islice(read, BATCH)):
            self._send(batch, quarantine)
            report(self.progress)
        self._file.unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty where there were rejects
            self._folder.rmdir()
        return self.progress

    def _read(self, delimiter: str) -> Iterator[Row | Reject]:
        for path in self._files:
            yield from rows(path, self._format, delimiter)

    def _send(self, batch: list[Row | Reject], quarantine: Quarantine) -> None:
        """Send the valid rows of a batch, and set the rest aside."""
        before = self.progress
        rejects = [row for row in batch if isinstance(row, Reject)]
        first = before.first_number - before.sent
        good = (row for row in batch if isinstance(row, Row))
        items = [self._item(first - number, row.body) for number, row in enumerate(good)]
        try:
            self._on_their_way(items, len(batch), len(rejects))
            for reject in rejects:
                quarantine.add(reject)
            if items:
                self._driver.send(self._into.topic, items)
        except Invalid as error:
            self.progress = before
            quarantine.keep_only(before.rejected)
            self._sort_out(batch, quarantine, error)
            return
        self.progress = _arrived(self.progress)
        self._keep()

    def _on_their_way(self, items: Sequence[Item], seen: int, rejected: int) -> None:
        now = self.progress
        self.progress = replace(
            now, sending=len(items), seen_then=now.seen + seen, rejected_then=now.rejected + rejected
        )
        self._keep()

    def _sort_out(self, batch: list[Row | Reject], quarantine: Quarantine, error: Invalid) -> None:
        """Find the rows of a batch that the queue refuses: by halves, down to a single one, which is set aside."""
        if len(batch) > 1:
            middle = len(batch) // 2
            self._send(batch[:middle], quarantine)
            self._send(batch[middle:], quarantine)
            return
        [row] = batch
        assert isinstance(row, Row)
        if not self.progress.sent and self.progress.rejected >= _REFUSED_IN_A_ROW:
            raise error
        self._send([Reject(row.file, row.line, str(error), row.body.decode())], quarantine)

    def _item(self, number: int, body: bytes) -> Item:
        into = self._into
        group = None if into.group_by is None else group_in(body, into.group_by)
        return Item(number, body, into.lane, into.priority, group)

    def _keep(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._file.with_suffix(".unfinished")
        unfinished.write_bytes(msgspec.json.encode(self.progress))
        unfinished.replace(self._file)


def _some_number() -> int:
    """Return a number to count from: so far from those of other ingests that no two messages get the same number."""
    return -(_FAR + secrets.randbelow(_FAR))


def _arrived(progress: Progress) -> Progress:
    return replace(
        progress,
        sent=progress.sent + progress.sending,
        seen=progress.seen_then,
        rejected=progress.rejected_then,
        sending=0,
        seen_then=0,
        rejected_then=0,
    )


def _source(path: Path) -> Source:
    status = path.stat()
    return Source(str(path), status.st_size, status.st_mtime_ns)
