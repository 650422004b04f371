"""`sqew canary`: end-to-end latency, measured all the time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import click
import msgspec

from sqew.cli.canary.probe import QUEUE, Canary, CanaryCounters, Round, rounds
from sqew.cli.parameters import COUNT, Milliseconds, QueueName, Whole
from sqew.cli.session import QueueSession
from sqew.observe.exposition import CONTENT_TYPE
from sqew.terminal.command import Command
from sqew.terminal.exits import CommandError, Exit
from sqew.terminal.output import write_json


@click.command(cls=Command)
@click.option("--interval", type=Milliseconds(at_least=1), default=1_000, show_default="1s", help="Between messages.")
@click.option("--count", type=COUNT, metavar="N", help="Stop after so many.  [default: go on until Ctrl-C]")
@click.option("--once", is_flag=True, help="The same as --count 1.")
@click.option("--max-ms", type=Milliseconds(at_least=1), help="A message that takes longer is late.")
@click.option(
    "--timeout-ms",
    type=Milliseconds(at_least=1),
    default=10_000,
    show_default="10s",
    help="A message that has not come back by then is lost.",
)
@click.option("--queue", type=QueueName(), default=QUEUE, show_default=True, help="Two canaries need a queue each.")
@click.option("--metrics", is_flag=True, help="Show the metrics for Prometheus at the end.")
@click.option("--metrics-port", type=Whole(0, 65_535), metavar="PORT", help="Serve the metrics for Prometheus here.")
@click.pass_obj
def canary(
    session: QueueSession,
    interval: int,
    count: int | None,
    once: bool,
    max_ms: int | None,
    timeout_ms: int,
    queue: str,
    metrics: bool,
    metrics_port: int | None,
) -> int:
    """Send a queue messages, and tell how long each takes to come back.

    A line for each. With --once or --count it ends with exit code 10 if a message was lost, could not be sent or took
    longer than --max-ms. At the end it prints a summary; --metrics shows the metrics for Prometheus as well, and
    --metrics-port serves them during the run.
    """
    counters = CanaryCounters()
    with session.open(create=True) as q, _served(session, counters, metrics_port):
        singing = Canary(q, queue, max_ms=max_ms, timeout_ms=timeout_ms)
        with contextlib.suppress(KeyboardInterrupt):
            for round in rounds(singing, interval / 1000, 1 if once else count):
                counters.add(round)
                _show(session, round)
    session.note(counters.summary())
    if metrics:
        click.echo(counters.prometheus(), nl=False)
    is_watched = once or count is not None
    return Exit.LATE if is_watched and not counters.is_good else Exit.OK


def _show(session: QueueSession, round: Round) -> None:
    if session.json:
        write_json(msgspec.structs.asdict(round))
    else:
        click.echo(_sentence(round))


def _sentence(round: Round) -> str:
    match round.result:
        case "failed":
            return f"{round.number}: failed: {round.error}"
        case "lost":
            return f"{round.number}: lost: it was sent in {round.send_ms} ms and did not come back in time"
        case _:
            return (
                f"{round.number}: {round.result}: {round.latency_ms} ms "
                f"(send {round.send_ms} ms, ack {round.ack_ms} ms)"
            )


@contextlib.contextmanager
def _served(session: QueueSession, counters: CanaryCounters, port: int | None) -> Iterator[None]:
    """Serve the metrics while the block runs."""
    if port is None:
        yield
        return

    class Scraped(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = counters.prometheus().encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: a line for every scrape is of no use."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Scraped)
    except OSError as error:
        raise CommandError(f"Port {port} can't be used ({error.strerror}). Choose another.", Exit.FAILED) from error
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        session.note(f"The metrics are at http://127.0.0.1:{server.server_port}/metrics")
        try:
            yield
        finally:
            server.shutdown()
