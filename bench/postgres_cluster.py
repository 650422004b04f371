"""A PostgreSQL of the benchmark's own: as Debian packages it, durable, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.serving import HOST, free_port

_UNPRIVILEGED = "postgres"
_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "max_connections": "200",
}


class Cluster:
    """A running PostgreSQL, with new databases on request."""

    def __init__(self, programs: Path, folder: Path, port: int) -> None:
        self.programs, self._folder, self._port = programs, folder, port
        self._count = 0

    @property
    def version(self) -> str:
        answer = subprocess.run([self.programs / "postgres", "--version"], capture_output=True, text=True, check=True)
        return answer.stdout.split()[2]

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        self._count += 1
        name = f"bench_{self._count}"
        self.execute(f"CREATE DATABASE {name}", "postgres")
        return f"postgresql://bench@{HOST}:{self._port}/{name}"

    def drop(self, url: str) -> None:
        self.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)", "postgres")

    def execute(self, sql: str, url: str) -> str:
        """Run a statement in a database, given by name or URL, and return its output."""
        command = [
            str(self.programs / "psql"),
            "-h",
            HOST,
            "-p",
            str(self._port),
            "-U",
            "bench",
            "-qAtX",
            "-c",
            sql,
            url,
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a PostgreSQL, and stop it in the end."""
    programs = _programs()
    home = folder / "postgres"
    home.mkdir(parents=True)
    # PostgreSQL refuses to run as root.
    user = _UNPRIVILEGED if os.geteuid() == 0 else None
    if user is not None:
        _open_up(home, pwd.getpwnam(user).pw_uid)
    data, port = home / "data", free_port()
    options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    options += f" -c listen_addresses={HOST} -c unix_socket_directories={home} -p {port}"

    def run(*command: str | Path) -> None:
        done = subprocess.run(command, user=user, cwd=home, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"bench: {command[0]} failed: {(done.stderr or done.stdout).strip()}")

    run(programs / "initdb", "-D", data, "-U", "bench", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
    run(programs / "pg_ctl", "-D", data, "-w", "-l", home / "log", "-o", options, "start")
    try:
        yield Cluster(programs, home, port)
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")


def _open_up(home: Path, owner: int) -> None:
    """Let another user work in a folder: temporary folders are closed to others."""
    os.chown(home, owner, -1)
    for parent in home.parents:
        if parent.stat().st_uid == os.geteuid() and parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
        if parent.name.startswith("sqew-bench-"):
            break


def _programs() -> Path:
    """Return the folder of PostgreSQL's programs: Debian keeps those of each version in a folder of its own."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name)):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    if found is None:
        sys.exit("bench: PostgreSQL is not here. Install it (Debian: sudo apt-get install postgresql).")
    return Path(found).resolve().parent
