"""The entry point of `sqew`: the list of commands."""

from __future__ import annotations

from typing import NoReturn

import click

from sqew import __version__
from sqew.cli.session import QueueSession
from sqew.terminal.command import LazyGroup, setting_options
from sqew.terminal.program import Program, start

COMMANDS = {
    "serve": ("sqew.cli.server.serve:serve", "Serve the queues over HTTP until Ctrl-C."),
    "queue": ("sqew.cli.queues.queue:queue", "Create, list, change and delete queues."),
    "message": ("sqew.cli.messages.message:message", "Send, receive, acknowledge and look at messages."),
    "dlq": ("sqew.cli.messages.dlq:dlq", "Look at the dead letters of a queue, bring them back or delete them."),
    "archive": ("sqew.cli.messages.archive:archive", "Look at finished messages."),
    "consumer": ("sqew.cli.spark.consumer:consumer", "Look at who reads a queue in claims, and take it from them."),
    "event": ("sqew.cli.events.event:event", "Publish events."),
    "subscription": ("sqew.cli.events.subscription:subscription", "Say which events go to which queues and endpoints."),
    "delivery": ("sqew.cli.events.delivery:delivery", "Look at events on their way to endpoints; retry or drop them."),
    "schedule": ("sqew.cli.events.schedule:schedule", "Send messages and publish events by the clock."),
    "preview": ("sqew.cli.events.preview:preview", "Say when something would fire."),
    "certificate": ("sqew.cli.events.certificate:certificate", "Show or replace what envelopes are signed with."),
    "writer": ("sqew.cli.spark.writer:writer", "Look at who sends in whole epochs; abort what they have staged."),
    "key": ("sqew.cli.queues.key:key", "Make, list and delete the keys that open one queue of a server."),
    "stats": ("sqew.cli.queues.stats:stats", "Show depths, rates and latencies."),
    "health": ("sqew.cli.queues.stats:health", "Say whether the file, the database or the server can be used."),
    "metrics": ("sqew.cli.queues.stats:metrics", "Print the metrics for Prometheus."),
    "canary": ("sqew.cli.canary.command:canary", "Send a queue messages, and tell how long each takes to come back."),
    "export": ("sqew.cli.messages.transfer:export", "Write the messages of a queue as lines of JSON."),
    "import": ("sqew.cli.messages.transfer:import_", "Send messages that `sqew export` wrote."),
    "backup": ("sqew.cli.server.maintenance:backup", "Copy the file while it is in use."),
    "check": ("sqew.cli.server.maintenance:check", "Read the whole file and look for damage."),
    "migrate": ("sqew.cli.server.migrate:migrate", "Copy a file's queues to a PostgreSQL database."),
    "spark": ("sqew.cli.spark:spark", "Move and crunch many messages with Spark, on this machine or on a cluster."),
    "config": ("sqew.cli.config:config", "Show the settings and where they come from."),
    "completion": ("sqew.cli.completion:completion", "Print the completion script of a shell."),
    "demo": ("sqew.cli.demo:demo", "Show a queue at work, step by step."),
}

EPILOG = """\
Every setting is a flag as well, before or after the command: see `sqew --help-settings`.

Try `sqew demo`, or: sqew queue add --name orders
"""


class Root(Program, LazyGroup):
    """`sqew` itself."""

    session_class = QueueSession
    shown_options = ("db", "database_url", "url", "read_only", "config", "json", "no_color", "debug")


def _help_settings(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        formatter = ctx.make_formatter()
        with formatter.section("Settings, each also SQEW_NAME in the environment and a line in the settings file"):
            formatter.write_dl(
                [(f"{option.opts[0]} {option.metavar}", option.help or "") for option in setting_options()]
            )
        click.echo(formatter.getvalue(), nl=False)
        ctx.exit()


@click.group(
    cls=Root,
    lazy=COMMANDS,
    help="Sqew, a durable message queue, in a file, in PostgreSQL or on a server.",
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="sqew")
@click.option(
    "--help-settings",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_help_settings,
    help="List the settings.",
)
def sqew() -> None:
    """Run a command of Sqew."""


def main() -> NoReturn:
    """Run the script `sqew`."""
    start(sqew)
