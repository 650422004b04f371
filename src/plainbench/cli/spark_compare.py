"""The command `sqew spark compare`. It is kept with the lab, which knows if two runs can be compared at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from sqew.cli.spark.work import spark_at_work, spark_options
from sqew.terminal.command import Command
from sqew.terminal.output import Column, Table
from sqew.terminal.session import TerminalSession

if TYPE_CHECKING:
    from sqew.spark.jobs.compare import Paired

_TITLES = {"to_claim": "due → claim", "to_ack": "due → ack"}
_SHOWN = ("p50", "p99")


@click.command(cls=Command)
@click.argument("base", metavar="RUN")
@click.argument("other", metavar="RUN")
@click.option("--force", is_flag=True, help="Also where they are not comparable.")
@spark_options
@click.pass_obj
def compare(
    session: TerminalSession, base: str, other: str, force: bool, master: str | None, spark_settings: tuple[str, ...]
) -> None:
    """Set two runs of PlainBench side by side, message by message: was the second one faster?

    The same load met both, so each message of one is held against the same of the other. Runs from other machines, with
    another durability or of other inputs are refused. `plainbench compare` sets more runs side by side, by their
    quantiles.
    """
    from plainbench.record.manifest import run_folder
    from plainbench.statistics.compare import check_comparable

    folders = [run_folder(named).resolve() for named in (base, other)]
    objections = check_comparable(folders, force=force)
    with spark_at_work(session, "comparing", master, spark_settings) as spark:
        from sqew.spark.jobs.compare import compare as compared

        found = compared(spark, *map(str, folders))
    for objection in objections:
        session.note(f"Careful: {objection}.")
    for queue, count in sorted(found.unpaired.items()):
        session.note(f"Careful: {count} messages of {queue} were to be sent in one of the runs only.")
    session.show(
        {
            "runs": [str(folder) for folder in folders],
            "objections": objections,
            "unpaired": found.unpaired,
            "figures": [msgspec.to_builtins(figure) | {"finding": figure.finding} for figure in found.figures],
        },
        _table(found.figures),
    )


def _table(figures: list[Paired]) -> Table:
    columns = [Column("queue"), Column("latency"), Column("messages", right=True)]
    columns += [Column(f"{part} ms", right=True) for part in _SHOWN]
    columns += [Column("half took longer by", right=True), Column("faster", right=True), Column("so it is")]
    rows = [
        [
            one.queue,
            _TITLES[one.measure],
            one.messages,
            *(f"{_ms(one.base[part])} → {_ms(one.other[part])}" for part in _SHOWN),
            "" if one.longer["p50"] is None else f"{one.longer['p50']:+.3f} ms",
            f"{one.share:.1%} [{one.low:.1%} – {one.high:.1%}]",
            one.finding,
        ]
        for one in figures
    ]
    return Table(columns, rows)


def _ms(value: float | None) -> str:
    return "never" if value is None else f"{value:.3f}"
