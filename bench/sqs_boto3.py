"""Script for boto3 that is run against every server: send, receive and delete, alone and ten at a time."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import boto3
import msgspec
from botocore.config import Config
from msgspec import Struct

from bench import serving, sqs_contenders
from bench.bodies import Bodies
from bench.http_throughput import around, rate_text
from bench.loads import SIZE
from bench.report import Figure, Section, Table
from bench.sqs_contenders import Contender
from bench.timing import Spread, in_turn, ratios, spread
from bench.workspace import say

JOBS = ("send", "receive", "delete", "send x10", "receive x10", "delete x10")
LEAST_OF = ("ministack", 3.0)
"""The peer to compare with, and the multiple of its calls that Sqew is to answer."""
CEILING = "constant"
"""Server that answers every call with the same few bytes: boto3 can't be answered faster. It has no messages to
receive."""


class Scale(Struct, frozen=True):
    seconds: float
    """Seconds that one job lasts."""
    rounds: int
    backlog: int
    fill_within_s: float
    """Seconds that a server is given to take the backlog: some would need hours."""
    threads: tuple[int, ...] = (1, 16)


class Case(Struct, frozen=True):
    backlog: int
    threads: int


class Run(Struct, frozen=True):
    calls_per_s: float
    cpu_us: float
    """The server's processor time, per call."""
    load_busy: float
    """The part of the time that boto3 was busy: near 1, it is boto3 that was measured."""


class Outcome(Struct, frozen=True):
    contender: str
    case: Case
    job: str
    calls_per_s: Spread
    cpu_us: Spread
    load_busy: float
    of_first: Spread | None


Runs = dict[tuple[str, Case, str], dict[int, Run]]


def client_of(contender: Contender, threads: int) -> Any:
    """Make a client of boto3 with its defaults, except that it tries once: failures are to be seen."""
    session = boto3.session.Session("bench", "bench", region_name="us-east-1")
    config = Config(max_pool_connections=threads, retries={"total_max_attempts": 1})
    return session.client("sqs", endpoint_url=contender.served.url, config=config)


class Script:
    """The jobs on one queue, in an order in which each finds the messages that it needs."""

    def __init__(self, client: Any, url: str, seed: int) -> None:
        self._client, self._url = client, url
        self._bodies = [msgspec.json.encode(body).decode() for body in Bodies(seed, SIZE).take(100)]
        self._numbers = iter(range(1 << 60))
        self._handles: deque[str] = deque()
        self.jobs: dict[str, Callable[[], bool]] = {
            "send": self.send,
            "receive": lambda: self.receive(1),
            "delete": self.delete,
            "send x10": self.send_ten,
            "receive x10": lambda: self.receive(10),
            "delete x10": self.delete_ten,
        }

    def send(self) -> bool:
        self._client.send_message(QueueUrl=self._url, MessageBody=self._body())
        return True

    def send_ten(self) -> bool:
        entries = [{"Id": str(number), "MessageBody": self._body()} for number in range(10)]
        self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        return True

    def receive(self, count: int) -> bool:
        answer = self._client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=count)
        found = answer.get("Messages", ())
        self._handles.extend(message["ReceiptHandle"] for message in found)
        return bool(found)

    def delete(self) -> bool:
        handle = next(self._held(1), None)
        if handle is None:
            return False
        self._client.delete_message(QueueUrl=self._url, ReceiptHandle=handle)
        return True

    def delete_ten(self) -> bool:
        entries = [{"Id": str(at), "ReceiptHandle": handle} for at, handle in enumerate(self._held(10))]
        if entries:
            self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        return bool(entries)

    def _held(self, count: int) -> Iterator[str]:
        for _ in range(count):
            try:
                yield self._handles.popleft()
            except IndexError:
                return

    def _body(self) -> str:
        return self._bodies[next(self._numbers) % len(self._bodies)]


def timed(contender: Contender, job: Callable[[], bool], threads: int, seconds: float) -> Run | None:
    """Run a job again and again, in so many threads, until its time is over or it has nothing left to do."""
    counts = [0] * threads
    began = time.perf_counter()
    deadline = began + seconds

    def work(place: int) -> None:
        while time.perf_counter() < deadline and job():
            counts[place] += 1

    cpu, busy = contender.served.cpu_s(), time.process_time()
    workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    taken, busy = time.perf_counter() - began, time.process_time() - busy
    contender.served.wait_until_idle()
    cpu = contender.served.cpu_s() - cpu
    calls = sum(counts)
    return Run(calls / taken, cpu / calls * 1e6, busy / taken) if calls else None


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    runs: Runs = defaultdict(dict)
    filled: dict[str, int] = {}
    with ExitStack() as stack:
        contenders, _ = sqs_contenders.started(stack, folder)
        contenders.append(Contender(CEILING, "keeps nothing", stack.enter_context(serving.constant(folder))))
        for number in range(scale.rounds):
            say(f"boto3: round {number + 1} of {scale.rounds}")
            for contender in in_turn(contenders, number):
                for case, url in _queues(contender, scale, seed, number, filled):
                    _run(contender, case, url, scale, seed, number, runs)
        titles = sqs_contenders.header(contenders)
    outcomes = _outcomes(contenders, runs)
    cases = list(dict.fromkeys(outcome.case for outcome in outcomes))
    tables = [_table(outcomes, contenders, titles, case, filled) for case in cases]
    return Section("boto3", "Through boto3", tables, _figures(outcomes), {"outcomes": outcomes, "filled": filled})


def _queues(
    contender: Contender, scale: Scale, seed: int, number: int, filled: dict[str, int]
) -> Iterator[tuple[Case, str]]:
    """Yield an empty queue for each number of threads, and one with a backlog for all, as filling it takes long."""
    if contender.name == CEILING:
        yield from ((Case(0, threads), f"{contender.served.url}/000000000000/any") for threads in scale.threads)
        return
    for threads in scale.threads:
        yield Case(0, threads), sqs_contenders.make_queue(contender.served, f"boto3-{number}-{threads}")
    url = sqs_contenders.make_queue(contender.served, f"boto3-{number}-full")
    filled[contender.name] = sqs_contenders.fill(contender, url, scale.backlog, seed, scale.fill_within_s)
    for threads in scale.threads:
        yield Case(scale.backlog, threads), url


def _run(contender: Contender, case: Case, url: str, scale: Scale, seed: int, number: int, runs: Runs) -> None:
    with closing(client_of(contender, case.threads)) as client:
        script = Script(client, url, seed)
        for job in JOBS:
            found = timed(contender, script.jobs[job], case.threads, scale.seconds)
            if found is not None:
                runs[contender.name, case, job][number] = found


def _outcomes(contenders: Sequence[Contender], runs: Runs) -> list[Outcome]:
    outcomes = []
    for (name, case, job), found in runs.items():
        first = runs.get((contenders[0].name, case, job), {})
        both = [number for number in first if number in found]
        of_first = (
            ratios([first[one].calls_per_s for one in both], [found[one].calls_per_s for one in both]) if both else None
        )
        outcomes.append(
            Outcome(
                name,
                case,
                job,
                spread([run.calls_per_s for run in found.values()]),
                spread([run.cpu_us for run in found.values()]),
                spread([run.load_busy for run in found.values()]).median,
                of_first,
            )
        )
    return outcomes


def _table(
    outcomes: Sequence[Outcome],
    contenders: Sequence[Contender],
    titles: list[str],
    case: Case,
    filled: dict[str, int],
) -> Table:
    found = {(outcome.contender, outcome.job): outcome for outcome in outcomes if outcome.case == case}
    names = [contender.name for contender in contenders]
    rows = [[job, *(_cell(found.get((name, job)), is_first=name == names[0]) for name in names)] for job in JOBS]
    state = f"{case.backlog:,} messages in the queue" if case.backlog else "empty queue"
    note = "In brackets: which part of the time boto3 itself was busy."
    if case.backlog:
        took = [f"{name} {count:,}" for name, count in filled.items() if count < case.backlog]
        note += f" In the time that they had, some took fewer messages: {', '.join(took)}." if took else ""
    return Table(
        f"Calls a second, the server's CPU per call, and times as many by {names[0]}: "
        f"{case.threads} thread{'s' * (case.threads > 1)}, {state}",
        ["call", *titles],
        rows,
        note,
    )


def _cell(outcome: Outcome | None, *, is_first: bool) -> str:
    if outcome is None:
        return "–"
    text = f"{rate_text(outcome.calls_per_s.median)}/s ({outcome.load_busy:.0%}), {outcome.cpu_us.median:.0f} µs"
    return text if is_first or outcome.of_first is None else f"{text}, {around(outcome.of_first)} times"


def _figures(outcomes: Sequence[Outcome]) -> list[Figure]:
    name, least = LEAST_OF
    figures = []
    for outcome in outcomes:
        if outcome.contender != name or outcome.of_first is None or outcome.job not in ("send", "receive"):
            continue
        case = outcome.case
        figures.append(
            Figure(
                f"{outcome.job} through boto3, {case.threads} threads, {case.backlog:,} in the queue: times {name}",
                f"≥ {least:g}",
                around(outcome.of_first),
                outcome.of_first.median >= least,
            )
        )
    return figures
