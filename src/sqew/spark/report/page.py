"""The page of the report: a summary of the logs, tables and plots, from the tables of an analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from sqew.spark.jobs.analyse import Analysed
from sqew.spark.report.plots import Points, over_time
from sqew.spark.tables import Tables
from sqew.spark.transforms.percentiles import CUT
from sqew.spark.transforms.rates import COUNTED

Row = Mapping[str, Any]
SHOWN_SLOWEST = 20
_MOST_LINES = 8
_MOST_ROWS = 200
_MEASURES = {"to_stored": "due → stored", "to_claim": "due → claim", "held": "claim → ack", "to_ack": "due → ack"}
_QUANTILES = ("p50", "p95", "p99", "p999", "max")


def page(tables: Tables, about: Analysed) -> str:
    """Return the whole report as HTML."""
    body = "".join([*_head(about), *_counts(tables), *_latencies(tables), *_plots(tables, about), *_slowest(tables)])
    style = files("sqew.spark.report").joinpath("style.css").read_text()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Event log</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{body}</main></body></html>\n"
    )


def _head(about: Analysed) -> Iterator[str]:
    seconds = (about.ended_at - about.began_at) / 1e6
    yield "<h1>What became of the messages</h1>"
    yield (
        f'<p class="soft">{about.events:,} events of {about.messages:,} messages, from {about.files} '
        f"{'file' if about.files == 1 else 'files'}, in {seconds:,.1f} s</p>"
    )
    if warnings := list(warnings_of(about)):
        yield f"<ul>{''.join(f'<li>{escape(warning)}</li>' for warning in warnings)}</ul>"


def warnings_of(about: Analysed) -> Iterator[str]:
    """Yield a sentence for everything that was skipped."""
    for file, lines in sorted(about.broken.items()):
        what = "1 line is no event, and was" if lines == 1 else f"{lines} lines are no events, and were"
        yield f"{file}: {what} passed over."
    for kind, count in about.unknown.items():
        events = "1 event" if count == 1 else f"{count} events"
        yield f"{events} of the kind '{kind}', which this version does not know, passed over."


def _counts(tables: Tables) -> Iterator[str]:
    rows = sorted(tables.fetch("throughput").to_pylist(), key=_order)
    figures = ("messages", "deliveries", "done", "retries", "deaths", "sent_per_s", "acked_per_s")
    yield "<h2>How much was done</h2>"
    yield _table(
        [
            "of",
            *("sent/s" if name == "sent_per_s" else "acked/s" if name == "acked_per_s" else name for name in figures),
        ],
        [[_name(row), *(f"{row[name]:,.0f}" for name in figures)] for row in rows],
    )


def _latencies(tables: Tables) -> Iterator[str]:
    rows = sorted(
        tables.fetch("latencies").to_pylist(), key=lambda row: (_order(row), list(_MEASURES).index(row["measure"]))
    )
    yield "<h2>How long it took, in milliseconds</h2>"
    yield (
        '<p class="soft">Exact quantiles. What never happened took for ever, and counts: “never” says that the '
        "quantile is one of those.</p>"
    )
    yield _table(
        ["of", "latency", *_QUANTILES, "samples", "missing"],
        [
            [
                _name(row),
                _MEASURES[row["measure"]],
                *(_ms(row[name]) for name in _QUANTILES),
                f"{row['count']:,}",
                f"{row['missing']:,}",
            ]
            for row in rows
        ],
        texts=2,
    )


def _plots(tables: Tables, about: Analysed) -> Iterator[str]:
    end_s = max((about.ended_at - about.began_at) / 1e6, about.step_us / 1e6)
    yield "<h2>Latency from due to ack</h2>"
    over = [row for row in tables.fetch("latencies_over_time").sort_by("at").to_pylist() if not row["queue"]]
    quantiles = {name: [(row["at"] / 1e6, row[name]) for row in over] for name in ("p50", "p95", "p99")}
    yield over_time("Latency from due to ack", "ms", end_s, quantiles, log=True)
    yield "<h2>Messages a second</h2>"
    yield over_time("Messages a second", "messages/s", end_s, _rates(tables, about))
    depths = _by_lane(tables.fetch("depths").to_pylist(), ("waiting", "unfinished"))
    yield "<h2>Messages waiting to be received</h2>"
    yield over_time("Messages waiting", "messages", end_s, depths["waiting"], steps=True)
    yield "<h2>Messages not done yet</h2>"
    yield over_time("Messages not done yet", "messages", end_s, depths["unfinished"], steps=True)


def _rates(tables: Tables, about: Analysed) -> Mapping[str, Points]:
    sums = tables.fetch("rates").group_by("at").aggregate([(kind, "sum") for kind in COUNTED])
    rows = {row["at"]: row for row in sums.to_pylist()}
    seconds = about.step_us / 1e6
    steps = range(0, max(rows, default=0) + 1, about.step_us)
    lines = {
        kind: [(at / 1e6, rows[at][f"{kind}_sum"] / seconds if at in rows else 0.0) for at in steps] for kind in COUNTED
    }  # fmt: skip
    return {kind: points for kind, points in lines.items() if any(value for _, value in points)}


def _by_lane(rows: Sequence[Row], measures: Sequence[str]) -> dict[str, dict[str, list[tuple[float, float | None]]]]:
    """Return lines by measure and lane; of too many lanes, the largest."""
    lines: dict[str, dict[str, list[tuple[float, float | None]]]] = {measure: {} for measure in measures}
    for row in rows:
        name = f"{row['queue']}/{row['lane']}" if row["lane"] else row["queue"]
        for measure in measures:
            lines[measure].setdefault(name, []).append((row["at"] / 1e6, row[measure]))
    for measure, named in lines.items():
        most = sorted(named, key=lambda name: -max(value or 0 for _, value in named[name]))[:_MOST_LINES]
        lines[measure] = {name: points for name, points in sorted(named.items()) if name in most}
    return lines


def _slowest(tables: Tables) -> Iterator[str]:
    rows = tables.fetch("slowest").slice(0, SHOWN_SLOWEST).to_pylist()
    yield "<h2>The slowest messages</h2>"
    yield _table(
        ["queue", "lane", "message", "due → claim", "due → ack, ms", "deliveries", "retries"],
        [
            [
                row["queue"],
                row["lane"],
                str(row["n"]),
                *(_ms(None if row[name] is None else row[name] / 1000) for name in ("to_claim", "to_ack")),
                str(row["deliveries"]),
                str(row["retries"]),
            ]
            for row in rows
        ],
        texts=2,
    )


def _order(row: Row) -> tuple[bool, tuple[str, ...]]:
    """Sort queues with their lanes first, then workers."""
    return bool(row["worker"]), tuple(row[name] for name in CUT)


def _name(row: Row) -> str:
    return str(row["worker"] or (f"{row['queue']}/{row['lane']}" if row["lane"] else row["queue"]))


def _ms(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """Return a table as HTML. Its first columns are strings, and the others numbers."""
    if not rows:
        return '<p class="soft">Nothing.</p>'
    head = "".join(_cell("th", place >= texts, name) for place, name in enumerate(columns))
    body = "".join(
        f"<tr>{''.join(_cell('td', place >= texts, cell) for place, cell in enumerate(row))}</tr>"
        for row in rows[:_MOST_ROWS]
    )
    more = len(rows) - _MOST_ROWS
    rest = f'<p class="soft">And {more} more, in the tables.</p>' if more > 0 else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{rest}'


def _cell(tag: str, right: bool, text: str) -> str:
    side = ' class="right"' if right else ""
    return f"<{tag}{side}>{escape(text)}</{tag}>"
