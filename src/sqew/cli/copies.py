"""A temporary folder for the copy of a file that a command reads."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from types import FrameType
from typing import NoReturn


@contextmanager
def folder_for_copy() -> Iterator[str]:
    """Make a folder for temporary files, and delete it at the end, also if SIGTERM is that end.

    A copy holds messages, and may be large: `timeout` and cron must not leave it behind.
    """
    before = signal.signal(signal.SIGTERM, _end)
    try:
        with TemporaryDirectory(prefix="sqew-") as folder:
            yield folder
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)
