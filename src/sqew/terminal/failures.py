"""Errors as one sentence on stderr and an exit code. This module is only loaded when there is an error."""

from __future__ import annotations

import sys
import traceback

import click

from sqew import errors
from sqew.terminal.exits import CommandError, Exit, complain

_CODES: dict[type[Exception], Exit] = {
    errors.Invalid: Exit.INVALID,
    errors.NotFound: Exit.NOT_FOUND,
    errors.Conflict: Exit.CONFLICT,
    errors.StoreError: Exit.STORE,
    errors.Limited: Exit.LIMITED,
    errors.ServerError: Exit.SERVER,
    errors.RequestTimeout: Exit.SERVER,
    errors.Unauthorized: Exit.DENIED,
    errors.Forbidden: Exit.DENIED,
}


def code_of(error: errors.SqewError) -> Exit:
    """Return the exit code that stands for an error."""
    return exit_code_of(type(error))


def exit_code_of(kind: type[errors.SqewError]) -> Exit:
    """Return the exit code that stands for a kind of error."""
    return next((code for known, code in _CODES.items() if issubclass(kind, known)), Exit.FAILED)


def end(error: Exception, debug: bool) -> Exit:
    """Print a sentence on what an error means for the user, and return the exit code."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    match error:
        case errors.SqewError():
            complain(str(error))
            return code_of(error)
        case CommandError():
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
    return text if text.endswith((".", "?", "!")) else text + "."
