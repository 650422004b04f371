"""`sqew spark replay`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
import msgspec

from sqew.cli.parameters import Name, QueueName
from sqew.cli.session import QueueSession
from sqew.cli.spark.lake import Moment, lake_option
from sqew.cli.spark.work import advancing, server_of, spark_at_work, spark_options, wire_to, write_options
from sqew.terminal.command import Command
from sqew.terminal.output import Facts, plural
from sqew.terminal.progress import Bar


@click.command(cls=Command)
@lake_option("The lake.")
@click.option("--from", "source", type=QueueName(), help="Only messages that were in this queue.")
@click.option("--to", "target", required=True, type=QueueName(), help="The queue to send them to.")
@click.option("--where", metavar="SQL", help="Only those for which this holds, like: priority > 3 AND lane = 'normal'.")
@click.option("--since", type=Moment(), help="Only those that finished at this time or later.")
@click.option("--until", type=Moment(), help="Only those that finished before this time.")
@click.option("--outcome", type=click.Choice(["done", "dead"]), help="Only those that ended so.")
@click.option("--lane", metavar="NAME", help="Send all of them to this lane.  [default: each to its own]")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="N", help="So many a second.  [default: all at once]"
)
@click.option("--job-id", type=Name(), help="What the server remembers the replay by; another one sends all again.")
@spark_options
@click.pass_obj
def replay(
    session: QueueSession,
    lake: str,
    source: str | None,
    target: str,
    where: str | None,
    since: int | None,
    until: int | None,
    outcome: str | None,
    lane: str | None,
    rate: float | None,
    job_id: str | None,
    master: str | None,
    spark_settings: tuple[str, ...],
) -> None:
    """Send messages of the lake to a queue again, each once however often it is run.

    Bodies, headers, priorities, lanes and groups come along; keys do not. The same messages to the same queue are one
    replay: a run that was stopped goes on where it was, and once it is done another run adds only what has come to the
    lake since.
    """
    server_of(session, "replay")
    with session.connect() as client:
        policy = client.info(target).policy
    with spark_at_work(session, "replaying", master, spark_settings, bar=rate is None) as spark:
        from sqew.spark.jobs.replay import Choice, Replay
        from sqew.spark.lake.commits import Lake
        from sqew.spark.lake.files import files_of

        choice = Choice(queue=source, where=where, since=since, until=until, outcome=outcome)
        sent = [0]
        with wire_to(session, target) as wire, _shown(session, sent, rate):
            made = Replay(
                spark, Lake(files_of(spark, lake)), choice, write_options(session, target), wire,
                job_id=job_id, lane=lane, in_order=policy.fifo,
            )  # fmt: skip
            done = made.run(rate, sent.append)
    session.show(
        msgspec.to_builtins(done),
        Facts([("job", done.job_id), ("sent", done.sent), ("sent before", done.repeated)]),
    )
    if done.sent:
        session.note(f"Sent {plural(done.sent, 'message')} to '{target}'.")
    elif done.repeated:
        session.note(f"Nothing was sent: '{target}' got all of it before. Another --job-id sends it again.")
    else:
        session.note("Nothing was sent: no message of the lake is meant.")


@contextmanager
def _shown(session: QueueSession, sent: list[int], rate: float | None) -> Iterator[None]:
    """Show a bar of the messages sent, while Spark reads as well as while the next ones are not due. Without a rate,
    Spark's tasks show the progress."""
    if rate is None:
        yield
        return
    with Bar("replaying", session.plain) as bar, advancing(bar, lambda: sent[-1]):
        yield
