"""Work that is done by a command: any program that reads lines and writes lines (docs/plainbench.md).

For each message it gets one line of JSON on its stdin and answers with one line on its stdout: ``ack``, ``retry``,
``retry 500`` (milliseconds), ``dead`` with a reason, or the same as JSON. Before it answers it may send as many
queries to app.db as it likes, a line of JSON with a ``query`` each. Its output on stderr is kept.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from typing import BinaryIO

import msgspec
from msgspec import Struct

from plainbench.actors.app_database import AppDb
from plainbench.config.model import WorkerConfig
from plainbench.drivers.base import Delivered
from plainbench.record.events import Event
from plainbench.run.context import RunContext
from plainbench.workers import Retry, Verdict, orphans
from plainbench.workers.line_protocol import Answer, Nonsense, Rows, answer_in, message_line, verdict_in
from plainbench.workers.pipes import Pipes, TooLong, TooSlow
from sqew.errors import BadValue, SqewError

_FAILURES = 5
"""Times in a row that a command may die or talk nonsense before the run is given up."""
_END_WITHIN_S = 2.0
_KEPT_OF_STDERR = 2_000


class CommandFailed(SqewError):
    """The failure of a worker's command to do its work; its output on stderr is in the message."""


class _CommandFailure(Exception):
    """A command that died, was too slow or wrote a line that can't be understood."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(reason)
        self.what = what


class CommandHandler:
    """The command of one consumer. It is started before the run begins, and again whenever it has ended."""

    def __init__(self, context: RunContext, worker: WorkerConfig, name: str, life: int) -> None:
        self._context, self._worker, self._name, self._life = context, worker, name, life
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed with the handler)
        self._failures = 0
        self._app: AppDb | None = None
        try:
            # What can't be started is better found out before the run begins.
            self._start()
        except BaseException:
            self._stderr.close()
            raise

    def handle(self, topic: str, delivery: Delivered) -> Verdict:
        try:
            verdict = self._ask(topic, delivery)
        except _CommandFailure as failure:
            return self._after(failure)
        self._failures = 0
        return verdict

    def _after(self, failure: _CommandFailure) -> Verdict:
        """Report the trouble, end what is left of the command, and have the message retried."""
        reason = self._report(failure)
        self._kill()
        self._failures += 1
        if self._failures >= _FAILURES and not self._context.stop.is_set():
            raise CommandFailed(f"The command of {self._name} failed {self._failures} times in a row. {reason}")
        return Retry(reason=str(failure))

    def _report(self, failure: _CommandFailure) -> str:
        said = self._said()
        reason = f"{failure}{f' It said: {said}' if said else ''}"
        # Not `died`: that is a process of the lab, which takes its leases with it.
        self._context.recorder.record(
            Event(self._context.time.now_us(), "worker", worker=self._name, what=failure.what, reason=reason)
        )
        return reason

    def _start(self) -> None:
        command, context = self._worker.cmd, self._context
        environment = {
            "PLAINBENCH_WORKER": self._name,
            "PLAINBENCH_SEED": str(context.config.seed),
            "PLAINBENCH_RUN": str(context.run),
            "PLAINBENCH_APP_DB": str((context.folder / context.config.sqlite.app_file).resolve()),
        }
        self._stderr.seek(0)
        self._stderr.truncate()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, cwd=context.folder,
                env={**os.environ, **environment}, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise BadValue(
                f"workers: the command of {self._worker.name} can't be started: {' '.join(command)}: {error.strerror}. "
                f"Its path counts from {context.folder.resolve()}."
            ) from error
        orphans.note(context.run, self._process.pid)
        self._pipes = Pipes(self._process, context.stop)

    def _ask(self, topic: str, delivery: Delivered) -> Verdict:
        self._be_ready()
        timeout_ms = self._worker.timeout_ms
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        try:
            self._pipes.write(message_line(topic, delivery), deadline)
            while True:
                answer = answer_in(self._pipes.read_line(deadline))
                if answer.query is None:
                    return verdict_in(answer)
                self._pipes.write(msgspec.json.encode(self._rows(answer)) + b"\n", deadline)
        except TooSlow as error:
            reason = f"No verdict came within {timeout_ms:g} ms." if timeout_ms is not None else str(error)
            raise _CommandFailure("timed out", reason) from None
        except (Nonsense, TooLong) as error:
            raise _CommandFailure("talked nonsense", str(error)) from None
        except (EOFError, BrokenPipeError):
            raise _CommandFailure("command died", f"{self._end_of_it()} in the midst of a message.") from None

    def _be_ready(self) -> None:
        """Start the command again if it has ended. Its output for the last message must not pass for an answer."""
        if self._process is not None:
            try:
                unasked = self._pipes.read_unasked()
            except EOFError:
                self._report(_CommandFailure("command died", f"{self._end_of_it()} between two messages."))
                self._kill()
            else:
                if unasked:
                    raise _CommandFailure(
                        "talked nonsense", f"It wrote {unasked[:200]!r} though it was asked nothing more."
                    )
        if self._process is None:
            self._start()

    def _end_of_it(self) -> str:
        assert self._process is not None
        try:
            return f"The command ended with {self._process.wait(_END_WITHIN_S)}"
        except subprocess.TimeoutExpired:
            return "The command closed its stdin or stdout"

    def _rows(self, answer: Answer) -> Struct:
        self._app = self._app or AppDb(self._context, self._name, self._life)
        try:
            return Rows(self._app.execute(answer.query or "", answer.parameters))
        except SqewError as error:
            return Rows(error=str(error))

    def _said(self) -> str:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - _KEPT_OF_STDERR))
        return self._stderr.read().decode(errors="replace").strip()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            # With all that it has started itself.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        orphans.forget(self._context.run, process.pid)
        self._pipes.close()

    def close(self) -> None:
        """Let the command end by itself, as its stdin ends. Then kill it."""
        if self._process is not None:
            self._pipes.end_input()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_WITHIN_S)
            self._kill()
        if self._app is not None:
            self._app.close()
        self._stderr.close()
