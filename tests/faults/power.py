"""A disk that loses its power: an apsw VFS that knows what was synced and what was not.

SQLite works on real files below: reads, locks and the shared memory of WAL are the real ones, so that the code under
test runs exactly as it does in production (with locking_mode = EXCLUSIVE the WAL index would be private memory: another
path). Beside each file the VFS keeps its durable image, as of the last xSync, and every write and truncation since. A
power cut takes the durable images and lets a random part of what is pending through.

Pending changes may suffer what a disk that keeps its promises may do: any set of 512-byte sectors arrives,
in any order, except that two writes of one sector arrive in their order (the page cache holds one version); bytes
beside a write stay (SQLite's "powersafe overwrite", which its unix VFS assumes); a file may have grown without the data
that made it grow; a file that was made, deleted or made anew may be there or not until its folder is synced. SQLite's
unix VFS syncs the folder with the first sync of a new journal or WAL, and so does this one. The shared memory is left
out: the first process to open the file makes it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import apsw

SECTOR = 512
_SYNCS_ITS_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class Write(NamedTuple):
    offset: int
    data: bytes


class Truncate(NamedTuple):
    size: int


class Content:
    """An inode: its bytes as they would be after a power cut, and what is on the way to the disk."""

    def __init__(self, durable: bytes = b"") -> None:
        self.durable = bytearray(durable)
        self.pending: list[Write | Truncate] = []

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def after_cut(self, arrives: Callable[[], bool]) -> bytes:
        image = bytearray(self.durable)
        stopped: set[int] = set()
        for change in self.pending:
            if isinstance(change, Truncate):
                if arrives():
                    _apply(image, change)
                continue
            for piece in _sectors(change):
                sector = piece.offset // SECTOR
                if sector in stopped:
                    continue
                if arrives():
                    _apply(image, piece)
                else:
                    stopped.add(sector)
        if len(image) < self._size() and arrives():
            image.extend(bytes(self._size() - len(image)))
        return bytes(image)

    def _size(self) -> int:
        size = len(self.durable)
        for change in self.pending:
            size = change.size if isinstance(change, Truncate) else max(size, change.offset + len(change.data))
        return size


class Disk(apsw.VFS):
    """A folder on a disk whose power can fail. Use it as a VFS by its name."""

    def __init__(self, name: str, folder: Path, random: Random) -> None:
        super().__init__(name, "")
        self.name, self.folder = name, folder
        self.events = 0
        self.cut_at: int | None = None
        """The write, sync, truncation or deletion after which the power fails; `on_cut` is called once."""
        self.on_cut: Callable[[dict[str, bytes]], None] = lambda images: None
        self.failing_syncs = 0
        """The number of next syncs that fail. As in Linux, their data are then lost, and the next one succeeds."""
        self._random = random
        self._entries: dict[str, Content] = {}
        self._folder_as_synced: dict[str, Content] = {}
        self._folder_changes: dict[str, list[Content | None]] = {}

    def load(self, images: dict[str, bytes]) -> None:
        """Start from what a power cut left."""
        for name, image in images.items():
            (self.folder / name).write_bytes(image)
            self._entries[name] = Content(image)
        self._folder_as_synced = dict(self._entries)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:  # noqa: N802
        assert name is not None, "temporary files would escape the simulation"
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        content = self._entries.get(path.name, Content())
        file = _File(self, content, name, flags)
        if path.name not in self._entries:
            self._entries[path.name] = content
            self._folder_changes.setdefault(path.name, []).append(content)
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, False)
        name = Path(filename).name
        del self._entries[name]
        self._folder_changes.setdefault(name, []).append(None)
        if syncdir:
            self.sync_folder()
        self.tick()

    def sync_folder(self) -> None:
        self._folder_as_synced = dict(self._entries)
        self._folder_changes.clear()

    def contents(self) -> dict[str, Content]:
        """Return the files as they stand, by name."""
        return dict(self._entries)

    def tick(self) -> None:
        self.events += 1
        if self.events == self.cut_at:
            self.on_cut(self.after_cut())

    def after_cut(self) -> dict[str, bytes]:
        """Return the files that are there when the power comes back."""
        random = self._random
        # All, none and everything between: each finds what the others hide.
        chance = random.choice((0.0, 1.0, 0.5, 0.9, random.random()))
        found = dict(self._folder_as_synced)
        for name, changes in self._folder_changes.items():
            arrived = [content for content in changes if random.random() < chance]
            if not arrived:
                continue
            if arrived[-1] is None:
                found.pop(name, None)
            else:
                found[name] = arrived[-1]
        if random.random() < 0.3:
            # Written in order, and torn at one place: a disk with a queue.
            return {name: content.after_cut(_until_torn(random)) for name, content in found.items()}
        return {name: content.after_cut(lambda: random.random() < chance) for name, content in found.items()}


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, content: Content, name: str | apsw.URIFilename, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk, self._content = disk, content
        self._syncs_folder = bool(flags[0] & _SYNCS_ITS_FOLDER)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._content.pending.append(Write(offset, bytes(data)))
        self._disk.tick()

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._content.pending.append(Truncate(newsize))
        self._disk.tick()

    def xSync(self, flags: int) -> None:  # noqa: N802
        # The file below is not synced: nothing here depends on it, and a real fsync would cost most of the time.
        if self._disk.failing_syncs:
            self._disk.failing_syncs -= 1
            self._content.pending.clear()
            raise apsw.IOError("Input/output error")
        self._content.sync()
        if self._syncs_folder:
            self._disk.sync_folder()
            self._syncs_folder = False
        self._disk.tick()


def _until_torn(random: Random) -> Callable[[], bool]:
    left = int(random.expovariate(1 / 30))

    def arrives() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    return arrives


def _sectors(write: Write) -> list[Write]:
    pieces = []
    start, end = write.offset, write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        pieces.append(Write(start, write.data[start - write.offset : stop - write.offset]))
        start = stop
    return pieces


def _apply(image: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Truncate):
        if change.size < len(image):
            del image[change.size :]
        else:
            image.extend(bytes(change.size - len(image)))
        return
    if len(image) < change.offset:
        image.extend(bytes(change.offset - len(image)))
    image[change.offset : change.offset + len(change.data)] = change.data
