"""The benchmark of the embedded queue, as ``python3 dev bench`` runs it. See docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from bench import latency, machine, opening, recording, report, throughput
from bench.workspace import say, workspace

START, END = "<!-- results: written by the benchmark, --update -->\n", "<!-- end of results -->\n"


class Scale(Struct, frozen=True):
    """How long everything takes."""

    throughput: throughput.Scale
    backlog: latency.Scale
    opening: opening.Scale
    recording: recording.Scale
    needed_bytes: int


SCALES = {
    "quick": Scale(
        throughput.Scale(rounds={"durable": 4, "fast": 6}, round_ms=20),
        latency.Scale(sizes=(1_000, 10_000, 50_000), rounds=30, claims=30),
        opening.Scale(sizes=(1_000, 50_000), repeats=2, cycles=2_000),
        recording.Scale(rounds=20, cycles=100),
        needed_bytes=256 << 20,
    ),
    "default": Scale(
        throughput.Scale(rounds={"durable": 12, "fast": 20}, round_ms=40),
        latency.Scale(sizes=(1_000, 100_000, 1_000_000), rounds=80, claims=50),
        opening.Scale(sizes=(1_000, 1_000_000), repeats=3, cycles=10_000),
        recording.Scale(rounds=50, cycles=150),
        needed_bytes=5 << 29,
    ),
    "full": Scale(
        throughput.Scale(rounds={"durable": 40, "fast": 80}, round_ms=60),
        latency.Scale(sizes=(1_000, 100_000, 1_000_000), rounds=240, claims=50),
        opening.Scale(sizes=(1_000, 100_000, 1_000_000), repeats=7, cycles=10_000),
        recording.Scale(rounds=150, cycles=200),
        needed_bytes=5 << 29,
    ),
}

SECTIONS: dict[str, Callable[[Path, int, Scale], report.Section]] = {
    "throughput": lambda folder, seed, scale: throughput.measure(folder, seed, scale.throughput),
    "backlog": lambda folder, seed, scale: latency.measure(folder, seed, scale.backlog),
    "opening": lambda folder, seed, scale: opening.measure(folder, seed, scale.opening),
    "event-log": lambda folder, seed, scale: recording.measure(folder, seed, scale.recording),
}


def main(arguments: list[str] | None = None) -> int:
    """Measure what was asked for. 0, whether or not the figures are reached: on a noisy machine that proves nothing."""
    options = _parse(arguments)
    scale = SCALES["quick" if options.quick else "full" if options.full else "default"]
    with workspace(options.folder, scale.needed_bytes) as folder:
        facts = machine.facts(folder)
        sections = [SECTIONS[name](folder / name, options.seed, scale) for name in options.only or SECTIONS]
        facts["load_after"] = os.getloadavg()[0]
    print((report.as_markdown if options.markdown else report.as_text)(facts, sections), end="")
    if options.json:
        options.json.write_bytes(report.as_json(facts, sections))
    if options.update:
        _update(options.update, report.as_markdown(facts, sections))
    if options.plot:
        from bench.plot import draw

        draw(sections, options.plot)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.embedded", description="Measure the embedded queue.")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help="half a minute, small backlogs: does it run at all?")
    length.add_argument("--full", action="store_true", help="up to 15 minutes: for figures to publish")
    parser.add_argument(
        "--only", action="append", choices=SECTIONS, metavar="NAME", help=f"a part of it: {', '.join(SECTIONS)}"
    )
    parser.add_argument("--seed", type=int, default=1, help="for the contents of the messages (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where to put the files; the disk matters")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .svg, .png or .pdf")
    parser.add_argument("--update", type=Path, metavar="FILE", help="put the tables into a page, between its markers")
    return parser.parse_args(arguments)


def _update(page: Path, results: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        sys.exit(f"bench: {page} has no place for results: a line {START.strip()} and a line {END.strip()}.")
    page.write_text(f"{before}{START}\n{results}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)
