"""The one sentence that matters in Spark's errors, which have stack traces of Java and Python in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sqew import errors
from sqew.client.wire import error_like
from sqew.errors import SparkError, SparkUnusable, SqewError

_OURS = re.compile(r"^(?:.*\W)?sqew\.errors\.(\w+): (.+)$", re.MULTILINE)
_SPARKS = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+?)(?:\s+SQLSTATE: \w+.*)?$", re.MULTILINE)
_OF_PYTHON = re.compile(r"^(?:pyspark\.errors\.[\w.]+|[A-Z]\w*(?:Error|Exception|Interrupt|Exit)): (.+)$", re.MULTILINE)
_OF_JAVA = re.compile(r"(?:^|: |Caused by: )(?:[a-z]\w*\.)+[A-Z][\w$]*: (.+)$", re.MULTILINE)
_FILE = re.compile(r"while reading file (?:file:)?(\S+?)\.?(?:\s|$)")

_JAVA_GONE = "Java, on which Spark runs, ended in the middle of the work. Was it killed for its memory? Start again."
_KNOWN = (
    (
        "No space left on device",
        "A disk that Spark writes to is full. Free some room there, or point spark.local.dir at another.",
    ),
    (
        "java.lang.OutOfMemoryError",
        "Spark ran out of memory. Give it more: spark.driver.memory here, spark.executor.memory on a cluster.",
    ),
    ("Answer from Java side is empty", _JAVA_GONE),
    ("while trying to connect to the Java server", _JAVA_GONE),
    (
        "All masters are unresponsive",
        "The cluster that the master names does not answer. Check --master, and that its Spark has the same version.",
    ),
)
"""Signs in Java's stack traces, and a sentence for each."""


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Raise an error of Spark in this block as an error of Sqew's own, which says what to do."""
    try:
        yield
    except SqewError:
        raise
    except Exception as error:
        if not is_of_spark(error):
            raise
        raise cause_of(error) from error


def is_of_spark(error: BaseException) -> bool:
    """Return True if Spark, or Python's bridge to it, has raised the error."""
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def cause_of(error: BaseException) -> SqewError:
    """Return the error that lies behind one of Spark's: ours if a task or the data source raised it."""
    said = str(error)
    if (ours := _raised_by_us(said)) is not None:
        return ours
    for sign, sentence in _KNOWN:
        if sign in said:
            return SparkError(sentence)
    if "JAVA_GATEWAY_EXITED" in said:
        return SparkUnusable("Java was started and ended at once. Run `sqew spark doctor`; with --debug Java says why.")
    if "FAILED_READ_FILE" in said and (file := _FILE.search(said)):
        return SparkError(f"{file[1]} can't be read: it is damaged, cut short or no such file. Get it again.")
    return SparkError(f"Spark failed: {_in_its_words(said)}")


def _raised_by_us(said: str) -> SqewError | None:
    found = _OURS.findall(said)
    if not found:
        return None
    # The last of a traceback is what came of the others.
    name, sentence = found[-1]
    kind = getattr(errors, name, SqewError)
    return error_like(kind, sentence.strip(), {}) if issubclass(kind, SqewError) else None


def _in_its_words(said: str) -> str:
    """Return the first line that says what is wrong, without the numbers of tasks and the names of Java's classes."""
    for pattern in (_OF_PYTHON, _OF_JAVA):
        if (found := pattern.findall(said)) and not _SPARKS.search(said):
            return _ended(found[-1] if pattern is _OF_PYTHON else found[0])
    if (spoken := _SPARKS.search(said)) is not None:
        return _ended(spoken[2])
    return _ended(next((line for line in said.splitlines() if line.strip()), "it does not say why"))


def _ended(words: str) -> str:
    """Return a line as a sentence."""
    line = " ".join(words.split()).rstrip(":")
    return line if line.endswith((".", "!", "?")) else f"{line}."
