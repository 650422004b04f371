"""`sqew spark analyse`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from sqew.cli.session import QueueSession
from sqew.cli.spark.work import spark_at_work, spark_options
from sqew.terminal.command import Command
from sqew.terminal.output import Column, Facts, Table, plural

if TYPE_CHECKING:
    from sqew.spark.jobs.analyse import Analysed
    from sqew.spark.tables import Tables

_QUANTILES = ("p50", "p95", "p99")


@click.command(cls=Command)
@click.argument("logs", nargs=-1, required=True, metavar="LOG…")
@click.option("--to", required=True, metavar="FOLDER", help="Where the tables and the report go: a path or a URL.")
@click.option("--no-report", is_flag=True, help="Tables only.")
@spark_options
@click.pass_obj
def analyse(
    session: QueueSession,
    logs: tuple[str, ...],
    to: str,
    no_report: bool,
    master: str | None,
    spark_settings: tuple[str, ...],
) -> None:
    """Make tables and a report of event logs: what became of each message, rates, latencies, depths.

    LOG is the folder of a run of PlainBench, the file that the setting event_log names (with what was rotated), a
    pattern, or a URL. The tables are Parquet files in FOLDER; those of an earlier analysis are replaced.
    """
    with spark_at_work(session, "analysing", master, spark_settings) as spark:
        from sqew.spark.jobs.analyse import add_report
        from sqew.spark.jobs.analyse import analyse as analyse_logs
        from sqew.spark.report.page import warnings_of
        from sqew.spark.tables import Tables

        found = analyse_logs(spark, logs, to)
        tables = Tables(spark, found.to)
        report = None if no_report else add_report(spark, found)
        latencies = _latencies(tables)
    for warning in warnings_of(found):
        session.note(warning)
    session.show(
        {**msgspec.to_builtins(found), "report": report, "latencies": latencies},
        _facts(found, report),
        _table(latencies),
    )


def _latencies(tables: Tables) -> list[dict[str, object]]:
    names = ["queue", "lane", "worker", "measure", "count", "missing", *_QUANTILES, "p999", "max"]
    order = [(name, "ascending") for name in ("worker", "queue", "lane", "measure")]
    return list(tables.fetch("latencies").select(names).sort_by(order).to_pylist())


def _facts(found: Analysed, report: str | None) -> Facts:
    pairs: list[tuple[str, object]] = [
        ("events", found.events),
        ("messages", found.messages),
        ("from", plural(found.files, "file")),
        ("tables", found.to),
    ]
    return Facts([*pairs, *([("report", report)] if report else [])])


def _table(latencies: list[dict[str, object]]) -> Table:
    columns = [Column("of"), Column("latency"), *(Column(f"{name} ms", right=True) for name in _QUANTILES)]
    columns += [Column("samples", right=True), Column("missing", right=True)]
    rows = [
        [
            row["worker"] or "/".join(str(row[name]) for name in ("queue", "lane") if row[name]),
            row["measure"],
            *("never" if row[name] is None else f"{row[name]:.3f}" for name in _QUANTILES),
            row["count"],
            row["missing"],
        ]
        for row in latencies
    ]
    return Table(columns, rows, "Nothing was measured.")
