"""`plainbench ingest --spark`: the same ingest, done by the job of `sqew spark ingest`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec.structs import replace

from plainbench.config.model import Config
from plainbench.drivers.base import Place
from plainbench.faults.environment import served
from plainbench.run.clock import RealTime
from plainbench.workload.ingest import Into
from sqew.client import Client
from sqew.errors import BadValue
from sqew.formats.files import Format
from sqew.spark.jobs import ingest as job
from sqew.spark.source.options import options_of
from sqew.spark.source.wire import Wire
from sqew.spark.transforms.ingest import Manner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OURS = ("sqew", "sqew-http")


def check_driver(config: Config) -> None:
    """Raise an error if the topics are not in a queue of Sqew's."""
    if config.target.driver not in _OURS:
        raise BadValue(f"--spark sends to Sqew's own queues, and the target is '{config.target.driver}'. Leave it out.")


def sent_by_spark(
    spark: SparkSession, config: Config, folder: Path, kept: Path, patterns: Sequence[str], format: Format,
    delimiter: str, into: Into, restart: bool,
) -> job.Ingested:  # fmt: skip
    """Put the lines of files into a topic. Rejects are written to the same place as without Spark."""
    with _server_of(config, folder, kept) as place:
        options = {**place, "queue": into.topic}
        with Client(place["url"], token=place.get("token")) as client:
            policy = client.info(into.topic).policy
        target = job.Into(into.topic, into.lane, into.priority)
        limits = job.check_target(policy, target, into.group_by)
        manner = Manner(format, delimiter, None, into.group_by, limits)
        job_id = f"ingest-{uuid4().hex}" if restart else None
        with Wire(options_of(options).target) as wire:
            work = job.Ingest(spark, wire, target, manner, options, job_id=job_id, in_order=policy.fifo)
            done = work.run(patterns, str(kept / "quarantine"))
    return replace(done, rejects=_moved(done.rejects, kept, into.topic))


@contextmanager
def _server_of(config: Config, folder: Path, kept: Path) -> Iterator[dict[str, str]]:
    """Yield the address and token of the server that has the topics. For a file, a server is started."""
    options = config.target.opened()
    if "url" in options:
        yield {name: str(options[name]) for name in ("url", "token") if options.get(name)}
        return
    kept.mkdir(parents=True, exist_ok=True)
    with served(Place(config, folder, RealTime()), kept / "server.log") as url:
        yield {"url": url}


def _moved(rejects: str | None, kept: Path, topic: str) -> str | None:
    if rejects is None:
        return None
    target = kept / "rejects" / f"{topic}.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    [written] = Path(rejects).glob("part-*.json")
    written.replace(target)
    shutil.rmtree(kept / "quarantine")
    return str(target)
