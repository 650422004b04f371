"""Fixtures of the fault tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder in memory if the system has one, for tests that sync by the thousand and don't care how well."""
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < 256 * 1024 * 1024:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="sqew-", dir=_MEMORY) as folder:
        yield Path(folder)
