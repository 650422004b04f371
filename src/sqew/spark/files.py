"""Files that several tasks read at once, split into parts of which each task reads one."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from glob import has_magic
from gzip import BadGzipFile, GzipFile
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sqew.errors import BadValue
from sqew.formats.files import GZIP, ZSTD, Format, Lines, decompressed, files_of

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

SPLIT_BYTES = 8 << 20
"""The bytes that one task reads of a file that can be split. Files are identified by the digests of such parts:
changing it sends again what was sent before."""
_BUFFER_BYTES = 1 << 20
_SAME_AS = {"s3a://": "s3://", "s3n://": "s3://"}
"""Hadoop's names for URL schemes, and the names that others use."""


class FilePart(Struct, frozen=True):
    """The bytes of a file that one task reads: lines that begin among them belong to it."""

    number: int
    file: str
    start: int
    end: int
    size: int
    """The size of the file when it was found: what is appended to it later is left for another run."""


def located(folder: str) -> str:
    """Return a folder's absolute path: the current folder here may not be Java's. URLs are returned unchanged."""
    return folder if "://" in folder else str(Path(folder).absolute())


def parts_of(patterns: Sequence[str], format: Format, split_bytes: int = SPLIT_BYTES) -> list[FilePart]:
    """Return the parts of all files that names, patterns and URLs match. CSV and compressed files are not split."""
    found: list[FilePart] = []
    for file in _files(patterns):
        filesystem, path = _place(file)
        size = _size(filesystem, file, path)
        step = split_bytes if format == "jsonl" and not _is_compressed(filesystem, file, path) else max(size, 1)
        for start in range(0, max(size, 1), step):
            found.append(FilePart(len(found), file, start, min(start + step, size), size))
    return found


class PartReader:
    """A part that is being read: its lines, and the digest of the bytes read so far."""

    def __init__(self, lines: Lines, digest: Any) -> None:
        self.lines, self._digest = lines, digest

    @property
    def count(self) -> int:
        """The number of lines that began in it so far; 0 for a file that is not split."""
        return self.lines.count if isinstance(self.lines, _OwnLines) else 0

    @property
    def digest(self) -> str:
        """A digest that tells one content of the part from another."""
        return str(self._digest.hexdigest())


@contextmanager
def opened(part: FilePart) -> Iterator[PartReader]:
    """Open a part for reading. Raise BadValue if it can't be read."""
    filesystem, path = _place(part.file)
    try:
        with filesystem.open_input_file(path) as stream:
            raw = _Digested(stream, part)
            buffered = BufferedReader(raw, _BUFFER_BYTES)
            start = buffered.peek(len(ZSTD))[: len(ZSTD)] if part.start == 0 else b""
            yield PartReader(_lines_of(part, start, buffered), raw.digest)
    except (EOFError, zlib.error, BadGzipFile) as error:
        raise BadValue(f"{part.file} is not a whole gzip file: {error}.") from error
    except OSError as error:
        raise BadValue(f"{part.file} can't be read: {error.strerror or error}.") from error


def _lines_of(part: FilePart, start: bytes, file: BufferedReader[Any]) -> Lines:
    if start.startswith(GZIP):
        return GzipFile(fileobj=file)
    if start == ZSTD:
        return decompressed(file)
    return _OwnLines(file, part)


class _Digested(RawIOBase):
    """The bytes of a file from just before a part. Only the part's own count in the digest."""

    def __init__(self, stream: Any, part: FilePart) -> None:
        self._stream, self._part = stream, part
        self._at = max(part.start - 1, 0)
        self.digest = hashlib.blake2b(digest_size=16)
        stream.seek(self._at)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._stream.read(min(len(buffer), self._part.size - self._at))
        buffer[: len(read)] = read
        first, last = self._part.start - self._at, self._part.end - self._at
        self.digest.update(memoryview(read)[max(first, 0) : max(last, 0)])
        self._at += len(read)
        return len(read)


class _OwnLines:
    """The lines that begin in a part. The last may end beyond it, and its first bytes may belong to the part before."""

    def __init__(self, file: BufferedReader[Any], part: FilePart) -> None:
        self._file, self._end = file, part.end
        self._at = max(part.start - 1, 0)
        self._begins_line = True
        self.count = 0
        if part.start > 0:
            # From one byte before: where that ends a line, the part begins with a line of its own.
            self._skip_line()

    def readline(self, size: int, /) -> bytes:
        if self._begins_line and self._at >= self._end:
            return b""
        line = self._file.readline(size)
        self.count += self._begins_line and line != b""
        self._at += len(line)
        self._begins_line = line.endswith(b"\n")
        return line

    def read(self, size: int, /) -> bytes:
        """Return some bytes, none beyond the part. `readline` then returns the rest of a line that was cut off."""
        read = self._file.read(min(size, max(self._end - self._at, 0)))
        self._at += len(read)
        self._begins_line = not read or read.endswith(b"\n")
        return read

    def _skip_line(self) -> None:
        # No further than the part: beyond it others read, and a line may be as long as the file.
        while self._at < self._end and (skipped := self._file.readline(_BUFFER_BYTES)):
            self._at += len(skipped)
            if skipped.endswith(b"\n"):
                return


def _files(patterns: Sequence[str]) -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        if "://" in pattern:
            found += _remote_files(pattern)
        else:
            found += [str(path) for path in files_of(pattern, Path.cwd())]
    return list(dict.fromkeys(found))


def _remote_files(pattern: str) -> list[str]:
    """Return the files that a URL matches. Its last components may be patterns."""
    if not has_magic(pattern):
        return [pattern]
    from pyarrow.fs import FileSelector, FileType

    scheme, _, rest = pattern.partition("://")
    folder = rest[: next(at for at, letter in enumerate(rest) if letter in "*?[")].rpartition("/")[0]
    filesystem, root = _place(f"{scheme}://{folder}")
    wanted = root + rest[len(folder) :]
    listed = filesystem.get_file_info(FileSelector(root, recursive=True, allow_not_found=True))
    names = sorted(
        info.path
        for info in listed
        if info.type == FileType.File and info.path.count("/") == wanted.count("/") and fnmatchcase(info.path, wanted)
    )
    if not names:
        raise BadValue(f"No file matches {pattern!r}. Check the URL.")
    return [f"{scheme}://{folder}{name[len(root) :]}" for name in names]


def _place(file: str) -> tuple[FileSystem, str]:
    """Return a file's file system and its path there."""
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in file:
        return LocalFileSystem(), file
    url = next((to + file.removeprefix(our) for our, to in _SAME_AS.items() if file.startswith(our)), file)
    try:
        return FileSystem.from_uri(url)  # type: ignore[no-any-return]
    except (OSError, ValueError) as error:
        raise BadValue(f"{file} can't be opened: {error}. Check the URL.") from error


def _size(filesystem: FileSystem, file: str, path: str) -> int:
    info = filesystem.get_file_info(path)
    if not info.is_file:
        raise BadValue(f"There is no file {file}. Check the name.")
    return int(info.size)


def _is_compressed(filesystem: FileSystem, file: str, path: str) -> bool:
    try:
        with filesystem.open_input_file(path) as stream:
            start = bytes(stream.read(len(ZSTD)))
    except OSError as error:
        raise BadValue(f"{file} can't be read: {error.strerror or error}.") from error
    return start.startswith(GZIP) or start == ZSTD
