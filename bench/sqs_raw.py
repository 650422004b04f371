"""SQS in JSON by wrk: requests a second beside its emulators, and the cost of a send beside one in our own dialect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from bench import serving, sqs_contenders, wrk
from bench.http_throughput import AT, around, rate_text
from bench.loads import Job, in_sqew, in_sqs
from bench.report import Figure, Section, Table
from bench.sqs_contenders import Contender
from bench.timing import Spread, in_turn, ratios, spread
from bench.workspace import say

JOBS: tuple[Job, ...] = ("cycle", "send", "receive 1", "ack", "send x10", "receive 10")
LEAST = {"moto": 10.0, "ministack": 5.0}
"""The multiple of a peer's requests that Sqew is to answer."""
COMPARED: tuple[Job, ...] = ("cycle", "send")
MOST_CPU = 1.3
OWN = "in Sqew's own dialect"


class Scale(Struct, frozen=True):
    seconds: int
    rounds: int
    jobs: Sequence[Job] = JOBS


class Outcome(Struct, frozen=True):
    contender: str
    job: Job
    requests_per_s: Spread
    cpu_us: Spread
    of_first: Spread | None
    """Requests that the first contender answered, as a multiple, over the rounds in which both were measured."""
    refused: float


class Send(Struct, frozen=True):
    """The same message, sent both ways to the same server."""

    contender: str
    sqs_cpu_us: Spread
    own_cpu_us: Spread
    ratio: Spread


Runs = dict[tuple[str, Job], dict[int, wrk.Run]]


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    runs: Runs = defaultdict(dict)
    own: dict[str, dict[int, wrk.Run]] = defaultdict(dict)
    with ExitStack() as stack:
        contenders, missing = sqs_contenders.started(stack, folder)
        for number in range(scale.rounds):
            say(f"raw: round {number + 1} of {scale.rounds}")
            _round(folder, seed, scale, contenders, number, runs, own)
        titles = sqs_contenders.header(contenders)
    outcomes = _outcomes(contenders, scale.jobs, runs)
    sends = _sends(runs, own)
    tables = [_table(outcomes, contenders, titles, missing), _send_table(sends)]
    data = {"outcomes": outcomes, "sends": sends, "missing": missing}
    return Section("raw", "The raw wire", tables, _figures(outcomes, sends), data)


def _round(
    folder: Path,
    seed: int,
    scale: Scale,
    contenders: Sequence[Contender],
    number: int,
    runs: Runs,
    own: dict[str, dict[int, wrk.Run]],
) -> None:
    # A queue of its own for each round: some of them slow down with what earlier ones left.
    loads = {one.name: in_sqs(seed, sqs_contenders.make_queue(one.served, f"raw-{number}")) for one in contenders}
    for job in scale.jobs:
        for contender in in_turn(contenders, number):
            found = [(runs[contender.name, job], loads[contender.name][job])]
            if job == "send" and contender.name.startswith("sqew"):
                # Beside the other in time, so that both met the same machine.
                serving.make_queue(contender.served, f"own-{number}")
                found.append((own[contender.name], in_sqew(seed, f"own-{number}")["send"]))
            for into, load in in_turn(found, number):
                run = wrk.run(contender.served, load, AT, scale.seconds, folder)
                if run is not None:
                    into[number] = run


def _outcomes(contenders: Sequence[Contender], jobs: Sequence[Job], runs: Runs) -> list[Outcome]:
    outcomes = []
    for job in jobs:
        for contender in contenders:
            found = runs[contender.name, job]
            if found:
                outcomes.append(
                    Outcome(
                        contender.name,
                        job,
                        spread([run.requests_per_s for run in found.values()]),
                        spread([run.cpu_us for run in found.values()]),
                        _of_first(runs[contenders[0].name, job], found),
                        max(run.refused for run in found.values()),
                    )
                )
    return outcomes


def _of_first(first: dict[int, wrk.Run], other: dict[int, wrk.Run]) -> Spread | None:
    both = [number for number in first if number in other and other[number].requests_per_s]
    if not both:
        return None
    return ratios([first[number].requests_per_s for number in both], [other[number].requests_per_s for number in both])


def _sends(runs: Runs, own: dict[str, dict[int, wrk.Run]]) -> list[Send]:
    sends = []
    for name, found in own.items():
        both = [number for number in found if number in runs[name, "send"]]
        sqs = [runs[name, "send"][number].cpu_us for number in both]
        ours = [found[number].cpu_us for number in both]
        if both:
            sends.append(Send(name, spread(sqs), spread(ours), ratios(sqs, ours)))
    return sends


def _table(
    outcomes: Sequence[Outcome], contenders: Sequence[Contender], titles: list[str], missing: dict[str, str]
) -> Table:
    found = {(outcome.contender, outcome.job): outcome for outcome in outcomes}
    names = [contender.name for contender in contenders]
    rows = [
        [job, *(_cell(found.get((name, job)), is_first=name == names[0]) for name in names)]
        for job in dict.fromkeys(outcome.job for outcome in outcomes)
    ]
    absent = "".join(f" Not there: {name} ({reason})." for name, reason in missing.items())
    return Table(
        f"Requests a second at {AT} connections, the server's CPU per request, and times as many by {names[0]}",
        ["request", *titles],
        rows,
        "All on SQS in JSON. A process each, on one core. –: not one answer in time." + absent,
    )


def _cell(outcome: Outcome | None, *, is_first: bool) -> str:
    if outcome is None:
        return "–"
    text = f"{rate_text(outcome.requests_per_s.median)}/s, {outcome.cpu_us.median:.0f} µs"
    if outcome.refused:
        text += f", {outcome.refused:.1%} refused"
    return text if is_first or outcome.of_first is None else f"{text}, {around(outcome.of_first)} times"


def _send_table(sends: Sequence[Send]) -> Table:
    return Table(
        "CPU per send, of the same message to the same server",
        ["", "SQS, in JSON", OWN, "times"],
        [
            [one.contender, f"{one.sqs_cpu_us.median:.1f} µs", f"{one.own_cpu_us.median:.1f} µs", around(one.ratio)]
            for one in sends
        ],
    )


def _figures(outcomes: Sequence[Outcome], sends: Sequence[Send]) -> list[Figure]:
    figures = [
        Figure(
            f"{outcome.job}, raw: times as many requests as {outcome.contender}",
            f"≥ {LEAST[outcome.contender]:g}",
            around(outcome.of_first),
            outcome.of_first.median >= LEAST[outcome.contender],
        )
        for outcome in outcomes
        if outcome.job in COMPARED and outcome.contender in LEAST and outcome.of_first is not None
    ]
    return figures + [
        Figure(
            f"CPU per send in JSON, {one.contender}: times that {OWN}",
            f"≤ {MOST_CPU:g}",
            around(one.ratio),
            one.ratio.median <= MOST_CPU,
        )
        for one in sends
    ]
