"""The machine that the figures are from. Without it they mean little."""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import apsw

import sqew
from sqew.stores.sqlite.connection import file_system


def facts(folder: Path, packages: Sequence[str]) -> dict[str, Any]:
    """Return the versions, the machine and the time of a run."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "sqew": sqew.__version__,
        "commit": _commit(),
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": apsw.sqlite_lib_version(),
        "sqlite_of_python": sqlite3.sqlite_version,
        "file_system": file_system(folder) or "unknown",
        "fsync_us": fsync_us(folder),
        "load_before": os.getloadavg()[0],
        "packages": {name: _version(name) for name in packages},
        "arguments": sys.argv[1:],
    }


def fsync_us(folder: Path, count: int = 100) -> dict[str, float]:
    """Measure how long the disk takes to make 4 KiB at the end of a file last: a durable commit waits for that."""
    page = os.urandom(4096)
    taken = []
    with (folder / "fsync").open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(page)
            start = time.perf_counter_ns()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter_ns() - start) / 1000)
    (folder / "fsync").unlink()
    return {"p50": round(statistics.median(taken), 1), "p95": round(sorted(taken)[int(0.95 * count)], 1)}


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        root = Path(__file__).parent.parent
        command = ["git", "describe", "--always", "--dirty"]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    return "unknown"


def _version(package: str) -> str | None:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None
