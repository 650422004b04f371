"""plainbench.yaml as values. Every key that may stand in it stands here, with its meaning.

Durations are in the unit that the key names. Keys of the seed's format keep their names and meanings.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from sqew.errors import BadValue

Chance = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
Ms = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(gt=0)]
Weight = Annotated[int, Meta(ge=1, le=1000)]
Name = Annotated[str, Meta(min_length=1, max_length=80)]


# How long things take


class Fixed(Struct, frozen=True, forbid_unknown_fields=True, tag="fixed", tag_field="type"):
    """A duration that is always the same."""

    ms: Ms


class Uniform(Struct, frozen=True, forbid_unknown_fields=True, tag="uniform", tag_field="type"):
    """A duration between the two, all of them equally likely."""

    min_ms: Ms
    max_ms: Ms


class Normal(Struct, frozen=True, forbid_unknown_fields=True, tag="normal", tag_field="type"):
    """A normal distribution, cut off at 0."""

    mean_ms: Ms
    std_ms: Ms


class P95Spike(Struct, frozen=True, forbid_unknown_fields=True, tag="p95_spike", tag_field="type"):
    """A long tail: around ``base_ms`` as a rule, and with ``spike_prob`` a spike of ``p95_ms`` or longer."""

    base_ms: Ms
    p95_ms: Ms
    spike_prob: Chance = 0.05


class Histogram(Struct, frozen=True, forbid_unknown_fields=True, tag="histogram", tag_field="type"):
    """A recorded distribution: a JSON file of ``[[milliseconds, how often], …]``."""

    file: str


Latency = Fixed | Uniform | Normal | P95Spike | Histogram


# Faults


class Crash(Struct, frozen=True, forbid_unknown_fields=True):
    """The death of a worker's process, as by `kill -9`, at this point of a call."""

    point: Literal["before_commit", "after_commit", "before_reply"] = "after_commit"
    rate: Chance = 0.0
    calls: list[Literal["send", "receive", "ack", "retry"]] = field(default_factory=lambda: ["ack"])
    """Kinds of calls to the queue. In app.db every statement counts."""
    at: list[Count] = []  # msgspec copies it
    """Numbers of ``calls``, from 1, at which each consumer's first life ends, besides those that ``rate`` picks."""


class CallFaults(Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of every call to the queue, or to the application's database."""

    latency: Latency | None = None
    error_rate: Chance = 0.0
    errors: dict[Literal["timeout", "transient"], Annotated[float, Meta(ge=0)]] = field(
        default_factory=lambda: {"transient": 1.0}
    )
    """Kinds of errors, by weight. timeout: a real SQLITE_BUSY, as another writer holds the lock for too long."""
    crash: Crash | None = None


class Window(Struct, frozen=True, forbid_unknown_fields=True):
    """A window of time: its start and its length."""

    at_s: Seconds
    for_s: Seconds


class ClockJump(Struct, frozen=True, forbid_unknown_fields=True):
    """A jump of the time of day, forwards or backwards, for the whole machine that the queue runs on."""

    at_s: Seconds
    by_s: float


class Network(Struct, frozen=True, forbid_unknown_fields=True):
    """Faults of every connection to a server. All of them are made by a TCP proxy of the lab's."""

    latency: Latency | None = None
    reset_rate: Chance = 0.0
    """Share of the answers that are cut off by a reset."""
    slice_bytes: int = 0
    """Size of the pieces in which everything is passed on; 0: as it comes."""
    stall: list[Window] = []  # msgspec copies it
    """Windows in which nothing gets through."""
    bytes_per_s: int = 0
    """Greatest speed, each way; 0: no limit."""


class Faults(Struct, frozen=True, forbid_unknown_fields=True):
    queue: CallFaults = field(default_factory=CallFaults)
    db: CallFaults = field(default_factory=CallFaults)
    disk_full: list[Window] = []  # msgspec copies it
    clock_jump: list[ClockJump] = []
    network: Network = field(default_factory=Network)


# The queue


class Pragmas(Struct, frozen=True, forbid_unknown_fields=True):
    journal_mode: Literal["WAL"] = "WAL"
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_timeout_ms: Annotated[int, Meta(ge=0)] = 5_000
    wal_autocheckpoint_pages: Annotated[int, Meta(ge=0)] = 1_000


class SQLite(Struct, frozen=True, forbid_unknown_fields=True):
    queue_file: str = "./queue.db"
    app_file: str = "./app.db"
    app_fixtures: list[str] = []  # msgspec copies it
    """Files that fill app.db before a run: .sql files, and .csv or .jsonl files that become tables."""
    pragmas: Pragmas = field(default_factory=Pragmas)


def _from_environment(name: str, value: Any) -> Any:
    if not (isinstance(value, str) and value.startswith("$")):
        return value
    variable = value[1:].strip("{}")
    if variable not in os.environ:
        raise BadValue(f"target.options.{name} is {value}, and the environment has no {variable}: set it.")
    return os.environ[variable]


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """The queue that is measured. `plainbench drivers` lists those there are, with their options."""

    driver: Name = "sqew"
    options: dict[str, Any] = {}  # msgspec copies it
    """Options of the driver. ``$NAME`` is read from the environment, so no password is in this file, nor in a run's."""

    def opened(self) -> dict[str, Any]:
        """Return the options with values from the environment. They must not be written to any file."""
        return {name: _from_environment(name, value) for name, value in self.options.items()}


class Lane(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    weight: Weight = 1


class TopicConfig(Struct, frozen=True, forbid_unknown_fields=True):
    name: Name
    lanes: list[Lane] = []  # msgspec copies it
    fifo: bool = False
    max_attempts: Count | None = 5
    base_backoff_ms: Annotated[int, Meta(ge=0)] = 1_000


# The workload


class Constant(Struct, frozen=True, forbid_unknown_fields=True, tag="constant", tag_field="type"):
    """Arrivals one after the other, at even distances."""

    rate: Rate


class Poisson(Struct, frozen=True, forbid_unknown_fields=True, tag="poisson", tag_field="type"):
    """Independent arrivals: ``rate`` a second on average."""

    rate: Rate


class Bursts(Struct, frozen=True, forbid_unknown_fields=True, tag="bursts", tag_field="type"):
    """Bursts of ``size`` messages every ``every_s``, with ``rate`` a second between them."""

    size: Count
    every_s: Annotated[float, Meta(gt=0)]
    rate: Annotated[float, Meta(ge=0)] = 0.0


class Ramp(Struct, frozen=True, forbid_unknown_fields=True, tag="ramp", tag_field="type"):
    """A rate that changes evenly from one value to another within ``over_s``, and then stays."""

    start_rate: Annotated[float, Meta(ge=0)]
    end_rate: Rate
    over_s: Annotated[float, Meta(gt=0)]


class Recorded(Struct, frozen=True, forbid_unknown_fields=True, tag="recorded", tag_field="type"):
    """Recorded arrivals: a file with a time in seconds a line, or the folder of a run."""

    file: str
    speed: Rate = 1.0


class AtOnce(Struct, frozen=True, forbid_unknown_fields=True, tag="at_once", tag_field="type"):
    """Arrivals as fast as the queue takes them, ``batch`` in a call: to fill a queue, not to measure its latency."""

    batch: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


class Closed(Struct, frozen=True, forbid_unknown_fields=True, tag="closed", tag_field="type"):
    """A loop of ``clients`` that each send, await the answer, think and send again. They wait when the queue does."""

    clients: Count = 1
    think_ms: Ms = 0


Arrivals = Constant | Poisson | Bursts | Ramp | Recorded | AtOnce | Closed


class Sizes(Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of synthetic bodies, in bytes."""

    min: Count = 200
    max: Count = 200
    shape: Literal["uniform", "log"] = "uniform"
    """log: evenly spread over the logarithm of the size, so that small bodies are more frequent."""


class Keys(Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of the messages: numbers from 1 to ``count``, the small ones more often the greater ``skew`` is."""

    count: Annotated[int, Meta(ge=1, le=10_000_000)] = 1_000
    skew: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """0: all equally often; 1: as in Zipf's law."""
    field: str | None = None
    """With ``input``: the field of a body that holds its key, for a FIFO topic's groups."""


class Workload(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages for one topic. Without ``input`` they are synthetic."""

    topic: Name
    arrivals: Arrivals = field(default_factory=AtOnce)
    messages: Count | None = None
    """Number of messages; None: as many as ``input`` has, or until ``for_s`` is over."""
    for_s: Seconds | None = None
    input: list[str] | str | None = None
    """Files with the bodies: JSONL, or CSV by their ending, also compressed with gzip. ``*`` stands for anything."""
    lanes: dict[str, Annotated[float, Meta(ge=0)]] = {}  # msgspec copies it
    """Share of the messages for each lane; none: by the topic's weights."""
    size: Sizes = field(default_factory=Sizes)
    keys: Keys = field(default_factory=Keys)
    priorities: dict[Annotated[int, Meta(ge=-1000, le=1000)], Annotated[float, Meta(ge=0)]] = {}
    late_ms: Ms | None = None
    """Messages that are late by more than this are not sent, but dropped and counted; None: nothing is dropped."""
    senders: Annotated[int, Meta(ge=1, le=256)] = 1
    """Number of senders side by side in an open loop."""


# Workers


class WorkerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A receiver of messages. It runs a command, or a Python function; with neither it acks at once."""

    name: Name
    cmd: list[str] = []  # msgspec copies it
    call: str | None = None
    """``module:function`` or ``file.py:function``."""
    topics: list[Name] = []
    """Topics to receive from; none: all."""
    concurrency: Annotated[int, Meta(ge=1, le=1024)] = 1
    prefetch: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Number of messages that are received and acked in one call."""
    lease_ms: Annotated[int, Meta(ge=1)] = 30_000
    heartbeat: bool = True
    """True to extend leases while the work goes on."""
    timeout_ms: Ms | None = None
    """Time after which the work is given up: the command is killed, the message retried."""
    work: Latency | None = None
    """Duration of the work, besides what the command or function does. In virtual time it is all that counts."""
    restart_ms: Ms = 200
    """Time that a worker that died stays away."""


class Until(Struct, frozen=True, forbid_unknown_fields=True):
    """The end of a run, if not everything is settled before: after this time at the latest."""

    most_s: Seconds = 3_600
    idle_s: Seconds = 10
    """Seconds without any movement in the queue, once everything was sent, after which a run ends too."""


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration of a run."""

    seed: Annotated[int, Meta(ge=0)] = 0
    mode: Literal["real", "virtual"] = "real"
    target: Target = field(default_factory=Target)
    sqlite: SQLite = field(default_factory=SQLite)
    topics: list[TopicConfig] = []  # msgspec copies it
    faults: Faults = field(default_factory=Faults)
    workload: list[Workload] = []
    workers: list[WorkerConfig] = []
    until: Until = field(default_factory=Until)
    runs: str = "./runs"
    """Folder in which runs are recorded."""
