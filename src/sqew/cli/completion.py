"""`sqew completion SHELL`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sqew.terminal.command import Command

VARIABLE = "_SQEW_COMPLETE"


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: sqew completion bash >> ~/.bashrc
    zsh:  sqew completion zsh >> ~/.zshrc
    fish: sqew completion fish > ~/.config/fish/completions/sqew.fish
    """
    from sqew.cli.main import sqew

    found = get_completion_class(shell)
    assert found is not None
    # Not .source(): that looks for the shell, which need not be on this machine.
    click.echo(found.source_template % found(sqew, {}, "sqew", VARIABLE).source_vars())
