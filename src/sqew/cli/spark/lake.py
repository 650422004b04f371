"""Options and reads that the commands on the lake share: the queues' place, and the lake."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sqew.cli.session import QueueSession
from sqew.errors import BadValue
from sqew.terminal.exits import CommandError, Exit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # it took no type parameter in older versions

F = TypeVar("F", bound=Callable[..., Any])


def lake_option(help: str, *, required: bool = True) -> Callable[[F], F]:
    """Make the option ``--lake``: a folder, or a URL for Hadoop."""
    return click.option("--lake", required=required, metavar="FOLDER|URL", help=help)


class Moment(_Type):
    """A time in ISO 8601, UTC unless it says otherwise; converted to epoch milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            called = param.opts[0] if param else "time"
            raise BadValue(f"{called} can't be {value!r}: write a time like 2026-01-31 or 2026-01-31T12:00Z.") from None
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def place_of_queues(session: QueueSession) -> dict[str, str]:
    """Return the place of the queues, as options of ``format("sqew")``."""
    if session.url:
        token = session.settings.auth_token
        return {"url": session.url, **({"token": token} if token else {})}
    if session.database:
        raise CommandError(
            "Spark reaches queues in PostgreSQL through a server: start one with `sqew serve`, and give --url.",
            Exit.INVALID,
        )
    return {"path": str(Path(session.settings.db).absolute())}


def read_queue(
    spark: SparkSession, place: dict[str, str], queue: str, *, archive: bool, columns: str | None = None
) -> DataFrame:
    """Return the messages of a queue, or those of its archive. ``columns``: only these, as ``id LONG, body STRING``."""
    reader = spark.read.format("sqew").options(**place, queue=queue)
    if columns is not None:
        reader = reader.schema(columns)
    return (reader.option("archive", "true") if archive else reader).load()
