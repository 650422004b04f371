"""`plainbench compare`: set runs side by side."""

from __future__ import annotations

import click
import msgspec

from plainbench.cli.command import Command
from plainbench.statistics.bootstrap import Estimate
from plainbench.statistics.compare import Comparison, Figure
from plainbench.statistics.compare import compare as compared
from sqew.terminal.output import Column, Part, Table
from sqew.terminal.session import TerminalSession

_HIGHER_IS_BETTER = frozenset({"/s"})


@click.command(cls=Command)
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN…")
@click.option("--force", is_flag=True, help="Also where they are not comparable.")
@click.pass_obj
def compare(session: TerminalSession, runs: tuple[str, ...], force: bool) -> None:
    """Set runs side by side, each against the first, with intervals that hold in 95 of 100 cases.

    Runs from other machines, with another durability or of other inputs are refused. The intervals show the changes
    within a run; to see what changes from run to run, make several of each.
    """
    found = compared(runs, force=force)
    session.show(msgspec.to_builtins(found), *_parts(found))


def _parts(found: Comparison) -> list[Part]:
    objections = [f"Careful: {sentence}." for sentence in found.objections]
    verdicts = [
        f"Careful: {run.id} {run.verdict.outcome}{f' and ended by {ended}' if ended != 'settled' else ''}."
        for run in found.runs
        if (ended := run.verdict.ended) != "settled" or not run.verdict.passed
    ]
    return [*objections, *verdicts, _runs(found), _differences(found), _figures(found)]


def _runs(found: Comparison) -> Table:
    columns = [Column("run"), Column("driver"), Column("verdict"), Column("durability")]
    return Table(columns, [[run.id, run.driver, run.verdict.outcome, run.durability] for run in found.runs])


def _differences(found: Comparison) -> Table:
    columns = [Column("what differs"), *(Column(run.id) for run in found.runs)]
    rows = [[key, *values] for key, values in found.differences.items()]
    return Table(columns, rows, "The runs have the same configuration and versions.")


def _figures(found: Comparison) -> Table:
    columns = [Column("topic"), Column("figure")]
    for number, run in enumerate(found.runs):
        columns.append(Column(run.id, right=True))
        if number:
            columns += [Column("ratio", right=True), Column("so it is")]
    return Table(columns, [_row(figure) for figure in found.figures], "The runs have no topic in common.")


def _row(figure: Figure) -> list[str]:
    row = [figure.topic, f"{figure.name} {figure.unit}"]
    for estimate, ratio in zip(figure.estimates, figure.ratios, strict=True):
        row.append(_shown(estimate))
        if ratio is not None:
            row += [_shown(ratio), judged(ratio, figure.unit in _HIGHER_IS_BETTER)]
    return row


def judged(ratio: Estimate, higher_is_better: bool) -> str:
    """Return what a ratio shows: better or worse only if the whole interval lies on one side of 1."""
    low = float("inf") if ratio.low is None else ratio.low
    high = float("inf") if ratio.high is None else ratio.high
    if low <= 1 <= high:
        return "no difference shown"
    return "better" if (low > 1) == higher_is_better else "worse"


def _shown(estimate: Estimate) -> str:
    return f"{_number(estimate.value)} [{_number(estimate.low)} – {_number(estimate.high)}]"


def _number(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
