"""The machine and the software that a run's figures are from. Without them they mean little."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import apsw
import numpy as np

import sqew
from sqew.stores.sqlite.connection import file_system


def machine(folder: Path) -> dict[str, str]:
    """Return the facts in which two runs must agree to be compared; ``folder`` is on the disk that is used."""
    return {
        "host": platform.node(),
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "file system": file_system(folder) or "unknown",
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Sqew and its parts, and of the packages that a driver needs."""
    ours = {
        "sqew": sqew.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": apsw.sqlite_lib_version(),
        "numpy": np.__version__,
    }
    return {**ours, **{name: _version(name) for name in packages}}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
