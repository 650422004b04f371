"""The base of the programs `sqew` and `plainbench`: how they start, and how their errors are shown."""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from sqew.terminal import exits
from sqew.terminal.exits import Exit
from sqew.terminal.session import TerminalSession


class Program(click.Group):
    """The outermost group of a command line."""

    session_class = TerminalSession

    def main(self, args: Any = None, prog_name: str | None = None, *_: Any, **extra: Any) -> NoReturn:
        """Run a command line and end the process. Errors are sentences on stderr, never a traceback."""
        session = self.session_class()
        extra["standalone_mode"] = False
        exits.program = self.name or exits.program
        try:
            code = super().main(args, prog_name or exits.program, obj=session, **extra)
        except Exception as error:  # noqa: BLE001 (this is where unexpected ones are put into words)
            from sqew.terminal.failures import end

            code = end(error, session.debug)
        sys.exit(code or Exit.OK)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still in the buffer can't be written; Python would complain of that at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Exit.BROKEN_PIPE
        return result


def start(program: click.Group) -> NoReturn:
    """Run a program and end the process."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as in `sqew queue list >&-`
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115, PTH123 (open to the end; pathlib costs 5 ms)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Where the terminal can't show a character, an escape is better than a failure.
            stream.reconfigure(errors="backslashreplace")
    try:
        program.main()
    finally:
        # It is ending: one more Ctrl-C would only change what it ends with.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise AssertionError("it ends the process")
