"""The same load on emulators of SQS: moto and MiniStack, each started as its own documentation says.

They live in an environment of their own: their pinned versions would pin Sqew's.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from bench import serving, wrk
from bench.http_throughput import AT, SYNCHRONOUS, around, rate_text
from bench.loads import Job, in_sqew, in_sqs, sqs_headers
from bench.report import Section, Table
from bench.serving import HOST, NotServed, Served, free_port
from bench.timing import Spread, in_turn, ratios, spread
from bench.workspace import say

PEERS = {"moto": ["moto[sqs]>=5", "flask>=3", "flask-cors>=5"], "ministack": ["ministack>=1.5"]}
JOBS: tuple[Job, ...] = ("cycle", "send", "receive 1", "ack", "send x10", "receive 10")
TITLE = "Emulators of SQS"
ENVIRONMENTS = Path(sys.prefix) / "bench-peers"


class Scale(Struct, frozen=True):
    seconds: int
    rounds: int
    jobs: Sequence[Job]


class Contender(Struct, frozen=True):
    """A server, and the same jobs in its words."""

    name: str
    durability: str
    served: Served
    loads: Callable[[str], dict[Job, wrk.Load]]
    """Function that makes a queue of that name and returns the jobs on it."""


Runs = dict[tuple[str, Job], dict[int, wrk.Run]]
"""Runs by contender and job, and by the number of the round: a run without a result is missing."""


class Outcome(Struct, frozen=True):
    contender: str
    durability: str
    job: Job
    requests_per_s: Spread
    cpu_us: Spread
    of_first: Spread | None
    """Requests that the first contender answered, as a multiple, over the rounds in which both were measured."""
    refused: float


def measure(folder: Path, seed: int, scale: Scale) -> Section:
    folder.mkdir(parents=True, exist_ok=True)
    missing: dict[str, str] = {}
    runs: Runs = defaultdict(dict)
    with ExitStack() as stack:
        contenders = []
        for durability, synchronous in SYNCHRONOUS.items():
            served = stack.enter_context(serving.sqew(folder, durability))
            contenders.append(
                Contender(f"sqew, {durability}", f"synchronous={synchronous}", served, _sqew_loads(served, seed))
            )
        for name in PEERS:
            try:
                served = stack.enter_context(start(name, folder))
            except NotServed as error:
                say(str(error))
                missing[name] = str(error)
            else:
                contenders.append(Contender(name, "none: in memory", served, _sqs_loads(served, seed)))
        for number in range(scale.rounds):
            say(f"peers: round {number + 1} of {scale.rounds}")
            # A queue of its own for each round: some of them slow down with what earlier ones left.
            loads = {contender.name: contender.loads(f"bench-{number}") for contender in contenders}
            for job in scale.jobs:
                for contender in in_turn(contenders, number):
                    run = wrk.run(contender.served, loads[contender.name][job], AT, scale.seconds, folder)
                    if run is not None:
                        runs[contender.name, job][number] = run
    outcomes = _outcomes(contenders, scale.jobs, runs)
    return Section("peers", TITLE, [_table(outcomes, missing)], [], {"outcomes": outcomes, "missing": missing})


def _outcomes(contenders: Sequence[Contender], jobs: Sequence[Job], runs: Runs) -> list[Outcome]:
    outcomes = []
    for job in jobs:
        for contender in contenders:
            found = list(runs[contender.name, job].values())
            if not found:
                continue
            outcomes.append(
                Outcome(
                    contender.name,
                    contender.durability,
                    job,
                    spread([run.requests_per_s for run in found]),
                    spread([run.cpu_us for run in found]),
                    _of_first(runs[contenders[0].name, job], runs[contender.name, job]),
                    max(run.refused for run in found),
                )
            )
    return outcomes


def _of_first(first: dict[int, wrk.Run], other: dict[int, wrk.Run]) -> Spread | None:
    both = [number for number in first if number in other and other[number].requests_per_s]
    if not both:
        return None
    return ratios([first[number].requests_per_s for number in both], [other[number].requests_per_s for number in both])


def start(name: str, folder: Path) -> Served:
    """Start a peer as its own documentation says."""
    python = str(environment(name))
    port = free_port()
    if name == "moto":
        return Served(name, [python, "-m", "moto.server", "-H", HOST, "-p", str(port)], port, folder)
    env = {"GATEWAY_PORT": str(port), "BIND_HOST": HOST, "LOG_LEVEL": "ERROR", "TMPDIR": str(folder)}
    return Served(name, [python, "-m", "ministack"], port, folder, "/_ministack/health", env)


def environment(name: str) -> Path:
    """Return the Python of a peer's environment, which is made on the first run."""
    home = ENVIRONMENTS / name
    python = home / "bin" / "python"
    if (home / "ready").exists():
        return python
    say(f"installing {name} (once)")
    try:
        venv.create(home, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        subprocess.run([*pip, *PEERS[name]], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        raise NotServed(f"{name} can't be installed: {said[-1] if said else error}") from error
    (home / "ready").touch()
    return python


def versions() -> dict[str, str]:
    """Return the versions of the peers that are installed."""
    code = "import sys; from importlib import metadata; print(metadata.version(sys.argv[1]))"
    return {
        name: subprocess.run(
            [environment(name), "-c", code, name], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in PEERS
        if (ENVIRONMENTS / name / "ready").exists()
    }


def _sqew_loads(served: Served, seed: int) -> Callable[[str], dict[Job, wrk.Load]]:
    def loads(queue: str) -> dict[Job, wrk.Load]:
        serving.make_queue(served, queue)
        return in_sqew(seed, queue)

    return loads


def _sqs_loads(served: Served, seed: int) -> Callable[[str], dict[Job, wrk.Load]]:
    def loads(queue: str) -> dict[Job, wrk.Load]:
        body = msgspec.json.encode({"QueueName": queue, "Attributes": {"VisibilityTimeout": "43200"}})
        status, answer = served.call("POST", "/", body, sqs_headers("CreateQueue"))
        if status != 200:
            sys.exit(f"bench: {served.name} can't make a queue ({status}): {answer[:200].decode(errors='replace')}")
        return in_sqs(seed, msgspec.json.decode(answer)["QueueUrl"])

    return loads


def _table(outcomes: Sequence[Outcome], missing: dict[str, str]) -> Table:
    names = list(dict.fromkeys(outcome.contender for outcome in outcomes))
    found = {(outcome.contender, outcome.job): outcome for outcome in outcomes}
    durability = {outcome.contender: outcome.durability for outcome in outcomes}
    known = versions()
    rows = [
        [job, *(_cell(found.get((name, job)), is_first=name == names[0]) for name in names)]
        for job in dict.fromkeys(outcome.job for outcome in outcomes)
    ]
    return Table(
        f"Requests a second at {AT} connections, the server's CPU per request, and times as many by sqew, durable",
        ["request", *(f"{name} {known.get(name, '')}".strip() + f" ({durability[name]})" for name in names)],
        rows,
        " ".join(
            [
                "Sqew on its own routes (messages, poll, ack), the peers on SQS in JSON. A process each, on one core.",
                "–: not one answer in time.",
                *(f"Not measured: {reason}." for reason in missing.values()),
            ]
        ),
    )


def _cell(outcome: Outcome | None, is_first: bool) -> str:
    if outcome is None:
        return "–"
    failed = f", {outcome.refused:.1%} refused" if outcome.refused else ""
    times = "" if is_first or outcome.of_first is None else f", {around(outcome.of_first)} times"
    return f"{rate_text(outcome.requests_per_s.median)}/s, {outcome.cpu_us.median:.0f} µs{times}{failed}"
