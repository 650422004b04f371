"""A process of a run: a generator or a worker. `plainbench run` starts it; it ends when its stdin does.

``python -m plainbench.run.process generator|worker NUMBER LIFE RUN-FOLDER [BEGAN-NS]``. It prints ``ready`` when
everything is open, and begins when it reads the time at which the run began. So killing the lab kills the run, a fault
that kills a worker kills nothing else, and no process is measured while it starts.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from plainbench.actors.consumer import ConsumerActor, Heart, Held
from plainbench.actors.generator import Sender, Source, clients_of
from plainbench.config.model import Config
from plainbench.faults.schedule import Schedule
from plainbench.record.events import SUFFIX, LogFailed, Recorder
from plainbench.run.clock import RealTime
from plainbench.run.context import RunContext
from plainbench.workers.make import open_handler
from plainbench.workload.plan import plan
from sqew.errors import SqewError

STAGE = "stage.json"
"""The file in a run's folder from which its processes read what they take part in."""
FAILED = 3
"""The exit code of a process that could not go on; the reason is on its stderr, in a sentence."""


class ProcessInput(msgspec.Struct, frozen=True):
    """The data that a process needs beyond its own part."""

    config: Config
    folder: str
    schedule: Schedule | None = None


def main(arguments: list[str]) -> int:
    role, number, life, run = arguments[0], int(arguments[1]), int(arguments[2]), Path(arguments[3])
    stage = msgspec.json.decode((run / STAGE).read_bytes(), type=ProcessInput)
    stop = threading.Event()
    recorder = Recorder(run / f"{role}-{number}-{life}{SUFFIX}")
    time = RealTime()
    if len(arguments) > 4:
        # Who starts later must know the time before the queue is opened: the clock may have jumped since.
        time.began_ns = int(arguments[4])
    context = RunContext(stage.config, Path(stage.folder), run, time, recorder, stop, stage.schedule)
    try:
        actors = senders(context, number, life) if role == "generator" else consumers(context, number, life)
        print("ready", flush=True)  # noqa: T201 (to the lab)
        time.began_ns = int(sys.stdin.readline() or 0)
        threading.Thread(target=_await_end, args=(stop,), daemon=True).start()
        _side_by_side(actors)
        recorder.flush()
    except (SqewError, LogFailed) as error:
        print(error, file=sys.stderr)  # noqa: T201 (it is what stderr is for)
        return FAILED
    finally:
        recorder.close()
    return 0


def _await_end(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def senders(context: RunContext, number: int, life: int) -> list[Callable[[], None]]:
    """Return the senders of one workload; in a later life, they send what the earlier ones have not tried."""
    workload = context.config.workload[number]
    source = Source(plan(context, number))
    names = [f"generator-{number}/{sender}" for sender in range(clients_of(workload))]
    return [Sender(context, workload, name, source, context.driver(name, life)).run for name in names]


def consumers(context: RunContext, number: int, life: int) -> list[Callable[[], None]]:
    """Return the consumers of a worker, and the heartbeat that extends their leases."""
    worker = context.config.workers[number]
    held = Held()
    actors: list[Callable[[], None]] = []
    for consumer in range(worker.concurrency):
        name = f"{worker.name}/{consumer}"
        handler = open_handler(context, worker, name, life)
        actors.append(ConsumerActor(context, worker, name, life, context.driver(name, life), handler, held).run)
    if worker.heartbeat:
        actors.append(Heart(context, worker, held, context.driver(f"{worker.name}/heart", life, faultless=True)).run)
    return actors


def _side_by_side(actors: list[Callable[[], None]]) -> None:
    """Run each actor in a thread. The first failure ends the others and is raised here."""
    failures: list[BaseException] = []

    def run(actor: Callable[[], None]) -> None:
        try:
            actor()
        except BaseException as error:  # noqa: BLE001 (it is raised below, in the main thread)
            failures.append(error)

    threads = [threading.Thread(target=run, args=(actor,), daemon=True) for actor in actors]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not failures:
        for thread in threads:
            thread.join(0.05)
    if failures:
        raise failures[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
