"""The commits of a lake: which files count, and how they came to.

A run of `sqew spark archive` writes its files to a folder that readers ignore (``_staging``), then creates one small
file that names them: the commit. From then on they count; moving them to their places is only tidying up, which the
next run resumes if this one is stopped. Commits of a queue are numbered, and a number is given once: of two runs at a
time one commits.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from sqew.errors import LakeConflict, LakeUnusable
from sqew.spark.lake.files import Files

VERSION = 1
"""The version that lakes are written in. A lake of a later version is left alone."""
T = TypeVar("T")
_LAKE, _COMMITS, _STAGING = "_sqew/lake.json", "_sqew/commits", "_staging"
_STAGED = re.compile(r"\d+-\w+")
"""The names of runs' folders: anything else that lies there is left alone."""


class LakeFile(Struct, frozen=True):
    """A file of the lake: its path, and what must be in it."""

    path: str
    rows: int
    first_id: int
    last_id: int
    first_finished_at: int
    """In epoch milliseconds, like the last one."""
    last_finished_at: int


class LakeCommit(Struct, frozen=True):
    """The files that one run added to the lake."""

    queue: str
    number: int
    run: str
    files: list[LakeFile]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def staging(self) -> str:
        return staging_of(self.queue, self.number, self.run)

    @property
    def name(self) -> str:
        return f"{_COMMITS}/{self.queue}/{self.number:012}.json"


class _About(Struct, frozen=True):
    id: str
    version: int


def staging_of(queue: str, number: int, run: str) -> str:
    """Return the folder for a run's files until they are committed."""
    return f"{_STAGING}/{queue}/{number:012}-{run}"


class Lake:
    """A folder of Parquet files by queue and day. Only files that a commit names count."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self._id: str | None = None

    @property
    def id(self) -> str:
        """The lake's identity, wherever it is moved or mounted."""
        if self._id is None:
            self._id = self._read_id()
        return self._id

    def make(self) -> None:
        """Make it a lake, unless it is one."""
        if self.files.read(_LAKE) is None:
            self.files.create(_LAKE, msgspec.json.encode(_About(uuid.uuid4().hex, VERSION)))
        self.check()

    def check(self) -> None:
        """Raise unless it is a lake that this version can read."""
        self._id = self._read_id()

    def _read_id(self) -> str:
        content = self.files.read(_LAKE)
        if content is None:
            raise LakeUnusable(f"{self.files.root} is no lake. Name the folder that `sqew spark archive` has filled.")
        about = _decoded(content, _About, f"{self.files.root}/{_LAKE}")
        if about.version > VERSION:
            raise LakeUnusable(f"The lake {self.files.root} was made by a later version of Sqew. Use that one.")
        return about.id

    def queues(self) -> list[str]:
        """Return the queues that have something in the lake."""
        return self.files.names(_COMMITS)

    def commits(self, queue: str | None = None) -> Iterator[LakeCommit]:
        """Yield the commits of a queue, or of all queues, the oldest first."""
        for name in self.queues() if queue is None else [queue]:
            for number in self._numbers(name):
                place = f"{_COMMITS}/{name}/{number:012}.json"
                content = self.files.read(place)
                yield _decoded(content or b"", LakeCommit, f"{self.files.root}/{place}")

    def _numbers(self, queue: str) -> list[int]:
        names = self.files.names(f"{_COMMITS}/{queue}")
        return [int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdigit()]

    def next_number(self, queue: str) -> int:
        """Return the number that the next commit of a queue will have."""
        return max(self._numbers(queue), default=0) + 1

    def commit(self, commit: LakeCommit) -> None:
        """Commit the files of a run. Raise LakeConflict if another run has its number: then nothing has changed."""
        try:
            is_ours = self.files.create(commit.name, msgspec.json.encode(commit))
        except Exception:
            # Unless it was made after all, what was staged takes up room that may be what is missing.
            if self.files.read(commit.name) is None:
                self.files.remove(commit.staging)
            raise
        if not is_ours:
            self.files.remove(commit.staging)
            raise LakeConflict(commit.queue, self.files.root)

    def settle(self, queue: str | None = None) -> None:
        """Move committed files to their places, if a run was stopped before it had done so."""
        for name in self.queues() if queue is None else [queue]:
            left = {each for each in self.files.names(f"{_STAGING}/{name}") if _STAGED.fullmatch(each)}
            if left:
                self._settle(name, left, self.next_number(name) - 1)

    def _settle(self, queue: str, left: Iterable[str], last: int) -> None:
        for commit in self.commits(queue):
            staging = commit.staging.rpartition("/")[2]
            if staging in left:
                for file in commit.files:
                    self.files.move(f"{commit.staging}/{file.path}", file.path)
        for staging in left:
            # What has the number of a commit, or an earlier one, can't be committed any more.
            if int(staging.partition("-")[0]) <= last:
                self.files.remove(f"{_STAGING}/{queue}/{staging}")

    def files_since(self, queue: str, since: int) -> list[LakeFile]:
        """Return the files of a queue with messages that finished at a time (epoch milliseconds) or later."""
        return [file for commit in self.commits(queue) for file in commit.files if file.last_finished_at >= since]

    def place(self, file: LakeFile) -> str:
        """Return a file's path for Spark."""
        return f"{self.files.root}/{file.path}"


def _decoded(content: bytes, kind: type[T], place: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError:
        raise LakeUnusable(f"{place} can't be read: it is damaged. Put it back from a backup of the lake.") from None
