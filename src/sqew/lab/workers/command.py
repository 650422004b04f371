"""Work that is done by a command: any program that reads lines and writes lines (docs/plainbench.md).

For each message it gets one line of JSON on its stdin and answers with one line on its stdout: ``ack``, ``retry``,
``retry 500`` (milliseconds), ``dead`` with a reason, or the same as JSON. Before it answers it may ask app.db as many
questions as it likes, a line of JSON with a ``query`` each. What it says on stderr is kept.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from typing import Any, BinaryIO

import msgspec
from msgspec import Raw, Struct

from sqew.errors import BadValue, SqewError
from sqew.lab.appdb import AppDb
from sqew.lab.config.model import WorkerConfig
from sqew.lab.drivers.base import Delivered
from sqew.lab.events import Event
from sqew.lab.scene import Scene
from sqew.lab.workers import Dead, Done, Retry, Verdict

_FAILURES = 5
"""How often in a row a command may die or talk nonsense before the run is given up."""
_MOST_BYTES = 16 * 1024 * 1024
_END_WITHIN_S = 2.0
_KEPT_OF_STDERR = 2_000


class CommandFailed(SqewError):
    """A worker's command can't do its work; what it said on stderr is in the message."""


class Asked(Struct, omit_defaults=True):
    """The line that a command gets for a message."""

    n: int
    topic: str
    lane: str
    attempt: int
    body: Raw
    group: str | None = None
    headers: dict[str, Any] | None = None


class Answer(Struct, forbid_unknown_fields=True):
    """The line that it answers with, where it is JSON."""

    verdict: str | None = None
    after_ms: int | None = None
    reason: str = ""
    query: str | None = None
    parameters: list[Any] = []  # msgspec copies it


class Rows(Struct, omit_defaults=True):
    """The line that it gets for a query."""

    rows: list[dict[str, Any]] = []  # msgspec copies it
    error: str | None = None


class _Trouble(Exception):
    """The command died, was too slow or said something that can't be understood."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(reason)
        self.what = what


class CommandHandler:
    """The command of one slot. It is started when it is needed, and again when it has died."""

    def __init__(self, scene: Scene, worker: WorkerConfig, name: str, life: int) -> None:
        self._scene, self._worker, self._name, self._life = scene, worker, name, life
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed with the handler)
        self._unread = b""
        self._failures = 0
        self._app: AppDb | None = None
        # What can't be started is better found out before the run begins.
        self._start()

    def handle(self, topic: str, delivery: Delivered) -> Verdict:
        try:
            verdict = self._ask(topic, delivery)
        except _Trouble as trouble:
            return self._after(trouble)
        self._failures = 0
        return verdict

    def _after(self, trouble: _Trouble) -> Verdict:
        """Report it, end what is left of the command, and have the message tried again."""
        said = self._said()
        self._kill()
        self._failures += 1
        reason = f"{trouble}{f' It said: {said}' if said else ''}"
        self._scene.recorder.record(
            Event(self._scene.time.now_us(), "worker", worker=self._name, what=trouble.what, reason=reason)
        )
        if self._failures >= _FAILURES:
            raise CommandFailed(f"The command of {self._name} failed {self._failures} times in a row. {reason}")
        return Retry(reason=str(trouble))

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        command, scene = self._worker.cmd, self._scene
        environment = {
            "PLAINBENCH_WORKER": self._name,
            "PLAINBENCH_SEED": str(scene.config.seed),
            "PLAINBENCH_RUN": str(scene.run),
            "PLAINBENCH_APP_DB": str((scene.folder / scene.config.sqlite.app_file).resolve()),
        }
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, cwd=scene.folder,
                env={**os.environ, **environment}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise BadValue(
                f"workers: the command of {self._worker.name} can't be started: {' '.join(command)}: {error.strerror}. "
                f"Its path counts from {scene.folder.resolve()}."
            ) from error
        self._unread = b""
        return self._process

    def _ask(self, topic: str, delivery: Delivered) -> Verdict:
        process = self._start()
        deadline = None if self._worker.timeout_ms is None else time.monotonic() + self._worker.timeout_ms / 1000
        headers = {name: value for name, value in (delivery.headers or {}).items() if name != "lab"}
        self._say(
            process,
            Asked(
                delivery.number, topic, delivery.lane, delivery.attempt, _as_json(delivery.body), delivery.group,
                headers or None,
            ),
        )  # fmt: skip
        while True:
            answer = _answer(self._line(process, deadline))
            if answer.query is None:
                return _verdict(answer)
            self._say(process, self._rows(answer))

    def _say(self, process: subprocess.Popen[bytes], line: Struct) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(line) + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise _Trouble("died", f"The command ended with {process.wait()}.") from None

    def _line(self, process: subprocess.Popen[bytes], deadline: float | None) -> bytes:
        assert process.stdout is not None
        while b"\n" not in self._unread:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([process.stdout], [], [], left)[0]:
                raise _Trouble("timed out", f"No verdict came within {self._worker.timeout_ms} ms.")
            data = os.read(process.stdout.fileno(), 65_536)
            if not data:
                raise _Trouble("died", f"The command ended with {process.wait()} in the midst of a message.")
            self._unread += data
            if len(self._unread) > _MOST_BYTES:
                raise _Trouble("talked nonsense", f"It wrote {_MOST_BYTES} bytes without the end of a line.")
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _rows(self, answer: Answer) -> Rows:
        self._app = self._app or AppDb(self._scene, self._name, self._life)
        try:
            return Rows(self._app.execute(answer.query or "", answer.parameters))
        except SqewError as error:
            return Rows(error=str(error))

    def _said(self) -> str:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - _KEPT_OF_STDERR))
        return self._stderr.read().decode(errors="replace").strip()

    def _kill(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()  # type: ignore[union-attr]

    def close(self) -> None:
        """Let it end by itself: its stdin ends. Then kill it."""
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
                self._process.stdin.close()  # type: ignore[union-attr]
                self._process.wait(_END_WITHIN_S)
            self._kill()
        if self._app is not None:
            self._app.close()
        self._stderr.close()


def _as_json(body: bytes) -> Raw:
    """A body in a line of JSON: as it is if it is JSON, and as a string if it is not."""
    try:
        # Indented JSON would be several lines.
        return Raw(msgspec.json.encode(msgspec.json.decode(body)) if b"\n" in body else _checked(body))
    except msgspec.DecodeError:
        return Raw(msgspec.json.encode(body.decode(errors="replace")))


def _checked(body: bytes) -> bytes:
    msgspec.json.decode(body)
    return body


_decode = msgspec.json.Decoder(Answer).decode


def _answer(line: bytes) -> Answer:
    text = line.strip()
    if text.startswith(b"{"):
        try:
            return _decode(text)
        except msgspec.DecodeError as error:
            raise _nonsense(line, str(error)) from None
    word, _, rest = text.decode(errors="replace").partition(" ")
    if word == "retry" and rest:
        if not rest.isdigit():
            raise _nonsense(line, "after `retry` there may be a number of milliseconds")
        return Answer(word, int(rest))
    return Answer(word, None, rest)


def _verdict(answer: Answer) -> Verdict:
    match answer.verdict:
        case "ack":
            return Done()
        case "retry":
            return Retry(answer.after_ms, answer.reason)
        case "dead":
            return Dead(answer.reason)
    raise _nonsense((answer.verdict or "").encode(), "it is not ack, retry or dead")


def _nonsense(line: bytes, why: str) -> _Trouble:
    shown = line[:200].decode(errors="replace")
    return _Trouble("talked nonsense", f"Its answer {shown!r} can't be understood: {why}.")
