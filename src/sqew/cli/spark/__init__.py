"""`sqew spark`: the jobs that move and crunch many messages. Each is loaded when it is run."""

from __future__ import annotations

import click

from sqew.terminal.command import LazyGroup

COMMANDS = {
    "doctor": ("sqew.cli.spark.doctor:doctor", "Say whether Spark can run here, and what to do where it can't."),
    "ingest": ("sqew.cli.spark.ingest:ingest", "Send the lines of JSONL or CSV files to a queue."),
    "generate": ("sqew.cli.spark.generate:generate", "Make up a workload, the same one for the same seed."),
    "analyse": ("sqew.cli.spark.analyse:analyse", "Make tables and a report of event logs."),
    "compare": ("plainbench.cli.spark_compare:compare", "Set two runs of PlainBench side by side."),
    "archive": ("sqew.cli.spark.archive:archive", "Copy finished messages to a lake of Parquet files."),
    "query": ("sqew.cli.spark.query:query", "Ask the lake and the queues in SQL."),
    "replay": ("sqew.cli.spark.replay:replay", "Send messages of the lake to a queue again."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def spark() -> None:
    """Move and crunch many messages with Spark, on this machine or on a cluster.

    It needs packages of its own, Java among them where there is none: `sqew spark doctor` says how to install them.
    """
