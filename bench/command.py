"""The command line of every benchmark: its length, its parts, and the files for its results."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from bench import machine, report
from bench.workspace import say, workspace

START, END = "<!-- results: written by the benchmark, --update -->\n", "<!-- end of results -->\n"


class Scale(Protocol):
    """The length of everything."""

    @property
    def needed_bytes(self) -> int:
        """Bytes of disk that it needs."""


S = TypeVar("S", bound=Scale)


class Benchmark(Struct, Generic[S], frozen=True):
    """A benchmark: its parts, scales and texts."""

    name: str
    doc: str
    lengths: Mapping[str, str]
    """Explanations of ``--quick`` and ``--full``, for ``--help``."""
    scales: Mapping[str, S]
    """Scales, by ``quick``, ``default`` and ``full``."""
    sections: Mapping[str, Callable[[Path, int, S], report.Section]]
    """Functions that measure the parts, given a folder, the seed and the scale."""
    packages: Sequence[str]
    """Packages whose versions matter."""
    draw: Callable[[Sequence[report.Section], Path], None]


def run(benchmark: Benchmark[S], arguments: list[str] | None = None) -> int:
    """Run the chosen parts. Return 0 even if the figures are missed: on a noisy machine that proves nothing."""
    options = _parse(benchmark, arguments)
    scale = benchmark.scales["quick" if options.quick else "full" if options.full else "default"]
    with workspace(options.folder, scale.needed_bytes) as folder:
        facts = machine.facts(folder, benchmark.packages)
        chosen = options.only or benchmark.sections
        sections = [benchmark.sections[name](folder / name, options.seed, scale) for name in chosen]
        facts["load_after"] = os.getloadavg()[0]
    print((report.as_markdown if options.markdown else report.as_text)(facts, sections), end="")
    if options.json:
        options.json.write_bytes(report.as_json(facts, sections))
    if options.update:
        _update(options.update, report.as_markdown(facts, sections))
    if options.plot:
        benchmark.draw(sections, options.plot)
    return 0


def exit_with(main: Callable[[], int]) -> None:
    """Run a benchmark as a program."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(130)


def _parse(benchmark: Benchmark[S], arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=benchmark.name, description=benchmark.doc)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--quick", action="store_true", help=benchmark.lengths["quick"])
    length.add_argument("--full", action="store_true", help=benchmark.lengths["full"])
    names = benchmark.sections
    parser.add_argument(
        "--only", action="append", choices=names, metavar="NAME", help=f"a part of it: {', '.join(names)}"
    )
    parser.add_argument("--seed", type=int, default=1, help="for the contents of the messages (%(default)s)")
    parser.add_argument("--folder", type=_folder, help="where to put the files; the disk matters")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--json", type=_file, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--plot", type=_file, metavar="FILE", help="draw it: .svg, .png or .pdf")
    parser.add_argument("--update", type=_page, metavar="FILE", help="put the tables into a page, between its markers")
    return parser.parse_args(arguments)


# These are refused before anything is measured: that takes up to 15 minutes.


def _folder(given: str) -> Path:
    folder = Path(given)
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {folder}. Make it, or name another.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(f"nothing can be written to {folder}. Name another folder.")
    return folder


def _file(given: str) -> Path:
    file = Path(given)
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"{file} is a folder. Name a file.")
    _folder(str(file.parent))
    return file


def _page(given: str) -> Path:
    page = _file(given)
    if not page.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {page}.")
    _around_results(page)
    return page


def _around_results(page: Path) -> tuple[str, str]:
    """Return the text of a page before its results and after them."""
    before, start, rest = page.read_text(encoding="utf-8").partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        sys.exit(f"bench: {page} has no place for results: a line {START.strip()} and a line {END.strip()}.")
    return before, after


def _update(page: Path, results: str) -> None:
    before, after = _around_results(page)
    page.write_text(f"{before}{START}\n{results}\n{END}{after}", encoding="utf-8")
