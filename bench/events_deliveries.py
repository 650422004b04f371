"""Rate of deliveries to endpoints on this machine."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import serving
from bench.bodies import Bodies
from bench.loads import SIZE
from bench.report import Figure, Section, Table
from bench.serving import HOST, Served
from bench.timing import Spread, spread
from bench.workspace import remove, say
from sqew import Queue
from sqew.envelopes.sns import new_event
from sqew.model import NewMessage
from sqew.operations import ListDeliveries, Publish, Subscribe

LEAST = 500
_LOOK_S = 0.02
_TOGETHER = 500


class Scale(Struct, frozen=True):
    deliveries: int
    rounds: int
    endpoints: tuple[int, ...]


class Outcome(Struct, frozen=True):
    endpoints: int
    per_s: Spread
    cpu_us: Spread


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = []
    with serving.constant(folder, beside=True) as endpoint:
        for endpoints in scale.endpoints:
            runs = []
            for number in range(scale.rounds):
                say(f"deliveries to {endpoints} endpoints: round {number + 1} of {scale.rounds}")
                runs.append(_run(folder, seed, scale.deliveries, endpoints, endpoint))
            outcomes.append(Outcome(endpoints, spread([run[0] for run in runs]), spread([run[1] for run in runs])))
    rows = [
        [
            f"{outcome.endpoints} endpoint{'s' if outcome.endpoints > 1 else ''}",
            f"{outcome.per_s.median:,.0f} ({outcome.per_s.low:,.0f}–{outcome.per_s.high:,.0f})",
            f"{outcome.cpu_us.median:.0f} µs",
        ]
        for outcome in outcomes
    ]
    slowest = min(outcome.per_s.median for outcome in outcomes)
    table = Table(
        "A backlog of deliveries posted to a constant answer (durable, synchronous=FULL)",
        ["", "a second", "the server's CPU each"],
        rows,
    )
    figure = Figure("deliveries a second to a local endpoint", f"≥ {LEAST:,}", f"{slowest:,.0f}", slowest >= LEAST)
    return Section("deliveries", "Deliveries", [table], [figure], {"outcomes": outcomes})


def _run(folder: Path, seed: int, deliveries: int, endpoints: int, endpoint: Served) -> tuple[float, float]:
    """Return the deliveries a second, and the server's processor time for each in microseconds."""
    file = folder / "deliveries.db"
    _prepare(file, seed, deliveries, endpoints, endpoint)
    with serving.sqew(folder, "durable", file, "--delivery-allow", HOST) as served, Queue.open(file) as queue:
        began, cpu = time.perf_counter(), served.cpu_s()
        waiting = len(queue.run(ListDeliveries(limit=deliveries)))
        while left := queue.run(ListDeliveries(limit=1)):
            if left[0].error:
                raise serving.NotServed(f"a delivery failed: {left[0].error}")
            time.sleep(_LOOK_S)
        seconds = time.perf_counter() - began
        cpu = served.cpu_s() - cpu
    remove(file)
    return waiting / seconds, cpu / waiting * 1e6


def _prepare(file: Path, seed: int, deliveries: int, endpoints: int, endpoint: Served) -> None:
    bodies = Bodies(seed, SIZE)
    with Queue.open(file, durability="fast") as queue:
        for number in range(endpoints):
            queue.run(Subscribe(f"orders.{number}", "http", f"{endpoint.url}/hook/{number}"))
        for start in range(0, deliveries, _TOGETHER):
            events = [
                new_event(f"orders.{number % endpoints}", NewMessage(msgspec.json.encode(bodies.next())))
                for number in range(start, min(start + _TOGETHER, deliveries))
            ]
            queue.run(Publish(events))
