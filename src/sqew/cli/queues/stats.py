"""`sqew stats`, `sqew health` and `sqew metrics`: the state of the queues and their file."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec

from sqew.cli import views
from sqew.cli.parameters import QueueName
from sqew.cli.session import QueueSession, now_ms
from sqew.errors import SqewError, StoreFull
from sqew.terminal.command import Command, Leading
from sqew.terminal.output import Facts, byte_count


@click.command(cls=Command)
@click.option(
    "--queue",
    type=QueueName(),
    cls=Leading,
    metavar="QUEUE",
    help="Only this queue, in detail. --queue may be left out.",
)
@click.pass_obj
def stats(session: QueueSession, queue: str | None) -> None:
    """Show depths, rates and latencies."""
    with session.reader() as q:
        names = [info.name for info in q.queues()] if queue is None else [queue]
        found = [q.stats(name) for name in names]
    now = now_ms()
    if queue is None:
        session.show({"queues": msgspec.to_builtins(found)}, views.stats_table(found, now))
    else:
        session.show(msgspec.to_builtins(found[0]), *views.stats_parts(found[0], now))


@click.command(cls=Command)
@click.pass_obj
def health(session: QueueSession) -> None:
    """Say whether the file, the database or the server can be used.

    A file is opened, read and locked for writing, and the disk must have room; `sqew check` reads all of it. A database
    is opened and read. A server is asked whether it is ready.
    """
    try:
        if session.url:
            _ask_server(session)
        elif session.database:
            _try_database(session)
        else:
            _try_file(session)
    except SqewError as error:
        if session.json:
            # Machines read stdout; the sentence and the exit code are as always.
            session.show({"status": "degraded", "error": {"code": error.code, "message": str(error)}})
        raise


def _ask_server(session: QueueSession) -> None:
    with session.connect() as client:
        said = client.health()
    facts = {"url": session.url, **said}
    session.show(facts, Facts([(_label(name), value) for name, value in facts.items()]))


def _try_file(session: QueueSession) -> None:
    from sqew.stores.sqlite.connection import connect  # here: the help must not wait for them
    from sqew.stores.sqlite.disk_space import DiskSpace

    settings = session.settings
    with session.open_file() as q:
        with q.transaction():
            queues = len(q.queues())
        facts = _facts(settings.db, settings.durability, queues)
    with closing(connect(settings.db, create=False)) as connection:
        has_room = DiskSpace(settings.db, settings.disk_reserve_bytes, connection).has_room()
    if not has_room:
        raise StoreFull(
            f"The disk that holds {settings.db} has {byte_count(facts['disk_free_bytes'])} left, so sends are refused "
            "(disk_reserve_bytes). Free some space."
        )
    session.show(
        {"status": "ok", **facts},
        Facts([("status", "ok"), *((_label(name), _value(name, value)) for name, value in facts.items())]),
    )


def _try_database(session: QueueSession) -> None:
    with session.open_file() as q:
        facts = {"status": "ok", "database": session.database, "queues": len(q.queues())}
    session.show(facts, Facts([(_label(name), value) for name, value in facts.items()]))


def _facts(path: str, durability: str, queues: int) -> dict[str, Any]:
    import apsw

    return {
        "file": path,
        "file_bytes": file_bytes(path),
        "wal_bytes": file_bytes(path + "-wal"),
        "disk_free_bytes": shutil.disk_usage(Path(path).parent).free,
        "queues": queues,
        "durability": durability,
        "sqlite_version": apsw.sqlite_lib_version(),
    }


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ") + (" size" if name in ("file_bytes", "wal_bytes") else "")


def _value(name: str, value: Any) -> object:
    return byte_count(value) if name.endswith("_bytes") else value


def file_bytes(path: str) -> int:
    """Return the size of a file; 0 if there is none."""
    place = Path(path)
    return place.stat().st_size if place.exists() else 0


@click.command(cls=Command)
@click.pass_obj
def metrics(session: QueueSession) -> None:
    """Print the metrics for Prometheus.

    In its text format, whatever --json says.
    """
    if session.url:
        with session.connect() as client:
            click.echo(client.metrics(), nl=False)
        return
    from sqew.observe.exposition import prometheus

    with session.look_at_file() as q:
        found = [q.stats(info.name) for info in q.queues()]
    click.echo(prometheus(found, now_ms()), nl=False)
