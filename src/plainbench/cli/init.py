"""`plainbench init`."""

from __future__ import annotations

from pathlib import Path

import click

from plainbench.cli.command import CONFIG_FILE, Command
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.session import TerminalSession


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path), default=CONFIG_FILE)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_obj
def init(session: TerminalSession, file: Path, force: bool) -> None:
    """Write a configuration to begin with: FILE, or plainbench.yaml. It runs as it is."""
    from plainbench.config.template import TEMPLATE

    if file.is_dir():
        file /= CONFIG_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(TEMPLATE)
    except FileExistsError:
        raise CommandError(
            f"{file} is there already. Write over it by --force, or name another.", Exit.CONFLICT
        ) from None
    named = "" if file == Path(CONFIG_FILE) else f" --config {file}"
    session.show({"file": str(file)}, f"Wrote {file}. Run it: plainbench run{named}")
