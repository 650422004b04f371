"""`plainbench shrink`: find the fewest faults with which a run still fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from plainbench.cli.command import Command
from plainbench.cli.progress import Watching
from plainbench.faults import schedule as schedules
from plainbench.record import manifest
from plainbench.record.events import Event
from plainbench.record.recorder import Recording
from plainbench.run.shrink import Shrinking, faults_of
from plainbench.verdict import summary as summaries
from sqew.terminal.exits import Exit
from sqew.terminal.output import Column, Part, Table
from sqew.terminal.session import TerminalSession

SCHEDULE = "smallest.schedule.json"


@click.command(cls=Command)
@click.argument("run")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Where to write the schedule.")
@click.pass_obj
def shrink(session: TerminalSession, run: str, out: Path | None) -> int:
    """Find the fewest faults with which a run still fails.

    The run, which must be one in virtual time that broke a promise, is repeated under ever fewer of its faults. What
    is left is recorded as a run of its own, and written as a schedule that `plainbench run --schedule` takes. Ctrl-C
    ends the search: what was found by then is kept.
    """
    watching = Watching(session.plain, quiet=session.json)
    source = manifest.run_folder(run).resolve()
    shrinking = Shrinking(
        source, lambda tries, left, faults: watching.say(f"try {tries}: fails with {left} of {faults} faults")
    )
    interrupted = False
    try:
        shrinking.shrink()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        watching.hide()
    path = out or source / SCHEDULE
    schedules.write(shrinking.schedule, path)
    smallest = _recorded(shrinking)
    session.show(_facts(shrinking, path, smallest, interrupted), *_parts(shrinking, smallest, interrupted))
    config = Path(shrinking.recorded.config_file)
    session.note(
        f"Recorded in {smallest.run}\n  look at it: plainbench report {smallest.run}, plainbench tui {smallest.run}\n"
        f"  again:      plainbench replay --from {smallest.run}\n"
        f"  or:         plainbench run --config {config} --mode virtual --schedule {path}"
    )
    return Exit.INTERRUPTED if interrupted else Exit.OK


def _recorded(shrinking: Shrinking) -> Recording:
    """Record the smallest run, with a folder, a manifest and a summary as any other."""
    recorded, source = shrinking.recorded, shrinking.source
    recording = Recording(
        recorded.config, Path(recorded.folder), Path(recorded.config_file), runs=source.parent,
        schedule=shrinking.schedule, repeats=source,
    )  # fmt: skip
    recording.go()
    summaries.write(summaries.summarize(recording.run), recording.run)
    return recording


def _facts(shrinking: Shrinking, path: Path, smallest: Recording, interrupted: bool) -> dict[str, Any]:
    return {
        "run": str(shrinking.source),
        "faults": len(shrinking.faults),
        "tries": shrinking.tries,
        "is_smallest": not interrupted,
        "left": [msgspec.to_builtins(event) for event in faults_of(smallest.run).values()],
        "schedule": str(path),
        "recorded": str(smallest.run),
        "problems": msgspec.to_builtins(summaries.read(smallest.run).verdict.problems),
    }


def _parts(shrinking: Shrinking, smallest: Recording, interrupted: bool) -> list[Part]:
    left, faults = list(faults_of(smallest.run).values()), len(shrinking.faults)
    tried = f"{shrinking.tries} tries{', and not to the end' if interrupted else ''}"
    headline = (
        f"{len(left)} of {faults} faults are enough ({tried}):"
        if left
        else f"The run fails without any of its {faults} faults ({tried})."
    )
    problems = [f"  {problem.sentence}" for problem in summaries.read(smallest.run).verdict.problems]
    return [headline, *([_table(left)] if left else []), "With these alone:" if left else "So:", *problems]


def _table(left: list[Event]) -> Table:
    return Table(
        [
            Column("at s", right=True),
            Column("fault"),
            Column("in"),
            Column("of"),
            Column("ms", right=True, optional=True),
            Column("decision"),
        ],
        [
            [
                f"{event.at / 1e6:.3f}",
                event.what,
                event.where,
                event.worker,
                None if event.ms is None else f"{event.ms:g}",
                f"{event.stream} {event.index}",
            ]
            for event in left
        ],
    )
