"""Copies of a run's databases from before it: a run uses messages up, so without a copy it could not be repeated."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw
from msgspec.structs import replace

from plainbench.config.model import Config
from plainbench.record.inputs import Input, fingerprint
from sqew import operations as ops
from sqew.embedded import Queue

QUEUE, APP = "queue-before.db", "app-before.db"


def keep(config: Config, folder: Path, run: Path) -> list[Input]:
    """Copy the run's database files that exist. A queue without messages matters in virtual time alone."""
    queue, app = folder / config.sqlite.queue_file, folder / config.sqlite.app_file
    kept = []
    if queue.is_file() and (config.mode == "virtual" or _holds_messages(queue, config)):
        kept.append(_copy(queue, run / QUEUE, "the queue before the run"))
    if app.is_file():
        kept.append(_copy(app, run / APP, "the application's database before the run"))
    return kept


def restored(config: Config, kept: list[Input], source: Path, run: Path) -> Config:
    """Return the configuration on copies of the copies, in the folder of another run; without a copy, on new files."""
    for one in kept:
        shutil.copyfile(source / one.path, run / one.path)
    queue, app = run / "queue.db", run / "app.db"
    if config.mode == "virtual":
        # It makes copies itself.
        queue, app = (run / name if (run / name).exists() else file for name, file in ((QUEUE, queue), (APP, app)))
    else:
        for name, file in ((QUEUE, queue), (APP, app)):
            if (run / name).exists():
                shutil.copyfile(run / name, file)
    return replace(config, sqlite=replace(config.sqlite, queue_file=str(queue), app_file=str(app)))


def _holds_messages(path: Path, config: Config) -> bool:
    """Return True if there is anything to receive. Dead letters stay where they are, and change nothing."""
    topics = {topic.name for topic in config.topics}
    with Queue.open(path) as queue:
        return any(queue.run(ops.Measure(info.name)).total() for info in queue.queues() if info.name in topics)


def _copy(source: Path, copy: Path, what: str) -> Input:
    reading, writing = apsw.Connection(str(source)), apsw.Connection(str(copy))
    try:
        with writing.backup("main", reading, "main") as backup:
            while not backup.done:
                backup.step(10_000)
    finally:
        writing.close()
        reading.close()
    return fingerprint(copy.resolve(), what, copy.parent)
