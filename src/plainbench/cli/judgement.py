"""A run's verdict and figures, as `plainbench run`, `replay` and `stats` show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plainbench.verdict.fairness import LaneShare
from plainbench.verdict.latencies import Quantiles
from plainbench.verdict.summary import Figures, Summary
from plainbench.verdict.verdict import Tally, Verdict
from sqew.terminal.output import Column, Facts, Part, Table, byte_count

_MEASURES = (
    ("due → stored", "to_stored"),
    ("due → claim", "to_claim"),
    ("claim → ack", "held"),
    ("due → ack", "to_ack"),
)
HEADLINES = {
    "passed": "PASSED: the queue kept its promises.",
    "failed": "FAILED: the queue broke its promises.",
    "unclear": "UNCLEAR: what it would take to judge is missing.",
}


def judgement(summary: Summary) -> list[Part]:
    """Return the verdict, what became of the messages, latencies, throughput with durability, and other facts."""
    verdict = summary.verdict
    parts: list[Part] = [
        HEADLINES[verdict.outcome],
        *(f"  {problem.sentence}{examples(problem.examples)}" for problem in verdict.problems),
        *(f"  Note: {warning}" for warning in [*verdict.warnings, *late(summary)]),
        *(f"  Worker: {report}" for report in summary.worker_reports),
        tallies(verdict),
        latencies([*summary.topics, *summary.lanes, *summary.workers]),
        throughputs(summary),
    ]
    if verdict.lanes:
        parts.append(lane_shares(verdict.lanes))
    return [*parts, Facts(list(facts(summary)))]


def examples(numbers: Sequence[int]) -> str:
    """Return a few messages, by number, in brackets."""
    return f" (n: {', '.join(map(str, numbers))}{', …' if len(numbers) >= 5 else ''})" if numbers else ""


def late(summary: Summary) -> Iterator[str]:
    """Yield a warning for each generator that did not keep up."""
    for generator in summary.generators:
        worst = generator.lag.max
        if worst is not None and worst >= 100:
            yield (
                f"The generator of {generator.topic} was up to {_ms(worst)} ms late (p99 {_ms(generator.lag.p99)}). "
                "Latencies count from when messages were due, so this is in them."
            )


def tallies(verdict: Verdict) -> Table:
    """Return a table of what became of the messages."""
    columns = ["topic", "sent", "found", "done", "dead", "left", "lost", "unexpected", "duplicates", "recovered"]
    more = [
        "changed",
        "out of order",
        "unsent",
        "dropped",
        "no answer",
        "ack unheard",
        "retried",
        "refused",
        "unaccounted",
    ]
    return Table(
        [
            Column("topic"),
            *(Column(name, right=True) for name in columns[1:]),
            *(Column(name, right=True, optional=True) for name in more),
        ],
        [[topic, *_row(tally)] for topic, tally in verdict.topics.items()],
        "No topic was used.",
    )


def _row(tally: Tally) -> list[object]:
    explained = sum(count for cause, count in tally.redelivered.items() if cause != "retried")
    broken = tally.after_ack + tally.while_leased
    duplicates = f"{explained + broken} ({broken} unexplained)" if broken else str(explained)
    optional = (
        tally.changed, tally.out_of_order, tally.unsent, tally.dropped, tally.unsure, tally.done_unheard,
        tally.retried, tally.refused, tally.unaccounted,
    )  # fmt: skip
    return [
        *(tally.sent, tally.found, tally.done, tally.dead, tally.left, tally.lost, tally.unexpected),
        duplicates,
        tally.recovered,
        *(count or None for count in optional),
    ]


def latencies(figures: Sequence[Figures]) -> Table:
    """Return quantiles in milliseconds. ``never``: so many never got there that the quantile is one of them."""
    titles = ["p50 ms", "p95", "p99", "p99.9", "max"]
    return Table(
        [
            Column("of"),
            Column("latency"),
            *(Column(title, right=True) for title in titles),
            Column("samples", right=True),
            Column("missing", right=True, optional=True),
        ],
        [
            [_name(one), title, *_cells(found), found.count, found.missing or None]
            for one in figures
            for title, attribute in _MEASURES
            if (found := getattr(one, attribute)).count
        ],
        "Nothing was measured.",
    )


def _cells(found: Quantiles) -> list[str]:
    return [_ms(value) for value in (found.p50, found.p95, found.p99, found.p999, found.max)]


def _ms(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value:.3f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _name(figures: Figures) -> str:
    return figures.worker or (f"{figures.topic}/{figures.lane}" if figures.lane else figures.topic)


def throughputs(summary: Summary) -> Table:
    """Return the messages per second, with the durability at which they were measured."""
    return Table(
        [Column("of"), Column("sent/s", right=True), Column("acked/s", right=True), Column("durability")],
        [
            [
                _name(one),
                f"{one.throughput.sent_per_s:.0f}" if not one.worker else None,
                f"{one.throughput.acked_per_s:.0f}",
                (one.throughput.durability or "unknown") + (", virtual time" if summary.mode == "virtual" else ""),
            ]
            for one in [*summary.topics, *summary.lanes, *summary.workers]
        ],
        "",
    )


def lane_shares(lanes: Sequence[LaneShare]) -> Table:
    """Return the share that each lane was promised, and the share that it got."""
    return Table(
        [
            Column("lane"),
            Column("by weight", right=True),
            Column("got", right=True),
            Column("of contended", right=True),
            Column("longest starvation ms", right=True),
            Column("passed over by", right=True),
        ],
        [
            [
                f"{lane.topic}/{lane.lane}",
                f"{lane.weight_share:.1%}",
                "" if lane.share is None else f"{lane.share:.1%}",
                str(lane.contended),
                _ms(lane.starved_ms),
                str(lane.passed_over),
            ]
            for lane in lanes
        ],
    )


def facts(summary: Summary) -> Iterator[tuple[str, object]]:
    """Yield the other facts of a run: driver, duration, redeliveries, generators, faults and deaths."""
    yield "driver", f"{summary.driver} ({summary.durability or 'durability unknown'})"
    yield "ended", summary.verdict.ended or "never"
    yield "took", f"{summary.seconds:.1f} s{' of virtual time' if summary.mode == 'virtual' else ''}"
    for topic, tally in summary.verdict.topics.items():
        if tally.redelivered:
            reasons = ", ".join(f"{count} {reason}" for reason, count in tally.redelivered.items())
            yield f"redelivered, {topic}", reasons
        if tally.left_in:
            yield f"still in {topic}", ", ".join(f"{count} {where}" for where, count in tally.left_in.items())
    for generator in summary.generators:
        if generator.lag.count:
            late = f"p99 {_ms(generator.lag.p99)} ms, at most {_ms(generator.lag.max)} ms late"
            yield f"generator of {generator.topic}", f"{late}; {generator.dropped} dropped"
    if summary.faults:
        yield "faults", ", ".join(f"{count} {fault}" for fault, count in summary.faults.items())
    if summary.worker_deaths:
        yield "processes died", summary.worker_deaths
    if summary.wal_bytes:
        yield "largest WAL", byte_count(summary.wal_bytes)
