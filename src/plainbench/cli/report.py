"""`plainbench report`."""

from __future__ import annotations

from pathlib import Path

import click

from plainbench.cli.command import Command
from sqew.cli.spark.work import spark_at_work, spark_options
from sqew.errors import BadValue
from sqew.terminal.session import TerminalSession


@click.command(cls=Command)
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Where to.  [default: in RUN]")
@click.option("--spark", "by_spark", is_flag=True, help="Have Spark read the log, however long it is: see --master.")
@spark_options
@click.pass_obj
def report(
    session: TerminalSession,
    run: Path | None,
    output: Path | None,
    by_spark: bool,
    master: str | None,
    spark_settings: tuple[str, ...],
) -> None:
    """Make one HTML file of a run, with plots. It needs nothing else, and no network.

    RUN is the folder of a run; without it, the newest under ./runs. With --spark the figures are the same, and the
    tables behind them stay in RUN/analysis, as Parquet.
    """
    from plainbench.record.find import newest

    if not by_spark and (master or spark_settings):
        raise BadValue("--master and --spark-setting are for a report by Spark: give --spark too.")
    folder = newest(run or Path("runs"))
    if by_spark:
        page = _page_by_spark(session, folder, master, spark_settings)
    else:
        page = _page(session, folder)
    path = output or folder / "report.html"
    path.write_text(page, encoding="utf-8")
    session.show({"run": str(folder), "report": str(path)}, str(path))


def _page(session: TerminalSession, folder: Path) -> str:
    from plainbench.cli.progress import Watching
    from plainbench.report.page import report as page_of

    watching = Watching(session.plain, quiet=session.json)
    try:
        return page_of(folder, progress=lambda events: watching.say(f"reading the log: {events} events"))
    finally:
        watching.hide()


def _page_by_spark(session: TerminalSession, folder: Path, master: str | None, spark_settings: tuple[str, ...]) -> str:
    with spark_at_work(session, "reading the log", master, spark_settings) as spark:
        from plainbench.report.by_spark import report as page_of

        return page_of(spark, folder)
