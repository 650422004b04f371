"""The list of commands and options in `docs/cli.md`, made from the commands themselves.

`python -m sqew.cli.reference docs/cli.md` writes it again; a test fails if the page is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from sqew.cli.main import sqew
from sqew.terminal.command import SHARED_NAMES
from sqew.terminal.exits import MEANINGS

SHARED = """\
Every command takes the options of `sqew` itself as well, and every setting as a flag, before or after its name."""
BEGINS, ENDS = "<!-- generated: options -->\n", "<!-- end of generated -->\n"


def as_markdown() -> str:
    """Return the exit codes, and every command with its options."""
    with click.Context(sqew, info_name="sqew", **sqew.context_settings) as ctx:
        commands = "\n".join(_sections(ctx, sqew))
    codes = "\n".join(f"| {code.value} | {_cell(meaning)} |" for code, meaning in MEANINGS.items())
    return f"## Exit codes\n\n| code | meaning |\n|---|---|\n{codes}\n\n## Options\n\n{SHARED}\n\n{commands}"


def renewed(page: str) -> str:
    """Return the page with its generated part made anew."""
    before, _, rest = page.partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    return f"{before}{BEGINS}\n{as_markdown()}\n{ENDS}{after}"


def _sections(ctx: click.Context, command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        if ctx.parent is None:
            yield _section(ctx, command)
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            with click.Context(child, info_name=name, parent=ctx) as inner:
                yield from _sections(inner, child)
    else:
        yield _section(ctx, command)


def _section(ctx: click.Context, command: click.Command) -> str:
    rows = [_row(ctx, param) for param in command.params if ctx.parent is None or param.name not in SHARED_NAMES]
    table = ["", "| option | what it does |", "|---|---|", *filter(None, rows)] if any(rows) else []
    return "\n".join([f"### `{_usage(ctx, command)}`", "", _text(command.help or ""), *table, ""])


def _usage(ctx: click.Context, command: click.Command) -> str:
    pieces = [piece for param in command.params for piece in param.get_usage_pieces(ctx)]
    return " ".join([ctx.command_path, *pieces])


def _row(ctx: click.Context, param: click.Parameter) -> str:
    record = param.get_help_record(ctx)
    if record is None:
        return ""
    needed = "Needed. " if param.required else ""
    return f"| `{_cell(record[0])}` | {_cell(needed + record[1].replace('  [required]', ''))} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _text(help: str) -> str:
    """Return the help as paragraphs; what click was told to keep as it is (``\\b``) as a block."""
    prose, kept, block = cleandoc(help).partition("\b\n")
    return prose.strip() + (f"\n\n```\n{block.strip()}\n```" if kept else "")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(renewed(place.read_text(encoding="utf-8")), encoding="utf-8")
