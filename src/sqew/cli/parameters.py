"""Types of option values, and the options that several commands have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec import structs

from sqew.cli.session import QueueSession
from sqew.errors import BadValue, SqewError
from sqew.rules.names import check_queue_name
from sqew.rules.values import LONGEST_MS, check_int, check_text
from sqew.settings import duration
from sqew.terminal.command import Leading
from sqew.terminal.exits import CommandError

F = TypeVar("F", bound=Callable[..., Any])

LARGEST_ID = 1 << 62
NONE = "none"
"""The word that switches a limit off, as in ``--ttl-ms none``."""
TIMINGS = ("cron", "every", "when", "fire_at")
"""The options that say when something fires."""


if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # it took no type parameter in older versions


class Off:
    """The value of an option that was given as ``none``; None stands for one that was not given."""


OFF = Off()


class QueueName(_Type):
    """The name of a queue."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        check_queue_name(value)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            with ctx.ensure_object(QueueSession).open() as q:
                return [CompletionItem(info.name) for info in q.queues(incomplete)]
        except (SqewError, CommandError, OSError):
            return []


class Name(_Type):
    """A short string: a key, a group, a token, a consumer's name."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        check_text(_called(param), value)
        return str(value)


class OneText(click.types.StringParamType):
    """A string that may be given once. ``several`` is the advice in the error for several of them."""

    def __init__(self, several: str) -> None:
        self.several = several


class Milliseconds(_Type):
    """A length of time: a number of milliseconds, or one with a unit such as ``30s``."""

    name = "ms"

    def __init__(self, *, at_least: int = 0, may_be_none: bool = False) -> None:
        self._setting = duration(at_least, LONGEST_MS, "")
        self._may_be_none = may_be_none

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | Off:
        if self._may_be_none and value in (NONE, OFF):
            return OFF
        called = _called(param)
        ms: int = structs.replace(self._setting, name=called).parse(value, "on the command line")
        return ms


class Limit(_Type):
    """A number, or ``none``."""

    name = "number"

    def __init__(self, kind: type[int | float] = int) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | Off:
        if value in (NONE, OFF):
            return OFF
        try:
            return self._kind(value)
        except ValueError as error:
            raise BadValue(f"{_called(param)} can't be {value!r}: it must be a number, or none.") from error


class IdList(_Type):
    """Message ids with commas between them."""

    name = "id,…"
    several = "several ids go together with commas between them, 1,2,3"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        if isinstance(value, list):
            return value
        parts = [part.strip() for part in str(value).split(",") if part.strip()]
        if not parts or not all(
            part.isascii() and part.isdigit() and len(part) < 20 and 0 < int(part) <= LARGEST_ID for part in parts
        ):
            raise BadValue(f"{_called(param)} can't be {value!r}: give message ids with commas between them: 1,2,3.")
        # Twice the same would fail the second time.
        return list(dict.fromkeys(map(int, parts)))


class Pair(_Type):
    """``NAME=VALUE``; if ``alone`` is given, a NAME by itself has that value."""

    name = "name=value"

    def __init__(self, alone: str | None = None) -> None:
        self._alone = alone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not name or not (equals or self._alone is not None):
            raise BadValue(f"{_called(param)} can't be {value!r}: write it as NAME=VALUE.")
        return name, text if equals else str(self._alone)


def _called(param: click.Parameter | None) -> str:
    return param.opts[0] if param is not None else "The value"


class Whole(_Type):
    """A whole number in a range."""

    name = "number"

    def __init__(self, at_least: int, at_most: int) -> None:
        self._range = at_least, at_most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            number = value
        check_int(_called(param), number, *self._range)
        return number


LINES_FILE = OneText("several files go through a pipe, cat FILES | sqew … --file -")
MESSAGE_ID = Whole(1, LARGEST_ID)
COUNT = Whole(1, 1_000_000)

queue_option = click.option(
    "--queue", required=True, type=QueueName(), cls=Leading, metavar="QUEUE", help="The queue. --queue may be left out."
)
queue_name_option = click.option(
    "--name", required=True, type=QueueName(), cls=Leading, metavar="QUEUE", help="The queue. --name may be left out."
)
any_queue_option = click.option("--queue", type=QueueName(), help="The queue.  [default: whichever it is in]")
all_yes_option = click.option("-y", "--yes", is_flag=True, help="Don't ask. With --all, needed off a terminal.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Don't ask. Off a terminal nobody is asked.")
lane_option = click.option("--lane", metavar="NAME", help="Only this lane.")
token_option = click.option(
    "--token",
    type=Name(),
    help="The lease's token, from `poll`: it tells a lease from a later one of the same holder.",
)
after_option = click.option(
    "--after", type=Whole(0, LARGEST_ID), default=0, metavar="ID", help="Only messages with higher ids."
)


def limit_option(default: int) -> Callable[[F], F]:
    """Make the option ``--limit``: how many to show."""
    return click.option(
        "--limit", type=COUNT, default=default, show_default=True, metavar="N", help="How many at most."
    )


def check_alternatives(options: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise if several options are given that exclude each other."""
    given = [_flag(name) for name in names if options[name] is not None]
    if len(given) > 1:
        raise click.UsageError(
            f"{' and '.join(given)} contradict each other. Give one of {', '.join(map(_flag, names))}.",
            click.get_current_context(),
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
