"""The frame of the commands of `sqew spark`: the start of Spark, progress, and errors."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import click

from sqew.cli.session import QueueSession
from sqew.errors import BadValue, SparkError
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.progress import Bar
from sqew.terminal.session import TerminalSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqew.spark.source.wire import Wire

_BETWEEN_DRAWINGS_S = 0.1
_JAVA_ENDED = (
    "The Java that Spark runs in has ended, perhaps because the system ran out of memory. Run it again, with a smaller "
    "spark.driver.memory if so."
)
_STDERR = 2


def spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where Spark runs, and how: the parameters ``master`` and ``spark_settings``."""
    where = click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs: local[2], spark://HOST:7077, yarn.  [default: here]",
    )
    how = click.option(
        "--spark-setting",
        "spark_settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of Spark's own. May be repeated.",
    )
    return where(how(command))


@contextmanager
def spark_at_work(
    session: TerminalSession,
    doing: str,
    master: str | None = None,
    spark_settings: tuple[str, ...] = (),
    *,
    bar: bool = True,
) -> Iterator[SparkSession]:
    """Start a Spark session for a command quietly, show a bar while it works, and stop it at the end.

    ``bar``: show the progress of Spark's tasks; a command that knows its progress better has a bar of its own. A
    failure of Spark in the block ends as one sentence. With --debug all of Java's output is shown as well.
    """
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    from sqew.spark.runtime.failures import in_a_sentence
    from sqew.spark.runtime.progress import JAVA_IS_GONE, watched

    settings = _parsed(spark_settings)
    # It would tell of every connection that it closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with Bar("starting Spark", session.plain) as drawn, in_a_sentence():
        made, is_ours = _started(session, drawn, f"sqew: {doing}", master, settings)
        drawn.doing = doing
        if not bar:
            drawn.hide()
        try:
            with watched(made, drawn.reach if bar else _untold, doing):
                yield made
        except KeyboardInterrupt:
            drawn.hide()
            raise CommandError("Interrupted. Spark was told to stop.", Exit.INTERRUPTED) from None
        except JAVA_IS_GONE as error:
            if isinstance(error, Py4JJavaError):
                raise
            raise SparkError(_JAVA_ENDED) from error
        finally:
            if is_ours:
                with suppress(*JAVA_IS_GONE):
                    made.stop()


def _untold(_done: int, _total: int) -> None:
    """Do nothing: this progress is not shown."""


def server_of(session: QueueSession, command: str) -> str:
    """Return the server's URL. Raise if the queues are not on a server: the command needs one."""
    if not session.url:
        raise CommandError(
            f"`sqew spark {command}` talks to a server: give --url, or set SQEW_URL. `sqew serve` starts one.",
            Exit.INVALID,
        )
    return session.url


def write_options(session: QueueSession, queue: str) -> dict[str, str]:
    """Return the options of ``format("sqew")`` for a queue on the session's server."""
    token = session.settings.auth_token
    return {"url": session.url, "queue": queue, **({"token": token} if token else {})}


def wire_to(session: QueueSession, queue: str) -> Wire:
    """Return a connection to that server."""
    from sqew.spark.source.options import options_of
    from sqew.spark.source.wire import PATIENT, Wire

    return Wire(options_of(write_options(session, queue)).target, retries=PATIENT)


def _parsed(settings: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.startswith("spark."):
            raise BadValue(f"--spark-setting can't be {setting!r}: write spark.NAME=VALUE.")
        found[name] = value
    return found


def _started(
    session: TerminalSession, bar: Bar, name: str, master: str | None, settings: dict[str, str]
) -> tuple[SparkSession, bool]:
    """Return the session, and True if it was started here."""
    from sqew.spark.session import check_packages, session_at_work
    from sqew.spark.session import session as spark_session

    check_packages()
    is_ours = session_at_work() is None
    with nullcontext() if session.debug else java_unheard(), advancing(bar):
        return spark_session(master, name, **settings), is_ours


@contextmanager
def advancing(bar: Bar, done: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Move a bar to and fro while something takes its time. ``done`` returns how much of it is done by now."""
    ended = threading.Event()

    def move() -> None:
        while not ended.wait(_BETWEEN_DRAWINGS_S):
            bar.reach(done())

    thread = threading.Thread(target=move, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def java_unheard() -> Iterator[None]:
    """Discard the output of a Java that is started in this block, as long as it lives; ours is shown as before."""
    # Not by its settings: the launcher and the virtual machine speak before there are any, and tasks that fail and
    # are tried again would tell of it in hundreds of lines.
    heard = os.dup(_STDERR)
    ours = sys.stderr
    with open(os.devnull, "wb") as unheard, os.fdopen(heard, "w", errors="backslashreplace") as still_heard:  # noqa: PTH123
        os.dup2(unheard.fileno(), _STDERR)
        if ours is sys.__stderr__:
            sys.stderr = still_heard
        try:
            yield
        finally:
            sys.stderr = ours
            os.dup2(still_heard.fileno(), _STDERR)
