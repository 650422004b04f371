"""`plainbench replay`: do a recorded run again."""

from __future__ import annotations

from pathlib import Path

import click

from plainbench.cli.command import Command
from plainbench.cli.run import perform
from plainbench.record import manifest
from plainbench.record.replay import other_versions, same_log
from plainbench.record.replay import replay as again
from sqew.terminal.session import TerminalSession


@click.command(cls=Command)
@click.option("--from", "source", required=True, metavar="RUN", help="The run's folder, or its manifest.json.")
@click.option("--runs", type=click.Path(path_type=Path), metavar="FOLDER", help="Where to record the new run.")
@click.pass_obj
def replay(session: TerminalSession, source: str, runs: Path | None) -> int:
    """Run a recorded run again, from the same inputs.

    The configuration is that of the manifest, whatever the file says by now, and the queue begins with what it held
    then, in a file of the new run's own. Inputs that have changed are refused. In virtual time the event log must come
    out the same, byte for byte; in real time every decision is the same, and the timing is the machine's.
    """
    recorded = manifest.read(source)
    recording = again(source, runs)
    for sentence in other_versions(recorded, recording.manifest):
        session.note(f"Note: {sentence}.")
    code = perform(session, recording)
    if recorded.config.mode == "virtual":
        same = same_log(manifest.run_folder(source), recording.run)
        session.note(f"The event log is {'the same as' if same else 'NOT the same as'} that of {recorded.id}.")
    return code
