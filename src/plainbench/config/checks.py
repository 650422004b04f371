"""Checks that find what is wrong with a configuration although each of its values is valid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from plainbench.config.model import (
    AtOnce,
    CallFaults,
    Closed,
    Config,
    Histogram,
    Latency,
    P95Spike,
    Recorded,
    TopicConfig,
    Uniform,
    WorkerConfig,
    Workload,
)
from plainbench.config.target import Mistake, check_target
from plainbench.faults.latency import recorded
from plainbench.workload import NUMBERS_APART
from plainbench.workload.arrivals import recorded_times
from sqew.errors import SqewError, nearest
from sqew.formats.files import files_of
from sqew.rules.names import check_new_queue_name
from sqew.rules.policies import default_policy

_OURS = ("sqew", "sqew-http")
_RESERVED = re.compile(r"lab|supervisor|generator-\d+")
"""Names that other participants in a run have."""


def check(config: Config, folder: Path) -> Iterator[Mistake]:
    """Yield every mistake. Relative paths start in ``folder``."""
    yield from check_target(config, folder)
    for number, fixture in enumerate(config.sqlite.app_fixtures):
        if not (folder / fixture).is_file():
            yield f"sqlite.app_fixtures[{number}]", f"sqlite.app_fixtures: there is no file {folder / fixture}."
    if not config.topics:
        yield "topics", "there is no topic: name one under 'topics', with its lanes."
    yield from _twice("topics", "topic", [topic.name for topic in config.topics])
    for number, topic in enumerate(config.topics):
        yield from _topic(config, topic, f"topics[{number}]")
    for number, workload in enumerate(config.workload):
        yield from _workload(config, workload, f"workload[{number}]", folder)
    yield from _twice("workers", "worker", [worker.name for worker in config.workers])
    for number, worker in enumerate(config.workers):
        yield from _worker(config, worker, f"workers[{number}]", folder)
    yield from _calls(config.faults.queue, "faults.queue", folder)
    yield from _calls(config.faults.db, "faults.db", folder)
    yield from _latency(config.faults.network.latency, "faults.network.latency", folder)


def _twice(where: str, noun: str, names: Sequence[str]) -> Iterator[Mistake]:
    for number, name in enumerate(names):
        if name in names[:number]:
            yield f"{where}[{number}].name", f"there is a {noun} '{name}' already: each needs a name of its own."


def _topic(config: Config, topic: TopicConfig, where: str) -> Iterator[Mistake]:
    yield from _twice(f"{where}.lanes", "lane", [lane.name for lane in topic.lanes])
    if config.target.driver not in _OURS:
        return
    policy = {"fifo": topic.fifo, "max_attempts": topic.max_attempts}
    lanes = {lane.name: lane.weight for lane in topic.lanes}
    try:
        check_new_queue_name(topic.name)
        default_policy(topic.name, policy | ({"lanes": lanes} if lanes else {}))
    except SqewError as error:
        yield f"{where}.name", f"{where}: {error}"


def _missing(topic: str, config: Config) -> str | None:
    """Return the sentence for a topic that is not defined, or None if it is."""
    known = [topic.name for topic in config.topics]
    if topic in known:
        return None
    return (
        f"there is no topic '{topic}'{nearest(topic, known)}. Those under 'topics' are: {', '.join(known) or 'none'}."
    )


def _workload(config: Config, workload: Workload, where: str, folder: Path) -> Iterator[Mistake]:
    missing = _missing(workload.topic, config)
    if missing is not None:
        yield f"{where}.topic", f"{where}.topic: {missing}"
    else:
        yield from _lanes(config, workload, where)
        yield from _order(config, workload, where)
    yield from _shares(workload.lanes, f"{where}.lanes")
    yield from _shares(workload.priorities, f"{where}.priorities")
    yield from _amount(workload, where)
    yield from _files(workload, where, folder)
    if workload.size.max < workload.size.min:
        yield (
            f"{where}.size.max",
            f"{where}.size.max can't be {workload.size.max}: it must be min ({workload.size.min}) at least.",
        )
    if workload.keys.field is not None and workload.input is None:
        yield f"{where}.keys.field", f"{where}.keys.field names a field of 'input', and there is none: leave it out."
    yield from _open_or_closed(workload, where)


def _lanes(config: Config, workload: Workload, where: str) -> Iterator[Mistake]:
    lanes = [lane.name for topic in config.topics if topic.name == workload.topic for lane in topic.lanes]
    for lane in workload.lanes:
        if lane not in lanes:
            known = ", ".join(lanes) or "none"
            missing = f"topic '{workload.topic}' has no lane '{lane}'{nearest(lane, lanes)}"
            yield f"{where}.lanes.{lane}", f"{where}.lanes: {missing}. Its lanes are: {known}."


def _order(config: Config, workload: Workload, where: str) -> Iterator[Mistake]:
    if not any(topic.fifo for topic in config.topics if topic.name == workload.topic):
        return
    undecided = "of what several send at once nobody can say what came first, and the topic is FIFO"
    if isinstance(workload.arrivals, Closed):
        if workload.arrivals.clients > 1:
            yield f"{where}.arrivals.clients", f"{where}.arrivals.clients must be 1: {undecided}."
    elif workload.senders > 1:
        yield f"{where}.senders", f"{where}.senders must be 1: {undecided}."


def _shares(shares: dict[str, float] | dict[int, float], where: str) -> Iterator[Mistake]:
    if shares and not sum(shares.values()):
        yield where, f"{where} can't all be 0: nothing could be sent."


def _amount(workload: Workload, where: str) -> Iterator[Mistake]:
    ends = (workload.messages, workload.for_s, workload.input)
    if ends == (None, None, None) and not isinstance(workload.arrivals, Recorded):
        yield where, f"{where} would never end: give 'messages', 'for_s' or 'input'."
    if workload.messages is not None and workload.messages >= NUMBERS_APART:
        yield f"{where}.messages", f"{where}.messages can't be {workload.messages}: {NUMBERS_APART - 1} are the most."


def _files(workload: Workload, where: str, folder: Path) -> Iterator[Mistake]:
    if workload.input is not None:
        try:
            if not files_of(workload.input, folder):
                yield f"{where}.input", f"{where}.input names no file: name one, or leave it out."
        except SqewError as error:
            yield f"{where}.input", f"{where}.input: {error}"
    if isinstance(workload.arrivals, Recorded):
        try:
            recorded_times(workload.arrivals, folder, workload.topic)
        except SqewError as error:
            yield f"{where}.arrivals.file", f"{where}.arrivals.file: {error}"


def _open_or_closed(workload: Workload, where: str) -> Iterator[Mistake]:
    if isinstance(workload.arrivals, Closed | AtOnce) and workload.late_ms is not None:
        yield (
            f"{where}.late_ms",
            f"{where}.late_ms needs arrivals with a time, such as constant or poisson: of others none can be late.",
        )
    if isinstance(workload.arrivals, Closed) and workload.senders > 1:
        yield f"{where}.senders", f"{where}.senders is for an open loop: in a closed one set arrivals.clients."


def _worker(config: Config, worker: WorkerConfig, where: str, folder: Path) -> Iterator[Mistake]:
    if "/" in worker.name:
        yield f"{where}.name", f"{where}.name can't be '{worker.name}': a slash comes between a worker and its slot."
    if _RESERVED.fullmatch(worker.name):
        yield f"{where}.name", f"{where}.name can't be '{worker.name}': the lab calls itself so. Choose another one."
    for number, topic in enumerate(worker.topics):
        missing = _missing(topic, config)
        if missing is not None:
            yield f"{where}.topics[{number}]", f"{where}.topics: {missing}"
    if worker.cmd and worker.call is not None:
        yield f"{where}.call", f"{where} has both 'cmd' and 'call': it runs a command or a function, so leave one out."
    if worker.call is not None and not all(worker.call.rpartition(":")):
        yield (
            f"{where}.call",
            f"{where}.call can't be '{worker.call}': it must be module:function or file.py:function.",
        )
    yield from _latency(worker.work, f"{where}.work", folder)


def _calls(faults: CallFaults, where: str, folder: Path) -> Iterator[Mistake]:
    yield from _latency(faults.latency, f"{where}.latency", folder)
    if faults.error_rate and not sum(faults.errors.values()):
        yield f"{where}.errors", f"{where}.errors can't all be 0 while error_rate is {faults.error_rate:g}."
    crash = faults.crash
    if crash is not None and not crash.rate and not crash.at:
        yield f"{where}.crash", f"{where}.crash never happens: give 'rate', or 'at' with numbers of calls."


def _latency(model: Latency | None, where: str, folder: Path) -> Iterator[Mistake]:
    if isinstance(model, Uniform) and model.max_ms < model.min_ms:
        yield (
            f"{where}.max_ms",
            f"{where}.max_ms can't be {model.max_ms:g}: it must be min_ms ({model.min_ms:g}) at least.",
        )
    if isinstance(model, P95Spike) and model.p95_ms < model.base_ms:
        yield (
            f"{where}.p95_ms",
            f"{where}.p95_ms can't be {model.p95_ms:g}: it must be base_ms ({model.base_ms:g}) at least.",
        )
    if isinstance(model, Histogram):
        try:
            recorded(folder / model.file)
        except SqewError as error:
            yield f"{where}.file", f"{where}.file: {error}"
