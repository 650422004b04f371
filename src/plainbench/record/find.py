"""The search for a run by its name or its folder."""

from __future__ import annotations

from pathlib import Path

from plainbench.record.manifest import MANIFEST, run_folder
from sqew.errors import NotFound


def newest(named: Path) -> Path:
    """Return the folder of a run, however it is named; of a folder of runs, the one that began last."""
    if (named / MANIFEST).is_file() or not named.is_dir():
        return _named(named)
    runs = sorted(named.glob(f"*/{MANIFEST}"), key=lambda path: (path.stat().st_mtime_ns, path))
    if not runs:
        raise NotFound(f"There is no run in {named}. Make one: plainbench run")
    return runs[-1].parent


def _named(named: Path) -> Path:
    if named == Path("runs"):
        raise NotFound("There is no folder ./runs. Make a run: plainbench run; or give the folder of one.")
    return run_folder(named)
