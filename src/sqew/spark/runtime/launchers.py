"""Short shell scripts that Spark runs in place of Java and Python, to start these as they must be started."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

_JAVA = """\
#!/bin/sh
# Spark's launcher always asks for jdk.incubator.vector, which this Java does not have. All else is passed on.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
_PYTHON = """\
#!/bin/sh
# Spark has its workers import it from a zip file, in which nothing is compiled: each takes a second longer to start.
# Without that file in the way they import the same from where this Python has it.
kept=
IFS=:
set -f
for place in $PYTHONPATH; do
  case $place in
    */pyspark.zip|*/py4j-*-src.zip) ;;
    *) kept=${{kept:+$kept:}}$place ;;
  esac
done
unset IFS
PYTHONPATH=$kept
export PYTHONPATH
exec {python} "$@"
"""


def for_java(java: Path) -> Path:
    """Return a program that starts Java without a module that it lacks."""
    return _launcher("java", _JAVA.format(java=quote(str(java))))


def for_python(python: str = sys.executable) -> Path:
    """Return a program that starts a Spark worker in a quarter of the time, or Python itself if it can't be made."""
    if any(_is_zipped(package) for package in ("pyspark", "py4j")):
        return Path(python)
    program = _launcher("python", _PYTHON.format(python=quote(python)))
    return program if os.access(program, os.X_OK) else Path(python)


def _is_zipped(package: str) -> bool:
    """Return True if a package is available from its zip file only."""
    found = find_spec(package)
    return found is None or found.origin is None or ".zip" in found.origin


def _launcher(name: str, text: str) -> Path:
    """Return a program of that text. Its path has a hash of the text: another environment's never takes its place."""
    program = _kept() / f"{name}-{sha256(text.encode()).hexdigest()[:16]}" / "bin" / name
    if not (program.is_file() and os.access(program, os.X_OK) and program.read_bytes() == text.encode()):
        _write(program, text)
    return program


def _kept() -> Path:
    """Return a folder of the user's own that outlives the process, or a temporary one if there is none."""
    try:
        kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sqew"
        kept.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        # Who has no name has no home either, as in some containers.
        return Path(tempfile.mkdtemp(prefix="sqew-"))
    return kept if os.access(kept, os.W_OK) else Path(tempfile.mkdtemp(prefix="sqew-"))


def _write(program: Path, text: str) -> None:
    """Write a program so that it appears whole: other processes may start it at the same moment."""
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_name(f"{program.name}.{os.getpid()}.{threading.get_ident()}")
    unfinished.write_text(text)
    unfinished.chmod(0o755)
    unfinished.replace(program)
