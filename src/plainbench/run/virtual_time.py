"""A run in virtual time: one thread, and the same seed gives the same event log, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
from msgspec.structs import replace

from plainbench.actors.consumer import ConsumerActor, Heart, Held
from plainbench.actors.generator import Sender, Source, clients_of
from plainbench.config.model import Config
from plainbench.drivers import driver_class
from plainbench.faults.injector import Died
from plainbench.faults.schedule import Schedule
from plainbench.record.events import SUFFIX, Event, Recorder
from plainbench.run.clock import VirtualTime
from plainbench.run.context import RunContext
from plainbench.run.supervisor import Supervisor
from plainbench.workers.make import open_handler
from plainbench.workload.plan import plan
from sqew.embedded import Queue
from sqew.errors import BadValue, SqewError

_LOOK_EVERY_S = 0.25


def _on_a_copy(config: Config, folder: Path, run: Path) -> Config:
    """Return the configuration on copies of queue.db and app.db, if they exist: a virtual run changes only those."""
    source, copy = folder / config.sqlite.queue_file, run / "queue.db"
    if source.exists():
        with Queue.open(source) as queue:
            queue.backup(copy)
    app, app_copy = folder / config.sqlite.app_file, run / "app.db"
    if app.exists():
        with closing(apsw.Connection(str(app))) as connection:
            connection.execute("VACUUM INTO ?", (str(app_copy),))
    return replace(config, sqlite=replace(config.sqlite, queue_file=str(copy), app_file=str(app_copy)))


class _Flag:
    def __init__(self) -> None:
        self.over = False

    def is_set(self) -> bool:
        return self.over


class VirtualRun:
    """A run in virtual time. ``watch`` is called with the supervisor after each look, in real time: for progress."""

    def __init__(
        self, config: Config, folder: Path, run: Path, schedule: Schedule | None, watch: Callable[[Supervisor], None]
    ) -> None:
        self.is_prepared = False
        """True once everything is there that it takes to begin."""
        if not driver_class(config.target.driver, folder).runs_in_virtual_time:
            raise BadValue(f"The driver {config.target.driver} can't run in virtual time. Use mode: real.")
        config = _on_a_copy(config, folder, run)
        self._time = VirtualTime()
        self._stop = _Flag()
        self._recorder = Recorder(run / f"run{SUFFIX}")
        self._context = RunContext(config, folder, run, self._time, self._recorder, self._stop, schedule)
        try:
            self._supervisor = Supervisor(self._context)
        except BaseException:
            self._recorder.close()
            raise
        self._watch = watch
        self._sending = 0

    def go(self) -> str:
        """Run to the end and return why it ended."""
        try:
            self._supervisor.prepare()
            self.is_prepared = True
            return self._run()
        finally:
            self._recorder.close()

    def _run(self) -> str:
        why, reason = "failed", ""
        self._time.begin()
        self._supervisor.note("began")
        for number in range(len(self._context.config.workload)):
            self._start_senders(number)
        for number in range(len(self._context.config.workers)):
            self._start_worker(number)
        ended: list[str] = []
        self._time.start(lambda: ended.append(self._look_after()))
        try:
            self._time.run()
            why = ended[0]
        except KeyboardInterrupt:
            why = "interrupted"
        except SqewError as error:
            reason = self._context.said(error)
            raise
        finally:
            self._supervisor.finish(why, reason)
        return why

    def _look_after(self) -> str:
        while (why := self._supervisor.look(self._sending > 0)) is None:
            self._watch(self._supervisor)
            self._time.sleep(_LOOK_EVERY_S)
        self._stop.over = True
        return why

    def _start_senders(self, number: int) -> None:
        context = self._context
        workload = context.config.workload[number]
        source = Source(plan(context, number))
        for client in range(clients_of(workload)):
            name = f"generator-{number}/{client}"
            self._sending += 1
            self._time.start(lambda name=name: self._send(number, name, source))  # type: ignore[misc]

    def _send(self, number: int, name: str, source: Source) -> None:
        context = self._context

        def live(life: int) -> None:
            Sender(context, context.config.workload[number], name, source, context.driver(name, life)).run()

        self._lives(name, 200, live)
        self._sending -= 1

    def _start_worker(self, number: int) -> None:
        context, worker = self._context, self._context.config.workers[number]
        held = Held()

        def slot(name: str) -> Callable[[int], None]:
            def live(life: int) -> None:
                handler = open_handler(context, worker, name, life)
                ConsumerActor(context, worker, name, life, context.driver(name, life), handler, held).run()

            return live

        for place in range(worker.concurrency):
            name = f"{worker.name}/{place}"
            self._time.start(lambda name=name: self._lives(name, worker.restart_ms, slot(name)))  # type: ignore[misc]
        if worker.heartbeat:
            driver = context.driver(f"{worker.name}/heart", 0, faultless=True)
            self._time.start(Heart(context, worker, held, driver).run)

    def _lives(self, name: str, restart_ms: float, live: Callable[[int], None]) -> None:
        """Run one life after another, as long as each ends in a crash. Messages that the dead held stay leased."""
        life = 0
        while True:
            try:
                live(life)
            except Died:
                self._recorder.record(Event(self._time.now_us(), "worker", worker=name, what="died"))
                self._time.sleep(restart_ms / 1000)
                life += 1
                if self._stop.is_set():
                    return
                continue
            return
