"""Exit codes. `failures` maps errors to them."""

from __future__ import annotations

import sys
from enum import IntEnum

import click


class Exit(IntEnum):
    """The exit code of a command."""

    OK = 0
    FAILED = 1
    INVALID = 2
    NOT_FOUND = 3
    CONFLICT = 4
    STORE = 5
    DAMAGE = 6
    LIMITED = 7
    SERVER = 8
    DENIED = 9
    LATE = 10
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    Exit.OK: "It worked. A queue with nothing to receive is no failure.",
    Exit.FAILED: "Something unexpected went wrong, a file could not be written, or you answered no.",
    Exit.INVALID: "Bad usage or invalid input: sending it again unchanged can't help.",
    Exit.NOT_FOUND: "What was named does not exist: a queue, a message, a subscription, a delivery, a schedule.",
    Exit.CONFLICT: "It contradicts what is there: a lease that was lost, a queue that exists with another policy.",
    Exit.STORE: "The file or database can't be used: missing, read-only, locked for too long, full, damaged, too new.",
    Exit.DAMAGE: "`sqew check` found damage, or `sqew migrate` misses rows.",
    Exit.LIMITED: "The queue's quota or rate limit is reached, or the server is overloaded.",
    Exit.SERVER: "The server can't be reached, gave no answer in time, or is not a Sqew server.",
    Exit.DENIED: "The server wants a token, or the one that was given does not allow this.",
    Exit.LATE: "`sqew canary` lost a message, could not send one, or got one back too late.",
    Exit.INTERRUPTED: "You pressed Ctrl-C.",
    Exit.BROKEN_PIPE: "Whoever read the output stopped reading, as in `sqew export … | head`.",
}


class CommandError(Exception):
    """An error that ends a command: why, in sentences, and the exit code."""

    def __init__(self, sentence: str, code: Exit) -> None:
        self.code = code
        super().__init__(sentence)


program = "sqew"
"""The program's name before its errors: `plainbench` is another program that shows errors in the same way."""


def complain(sentence: str) -> None:
    """Print an error on stderr; on a terminal in lines that break between words."""
    line = f"{program}: {sentence}"
    if sys.stderr.isatty():
        # Here, because most runs have nothing to complain of.
        from sqew.terminal.cells import fold
        from sqew.terminal.screen import screen_on

        line = "\n".join(fold(line, screen_on(sys.stderr, plain=True).width))
    click.echo(line, err=True)
