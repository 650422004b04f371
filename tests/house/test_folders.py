"""Folders of `tests/`: they mirror the rooms of `src/`, so that a room's tests are found at once."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
CROSSING = {
    "browser": "pages in Chromium",
    "conformance": "what every store must do",
    "faults": "kills, full disks and damaged files",
    "house": "the code as a whole",
    "reference": "stores against a model too simple to be wrong",
    "support": "parts that tests of several rooms share",
    "surfaces": "the same cases by every way in",
    "walk": "the files that a request goes through",
    # Programs in other languages, and what they ask of npm.
    "envelopes/sns_validator": "AWS's validator of envelopes, in Node.js",
    "http/dialects/aws/clients": "clients of AWS as people use them",
}
"""Folders that have no room in `src/`, with the reason. Short: a new one should be rare."""


def folders() -> list[str]:
    """Return the folders of the tests, relative to `tests/`."""
    found = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py")}
    return sorted(found - {"."})


def has_room(folder: str) -> bool:
    """Return True if a package or a module of `src/` is called like this folder."""
    place = ROOT / "src" / (folder if folder.partition("/")[0] == "plainbench" else f"sqew/{folder}")
    return place.is_dir() or place.with_suffix(".py").is_file()


def test_every_folder_of_tests_mirrors_a_room_or_crosses_them() -> None:
    strangers = [folder for folder in folders() if folder not in CROSSING and not has_room(folder)]

    assert not strangers, (
        f"{', '.join(f'tests/{folder}' for folder in strangers)}: no room of src/ is called so. Move the tests to the "
        f"folder that mirrors what they test; what crosses rooms goes into one of tests/{{{','.join(CROSSING)}}}."
    )


def test_every_crossing_folder_is_there_and_has_no_room() -> None:
    assert [folder for folder in CROSSING if folder not in folders() or has_room(folder)] == []


def test_nothing_lies_loose_beside_the_folders() -> None:
    loose = {path.name for path in TESTS.glob("*.py")} - {"__init__.py", "conftest.py"}

    assert not loose, (
        f"tests/ holds folders only: move {', '.join(sorted(loose))} to the room it tests, or to support/."
    )


def test_every_folder_is_a_package() -> None:
    # Otherwise pytest imports its modules by their bare names, and two that are called alike can't be told apart.
    assert [folder for folder in folders() if not (TESTS / folder / "__init__.py").is_file()] == []
