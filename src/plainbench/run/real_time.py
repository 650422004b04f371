"""A run in real time: a process for each generator and each worker, so that a fault can kill one and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from plainbench.config.model import Config
from plainbench.faults.environment import environment
from plainbench.faults.schedule import Schedule
from plainbench.record.events import SUFFIX, Event, Recorder
from plainbench.run.clock import RealTime
from plainbench.run.context import RunContext
from plainbench.run.process import FAILED, STAGE, ProcessInput
from plainbench.run.supervisor import Supervisor
from plainbench.workers import orphans
from sqew.errors import SqewError

_POLL_S = 0.05
_LOOK_EVERY_S = 0.5
_END_WITHIN_S = 15.0
_SURPRISES = 3
"""Number of times that a process may end without being killed by a fault, before the run is given up."""


class ChildFailed(SqewError):
    """The failure of a generator or a worker that could not go on; its own words are in the message."""


class _Never:
    def is_set(self) -> bool:
        return False


class _Child:
    """A generator or a worker, through all its lives."""

    def __init__(self, role: str, number: int, name: str, restart_ms: float, run: Path) -> None:
        self.role, self.name = role, name
        self.over = False
        self.life = -1
        self._number, self._restart_s, self._run = number, restart_ms / 1000, run
        self._surprises = 0
        self._again_at = 0.0
        self._process: subprocess.Popen[str] | None = None

    def start(self, began_ns: int | None = None) -> None:
        """Begin a life. ``began_ns``: the time at which the run began, if it has."""
        self.life += 1
        command = [
            sys.executable,
            "-m",
            "plainbench.run.process",
            self.role,
            str(self._number),
            str(self.life),
            str(self._run),
            *([] if began_ns is None else [str(began_ns)]),
        ]
        with self._stderr.open("w") as stderr:
            # A group of its own: Ctrl-C is for the lab, which tells them to end in its own time.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True
            )

    @property
    def _stderr(self) -> Path:
        return self._run / f"{self.role}-{self._number}-{self.life}.stderr"

    def said(self) -> str:
        """Return the end of what the process wrote to stderr."""
        return self._stderr.read_text(errors="replace").strip()[-2000:]

    def await_ready(self) -> None:
        """Wait until the process has opened everything."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            process.wait()
            raise ChildFailed(f"{self.name} could not start: {self.said() or f'it ended with {process.returncode}'}")

    def begin(self, began_ns: int) -> None:
        """Let the process begin."""
        assert self._process is not None
        assert self._process.stdin is not None
        # If it has died since, `poll` finds that out.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{began_ns}\n")
            self._process.stdin.flush()

    def poll(self, began_ns: int, report: Callable[[str, str], None]) -> None:
        """Check if the process lives; report what happened to it, and start it again if it should."""
        if self.over:
            return
        if self._process is None:
            if time.monotonic() >= self._again_at:
                self.start(began_ns)
                self.await_ready()
                self.begin(began_ns)
                report("started", f"life {self.life + 1}")
            return
        code = self._process.poll()
        if code is None:
            return
        if code == 0:
            self.over = True
            return
        said = self.said()
        if code == FAILED:
            raise ChildFailed(f"{self.name}: {said}")
        if code != -signal.SIGKILL:
            self._surprises += 1
            if self._surprises > _SURPRISES:
                raise ChildFailed(f"{self.name} died {self._surprises} times by itself (exit code {code}): {said}")
        report("died", said or f"exit code {code}")
        self._hang_up()
        self._process = None
        self._again_at = time.monotonic() + self._restart_s

    def end(self) -> None:
        """Tell the process to end."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def wait(self, until: float) -> None:
        """Wait for the process to end; kill it when that takes too long."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._hang_up()

    def _hang_up(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                pipe.close()  # type: ignore[union-attr]
        orphans.end(self._run, self._process.pid)


class RealRun:
    """A run in real time. ``watch`` is called with the supervisor after each look, to show progress."""

    def __init__(
        self, config: Config, folder: Path, run: Path, schedule: Schedule | None, watch: Callable[[Supervisor], None]
    ) -> None:
        self._config, self._folder, self._run = config, folder, run
        self._schedule, self._watch = schedule, watch
        self._children: list[_Child] = []
        self.is_prepared = False
        """True once everything is there that it takes to begin."""

    def go(self) -> str:
        """Run to the end and return why it ended. What was recorded is complete whatever happens."""
        with ExitStack() as stack:
            recorder = Recorder(self._run / f"lab{SUFFIX}")
            stack.callback(recorder.close)
            clock = RealTime()
            context = RunContext(self._config, self._folder, self._run, clock, recorder, _Never(), self._schedule)
            config, theirs = stack.enter_context(environment(context))
            context = msgspec.structs.replace(context, config=config)
            supervisor = Supervisor(context)
            supervisor.prepare()
            self.is_prepared = True
            stage = ProcessInput(theirs, str(self._folder), self._schedule)
            (self._run / STAGE).write_bytes(msgspec.json.encode(stage))
            # The addresses in it are of this run only, and may hold a password.
            stack.callback((self._run / STAGE).unlink, missing_ok=True)
            why, reason = "failed", ""
            try:
                with self._children_of(config):
                    for child in self._children:
                        child.await_ready()
                    clock.began_ns = time.monotonic_ns()
                    supervisor.note("began")
                    for child in self._children:
                        child.begin(clock.began_ns)
                    why = self._look_after(supervisor, recorder, clock)
            except KeyboardInterrupt:
                why = "interrupted"
            except SqewError as error:
                reason = str(error)
                raise
            finally:
                supervisor.finish(why, reason)
        return why

    @contextmanager
    def _children_of(self, config: Config) -> Iterator[None]:
        workers = [
            _Child("worker", number, worker.name, worker.restart_ms, self._run)
            for number, worker in enumerate(config.workers)
        ]
        generators = [
            _Child("generator", number, f"generator-{number}", 200, self._run) for number in range(len(config.workload))
        ]
        self._children = [*workers, *generators]
        try:
            for child in self._children:
                child.start()
            yield
        finally:
            for child in self._children:
                child.end()
            until = time.monotonic() + _END_WITHIN_S
            for child in self._children:
                child.wait(until)

    def _look_after(self, supervisor: Supervisor, recorder: Recorder, clock: RealTime) -> str:
        look_at = 0.0
        assert clock.began_ns is not None
        began_ns = clock.began_ns
        while True:
            for child in self._children:
                child.poll(
                    began_ns,
                    lambda what, reason, child=child: recorder.record(  # type: ignore[misc]
                        Event(clock.now_us(), "worker", worker=child.name, what=what, reason=reason)
                    ),
                )
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + _LOOK_EVERY_S
                sending = any(child.role == "generator" and not child.over for child in self._children)
                why = supervisor.look(sending)
                self._watch(supervisor)
                if why is not None:
                    return why
            time.sleep(_POLL_S)
