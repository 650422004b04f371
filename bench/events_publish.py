"""Cost of a publish, by the number of queues that an event reaches and of subscriptions that it does not match."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import serving, wrk
from bench.bodies import Bodies
from bench.http_throughput import DURABILITIES, SYNCHRONOUS, Durability
from bench.loads import SIZE
from bench.report import Figure, Section, Table
from bench.serving import QUEUE, Served
from bench.timing import Spread, in_turn, ratios, spread
from bench.workspace import remove, say
from sqew import Queue
from sqew.operations import Subscribe

MOST_FOR_TEN = 3.0
MOST_FOR_OTHERS = 1.2
TEN = 10
CONNECTIONS = 32
_TOGETHER = 1_000
"""Subscriptions that are made in one transaction."""


class Scale(Struct, frozen=True):
    seconds: int
    rounds: int
    matching: tuple[int, ...]
    others: tuple[int, ...]
    """Numbers of subscriptions that do not match, beside ten that do."""


class Case(Struct, frozen=True):
    """A request to measure; with none matching, a plain send."""

    matching: int
    others: int

    @property
    def name(self) -> str:
        if not self.matching:
            return "send to a queue"
        others = f", beside {self.others:,} others" if self.others else ""
        return f"publish to {self.matching:,}{others}"


SEND = Case(0, 0)


class Outcome(Struct, frozen=True):
    durability: Durability
    case: Case
    cpu_us: Spread
    of_send: Spread
    """The server's processor time for a request, as a multiple of a send's in the same round."""
    requests_per_s: Spread


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    folder.mkdir(parents=True, exist_ok=True)
    cases = [SEND, *(Case(matching, 0) for matching in scale.matching), *(Case(TEN, others) for others in scale.others)]
    outcomes = [outcome for durability in DURABILITIES for outcome in _measure(folder, seed, scale, cases, durability)]
    tables = [_table(outcomes, durability) for durability in DURABILITIES]
    return Section("publish", "Publish", tables, _figures(outcomes), {"outcomes": outcomes})


def _measure(folder: Path, seed: int, scale: Scale, cases: list[Case], durability: Durability) -> list[Outcome]:
    runs: dict[Case, list[wrk.Run]] = defaultdict(list)
    for number in range(scale.rounds):
        say(f"publish, {durability}: round {number + 1} of {scale.rounds}")
        for case in in_turn(cases, number):
            run = _run(folder, seed, scale, case, durability)
            if run is not None:
                runs[case].append(run)
    sends = [run.cpu_us for run in runs[SEND]]
    return [
        Outcome(
            durability,
            case,
            spread([run.cpu_us for run in found]),
            ratios([run.cpu_us for run in found], sends[: len(found)]),
            spread([run.requests_per_s for run in found]),
        )
        for case, found in runs.items()
    ]


def _run(folder: Path, seed: int, scale: Scale, case: Case, durability: Durability) -> wrk.Run | None:
    """Run one load on a file of its own: messages of one load must not be a backlog in the next."""
    file = folder / f"{durability}.db"
    _prepare(file, case)
    message = msgspec.json.encode(Bodies(seed, SIZE).next()).decode()
    path = "/v1/events/orders.eu.created" if case.matching else f"/v1/queues/{QUEUE}/messages"
    load = wrk.Load("same", {"same": wrk.Request("POST", path, f'{{"message":{message}}}')})
    with ExitStack() as stack:
        served: Served = stack.enter_context(serving.sqew(folder, durability, file))
        # The first publish reads the subscriptions: that is not what a publish costs.
        served.json("POST", path, {"message": 1})
        found = wrk.run(served, load, CONNECTIONS, scale.seconds, folder)
    remove(file)
    return found


def _prepare(file: Path, case: Case) -> None:
    with Queue.open(file, durability="fast") as queue:
        for number in range(max(case.matching, 1)):
            queue.create(f"queue-{number}", dead_letter=None, max_attempts=None)
        subscriptions = [
            Subscribe("orders.*.created" if number % 2 else "orders.#", "queue", f"queue-{number}")
            for number in range(case.matching)
        ]
        subscriptions += [
            Subscribe(f"{_word(number)}.{number % 100}.{'*' if number % 3 else 'created'}", "queue", "queue-0")
            for number in range(case.others)
        ]
        for start in range(0, len(subscriptions), _TOGETHER):
            with queue.transaction():
                for subscription in subscriptions[start : start + _TOGETHER]:
                    queue.run(subscription)


def _word(number: int) -> str:
    """Return the first word of a pattern: a hundredth are the event's own, so that the walk must go on to be sure."""
    return "orders" if number % 100 == 0 else f"topic{number // 100}"


def _table(outcomes: list[Outcome], durability: Durability) -> Table:
    rows = [
        [
            outcome.case.name,
            f"{outcome.cpu_us.median:.0f} µs",
            f"{outcome.of_send.median:.2f} ({outcome.of_send.low:.2f}–{outcome.of_send.high:.2f})",
            f"{outcome.requests_per_s.median:,.0f}",
            f"{outcome.requests_per_s.median * max(outcome.case.matching, 1):,.0f}",
        ]
        for outcome in outcomes
        if outcome.durability == durability
    ]
    return Table(
        f"{durability} (WAL, synchronous={SYNCHRONOUS[durability]}), {CONNECTIONS} connections",
        ["", "CPU a request", "times a send", "requests/s", "messages/s"],
        rows,
    )


def _figures(outcomes: list[Outcome]) -> list[Figure]:
    figures = []
    for durability in DURABILITIES:
        found = {outcome.case: outcome for outcome in outcomes if outcome.durability == durability}
        ten = found[Case(TEN, 0)]
        figures.append(
            Figure(
                f"publish to {TEN} queues, CPU of a send ({durability})",
                f"≤ {MOST_FOR_TEN:g}",
                f"{ten.of_send.median:.2f}",
                ten.of_send.median <= MOST_FOR_TEN,
            )
        )
        most = max(found, key=lambda case: case.others)
        grown = found[most].cpu_us.median / ten.cpu_us.median
        figures.append(
            Figure(
                f"the same beside {most.others:,} subscriptions that don't match ({durability})",
                f"≤ {MOST_FOR_OTHERS:g} times",
                f"{grown:.2f}",
                grown <= MOST_FOR_OTHERS,
            )
        )
    return figures
