"""Exit codes, and errors as one sentence on stderr."""

from __future__ import annotations

import sys
import traceback
from enum import IntEnum

import click

from sqew import errors


class Exit(IntEnum):
    """What the number that a command ends with says."""

    OK = 0
    FAILED = 1
    INVALID = 2
    NOT_FOUND = 3
    CONFLICT = 4
    STORE = 5
    DAMAGE = 6
    LIMITED = 7
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    Exit.OK: "It worked. A queue with nothing to receive is no failure.",
    Exit.FAILED: "Something unexpected went wrong, a file could not be written, or you answered no.",
    Exit.INVALID: "Bad usage or invalid input: sending it again unchanged can't help.",
    Exit.NOT_FOUND: "The queue or the message does not exist.",
    Exit.CONFLICT: "It contradicts what is there: a lease that was lost, a queue that exists with another policy.",
    Exit.STORE: "The file can't be used: missing, read-only, locked for too long, full, damaged or too new.",
    Exit.DAMAGE: "`sqew check` found damage.",
    Exit.LIMITED: "The queue's quota or rate limit is reached.",
    Exit.INTERRUPTED: "You pressed Ctrl-C.",
    Exit.BROKEN_PIPE: "Whoever read the output stopped reading, as in `sqew export … | head`.",
}

_CODES: dict[type[Exception], Exit] = {
    errors.Invalid: Exit.INVALID,
    errors.NotFound: Exit.NOT_FOUND,
    errors.Conflict: Exit.CONFLICT,
    errors.StoreError: Exit.STORE,
    errors.Limited: Exit.LIMITED,
}


class Failure(Exception):
    """A command can't go on: why, in sentences, and the number to end with."""

    def __init__(self, sentence: str, code: Exit) -> None:
        self.code = code
        super().__init__(sentence)


def code_of(error: errors.SqewError) -> Exit:
    """The exit code that stands for an error."""
    return next((code for kind, code in _CODES.items() if isinstance(error, kind)), Exit.FAILED)


def complain(sentence: str) -> None:
    """Say what is wrong, on stderr."""
    click.echo(f"sqew: {sentence}", err=True)


def end(error: Exception, debug: bool) -> Exit:
    """Say in a sentence what an error means for the user; the number to end with."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    match error:
        case errors.SqewError():
            complain(str(error))
            return code_of(error)
        case Failure():
            complain(str(error))
            return error.code
        case click.Abort():
            complain("Interrupted.")
            return Exit.INTERRUPTED
        case click.UsageError():
            _complain_of_usage(error)
            return Exit.INVALID
        case click.ClickException():
            complain(_sentence(error))
            return Exit.INVALID
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            complain(f"{where}{error.strerror or error}.")
            return Exit.FAILED
        case _:
            complain(
                f"This should not have happened: {type(error).__name__}: {error}. "
                "Run it again with --debug to see where, and please report it."
            )
            return Exit.FAILED


def _complain_of_usage(error: click.UsageError) -> None:
    # In click 8.2 and newer, a group without a command is an error whose message is the help.
    if type(error).__name__ == "NoArgsIsHelpError":
        click.echo(error.format_message(), err=True)
        return
    hint = f" See `{error.ctx.command_path} --help`." if error.ctx is not None else ""
    complain(_sentence(error) + hint)


def _sentence(error: click.ClickException) -> str:
    text = " ".join(error.format_message().split())
    return text if text.endswith((".", "?", "!", ")")) else text + "."
