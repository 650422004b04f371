"""Load by wrk, one thread of it, and the server's processor time meanwhile."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from bench.serving import Served

SCRIPT = Path(__file__).parent / "load.lua"
_SUMMARY = re.compile(r"^bench (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$", re.MULTILINE)
_FEWEST_US = 10_000
"""The shortest load, in microseconds, that a rate can be told from."""


class Request(Struct, frozen=True):
    method: str
    path: str
    body: str | None = None
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


class Load(Struct, frozen=True):
    """Requests to send: one again and again, or receives, acks, or whole cycles."""

    job: str
    requests: dict[str, Request]
    handle: str = ""
    """A Lua pattern for a received message: its captures, one or two, are what its ack needs."""
    per_request: int = 1
    """Messages that a request of the job ``same`` carries."""


class Run(Struct, frozen=True):
    """The results of one run of wrk."""

    requests_per_s: float
    messages_per_s: float
    cpu_us: float
    """The server's processor time, per request."""
    server_busy: float
    """The part of the time that the server ran. If it is far below 1 and wrk is not busy, the server waited: for the
    disk, or for other programs to leave its core."""
    refused: float
    """The part of the requests that failed or was refused; they are not in the rates."""
    wrk_busy: float
    """The part of the time that wrk itself was busy. Near 1, it is wrk that was measured."""


def run(served: Served, load: Load, connections: int, seconds: float, folder: Path) -> Run | None:
    """Run wrk once; return None if it ran out of messages before anything could be measured."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "load-spec.lua"
    # What a receive took is there for the ack that follows it.
    handles = folder / f"{served.port}.handles"
    spec.write_text(
        "return " + _lua({"job": load.job, "requests": load.requests, "handle": load.handle, "handles": str(handles)}),
        encoding="utf-8",
    )
    busy, cpu = _children_cpu_s(), served.cpu_s()
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(round(seconds), 1)}s", "-s", SCRIPT, served.url, "--", spec]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    cpu, busy = served.cpu_s() - cpu, _children_cpu_s() - busy
    served.wait_until_idle()
    found = _SUMMARY.search(done.stdout)
    if found is None:
        sys.exit(f"bench: wrk against {served.name} failed: {(done.stdout + done.stderr).strip()[-500:]}")
    requests, lasted_us, refused, broken, messages, ran_out_us = map(int, found.groups())
    if 0 < ran_out_us < _FEWEST_US or not requests:
        return None
    taken_s = (ran_out_us or lasted_us) / 1e6
    good = requests - refused
    carried = {"same": good * load.per_request, "ack": good}.get(load.job, messages)
    return Run(
        good / taken_s,
        carried / taken_s,
        cpu / requests * 1e6,
        min(cpu / taken_s, 1.0),
        (refused + broken) / requests,
        min(busy / taken_s, 1.0),
    )


def is_there() -> bool:
    return shutil.which("wrk") is not None


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _lua(value: Any) -> str:
    """Return a value as Lua writes it."""
    match value:
        case None:
            return "nil"
        case Request():
            return _lua({name: getattr(value, name) for name in value.__struct_fields__})
        case dict():
            return "{" + ", ".join(f"[ {_lua(key)} ] = {_lua(item)}" for key, item in value.items()) + "}"
        case str():
            return "[==[" + value + "]==]"
        case _:
            raise TypeError(f"{value!r} can't be written in Lua")
