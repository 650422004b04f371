"""The entry point of `plainbench`: the list of its commands."""

from __future__ import annotations

from typing import Any, NoReturn

import click

from plainbench.cli.command import LazyGroup
from sqew import __version__
from sqew.installing import to_install
from sqew.terminal import exits
from sqew.terminal.exits import Exit
from sqew.terminal.program import Program, start

COMMANDS = {
    "init": ("plainbench.cli.init:init", "Write a plainbench.yaml to begin with, which runs as it is."),
    "topic": ("plainbench.cli.topic:topic", "Make topics."),
    "ingest": ("plainbench.cli.ingest:ingest", "Put the lines of JSONL or CSV files into a topic."),
    "run": ("plainbench.cli.run:run", "Run what the configuration says, and judge it."),
    "stats": ("plainbench.cli.stats:stats", "Show what is in the topics, and what the last run measured."),
    "replay": ("plainbench.cli.replay:replay", "Run a recorded run again, from the same inputs."),
    "compare": ("plainbench.cli.compare:compare", "Set runs side by side."),
    "report": ("plainbench.cli.report:report", "Make one HTML file of a run, with plots."),
    "tui": ("plainbench.cli.tui:tui", "Watch a run, or a recorded one again."),
    "shrink": ("plainbench.cli.shrink:shrink", "Find the fewest faults with which a run still fails."),
    "drivers": ("plainbench.cli.drivers:drivers", "List the queues that can be measured."),
}

EPILOG = "Begin with: plainbench init, then: plainbench run"


class Root(Program, LazyGroup):
    """The command `plainbench` itself."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise _not_installed(error) from error


def _not_installed(error: ModuleNotFoundError) -> Exception:
    """Return an error that says how to install a missing package of the lab."""
    if error.name is None or error.name.partition(".")[0] in ("sqew", "plainbench"):
        return error
    return exits.CommandError(f"The lab needs the package {error.name}: {to_install('lab')}.", Exit.FAILED)


@click.group(cls=Root, lazy=COMMANDS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="plainbench")
def plainbench() -> None:
    """Break a queue on purpose, and measure it honestly."""


def main() -> NoReturn:
    """Run the script `plainbench`."""
    start(plainbench)


if __name__ == "__main__":
    main()
