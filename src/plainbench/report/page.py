"""The report on a run: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
import yaml

from plainbench.cli import judgement
from plainbench.config.secrets import shown
from plainbench.record import manifest as manifests
from plainbench.record.manifest import Manifest
from plainbench.report import markup, plots, series
from plainbench.report.plots import milliseconds, number
from plainbench.report.series import FaultRow, Line, Plotted
from plainbench.verdict.summary import Summary, evidence_of, summary_of
from sqew.terminal.output import Column, Facts, Table, byte_count

MOST_LINES = 8
"""Number of lanes that are drawn, the largest, if there are too many."""
_MOST_FAULT_ROWS = 12


def report(run: Path, *, progress: Callable[[int], None] = lambda _events: None) -> str:
    """Return the whole page. ``progress`` is called with the number of events read."""
    recorded = manifests.read(run)
    known = evidence_of(run, recorded, progress=progress)
    return html(recorded, summary_of(known, recorded), series.plotted(run, known, MOST_LINES))


def html(recorded: Manifest, summary: Summary, plotted: Plotted) -> str:
    """Return the page of a run whose figures are known."""
    return _Page(recorded, summary, plotted).html()


class _Page:
    def __init__(self, recorded: Manifest, summary: Summary, plotted: Plotted) -> None:
        self._recorded, self._summary, self._plotted = recorded, summary, plotted
        self._axis, self._annotations = plotted.axis, plotted.annotations
        self._values: dict[str, list[tuple[str, list[str | None]]]] = {}
        """Values that `hover.js` shows, by plot."""

    def html(self) -> str:
        body = "".join([*self._head(), *self._messages(), *self._figures(), *self._plots(), *self._manifest()])
        texts = files("plainbench.report")
        style, script = (texts.joinpath(name).read_text() for name in ("style.css", "hover.js"))
        title = f"PlainBench: {self._recorded.id}"
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
            f'<body><main>{body}</main><div id="values"></div>'
            f'<script type="application/json" id="plots">{self._data()}</script><script>{script}</script>'
            "</body></html>\n"
        )

    def _head(self) -> Iterator[str]:
        summary, recorded = self._summary, self._recorded
        outcome = summary.verdict.outcome
        word, _, rest = judgement.HEADLINES[outcome].partition(": ")
        yield f"<h1>Run {escape(recorded.id)}</h1>"
        virtual = " of virtual time" if summary.mode == "virtual" else ""
        yield (
            f'<p class="soft">{escape(summary.driver)} · {escape(summary.durability or "durability unknown")} · seed '
            f"{recorded.seed} · {summary.seconds:.1f} s{virtual} · {summary.events:,} events · began "
            f"{escape(recorded.began[:19].replace('T', ' '))} UTC</p>"
        )
        yield f'<p class="verdict {outcome}"><b>{word}</b>{escape(rest[:1].upper() + rest[1:])}</p>'
        problems = summary.verdict.problems
        yield from markup.bullets(
            (f"{problem.sentence}{judgement.examples(problem.examples)}" for problem in problems), "problems"
        )
        yield from markup.bullets(self._warnings(), "warnings")

    def _warnings(self) -> Iterator[str]:
        summary = self._summary
        if summary.mode == "virtual":
            yield "In virtual time, durations and rates are those of the model. They say nothing of the machine."
        if not summary.durability:
            yield "Nobody knows how durable the queue's answers were: its throughput can't be compared."
        yield from summary.verdict.warnings
        yield from judgement.late(summary)
        yield from (f"Worker {report}" for report in summary.worker_reports)

    def _messages(self) -> Iterator[str]:
        verdict = self._summary.verdict
        yield "<h2>What became of the messages</h2>"
        yield markup.table(judgement.tallies(verdict))
        if verdict.lanes:
            yield "<h3>Fairness between lanes</h3>"
            yield markup.table(judgement.lane_shares(verdict.lanes))

    def _figures(self) -> Iterator[str]:
        summary = self._summary
        yield "<h2>Figures</h2><h3>Throughput, messages a second</h3>"
        yield markup.table(judgement.throughputs(summary))
        yield "<h3>Latency, in milliseconds</h3>"
        yield (
            '<p class="note">From when a message was due, whether or not the generator kept up. “never”: so many '
            "messages did not get there that the quantile is one of them.</p>"
        )
        yield markup.table(judgement.latencies([*summary.topics, *summary.lanes, *summary.workers]))
        yield markup.facts(Facts(list(judgement.facts(summary))))

    # Plots

    def _plots(self) -> Iterator[str]:
        yield "<h2>Over time</h2>"
        yield f'<p class="note">Each point stands for {self._step_worded()}.</p>'
        yield from self._latency()
        durability = escape(self._summary.durability or "durability unknown")
        yield f"<h3>Messages a second ({durability})</h3>"
        yield self._over_time("rates", "Messages a second", self._plotted.rates)
        yield from self._depths()
        if np.isfinite(self._annotations.lag_ms).any():
            lag = [Line("latest send", self._annotations.lag_ms)]
            yield "<h3>How late the generators were</h3>"
            yield self._over_time("lag", "How late the generators were", lag, worded=milliseconds)
        yield from self._cdfs()

    def _step_worded(self) -> str:
        seconds = self._axis.step_us / 1e6
        return "a second" if seconds == 1 else f"{seconds:g} s"

    def _latency(self) -> Iterator[str]:
        faults = self._annotations.faults[:_MOST_FAULT_ROWS]
        yield "<h3>Latency end to end, and the faults</h3>"
        yield (
            '<p class="note">Of the messages that were due at that time, on a logarithmic axis. Bars above the plot: '
            "so many were never done that the quantile is for ever. Rare faults are drawn through it.</p>"
        )
        yield self._over_time(
            "latency", "Latency end to end", self._plotted.latency, scale="log", worded=milliseconds,
            faults=faults,
        )  # fmt: skip
        if left_out := self._annotations.faults[_MOST_FAULT_ROWS:]:
            yield f'<p class="note">Not drawn: {escape(", ".join(f"{row.name} ×{row.total}" for row in left_out))}.</p>'

    def _depths(self) -> Iterator[str]:
        annotations = self._annotations
        if annotations.depths:
            yield "<h3>Messages waiting, by topic and lane</h3>"
            yield self._over_time("depths", "Messages waiting", _largest(annotations.depths))
            yield "<h3>Messages in the queue, by state</h3>"
            yield self._over_time("states", "Messages in the queue", annotations.states)
        if np.isfinite(annotations.wal_bytes).any():
            yield "<h3>Size of the write-ahead log</h3>"
            wal = [Line("WAL", annotations.wal_bytes / 2**20)]
            yield self._over_time("wal", "Write-ahead log", wal, worded=lambda mebibytes: f"{mebibytes:.3g} MiB")

    def _over_time(
        self, identifier: str, title: str, lines: Sequence[Line], *, scale: plots.Scale = "linear",
        worded: Callable[[float], str] = number, faults: Sequence[FaultRow] = (),
    ) -> str:  # fmt: skip
        values = [(line.name, [_worded(value, worded) for value in line.values.tolist()]) for line in lines]
        values += [(row.name, [f"×{count}" if count else None for count in row.counts.tolist()]) for row in faults]
        self._values[identifier] = values
        return plots.over_time(identifier, title, self._axis, lines, scale=scale, worded=worded, faults=faults)

    def _cdfs(self) -> Iterator[str]:
        yield "<h2>Distributions</h2>"
        yield (
            '<p class="note">Which part of the messages took no longer. The time is on a logarithmic axis; upwards, '
            "each line is a nine more, so the slowest show. Where a curve ends early, the rest never got there.</p>"
        )
        yield '<div class="cdfs">'
        for title, curves in self._plotted.curves.items():
            yield f"<div><h3>{escape(title)}</h3>{plots.cdf(title, curves)}</div>"
        yield "</div>"

    def _data(self) -> str:
        axis = self._axis
        data = {
            "width": plots.WIDTH, "left": plots.LEFT, "right": plots.RIGHT, "steps": axis.steps,
            "step": axis.step_us / 1e6, "lines": self._values,
        }  # fmt: skip
        # Names come from a configuration: none of them may end the script.
        return msgspec.json.encode(data).decode().replace("<", "\\u003c")

    # The manifest

    def _manifest(self) -> Iterator[str]:
        recorded = self._recorded
        yield "<h2>What was run</h2>"
        about: list[tuple[str, object]] = [
            ("run", recorded.id), ("began", recorded.began), ("seed", recorded.seed), ("mode", recorded.config.mode),
            ("driver", recorded.config.target.driver), ("durability", recorded.durability or "unknown"),
            ("configuration", recorded.config_file),
        ]  # fmt: skip
        about += [("repeats", recorded.replay_of)] if recorded.replay_of else []
        about += [("faults", f"only {_count(recorded)} that a schedule names")] if recorded.schedule is not None else []
        yield markup.facts(Facts(about))
        yield "<h3>Machine</h3>" + markup.facts(Facts(list(recorded.machine.items())))
        yield "<h3>Versions</h3>" + markup.facts(Facts(list(recorded.versions.items())))
        inputs = [*recorded.inputs, *recorded.before]
        if inputs:
            columns = [Column("file"), Column("what"), Column("size", right=True), Column("SHA-256")]
            rows = [[one.path, one.what, byte_count(one.bytes), one.sha256] for one in inputs]
            yield "<h3>Inputs</h3>" + markup.table(Table(columns, rows))
        config = yaml.safe_dump(shown("", msgspec.to_builtins(recorded.config)), sort_keys=False, allow_unicode=True)
        yield f"<details><summary>Configuration, every key</summary><pre>{escape(config)}</pre></details>"


def _count(recorded: Manifest) -> int:
    return 0 if recorded.schedule is None else len(recorded.schedule.firings)


def _largest(lines: Sequence[Line]) -> list[Line]:
    """Return the largest lines, if there are too many."""
    kept = sorted(lines, key=lambda line: -float(np.nanmax(line.values, initial=0)))[:MOST_LINES]
    return [line for line in lines if any(line is one for one in kept)]


def _worded(value: float, worded: Callable[[float], str]) -> str | None:
    return None if np.isnan(value) else "never" if np.isinf(value) else worded(value)
