"""FIFO queues through boto3: the time to receive and delete a message, by groups and by retained messages."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack, closing
from pathlib import Path

from msgspec import Struct

from bench import sqs_contenders
from bench.http_throughput import around
from bench.report import Figure, Section, Table
from bench.sqs_boto3 import client_of
from bench.sqs_contenders import Contender
from bench.timing import Spread, in_turn, quantile, ratios, spread
from bench.workspace import say

MOST_GROWTH = 1.5
SMALL = 1_000


class Scale(Struct, frozen=True):
    seconds: float
    rounds: int
    retained: tuple[int, ...]
    fill_within_s: float
    groups: tuple[int, ...] = (1, 100, 10_000)


class Case(Struct, frozen=True):
    groups: int
    retained: int


class Run(Struct, frozen=True):
    retained: int
    """Messages that the server took in the time that it had."""
    receive_ms: float
    """The median over the receives."""
    cpu_us: float
    """The server's processor time for one receive."""


class Outcome(Struct, frozen=True):
    contender: str
    case: Case
    retained: int
    receive_ms: Spread
    cpu_us: Spread
    growth: Spread | None
    """The CPU as a multiple of that with few messages, in the same round."""


Runs = dict[tuple[str, Case], dict[int, Run]]


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    runs: Runs = defaultdict(dict)
    with ExitStack() as stack:
        contenders, _ = sqs_contenders.started(stack, folder)
        for number in range(scale.rounds):
            for groups in scale.groups:
                say(f"fifo, {groups:,} groups: round {number + 1} of {scale.rounds}")
                for contender in in_turn(contenders, number):
                    for retained in scale.retained:
                        case = Case(groups, retained)
                        runs[contender.name, case][number] = _run(contender, case, scale, seed, number)
        titles = sqs_contenders.header(contenders)
    outcomes = [_outcome(name, case, found, runs) for (name, case), found in runs.items()]
    table = _table(outcomes, [contender.name for contender in contenders], titles)
    return Section("fifo", "FIFO queues", [table], _figures(outcomes), {"outcomes": outcomes})


def _run(contender: Contender, case: Case, scale: Scale, seed: int, number: int) -> Run:
    """Receive and delete, in turn, by one client: a group gives its next message when the last one is gone."""
    url = sqs_contenders.make_queue(contender.served, f"fifo-{number}-{case.groups}-{case.retained}", fifo=True)
    took = sqs_contenders.fill(contender, url, case.retained, seed, scale.fill_within_s, case.groups)
    contender.served.wait_until_idle()
    taken_ns: list[int] = []
    cpu = 0.0
    with closing(client_of(contender, 1)) as client:
        deadline = time.monotonic() + scale.seconds
        while time.monotonic() < deadline:
            spent, began = contender.served.cpu_s(), time.perf_counter_ns()
            messages = client.receive_message(QueueUrl=url).get("Messages")
            taken_ns.append(time.perf_counter_ns() - began)
            cpu += contender.served.cpu_s() - spent
            if not messages:
                break
            client.delete_message(QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"])
    return Run(took, quantile(sorted(taken_ns), 0.5) / 1e6, cpu / len(taken_ns) * 1e6)


def _outcome(name: str, case: Case, found: dict[int, Run], runs: Runs) -> Outcome:
    small = runs.get((name, Case(case.groups, SMALL)), {})
    both = [number for number in found if number in small]
    growth = ratios([found[one].cpu_us for one in both], [small[one].cpu_us for one in both]) if both else None
    return Outcome(
        name,
        case,
        min(run.retained for run in found.values()),
        spread([run.receive_ms for run in found.values()]),
        spread([run.cpu_us for run in found.values()]),
        growth,
    )


def _table(outcomes: list[Outcome], names: list[str], titles: list[str]) -> Table:
    found = {(outcome.contender, outcome.case): outcome for outcome in outcomes}
    cases = list(dict.fromkeys(outcome.case for outcome in outcomes))
    rows = [
        [f"{case.groups:,} groups, {case.retained:,} retained", *(_cell(found.get((name, case))) for name in names)]
        for case in sorted(cases, key=lambda case: (case.groups, case.retained))
    ]
    return Table(
        "A receive through boto3, from call to answer, and the server's CPU for it",
        ["", *titles],
        rows,
        f"One thread, which deletes each message before it receives the next. Times: the CPU with {SMALL:,} retained.",
    )


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "–"
    text = f"{outcome.receive_ms.median:.2f} ms, {outcome.cpu_us.median:,.0f} µs"
    if outcome.case.retained > SMALL and outcome.growth is not None:
        text += f", {around(outcome.growth)} times"
    return text if outcome.retained >= outcome.case.retained else f"{text} (with {outcome.retained:,})"


def _figures(outcomes: list[Outcome]) -> list[Figure]:
    most = max(outcome.case.retained for outcome in outcomes)
    return [
        Figure(
            f"FIFO receive, {outcome.case.groups:,} groups, {most:,} retained, {outcome.contender}: "
            f"times the CPU with {SMALL:,}",
            f"≤ {MOST_GROWTH:g}",
            around(outcome.growth),
            outcome.growth.median <= MOST_GROWTH,
        )
        for outcome in outcomes
        if outcome.contender.startswith("sqew") and outcome.case.retained == most and outcome.growth is not None
    ]
