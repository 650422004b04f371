"""Files of a lake: on this machine, or wherever Hadoop finds them (HDFS, S3 and others)."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import unquote, urlsplit
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files(Protocol):
    """The file system of a lake. Names are relative to the lake, with ``/`` between their parts."""

    root: str
    """The lake's path or URL for Spark."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none if there is no such folder."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""

    def create(self, name: str, content: bytes) -> bool:
        """Create a file that appears whole or not at all. Return False if there is one already: it stays."""

    def move(self, name: str, to: str) -> None:
        """Move a file to its place; do nothing if it is there already."""

    def keep(self, names: list[str]) -> None:
        """Make these files survive a power cut, as far as the file system can ensure that."""

    def remove(self, folder: str) -> None:
        """Delete a folder and its contents, if there is one."""


def files_of(spark: SparkSession, place: str) -> Files:
    """Return the files of a lake, by its path or URL."""
    parts = urlsplit(place)
    if parts.scheme in ("", "file"):
        return LocalFiles(Path(unquote(parts.path) if parts.scheme else place))
    return HadoopFiles(spark, place)


class LocalFiles:
    """A lake in a folder of this machine, or of one that is mounted here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.expanduser().absolute()
        self.root = str(self._folder)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._folder / folder).iterdir() if path.name[0] != ".")
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(_unfinished(path.name))
        try:
            with unfinished.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # A link, because a rename would take the place of the file that somebody else has just made.
            os.link(unfinished, path)
        except FileExistsError:
            return False
        finally:
            unfinished.unlink(missing_ok=True)
        _sync(path.parent)
        return True

    def move(self, name: str, to: str) -> None:
        source, target = self._folder / name, self._folder / to
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            source.rename(target)
        except FileNotFoundError:
            if not target.exists():
                raise

    def keep(self, names: list[str]) -> None:
        paths = [self._folder / name for name in names]
        folders = {parent for path in paths for parent in path.parents if parent.is_relative_to(self._folder)}
        for path in [*paths, *folders]:
            _sync(path)

    def remove(self, folder: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self._folder / folder)


def _unfinished(name: str) -> str:
    """Return a file's temporary name until it is whole. It is unique, on this machine and across others."""
    return f".{name}.{uuid4().hex}"


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class HadoopFiles:
    """A lake on one of Hadoop's file systems: ``hdfs://…``, ``s3a://…``.

    On HDFS a commit is one rename. Object stores have none: there, let one `sqew spark archive` run at a time.
    """

    def __init__(self, spark: SparkSession, url: str) -> None:
        self.root = url.rstrip("/")
        self._java = cast("Any", spark._jvm)
        path = self._java.org.apache.hadoop.fs.Path(self.root)
        self._system: Any = path.getFileSystem(spark._jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(f"{self.root}/{name}")

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        found = (status.getPath().getName() for status in self._system.listStatus(path))
        return sorted(name for name in found if name[0] != ".")

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def create(self, name: str, content: bytes) -> bool:
        folder, _, file = name.rpartition("/")
        path, unfinished = self._path(name), self._path(f"{folder}/{_unfinished(file)}")
        stream = self._system.create(unfinished, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        if not self._system.exists(path) and self._system.rename(unfinished, path):
            return True
        self._system.delete(unfinished, False)
        return False

    def move(self, name: str, to: str) -> None:
        source, target = self._path(name), self._path(to)
        if not self._system.exists(source) and self._system.exists(target):
            return
        self._system.mkdirs(target.getParent())
        if not self._system.rename(source, target):
            raise OSError(f"{name} can't be renamed to {to}")

    def keep(self, names: list[str]) -> None:
        """Do nothing: such file systems keep what is closed."""

    def remove(self, folder: str) -> None:
        self._system.delete(self._path(folder), True)
