"""The numbered files that bring a store up to date."""

from __future__ import annotations

import re
from importlib import resources
from typing import NamedTuple


class Migration(NamedTuple):
    version: int
    name: str
    sql: str


def migrations(package: str) -> list[Migration]:
    """Return the numbered files in ``migrations/`` of a store's package, in order."""
    return sorted(
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in resources.files(package).joinpath("migrations").iterdir()
        if (match := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name))
    )
