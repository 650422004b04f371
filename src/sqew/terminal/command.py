"""Commands and groups that take the shared options anywhere: before the subcommand and after it.

Every setting is a flag too. They come from `sqew.settings.DEFINITIONS`, which is read only when the command line names
an option that the command does not know: `sqew --help` must not wait for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from sqew.terminal.session import TerminalSession

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sqew.settings import Setting

_WITH_SETTINGS = "sqew.settings"
_ALONE_IS_ON: dict[str, Any] = {"is_flag": False, "flag_value": "on"}


class Leading(click.Option):
    """An option whose value may also be given alone, without the option's name before it."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        if args and self.name:
            if self.name in opts:
                called = "queue" if self.metavar == "QUEUE" else "message"
                ctx.fail(f"The {called} is given twice, as '{args[0]}' and with {self.opts[0]}. Give it once.")
            opts, args = {**opts, self.name: args[0]}, args[1:]
        return super().handle_parse_result(ctx, opts, args)

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [f"[{self.metavar}]"]


class Command(click.Command):
    """A command with the shared options."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.params += shared_options(shown=("db", "url", "json"))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _note_settings(self, ctx, args)
        rest = super().parse_args(ctx, [*args])
        check_repeated(self, ctx, args)
        return rest

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return _with_settings(ctx, super().get_params(ctx))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if not incomplete.startswith("-"):
            for param in self.params:
                if isinstance(param, Leading) and ctx.params.get(param.name or "") is None:
                    return param.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)


class Group(click.Group):
    """A group with the shared options, whose commands have them too."""

    command_class = Command
    shown_options: Sequence[str] = ()

    def __init__(self, *args: Any, aliases: dict[str, str] | None = None, **keywords: Any) -> None:
        """Make a group. ``aliases``: other names for commands, which the help does not list."""
        super().__init__(*args, **keywords)
        self.aliases = aliases or {}
        self.params += shared_options(self.shown_options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _note_settings(self, ctx, args)
        args = _switched_on(args, self.list_commands(ctx))
        rest = super().parse_args(ctx, [*args])
        check_repeated(self, ctx, args)
        return rest

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return _with_settings(ctx, super().get_params(ctx))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which they are written, not of the alphabet

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = [self.aliases.get(args[0], args[0]), *args[1:]]
        # Ours, because click 8.1 has no suggestions and newer ones don't know of commands that are not loaded yet.
        if not ctx.resilient_parsing and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            from sqew.errors import nearest

            ctx.fail(f"There is no command '{args[0]}'{nearest(args[0], self.list_commands(ctx))}.")
        return super().resolve_command(ctx, args)


class LazyGroup(Group):
    """A group whose commands are imported when they are run.

    ``lazy`` maps a name to its command's location (``module:attribute``) and to its line in the help.
    """

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]], **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return None
        module, attribute = self.lazy[cmd_name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.lazy.items()])


def check_repeated(command: click.Command, ctx: click.Context, args: Sequence[str]) -> None:
    """Raise if an option that takes one value is given several: click would silently keep the last.

    Of settings the last counts: programs that call this one append their own to those that they were given.
    """
    if ctx.resilient_parsing:
        return
    given = command.make_parser(ctx).parse_args([*args])[2]
    for option, times in Counter(given).items():
        if times > 1 and isinstance(option, click.Option) and _takes_one(option) and not _is_setting(option):
            several = getattr(option.type, "several", "")
            ctx.fail(
                f"{'/'.join([*option.opts, *option.secondary_opts])} takes one value and was given {times} times. "
                f"Give it once{several and ': '}{several}."
            )


def _takes_one(option: click.Option) -> bool:
    # A flag says the same however often it is given, unless it has an opposite.
    return not (option.multiple or option.count or (option.is_flag and not option.secondary_opts))


def shared_options(shown: Sequence[str]) -> list[click.Parameter]:
    """Return the options that every command takes; those not ``shown`` are left out of its help."""
    options = [
        click.Option(["--db"], metavar="FILE", help="The file that holds the queues.  [default: queue.db]"),
        click.Option(
            ["--database-url"], metavar="URL", help="The PostgreSQL database that holds them, instead of a file."
        ),
        click.Option(["--url"], metavar="URL", help="The server to talk to, instead of the file.  [default: SQEW_URL]"),
        click.Option(["--read-only"], is_flag=True, help="Look at a copy of the file, and write nothing beside it."),
        click.Option(["--config"], metavar="FILE", help="The settings file, TOML or YAML.  [default: sqew.toml, …]"),
        click.Option(["--json"], is_flag=True, help="Answer in JSON, for machines."),
        click.Option(["--no-color"], is_flag=True, help="No colours; NO_COLOR in the environment does the same."),
        click.Option(["--debug"], is_flag=True, help="Show where in the code an error came from."),
    ]
    for option in options:
        assert option.name is not None
        option.hidden = option.name not in shown
        option.expose_value = False
        option.callback = _REMEMBER[option.name]
    return list(options)


def _remember(write: Callable[[TerminalSession, Any], None]) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        session = ctx.ensure_object(TerminalSession)
        if value:
            write(session, value)

    return callback


def _remember_setting(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value is not None:
            ctx.ensure_object(TerminalSession).flags[name] = value

    return callback


_REMEMBER = {
    "db": _remember(lambda session, value: session.flags.update(db=value)),
    "database_url": _remember_setting("database_url"),
    "url": _remember(lambda session, value: session.flags.update(url=value)),
    "read_only": _remember(lambda session, value: setattr(session, "read_only", True)),
    "config": _remember(lambda session, value: setattr(session, "config", value)),
    "json": _remember(lambda session, value: setattr(session, "json", True)),
    "no_color": _remember(lambda session, value: setattr(session, "plain", True)),
    "debug": _remember(lambda session, value: setattr(session, "debug", True)),
}


SHARED_NAMES = frozenset(_REMEMBER)
"""The names of the shared options."""


def _note_settings(command: click.Command, ctx: click.Context, args: Iterable[str]) -> None:
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    if any(arg.startswith("--") and arg.partition("=")[0] not in known for arg in args):
        ctx.meta[_WITH_SETTINGS] = True


def _with_settings(ctx: click.Context, params: list[click.Parameter]) -> list[click.Parameter]:
    if _WITH_SETTINGS not in ctx.meta:
        return params
    taken = {name for param in params for name in param.opts}
    return [*params, *(option for option in setting_options() if option.opts[0] not in taken)]


def _switched_on(args: Sequence[str], commands: Sequence[str]) -> list[str]:
    """Add ``=on`` to a switch that stands before a command: ``serve`` is not the value in ``--insecure serve``."""
    return [
        f"{arg}=on" if after in commands and arg.startswith("--") and _is_switch(arg) else arg
        for arg, after in zip(args, [*args, ""][1:], strict=True)
    ]


def _is_setting(option: click.Option) -> bool:
    from sqew.settings import DEFINITIONS

    return option.name in DEFINITIONS


def _is_switch(flag: str) -> bool:
    from sqew.settings import DEFINITIONS

    return any(setting.flag == flag and setting.kind == "switch" for setting in DEFINITIONS.values())


def setting_options() -> list[click.Option]:
    """Return a flag for every setting."""
    from sqew.settings import DEFINITIONS

    return [
        click.Option(
            [setting.flag],
            metavar=_metavar(setting),
            help=setting.doc,
            hidden=True,
            expose_value=False,
            callback=_remember_setting(setting.name),
            **(_ALONE_IS_ON if setting.kind == "switch" else {}),
        )
        for setting in DEFINITIONS.values()
    ]


def _metavar(setting: Setting) -> str:
    return "[on|off]" if setting.kind == "switch" else "|".join(setting.choices) or setting.kind.upper()
