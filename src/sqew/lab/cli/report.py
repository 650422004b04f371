"""`plainbench report`."""

from __future__ import annotations

from pathlib import Path

import click

from sqew.cli.session import Session
from sqew.lab.cli.command import Command


@click.command(cls=Command)
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Where to.  [default: in RUN]")
@click.pass_obj
def report(session: Session, run: Path | None, output: Path | None) -> None:
    """Make one HTML file of a run, with plots. It needs nothing else, and no network.

    RUN is the folder of a run; without it, the newest under ./runs.
    """
    from sqew.lab.cli.watching import Watching
    from sqew.lab.record.finding import newest
    from sqew.lab.report.page import report as page_of

    folder = newest(run or Path("runs"))
    watching = Watching(session.plain, quiet=session.json)
    try:
        page = page_of(folder, progress=lambda events: watching.say(f"reading the log: {events} events"))
    finally:
        watching.hide()
    path = output or folder / "report.html"
    path.write_text(page, encoding="utf-8")
    session.show({"run": str(folder), "report": str(path)}, str(path))
