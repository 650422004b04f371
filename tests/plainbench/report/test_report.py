"""The report on a run: its contents, and its independence of everything else."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plainbench.config.model import CallFaults, Faults, Fixed, Lane, Target, TopicConfig
from plainbench.record import manifest
from plainbench.report import plots, series
from plainbench.report.page import report
from plainbench.verdict.latencies import Samples
from plainbench.verdict.log_columns import NEVER
from plainbench.verdict.summary import evidence_of
from tests.plainbench.made_up import SECOND, MadeUpRun, config_of, with_manifest
from tests.plainbench.runs import config, run_virtual

VOID = {"meta", "br", "hr", "link", "input"}
FAULTS = {"queue": {"latency": {"type": "fixed", "ms": 4}, "error_rate": 0.03, "crash": {"rate": 0.02}}}


class Balanced(HTMLParser):
    """A parser that fails on a tag that is not closed, and on anything that would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href", "xlink:href", "action"} & dict(attrs).keys(), (tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "href" not in dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture
def virtual(tmp_path: Path) -> Path:
    return with_manifest(run_virtual(tmp_path, faults=FAULTS).folder, config(mode="virtual", faults=FAULTS))


def made_up(folder: Path, seconds: int = 5, never: int = 0, **changes: Any) -> Path:
    """Make a run of ten messages a second; of each ten the first ``never`` are not done."""
    run = MadeUpRun(folder / "run")
    for n in range(1, 10 * seconds + 1):
        at = n * SECOND // 10
        run.sent(at, n)
        if n % 10 >= never:
            run.received(at + 20_000, n)
            run.ended(at + 50_000, n)
        else:
            run.left(n)
    for second in range(seconds):
        run.add(second * SECOND, "depth", lane="normal", figures={"ready": second, "leased": 1})
        run.add(second * SECOND, "depth", figures={"dead": 0, "wal_bytes": 2**20})
    run.crashed(2 * SECOND)
    return with_manifest(run.finish(at=(seconds + 1) * SECOND), config_of(**changes))


def plots_of(page: str) -> list[ET.Element]:
    return [ET.fromstring(found) for found in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def plot(page: str, name: str) -> ET.Element:
    return next(found for found in plots_of(page) if found.get("data-plot") == name)


def test_the_page_is_whole_and_needs_no_network(virtual: Path) -> None:
    page = report(virtual)

    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"https?://|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page


def test_every_plot_is_there(virtual: Path) -> None:
    page = report(virtual)

    names = [found.get("data-plot") or found.get("aria-label") for found in plots_of(page)]
    assert names == [
        "latency", "rates", "depths", "states", "wal", "lag", "enqueue → claim", "claim → ack", "end to end",
    ]  # fmt: skip


def test_warnings_and_the_verdict_come_first(virtual: Path) -> None:
    page = report(virtual)

    places = [page.index(text) for text in ("PASSED", "In virtual time", "What became of the messages", "<svg")]
    assert places == sorted(places)


def test_a_fault_that_never_happened_is_warned_of(tmp_path: Path) -> None:
    faults = Faults(queue=CallFaults(latency=Fixed(5)))

    page = report(made_up(tmp_path, faults=faults))

    assert page.index("The fault latency of queue was configured, and never happened") < page.index("<h2>")


def test_a_broken_promise_is_named_with_examples(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    run.done(1)
    run.sent(100, 2)

    page = report(with_manifest(run.finish(), config_of()))

    assert "FAILED" in page
    assert "1 messages of orders were stored, and neither came out nor are they still there. (n: 2)" in page


def test_durability_stands_beside_every_throughput(tmp_path: Path) -> None:
    page = report(made_up(tmp_path))

    table = re.search(r"<h3>Throughput.*?</table>", page, re.DOTALL)
    assert table is not None
    rows = re.findall(r"<tr[^>]*><td.*?</tr>", table.group(), re.DOTALL)
    assert len(rows) >= 2
    assert all("<td>durable</td>" in row for row in rows)
    assert "Messages a second (durable)" in page


def test_faults_are_on_the_axis_of_the_latencies(tmp_path: Path) -> None:
    page = report(made_up(tmp_path))

    drawn = plot(page, "latency")
    through = next(path for path in drawn.iter("path") if path.get("class") == "fault through")
    at = float((through.get("d") or "").split(",")[0].removeprefix("M"))
    assert at == pytest.approx(plots.LEFT + (plots.RIGHT - plots.LEFT) * 2 / 6, abs=1)
    bars = [bar for bar in drawn.iter("rect") if bar.get("class") == "fault"]
    assert len(bars) == 1
    assert float(bars[0].get("x") or 0) <= at <= float(bars[0].get("x") or 0) + float(bars[0].get("width") or 0) + 1
    assert any("crash after commit in ack" in (text.text or "") for text in drawn.iter("text"))


def test_what_was_never_done_is_drawn_above_the_plot(tmp_path: Path) -> None:
    page = report(made_up(tmp_path, 70, never=3))

    never = [bar.get("class") for bar in plot(page, "latency").iter("rect") if "never" in (bar.get("class") or "")]
    assert "never c1" in never
    assert "never c0" not in never, "half of them were done, so the median is known"


def test_names_from_outside_can_not_become_markup(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    run = MadeUpRun(tmp_path / "run")
    run.sent(100, 1, topic=evil)
    run.received(200, 1, topic=evil, lane=evil)
    run.add(300, "depth", topic=evil, lane=evil, figures={"ready": 1})
    run.add(300, "fault", topic="", what=evil, where=evil)
    run.add(400, "worker", topic="", worker=evil, what=evil, reason=evil)

    page = report(with_manifest(run.finish(), config_of(topics=[TopicConfig(evil, lanes=[Lane(evil)])])))

    assert "<script>alert" not in page
    assert page.count("</script>") == 2


def test_a_run_of_which_nothing_is_known_has_a_report(tmp_path: Path) -> None:
    run = with_manifest(MadeUpRun(tmp_path / "run").unfinished(), config_of())

    page = report(run)

    assert "UNCLEAR" in page
    assert "The run has no end: the lab was killed." in page


def test_a_long_run_makes_no_longer_lines(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    for n in range(1, 20_001):
        run.done(n, at=n * SECOND // 2)
    for second in range(0, 10_000, 5):
        run.add(second * SECOND, "depth", lane="normal", figures={"ready": second})
        run.add(second * SECOND, "fault", topic="", what="latency", where="send", ms=5)
    folder = with_manifest(run.finish(at=10_000 * SECOND), config_of())

    page = report(folder)

    points = [(path.get("d") or "").count("L") for found in plots_of(page) for path in found.iter("path")]
    assert max(points) <= 400
    assert len(page) < 500_000


def test_manifest_inputs_and_configuration_are_in_it(tmp_path: Path) -> None:
    page = report(made_up(tmp_path))

    for fact in ("<dt>seed</dt><dd>0</dd>", "<dt>sqew</dt><dd>1</dd>", "<dt>cpu</dt><dd>one</dd>", "max_attempts: 3"):
        assert fact in page


# Series


@pytest.mark.parametrize(("seconds", "step_s"), [(0.5, 0.01), (40, 1), (200, 1), (3_600, 15), (10**6, 4166.666667)])
def test_steps_are_round_and_not_too_many(seconds: float, step_s: float) -> None:
    axis = series.axis_of(round(seconds * SECOND))

    assert axis.step_us / 1e6 == pytest.approx(step_s)
    assert axis.steps <= 240
    assert axis.end_s >= seconds


def test_quantiles_over_time_are_exact() -> None:
    axis = series.Axis(SECOND, 4)
    due = np.array([0, 1, 2, 3, SECOND, SECOND, 3 * SECOND])
    took = np.array([4_000, 1_000, 3_000, 2_000, 7_000, NEVER, 9_000])

    p50, p99 = series.quantiles_over_time(axis, due, took, (0.5, 0.99))

    np.testing.assert_array_equal(p50, [2, 7, np.nan, 9])
    np.testing.assert_array_equal(p99, [4, np.inf, np.nan, 9])


def test_a_curve_ends_below_all_where_some_never_got_there(tmp_path: Path) -> None:
    run = made_up(tmp_path, never=2)
    known = evidence_of(run, manifest.read(run))
    samples = Samples(known)

    curves = series.curves(known, samples, series.cuts_of(known, samples, 8))

    (end_to_end,) = curves["end to end"]
    assert end_to_end.part[-1] == pytest.approx(0.8)
    assert end_to_end.ms[-1] == pytest.approx(50.01)
    assert np.all(np.diff(end_to_end.part) > 0)


def test_rates_count_every_message_of_a_call(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    run.sent(SECOND // 2, 1, to=1_000)
    folder = with_manifest(run.finish(at=70 * SECOND), config_of())
    known = evidence_of(folder, manifest.read(folder))

    sent = series.rates(series.axis_of(known.ended_us), known)[0]

    assert (sent.name, sent.values[0], sent.values[1:].sum()) == ("sent", 1_000, 0)


def test_depths_keep_their_peaks(tmp_path: Path) -> None:
    run = MadeUpRun(tmp_path / "run")
    for at, ready in ((100, 1), (200, 99), (300, 2)):
        run.add(at, "depth", lane="normal", figures={"ready": ready})
    folder = run.finish(at=70 * SECOND)

    found = series.annotations_of(folder, series.axis_of(70 * SECOND))

    assert [(line.name, line.values[0], line.values[-1]) for line in found.depths] == [("orders", 99, 99)]


# The command


def test_the_command_writes_the_file_and_says_where(tmp_path: Path, plainbench: Any) -> None:
    run = made_up(tmp_path)

    done = plainbench(f"report {run}")
    elsewhere = plainbench(f"report {run} -o elsewhere.html --json")

    assert done.code == 0, done.err
    assert done.out.strip() == str(run / "report.html")
    assert elsewhere.json == {"run": str(run), "report": "elsewhere.html"}
    assert (tmp_path / "elsewhere.html").read_text() == (run / "report.html").read_text()


def test_the_command_says_what_is_no_run(tmp_path: Path, plainbench: Any) -> None:
    done = plainbench("report nowhere")

    assert done.code == 3
    assert "There is no run in nowhere." in done.err


def test_secrets_of_the_configuration_are_not_in_the_report(tmp_path: Path) -> None:
    target = Target("sqew-http", {"token": "open sesame", "url": "http://me:sesame@localhost:8080"})

    page = report(made_up(tmp_path, target=target))

    assert "sesame" not in page
    assert "http://…@localhost:8080" in page
