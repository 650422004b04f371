"""The paths that docs/architecture.md describes are those that messages take."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.support.postgres import new_database
from tests.walk.walking import Walk, walk_embedded, walks_over_http

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()


def described(name: str) -> str:
    """Return the block of the page under a heading."""
    found = re.search(rf"^#### {re.escape(name)}\n+```\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/architecture.md has no way called {name}"
    return found[1]


def written(walk: Walk) -> str:
    """Return a walk as the page has it: its size, and its files by room, in the order in which they come."""
    rooms: dict[str, list[str]] = {}
    for file in walk.files:
        room, slash, rest = file.partition("/")
        rooms.setdefault(room if slash else "model", []).append((rest if slash else file).removesuffix(".py"))
    lines = [f"{len(walk.files)} files, {walk.changes} changes of room"]
    return "\n".join([*lines, *(f"  {room:10}{' · '.join(files)}" for room, files in rooms.items())])


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Walk]:
    folder = tmp_path_factory.mktemp("walk")
    on_a_file = asyncio.run(walks_over_http({"db": str(folder / "served.db")}))
    on_a_database = asyncio.run(walks_over_http({"database_url": new_database()}))
    return {
        **{f"{name}, in a file": walk for name, walk in on_a_file.items()},
        **{f"{name}, in PostgreSQL": walk for name, walk in on_a_database.items()},
        "enqueue, embedded": walk_embedded(folder),
    }


@pytest.mark.parametrize("name", re.findall(r"^#### (.+)$", PAGE, re.MULTILINE))
def test_a_message_goes_the_way_that_is_described(walks: dict[str, Walk], name: str) -> None:
    assert written(walks[name]) == described(name)


def test_each_way_is_described(walks: dict[str, Walk]) -> None:
    assert re.findall(r"^#### (.+)$", PAGE, re.MULTILINE) == list(walks)
