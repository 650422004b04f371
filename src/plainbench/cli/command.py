"""Commands and groups of `plainbench`: like those of `sqew`, but only with the options that apply here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sqew.terminal.command import Group as SqewGroup
from sqew.terminal.command import LazyGroup as SqewLazyGroup
from sqew.terminal.command import check_repeated, shared_options

if TYPE_CHECKING:
    from plainbench.config.model import Config

F = TypeVar("F", bound=Callable[..., Any])

_SHARED = ("json", "no_color", "debug")
CONFIG_FILE = "plainbench.yaml"


def _lab_options() -> list[click.Parameter]:
    return [option for option in shared_options(shown=_SHARED[:1]) if option.name in _SHARED]


class Command(click.Command):
    """A command that also takes ``--json``, ``--no-color`` and ``--debug``."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.params += _lab_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, [*args])
        check_repeated(self, ctx, args)
        return rest


class Group(SqewGroup):
    """A group of commands."""

    command_class = Command  # type: ignore[assignment] # click asks for a command, of whatever class

    def __init__(self, *args: Any, **keywords: Any) -> None:
        own = list(keywords.get("params") or ())
        super().__init__(*args, **keywords)
        # Without the settings of a queue's server: a run has those of its configuration.
        self.params = [*own, *_lab_options()]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = click.Group.parse_args(self, ctx, [*args])
        check_repeated(self, ctx, args)
        return rest


class LazyGroup(Group, SqewLazyGroup):
    """A group whose commands are imported when they are called for; see `sqew.terminal.command.LazyGroup`."""


def config_option(command: F) -> F:
    """Add ``--config FILE`` to a command, as the parameter ``config``."""
    option = click.option(
        "--config",
        type=click.Path(path_type=Path),
        default=Path(CONFIG_FILE),
        metavar="FILE",
        help=f"The configuration.  [default: {CONFIG_FILE}]",
    )
    return option(command)


def loaded(config: Path) -> tuple[Config, Path]:
    """Return the configuration in the file, and the folder in which its relative paths start."""
    from plainbench.config.load import load

    return load(config), config.absolute().parent
