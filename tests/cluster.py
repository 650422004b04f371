"""PostgreSQL clusters of the tests' own. They end with the run of the tests, however that ends."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

HOME = "TESTS_OF_SQEW_POSTGRES"
"""The variable that tells all processes of a run where its clusters live."""
USER = "sqew"

_numbers = itertools.count()
_ALWAYS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200"}
_GUARD = """
cat >/dev/null
for file in "$1"/*/data/postmaster.pid; do
  [ -f "$file" ] || continue
  read -r process <"$file"
  kill -QUIT "$process" && while kill -0 "$process"; do sleep 0.02; done
done 2>/dev/null
rm -rf "$1"
"""
"""Waits until the run is over, killed or not, since its end of the pipe is closed then; nothing may go on running."""


class Guard:
    """Who ends what a run of the tests started."""

    def __init__(self) -> None:
        home = tempfile.mkdtemp(prefix="sqew-postgres-")
        Path(home).chmod(0o755)
        os.environ[HOME] = home
        # In a session of its own: Ctrl-C ends the tests, and must not end this before them.
        self._process = subprocess.Popen(
            ["sh", "-c", _GUARD, "sh", home], stdin=subprocess.PIPE, start_new_session=True, cwd="/"
        )

    def end(self) -> None:
        """End everything, and wait for it."""
        self._process.communicate()
        del os.environ[HOME]


class Cluster:
    """A cluster on a free port, run by somebody who is not root: PostgreSQL insists."""

    def __init__(self, name: str, **options: str) -> None:
        self.folder = Path(os.environ[HOME]) / name
        self.port = _free_port()
        self._data, self._log = self.folder / "data", self.folder / "log"
        self._options = {**_ALWAYS, "port": str(self.port), **options}

    def make(self) -> None:
        """Make it and start it. Names are sorted as people do, so that what relies on the order of bytes is found."""
        self.folder.mkdir()
        if (user := _user()) is not None:
            shutil.chown(self.folder, user)
        locale = ["--encoding", "UTF8", "--locale-provider", "icu", "--icu-locale", "en"]
        self._run("initdb", "--username", USER, "--auth", "trust", "--no-sync", *locale, "--pgdata", str(self._data))
        self.start()

    def start(self) -> None:
        options = " ".join(f"-c {name}='{value}'" for name, value in self._options.items())
        self._run("pg_ctl", "start", "--pgdata", str(self._data), "--log", str(self._log), "--options", options)

    def crash_and_start(self) -> None:
        """What a power cut does to it, but for the disk: all its processes end at once, and it recovers."""
        self.stop("immediate")
        self.start()

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "stop", "--pgdata", str(self._data), "--mode", mode)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def _run(self, program: str, *arguments: str) -> None:
        # Not into a pipe: the server that pg_ctl leaves behind would keep it open.
        with (self.folder / "said").open("w+") as said:
            command = [str(binaries() / program), *arguments]
            done = subprocess.run(command, cwd=self.folder, user=_user(), stdout=said, stderr=said)
        if done.returncode:
            told = [path.read_text() for path in (self.folder / "said", self._log) if path.exists()]
            raise AssertionError(f"{program} failed: {''.join(told)}")


@functools.cache
def binaries() -> Path:
    """Where PostgreSQL's programs are; Debian keeps them off the PATH, a folder for each version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    program = str(found[-1]) if found else shutil.which("postgres")
    assert program is not None, "PostgreSQL is not installed (Debian: sudo apt-get install postgresql)."
    return Path(program).resolve().parent


@functools.cache
def _user() -> str | None:
    """Who runs it: whoever runs the tests, unless that is root."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in users else "nobody"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def crashing_cluster(name: str) -> Iterator[Cluster]:
    """A cluster of the caller's own that loses nothing when it crashes, with an empty database ``postgres``."""
    cluster = Cluster(f"{name}-{os.getpid()}-{next(_numbers)}")
    cluster.make()
    try:
        yield cluster
    finally:
        cluster.stop("immediate")
