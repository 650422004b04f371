"""Costs of the server before it does anything: to install, to start, and to hold connections open."""

from __future__ import annotations

import contextlib
import resource
import socket
import statistics
import subprocess
import sys
import venv
from pathlib import Path

from msgspec import Struct

from bench import serving
from bench.report import Figure, Section, Table
from bench.serving import HOST, QUEUE, ROOT, Served
from bench.workspace import say

MOST_CONNECTION_BYTES = 10 * 1024
MOST_START_S = 0.5
MOST_INSTALLED_BYTES = 60 * 1000 * 1000
_SPARE_FILES = 200


class Scale(Struct, frozen=True):
    starts: int
    connections: int


class Outcome(Struct, frozen=True):
    connections: int
    rss_before: int
    rss_after: int
    starts_s: list[float]
    installed_bytes: dict[str, int]
    """Sizes by distribution, the largest first; empty if it could not be installed."""
    trouble: str = ""

    @property
    def bytes_per_connection(self) -> float:
        return (self.rss_after - self.rss_before) / self.connections

    @property
    def start_s(self) -> float:
        return statistics.median(self.starts_s)


def measure(folder: Path, scale: Scale) -> Section:
    folder.mkdir(parents=True, exist_ok=True)
    say("costs: starting the server")
    starts = []
    file = folder / "start.db"
    for _ in range(scale.starts):
        with serving.sqew(folder, "durable", file) as served:
            starts.append(served.started_s)
    say("costs: opening connections")
    with serving.sqew(folder, "durable", file) as served:
        connections, before, after = _hold_open(served, scale.connections)
    say("costs: installing Sqew without extras")
    installed, trouble = _install(folder / "installed")
    outcome = Outcome(connections, before, after, starts, installed, trouble)
    return Section(
        "costs", "Install, start, idle connections", _tables(outcome), _figures(outcome), {"outcomes": [outcome]}
    )


def _hold_open(served: Served, wanted: int) -> tuple[int, int, int]:
    """Open connections that are idle after a request; return their number, and the server's memory before and after."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(wanted, hard - _SPARE_FILES) if hard != resource.RLIM_INFINITY else wanted
    request = f"GET /queues/{QUEUE} HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:

        def ask() -> None:
            connection = stack.enter_context(socket.create_connection((HOST, served.port), timeout=30))
            connection.sendall(request)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")

        # What the first requests of a process load and keep is not the connections'.
        for _ in range(20):
            ask()
        before = served.rss_bytes()
        for _ in range(count):
            ask()
        return count, before, served.rss_bytes()


def _install(home: Path) -> tuple[dict[str, int], str]:
    """Install Sqew into an empty environment; return the size of each distribution, or none and the error."""
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-input"]
    done = subprocess.run([*pip, "--disable-pip-version-check", str(ROOT)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {}, lines[-1] if lines else "pip failed"
    (packages,) = home.glob("lib/python*/site-packages")
    sizes = {entry.name: sum(file.stat().st_size for file in _files(entry)) for entry in packages.iterdir()}
    return dict(sorted(sizes.items(), key=lambda item: -item[1])), ""


def _files(entry: Path) -> list[Path]:
    return [file for file in entry.rglob("*") if file.is_file()] if entry.is_dir() else [entry]


def _tables(outcome: Outcome) -> list[Table]:
    before, after = outcome.rss_before / 2**20, outcome.rss_after / 2**20
    total = sum(outcome.installed_bytes.values())
    largest = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in list(outcome.installed_bytes.items())[:6])
    return [
        Table(
            "What it costs to have a server (durable, synchronous=FULL)",
            ["", "measured", ""],
            [
                [
                    "an idle connection",
                    f"{outcome.bytes_per_connection / 1024:.1f} KiB",
                    f"{outcome.connections:,} connections: RSS from {before:.1f} to {after:.1f} MiB",
                ],
                [
                    "start to the first answer",
                    f"{outcome.start_s:.2f} s",
                    f"{len(outcome.starts_s)} starts, {min(outcome.starts_s):.2f} to {max(outcome.starts_s):.2f} s",
                ],
                [
                    "base install, without extras",
                    f"{total / 1e6:.1f} MB" if total else "not measured",
                    f"MB: {largest}" if total else outcome.trouble,
                ],
            ],
        )
    ]


def _figures(outcome: Outcome) -> list[Figure]:
    per_connection, start = outcome.bytes_per_connection, outcome.start_s
    total = sum(outcome.installed_bytes.values())
    return [
        Figure(
            f"memory of an idle connection, of {outcome.connections:,}",
            "≤ 10 KB",
            f"{per_connection / 1024:.1f} KB",
            per_connection <= MOST_CONNECTION_BYTES,
        ),
        Figure("start to the first answer", f"≤ {MOST_START_S} s", f"{start:.2f} s", start <= MOST_START_S),
        Figure(
            "base install, without extras",
            "≤ 60 MB",
            f"{total / 1e6:.1f} MB" if total else "not measured",
            0 < total <= MOST_INSTALLED_BYTES,
        ),
    ]
