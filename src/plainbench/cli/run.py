"""`plainbench run`: run what a configuration says, record it and judge it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from plainbench.cli.command import Command, config_option, loaded
from plainbench.cli.judgement import judgement
from plainbench.cli.progress import Watching
from plainbench.faults import schedule as schedules
from plainbench.record.recorder import Recording
from plainbench.tui.subprocess import check_terminal, watched
from plainbench.verdict import summary as summaries
from sqew.errors import BadValue, SqewError
from sqew.terminal.exits import Exit
from sqew.terminal.session import TerminalSession


@click.command(cls=Command)
@config_option
@click.option("--seed", type=click.IntRange(min=0), help="Instead of the configuration's.")
@click.option("--mode", type=click.Choice(["real", "virtual"]), help="Instead of the configuration's.")
@click.option("--runs", type=click.Path(path_type=Path), metavar="FOLDER", help="Where to record the run.")
@click.option(
    "--schedule",
    "schedule_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Only these faults, as `plainbench shrink` has found them.",
)
@click.option("--tui", is_flag=True, help="Show the run while it goes on, as `plainbench tui` does.")
@click.pass_obj
def run(
    session: TerminalSession, config: Path, seed: int | None, mode: str | None, runs: Path | None,
    schedule_file: Path | None, tui: bool,
) -> int:  # fmt: skip
    """Run what the configuration says, record it and judge it.

    The run is in a folder of its own, which is named at the end. The exit code is 0 if the queue kept its promises,
    and 1 if it did not or if it can't be judged. Ctrl-C ends a run early: what was recorded is judged all the same.
    """
    if tui:
        check_terminal()
    configuration, folder = loaded(config)
    schedule = None if schedule_file is None else schedules.read(schedule_file)
    if schedule is not None and schedule.seed is not None:
        if seed not in (None, schedule.seed):
            raise BadValue(f"The schedule's faults are those of seed {schedule.seed}: leave --seed out.")
        seed = schedule.seed
    given = {name: value for name, value in (("seed", seed), ("mode", mode)) if value is not None}
    recording = Recording(replace(configuration, **given), folder, config, runs=runs, schedule=schedule)
    return perform(session, recording, tui=tui)


def perform(session: TerminalSession, recording: Recording, *, tui: bool = False) -> int:
    """Run it, then judge and show what was recorded, whatever ended it; return the exit code."""
    watching = Watching(session.plain, quiet=session.json)
    failure: SqewError | None = None
    why = "failed"
    try:
        with watched(recording.run) if tui else nullcontext(lambda: False) as is_shown:
            why = recording.go(lambda supervisor: None if is_shown() else watching(supervisor))
    except SqewError as error:
        failure = error
    except KeyboardInterrupt:
        # While the processes were being started or ended.
        why = "interrupted"
    finally:
        watching.hide()
    if not recording.run.exists():
        # It has not begun.
        if failure is not None:
            raise failure
        return Exit.INTERRUPTED
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
