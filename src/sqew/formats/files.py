"""Bodies read from files: a JSONL line or a CSV row each, also compressed with gzip or zstd.

Each line that is not a body is quarantined with its file, its line number and the reason, and never stops the rest.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import glob, has_magic
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import msgspec
from msgspec import Struct

from sqew.errors import BadBody, BadValue
from sqew.installing import pip_install
from sqew.rules.bodies import parse_json
from sqew.rules.limits import Limits

Format = Literal["jsonl", "csv"]

LIMITS = Limits()
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
"""The first bytes of compressed files."""
_COMPRESSED = (".gz", ".zst", ".zstd")
_BOM = b"\xef\xbb\xbf"
_RAW_KEPT = 1_048_576
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Lines(Protocol):
    """A file, or a part of one that begins and ends with a line."""

    def readline(self, size: int, /) -> bytes: ...


class Row(Struct, frozen=True, gc=False):
    """A body, with its file and its line, counted from 1."""

    file: str
    line: int
    body: bytes


class Reject(Struct, frozen=True, gc=False):
    """A line that is not a body, and the reason."""

    file: str
    line: int
    reason: str
    raw: str


class Quarantine:
    """A file of rejects, one a line, created with the first. The first ``kept`` that are there already stay."""

    def __init__(self, path: Path, kept: int = 0) -> None:
        self.path = path
        self.keep_only(kept)

    def add(self, reject: Reject) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Rejects are few: each is in the file at once, and nothing is left open.
        with self.path.open("ab") as file:
            file.write(_encode(reject) + b"\n")
        self.count += 1

    def keep_only(self, count: int) -> None:
        """Drop all rejects but the first ``count``: the step that added the others is done again."""
        self.count = count
        kept = self.path.read_bytes().splitlines(keepends=True)[:count] if self.path.exists() else []
        if kept:
            self.path.write_bytes(b"".join(kept))
        else:
            self.path.unlink(missing_ok=True)


def files_of(patterns: Sequence[str] | str, folder: Path) -> list[Path]:
    """Resolve names and patterns to files, in the order given; the matches of one pattern are sorted by name."""
    found: list[Path] = []
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        if not has_magic(pattern) or (folder / pattern).exists():
            found.append(folder / pattern)
            continue
        # Not Path.glob, which takes no pattern that begins at the root.
        names = sorted(glob(pattern, root_dir=folder, recursive=True))  # noqa: PTH207
        matches = [folder / name for name in names if (folder / name).is_file()]
        if not matches:
            raise BadValue(f"No file matches {pattern!r} in {folder}. Check the name, and the folder you are in.")
        found += matches
    for path in found:
        if not path.is_file():
            raise BadValue(f"There is no file {path}. Check the name, and the folder you are in.")
    return list(dict.fromkeys(found))


def format_of(path: Path) -> Format:
    """Return the format by the name's suffix, compressed or not: CSV for ``.csv``, else JSONL."""
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path
    return "csv" if plain.suffix.lower() == ".csv" else "jsonl"


def rows(path: Path, format: Format, delimiter: str = ",", limits: Limits = LIMITS) -> Iterator[Row | Reject]:
    """Yield the rows and rejects of a file, in its order. Empty lines are skipped."""
    try:
        with opened(path) as file:
            yield from rows_in(file, str(path), format, delimiter, limits)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadValue(f"{path} is not a whole gzip file: {error}.") from error
    except OSError as error:
        raise BadValue(f"{path} can't be read: {error.strerror or error}.") from error


def rows_in(
    file: Lines, name: str, format: Format, delimiter: str = ",", limits: Limits = LIMITS, first: bool = True
) -> Iterator[Row | Reject]:
    """Yield the rows and rejects of an open file of that name. ``first`` is true if it begins where the file does."""
    return _csv(name, file, delimiter, limits) if format == "csv" else _jsonl(name, file, limits, first)


def opened(path: Path) -> IO[bytes]:
    """Open a file and decompress it if its first bytes say that it is compressed."""
    file = path.open("rb")
    start = file.read(len(ZSTD))
    if start.startswith(GZIP):
        file.close()
        return gzip.open(path, "rb")  # type: ignore[return-value] # it is one in all but name
    file.seek(0)
    return decompressed(file) if start == ZSTD else file


def decompressed(file: IO[bytes]) -> IO[bytes]:
    """Decompress a file that is compressed with zstd."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise BadValue(f"Files compressed with zstd need the package pyarrow: {pip_install('pyarrow')}.") from None
    return BufferedReader(_ArrowStream(pa.input_stream(file, compression="zstd")))


class _ArrowStream(RawIOBase):
    """Adapter that lets Python read lines from an Arrow stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._stream.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _lines(file: Lines, longest: int) -> Iterator[bytes]:
    """Yield the lines of a file; of a line that is too long, only its beginning, enough to see that."""
    # A document of gigabytes without a line break must not fill the memory.
    read: Callable[[], bytes] = partial(file.readline, longest + 2)
    for line in iter(read, b""):
        if len(line) > longest and not line.endswith(b"\n"):
            for rest in iter(read, b""):
                if rest.endswith(b"\n"):
                    break
        yield line


def _jsonl(name: str, file: Lines, limits: Limits, first: bool) -> Iterator[Row | Reject]:
    for number, line in enumerate(_lines(file, limits.max_body_bytes), 1):
        body = line.removeprefix(_BOM).strip() if first and number == 1 else line.strip()
        if not body:
            continue
        if len(body) > limits.max_body_bytes:
            yield _rejected(name, number, "", body, limits)
            continue
        try:
            parse_json(body, limits)
        except BadBody as error:
            yield _rejected(name, number, str(error), body, limits)
            continue
        yield Row(name, number, body)


def _rejected(name: str, line: int, reason: str, raw: bytes, limits: Limits) -> Reject:
    if len(raw) > limits.max_body_bytes:
        reason = f"It is longer than {limits.max_body_bytes} bytes."
    return Reject(name, line, reason, raw[:_RAW_KEPT].decode(errors="backslashreplace"))


def _csv(name: str, file: Lines, delimiter: str, limits: Limits) -> Iterator[Row | Reject]:
    """Yield each row as an object of strings, named by the first row."""
    taken: list[bytes] = []
    """The lines of the row being read: a quoted string may have several."""

    def texts() -> Iterator[str]:
        for number, line in enumerate(_lines(file, limits.max_body_bytes)):
            taken.append(line)
            # What is not UTF-8 becomes a lone surrogate, by which it is found below.
            yield (line if number else line.removeprefix(_BOM)).decode(errors="surrogateescape")

    csv.field_size_limit(limits.max_body_bytes)
    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1
        taken.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield _rejected(name, line, f"It is no CSV: {error}.", b"".join(taken), limits)
            continue
        if not cells:
            continue
        if header is None:
            header = _header(name, cells)
            continue
        made = _object(header, cells)
        if isinstance(made, str) or len(made) > limits.max_body_bytes:
            reason = made if isinstance(made, str) else f"It is longer than {limits.max_body_bytes} bytes."
            yield Reject(name, line, reason, b"".join(taken)[:_RAW_KEPT].decode(errors="backslashreplace"))
        else:
            yield Row(name, line, made)


def _header(file: str, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    if "" in names or len(set(names)) < len(names):
        raise BadValue(f"{file}: its first line must name all columns, each by a name of its own.")
    return names


def _object(header: list[str], cells: list[str]) -> bytes | str:
    """Return the row as a body, or the reason why it can't be one."""
    if len(cells) != len(header):
        return f"It has {len(cells)} cells, and the first line names {len(header)}."
    fields: dict[str, Any] = dict(zip(header, cells, strict=True))
    try:
        return _encode(fields)
    except UnicodeEncodeError:
        return "It is not UTF-8."


def group_in(body: bytes, field: str) -> str:
    """Return the group that a field of a body names; "none" if it has none, since a FIFO topic needs a group."""
    fields = _decode(body)
    value = fields.get(field) if isinstance(fields, dict) else None
    return "none" if value is None or value == "" else str(value)[:256]
