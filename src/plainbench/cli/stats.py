"""`plainbench stats`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plainbench.cli.command import Command, config_option, loaded
from sqew.terminal.output import Column, Table
from sqew.terminal.session import TerminalSession

if TYPE_CHECKING:
    from plainbench.config.model import Config
    from plainbench.verdict.latencies import Quantiles
    from plainbench.verdict.summary import Figures, Summary
    from sqew.terminal.output import Part

_STATES = ("ready", "leased", "delayed", "blocked", "dead")


@click.command(cls=Command)
@click.option("--topic", metavar="NAME", help="Only of this one.")
@click.option("--run", type=click.Path(path_type=Path), metavar="FOLDER", help="Of this run, instead of the last one.")
@config_option
@click.pass_obj
def stats(session: TerminalSession, topic: str | None, run: Path | None, config: Path) -> None:
    """Show how many messages are in the topics, by lane, and what the last run measured.

    With --run: what that run measured. Its summary is made if it has none.
    """
    if run is not None:
        recorded = _summary_of(run)
        session.show(_document(recorded, topic), *_shown(recorded, topic))
        return
    read, folder = loaded(config)
    depths = _depths(read, folder, topic)
    summary = _last_summary(folder / read.runs)
    parts: list[Part] = [_depth_table(depths)]
    if summary is not None:
        parts += _shown(summary, topic)
    measured = None if summary is None else _document(summary, topic)
    session.show({"topics": depths, "last_run": measured}, *parts)


def _depths(config: Config, folder: Path, only: str | None) -> dict[str, dict[str, dict[str, int]]]:
    from plainbench.cli.queues import is_there, queue_of, topic_of
    from sqew.errors import NotFound

    topics = config.topics if only is None else [topic_of(config, only)]
    depths: dict[str, dict[str, dict[str, int]]] = {topic.name: {} for topic in topics}
    if not is_there(config, folder):
        return depths
    with queue_of(config, folder) as driver:
        for topic in topics:
            with suppress(NotFound):
                lanes = driver.depths(topic.name)
                depths[topic.name] = {lane: dict(counts) for lane, counts in lanes.items()}
    return depths


def _depth_table(depths: dict[str, dict[str, dict[str, int]]]) -> Table:
    rows: list[tuple[object, ...]] = []
    for topic, lanes in depths.items():
        rows += [(topic, lane, *map(counts.get, _STATES)) for lane, counts in sorted(lanes.items()) if lane]
        if lanes:
            # Not every figure is of a lane: what is dead is so in the topic as a whole.
            totals = (sum(counts.get(state, 0) for counts in lanes.values()) for state in _STATES)
            rows.append((topic, "all", *totals))
    columns = [Column("Topic"), Column("Lane")]
    columns += [Column(state.capitalize(), right=True, optional=state == "blocked") for state in _STATES]
    return Table(columns, rows, "Nothing was put into the topics yet.")


def _last_summary(runs: Path) -> Summary | None:
    """Return the summary of the last run that has one: the others were killed, or go on."""
    from plainbench.verdict.summary import SUMMARY, read

    found = sorted((path for path in runs.glob(f"*/{SUMMARY}")), key=lambda path: path.stat().st_mtime_ns)
    return read(found[-1].parent) if found else None


def _summary_of(run: Path) -> Summary:
    from plainbench.record.manifest import run_folder
    from plainbench.verdict.summary import SUMMARY, read, summarize, write

    folder = run_folder(run)
    if (folder / SUMMARY).is_file():
        return read(folder)
    summary = summarize(folder)
    write(summary, folder)
    return summary


def _rows(summary: Summary, topic: str | None) -> list[Figures]:
    rows = [
        figures
        for of_topic in summary.topics
        for figures in (of_topic, *(lane for lane in summary.lanes if lane.topic == of_topic.topic))
        if topic in (None, of_topic.topic)
    ]
    return [figures for figures in rows if figures.messages or figures.deliveries]


def _document(summary: Summary, topic: str | None) -> dict[str, Any]:
    return {
        "run": summary.id,
        "mode": summary.mode,
        "durability": summary.durability,
        "verdict": summary.verdict.outcome,
        "figures": _rows(summary, topic),
    }


def _shown(summary: Summary, topic: str | None) -> list[Part]:
    columns = [Column("Topic"), Column("Lane"), Column("Messages", right=True), Column("Acked/s", right=True)]
    for what in ("Claimed", "End to end"):
        columns += [Column(f"{what} p50", right=True), Column("p95", right=True), Column("p99", right=True)]
    rows = [
        (
            figures.topic,
            figures.lane or "all",
            figures.messages,
            round(figures.throughput.acked_per_s),
            *_quantiles(figures.to_claim),
            *_quantiles(figures.to_ack),
        )
        for figures in _rows(summary, topic)
    ]
    time = ", in virtual time" if summary.mode == "virtual" else ""
    return [
        f"Run {summary.id} ({summary.driver}, {summary.durability}{time}), latencies in ms:",
        Table(columns, rows, "Nothing was sent."),
    ]


def _quantiles(quantiles: Quantiles) -> tuple[str, str, str]:
    if not quantiles.count:
        return "", "", ""
    return _ms(quantiles.p50), _ms(quantiles.p95), _ms(quantiles.p99)


def _ms(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"
