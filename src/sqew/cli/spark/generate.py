"""`sqew spark generate`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from sqew.cli.parameters import Name, QueueName
from sqew.cli.session import QueueSession
from sqew.cli.spark.work import server_of, spark_at_work, spark_options, wire_to, write_options
from sqew.errors import BadValue
from sqew.spark.session import check_packages
from sqew.terminal.command import Command
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.output import plural

if TYPE_CHECKING:
    from sqew.spark.jobs.generate import Format
    from sqew.spark.transforms.generate import Workload

_ARRIVALS = ("at-once", "constant", "poisson", "bursts")
_LARGEST = 1_048_576
_MOST = 10**15
_MOST_SKEWED = 10**6
"""The number of keys at most if they are skewed: every task gets the frequency of each."""


@click.command(cls=Command)
@click.option("--count", type=click.IntRange(1), required=True, metavar="N", help="How many messages.")
@click.option("--seed", type=int, default=0, metavar="N", help="The same seed gives the same messages.  [default: 0]")
@click.option("--queue", type=QueueName(), help="Send them to this queue …")
@click.option("--output", metavar="FOLDER", help="… or write them to this folder, which must not exist.")
@click.option("--format", type=click.Choice(["jsonl", "parquet"]), default="jsonl", help="What to write: see below.")
@click.option("--arrivals", type=click.Choice(_ARRIVALS), default="at-once", help="When they come.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), default=1000.0, metavar="R", help="So many a second.")
@click.option("--burst", type=click.IntRange(1), default=1000, metavar="N", help="So many at a time, with bursts.")
@click.option("--size", default="100", metavar="N|N..M", help="How many bytes a body has.  [default: 100]")
@click.option("--size-shape", type=click.Choice(["uniform", "log"]), default="uniform", help="Which sizes are likely.")
@click.option("--keys", type=click.IntRange(1), default=1000, metavar="N", help="About so many different things.")
@click.option("--skew", type=click.FloatRange(0, 10), default=0.0, metavar="S", help="The k-th as often as k ** -S.")
@click.option("--lane", "lanes", multiple=True, metavar="NAME=SHARE", help="A lane and its share. May be repeated.")
@click.option(
    "--job-id", type=Name(), metavar="ID", help="What this job is called; one of the same name sends nothing again."
)
@click.option("--partitions", type=click.IntRange(1), metavar="N", help="In so many tasks. It changes no message.")
@spark_options
@click.pass_obj
def generate(
    session: QueueSession, count: int, seed: int, queue: str | None, output: str | None, format: Format, arrivals: Any,
    rate: float, burst: int, size: str, size_shape: Any, keys: int, skew: float, lanes: tuple[str, ...],
    job_id: str | None, partitions: int | None, master: str | None, spark_settings: tuple[str, ...],
) -> None:  # fmt: skip
    """Make up a workload, the same one for the same seed.

    It is the same however many tasks make it. Each body is {"n": …, "key": …, "text": …}. In a queue each message is
    delayed until it is due. As files, JSONL has a body a line, as `sqew spark ingest` reads it, and Parquet has when
    each is due, its lane and its key as well.
    """
    check_packages()
    from sqew.spark.transforms.generate import Workload

    if (queue is None) == (output is None):
        raise CommandError("Say where the messages go: --queue NAME or --output FOLDER, one of the two.", Exit.INVALID)
    _check_numbers(count, seed, keys, _MOST_SKEWED if skew else _MOST)
    smallest, largest = _sizes(size)
    workload = Workload(
        count=count, seed=seed, arrivals=arrivals, rate=rate, burst=burst, smallest=smallest, largest=largest,
        shape=size_shape, keys=keys, skew=skew, lanes=_lanes(lanes),
    )  # fmt: skip
    began = time.monotonic()
    if queue is not None:
        done = _send(session, workload, queue, job_id, partitions, master, spark_settings)
    else:
        done = _write(session, workload, str(output), format, partitions, master, spark_settings)
    where = f"to '{queue}'" if queue else f"into {output}"
    again = " An earlier run of this job had sent them." if done["repeated"] else ""
    session.show(
        {**done, "seconds": round(time.monotonic() - began, 3)},
        f"Made {plural(count, 'message')} {where}." if not again else f"Sent nothing {where}.{again}",
    )


def _send(
    session: QueueSession, workload: Workload, queue: str, job_id: str | None, partitions: int | None,
    master: str | None, spark_settings: tuple[str, ...],
) -> dict[str, Any]:  # fmt: skip
    from sqew.errors import UnknownLane
    from sqew.spark.jobs.generate import job_id_of, send
    from sqew.spark.jobs.ledger import is_done

    server_of(session, "generate --queue")
    with session.connect() as client:
        policy = client.info(queue).policy
    for lane in workload.lanes:
        if lane not in policy.lanes:
            raise UnknownLane(queue, lane, policy.lanes)
    job_id = job_id or job_id_of(workload)
    with wire_to(session, queue) as wire:
        repeated = is_done(wire, queue, job_id)
    if not repeated:
        with spark_at_work(session, "generating", master, spark_settings) as spark:
            options = write_options(session, queue)
            send(spark, workload, options, job_id=job_id, grouped=policy.fifo, partitions=partitions)
    return {"job_id": job_id, "sent": 0 if repeated else workload.count, "repeated": repeated}


def _write(
    session: QueueSession, workload: Workload, output: str, format: Format, partitions: int | None, master: str | None,
    spark_settings: tuple[str, ...],
) -> dict[str, Any]:  # fmt: skip
    from sqew.spark.jobs.generate import write

    with spark_at_work(session, "generating", master, spark_settings) as spark:
        write(spark, workload, output, format, partitions)
    return {"written": workload.count, "output": output, "repeated": False}


def _check_numbers(count: int, seed: int, keys: int, most_keys: int) -> None:
    for name, value, most in (("--count", count, _MOST), ("--seed", abs(seed), _MOST), ("--keys", keys, most_keys)):
        if value > most:
            raise BadValue(f"{name} can't be {value}: it may be {most} at most.")


def _sizes(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    ends = (low, high if dots else low)
    if not all(end.isascii() and end.isdigit() for end in ends):
        raise BadValue(f"--size can't be {text!r}: write a number of bytes, or two like 100..2000.")
    smallest, largest = (int(end) for end in ends)
    if not 1 <= smallest <= largest <= _LARGEST:
        raise BadValue(f"--size can't be {text!r}: sizes are from 1 to {_LARGEST} bytes, the smaller one first.")
    return smallest, largest


def _lanes(lanes: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for lane in lanes:
        name, _, share = lane.rpartition("=")
        try:
            found[name] = float(share)
        except ValueError:
            found[name] = 0.0
        if not name or not 0 < found[name] < float("inf"):
            raise BadValue(f"--lane can't be {lane!r}: write NAME=SHARE, like fast=3.")
    return found
