"""Messages a second into PostgreSQL and out of it: Sqew, the ceiling, and others that do the same."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from bench.postgres_cluster import Cluster
from bench.report import Figure, Section, Table
from bench.serving import ROOT
from bench.timing import Spread, in_turn, ratios, spread
from bench.workspace import say

PEERS = {"pgqueuer": ["pgqueuer[asyncpg]>=1"], "procrastinate": ["procrastinate>=3"]}
ENVIRONMENTS = Path(sys.prefix) / "bench-peers"
SINGLY = {"procrastinate"}
"""Contenders that claim one at a time, whatever is asked for: a few are enough to know how many a second."""
LEAST_OF_RAW = 0.6


class Scale(Struct, frozen=True):
    rounds: int
    clients: Sequence[int]
    singles: int
    """Messages that are sent one at a time."""
    batched: int
    """Messages that are sent in batches of a hundred."""
    servers: Sequence[int] = (1, 2, 3)


class Load(Struct, frozen=True):
    """The load that a contender is given."""

    job: str
    size: int
    clients: int
    servers: int = 1

    @property
    def title(self) -> str:
        servers = f", {self.servers} servers" if self.servers > 1 else ""
        what = {"send": "enqueue", "take": "claim + ack"}[self.job]
        return f"{what} x{self.size}, {self.clients} clients{servers}"


Rates = dict[tuple[str, Load], list[float]]


def measure(cluster: Cluster, scale: Scale) -> Section:
    pythons, missing = _pythons()
    rates: Rates = defaultdict(list)
    shapes = [(size, clients, 1) for clients in scale.clients for size in (1, 100)]
    shapes += [(size, max(scale.clients), servers) for servers in scale.servers if servers > 1 for size in (1, 100)]
    for number in range(scale.rounds):
        say(f"throughput: round {number + 1} of {scale.rounds}")
        for size, clients, servers in shapes:
            for name in in_turn(list(pythons), number):
                if servers > 1 and name != "sqew":
                    continue
                url = cluster.new_database()
                for job in ("send", "take"):
                    load = Load(job, size, clients, servers)
                    is_single = size == 1 or (job == "take" and name in SINGLY)
                    count = scale.singles if is_single else scale.batched
                    rates[name, load].append(_run(pythons[name], name, url, load, count))
                cluster.drop(url)
    loads = list(dict.fromkeys(load for _, load in rates))
    return Section(
        "throughput",
        "Throughput",
        [_table(rates, loads, list(pythons), missing)],
        _figures(rates, loads, list(pythons)),
        {f"{name}: {load.title}": spread(found) for (name, load), found in rates.items()},
    )


def _run(python: str, name: str, url: str, load: Load, count: int) -> float:
    """Return the messages a second, of all the processes together."""
    arguments = [load.job, load.clients // load.servers, load.size, count // load.servers]
    command = [python, "-m", "bench.postgres_contenders", name, url, *map(str, arguments)]
    processes = []
    for _ in range(load.servers):
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            sys.exit(f"bench: {name} did not get ready for {load.title}.")
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers: list[dict[str, Any]] = [json.loads(process.communicate()[0]) for process in processes]
    took = max(answer["ended"] for answer in answers) - min(answer["began"] for answer in answers)
    return count / took


def _pythons() -> tuple[dict[str, str], list[str]]:
    """Return the interpreter of each contender, and the names of those that are missing."""
    pythons, missing = {"sqew": sys.executable, "raw": sys.executable}, []
    for name, requirements in PEERS.items():
        try:
            pythons[name] = str(_environment(name, requirements))
        except (OSError, subprocess.CalledProcessError) as error:
            say(f"{name} can't be installed: {error}")
            missing.append(name)
    return pythons, missing


def _environment(name: str, requirements: Sequence[str]) -> Path:
    """Return the Python of a peer's environment, made on the first run: its pinned versions would pin Sqew's."""
    home = ENVIRONMENTS / name
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        say(f"installing {name} (once)")
        venv.create(home, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        subprocess.run([*pip, *requirements, "psycopg[binary]>=3.2", "uvloop"], check=True, capture_output=True)
        (home / "ready").touch()
    return python


def _table(rates: Rates, loads: Sequence[Load], names: Sequence[str], missing: Sequence[str]) -> Table:
    rows = [[load.title, *(_cell(rates, name, load) for name in names)] for load in loads]
    note = (
        "Messages of 400 bytes; every process on the same cores as PostgreSQL; fsync and synchronous_commit on. "
        "Raw: asyncpg and the least table, with a connection for every client; the others have 8. Behind each: its "
        "share of raw, of rounds that took turns. procrastinate claims one job at a time, whatever is asked for."
    )
    if missing:
        note += f" Not measured: {', '.join(missing)}."
    return Table("Messages a second", ["", *names], rows, note)


def _cell(rates: Rates, name: str, load: Load) -> str:
    found = rates.get((name, load))
    if not found:
        return "–"
    raw = rates.get(("raw", load))
    share = f" ({ratios(found, raw).median:.2f})" if raw and name != "raw" else ""
    return f"{spread(found).median:,.0f}{share}"


def _figures(rates: Rates, loads: Sequence[Load], names: Sequence[str]) -> list[Figure]:
    figures = []
    for load in (load for load in loads if ("raw", load) in rates):
        of_raw = ratios(rates["sqew", load], rates["raw", load])
        if load.job == "take" or load.size > 1:
            figures.append(_figure(f"{load.title}, of raw asyncpg", LEAST_OF_RAW, of_raw))
        figures += [
            _figure(f"{load.title}, of {peer}", 1.0, ratios(rates["sqew", load], rates[peer, load]))
            for peer in PEERS
            if peer in names
        ]
    return figures


def _figure(name: str, least: float, measured: Spread) -> Figure:
    shown = f"{measured.median:.2f} ({measured.low:.2f}-{measured.high:.2f})"
    return Figure(name, f"≥ {least:g}", shown, measured.median >= least)
