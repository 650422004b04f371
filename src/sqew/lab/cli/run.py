"""`plainbench run`: run what a configuration says, record it and judge it."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from sqew.cli.exits import Exit
from sqew.cli.session import Session
from sqew.errors import SqewError
from sqew.lab.cli.command import Command, config_option, loaded
from sqew.lab.cli.judgement import judgement
from sqew.lab.cli.watching import Watching
from sqew.lab.record.recording import Recording
from sqew.lab.verdict import summary as summaries


@click.command(cls=Command)
@config_option
@click.option("--seed", type=click.IntRange(min=0), help="Instead of the configuration's.")
@click.option("--mode", type=click.Choice(["real", "virtual"]), help="Instead of the configuration's.")
@click.option("--runs", type=click.Path(path_type=Path), metavar="FOLDER", help="Where to record the run.")
@click.pass_obj
def run(session: Session, config: Path, seed: int | None, mode: str | None, runs: Path | None) -> int:
    """Run what the configuration says, record it and judge it.

    The run is in a folder of its own, which is named at the end. The exit code is 0 if the queue kept its promises,
    and 1 if it did not or nobody can tell. Ctrl-C ends a run early: what was recorded is judged all the same.
    """
    configuration, folder = loaded(config)
    given = {name: value for name, value in (("seed", seed), ("mode", mode)) if value is not None}
    recording = Recording(replace(configuration, **given), folder, config, runs=runs)
    return perform(session, recording)


def perform(session: Session, recording: Recording) -> int:
    """Run it, then judge and show what was recorded, whatever ended it: the number to end with."""
    watching = Watching(session.plain, quiet=session.json)
    failure: SqewError | None = None
    why = "failed"
    try:
        why = recording.go(watching)
    except SqewError as error:
        failure = error
    except KeyboardInterrupt:
        # While the processes were being started or ended.
        why = "interrupted"
    finally:
        watching.hide()
    try:
        summary = _summarized(recording.run, watching)
    except (SqewError, KeyboardInterrupt):
        session.note(f"What was recorded is in {recording.run}. To judge it: plainbench stats --run {recording.run}")
        if failure is not None:
            raise failure from None
        if why == "interrupted":
            return Exit.INTERRUPTED
        raise
    session.show({"run": str(recording.run), **msgspec.to_builtins(summary)}, *judgement(summary))
    session.note(_where(recording.run, why))
    if failure is not None:
        raise failure
    if why == "interrupted":
        return Exit.INTERRUPTED
    return Exit.OK if summary.verdict.passed else Exit.FAILED


def _summarized(run: Path, watching: Watching) -> summaries.Summary:
    try:
        summary = summaries.summarize(run, progress=lambda events: watching.say(f"reading the log: {events} events"))
    finally:
        watching.hide()
    summaries.write(summary, run)
    return summary


def _where(run: Path, why: str) -> str:
    kept = "Interrupted. Everything up to then is recorded" if why == "interrupted" else "Recorded"
    return (
        f"{kept} in {run}\n  look at it: plainbench report {run}, plainbench tui {run}\n"
        f"  again:      plainbench replay --from {run}"
    )
