"""PostgreSQL clusters and poolers of the tests' own. They end with the run of the tests, however that ends."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

HOME = "TESTS_OF_SQEW_POSTGRES"
"""The environment variable that tells all processes of a run where its clusters live."""
USER = "sqew"

_numbers = itertools.count()
_ALWAYS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200"}
_GUARD = """
cat >/dev/null
for file in "$1"/*/data/postmaster.pid "$1"/*/pgbouncer.pid; do
  [ -f "$file" ] || continue
  read -r process <"$file"
  kill -QUIT "$process" && while kill -0 "$process"; do sleep 0.02; done
done 2>/dev/null
rm -rf "$1"
"""
"""A shell script that waits until the run is over, killed or not: that closes its pipe. Nothing may go on running."""


class Guard:
    """A process that ends everything a run of the tests started."""

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
    """A cluster on a free port, run as a user other than root: PostgreSQL insists."""

    def __init__(self, name: str, **options: str) -> None:
        self.folder = Path(os.environ[HOME]) / name
        self.port = _free_port()
        self._data, self._log = self.folder / "data", self.folder / "log"
        self._options = {**_ALWAYS, "port": str(self.port), **options}

    def make(self) -> None:
        """Make and start the cluster. Names sort by a locale, so that code relying on the order of bytes is found."""
        _make_folder(self.folder)
        locale = ["--encoding", "UTF8", "--locale-provider", "icu", "--icu-locale", "en"]
        self._run("initdb", "--username", USER, "--auth", "trust", "--no-sync", *locale, "--pgdata", str(self._data))
        self.start()

    def start(self) -> None:
        options = " ".join(f"-c {name}='{value}'" for name, value in self._options.items())
        self._run("pg_ctl", "start", "--pgdata", str(self._data), "--log", str(self._log), "--options", options)

    def crash_and_start(self) -> None:
        """Do what a power cut does, but for the disk: end all processes at once, and start, which recovers."""
        self.stop("immediate")
        self.start()

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "stop", "--pgdata", str(self._data), "--mode", mode)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Hang the cluster until the block ends: connections stay open, and get no answer."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        processes = [postmaster, *_children(postmaster)]
        try:
            for process in processes:
                os.kill(process, signal.SIGSTOP)
            yield
        finally:
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

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
    """Return the folder of PostgreSQL's programs; Debian keeps them off the PATH, a folder for each version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    program = str(found[-1]) if found else shutil.which("postgres")
    assert program is not None, "PostgreSQL is not installed (Debian: sudo apt-get install postgresql)."
    return Path(program).resolve().parent


def _children(process: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # Its name, in brackets, may have blanks.
            pid, rest = stat.parent.name, stat.read_text().rpartition(")")[2].split()
            found += [int(pid)] if int(rest[1]) == process else []
    return found


@functools.cache
def _user() -> str | None:
    """Return the user to run PostgreSQL as if the tests run as root, else None."""
    if os.geteuid() != 0:
        return None
    users = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in users else "nobody"


def _make_folder(folder: Path) -> None:
    folder.mkdir()
    if (user := _user()) is not None:
        shutil.chown(folder, user)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def crashing_cluster(name: str) -> Iterator[Cluster]:
    """Yield a cluster of the caller's own that loses nothing when it crashes, with an empty database ``postgres``."""
    cluster = Cluster(f"{name}-{os.getpid()}-{next(_numbers)}")
    cluster.make()
    try:
        yield cluster
    finally:
        cluster.stop("immediate")


_POOLER = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pidfile = {folder}/pgbouncer.pid
pool_mode = {mode}
default_pool_size = {connections}
"""
"""Settings of PgBouncer. All others are as in Debian's package, above all those that refuse things."""


@contextlib.contextmanager
def pooler(url: str, mode: Literal["transaction", "session"] = "transaction", connections: int = 3) -> Iterator[str]:
    """Run PgBouncer before a database's cluster, with so many connections to it, and yield the database's URL there."""
    folder, own_port, place = (
        Path(os.environ[HOME]) / f"pooler-{os.getpid()}-{next(_numbers)}",
        _free_port(),
        urlsplit(url),
    )
    _make_folder(folder)
    (folder / "users").write_text(f'"{USER}" ""\n')
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        _POOLER.format(
            host=place.hostname, port=place.port, own_port=own_port, folder=folder, mode=mode, connections=connections
        )
    )
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None, "PgBouncer is not installed (Debian: sudo apt-get install pgbouncer)."
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, str(settings)], cwd=folder, user=_user(), stdout=log, stderr=log)
    try:
        _wait_until_it_listens(process, own_port, folder / "log")
        yield url.replace(f":{place.port}/", f":{own_port}/")
    finally:
        process.kill()
        process.wait()
        (folder / "pgbouncer.pid").unlink(missing_ok=True)


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.01)
    raise AssertionError(f"PgBouncer did not start: {log.read_text()}")
