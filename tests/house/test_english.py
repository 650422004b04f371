"""The lint for docstrings finds the ones that begin with the wrong kind of word, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LINT = Path(__file__).with_name("english.py")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(LINT), str(folder)], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ('"""What a queue needs."""', "what"),
        ('"""Makes requests."""', "makes"),
        ('class Lease:\n    """Whether a message is held."""', "whether"),
        ('class Lease:\n    """Carries a token."""', "carries"),
        ('def size():\n    """The size of a file."""', "the"),
        ('def size():\n    """Sizes, by file."""', "sizes"),
        ('def size():\n    """Number of bytes."""', "number"),
        ('SIZE = 3\n"""How large it is."""', "how"),
        ('class A:\n    size: int = 3\n    """Whatever there is."""', "whatever"),
        ('async def size():\n    """Nobody else may ask."""', "nobody"),
        ('class A:\n    @property\n    def size(self):\n        """How large it is."""', "how"),
        ('class A:\n    def size(self):\n        """`len`, in bytes."""', "len"),
    ],
)
def test_a_docstring_that_begins_with_the_wrong_kind_of_word_is_found(tmp_path: Path, code: str, word: str) -> None:
    (tmp_path / "module.py").write_text(code)

    done = lint(tmp_path)

    assert done.returncode == 1
    assert f"“{word}”" in done.stdout


@pytest.mark.parametrize(
    "code",
    [
        '"""Queues and messages."""',
        'class Send(Operation[Sent]):\n    """Send messages."""',
        'class Lease:\n    """A message that is held."""',
        'class Store:\n    """Store of queues."""',
        'def size():\n    """Return the size of a file."""',
        "def size():\n    pass",
        'SIZE = 3\n"""Most bytes of a body."""',
        'class A:\n    @property\n    def size(self):\n        """The size in bytes."""',
        'class A:\n    @functools.cached_property\n    def is_open(self):\n        """True while it takes messages."""',
    ],
)
def test_a_docstring_that_begins_well_passes(tmp_path: Path, code: str) -> None:
    (tmp_path / "module.py").write_text(code)

    done = lint(tmp_path)

    assert (done.returncode, done.stdout) == (0, "0 docstrings of 1 files begin with the wrong kind of word\n")


def test_a_folder_without_python_is_refused(tmp_path: Path) -> None:
    assert lint(tmp_path).returncode == 2
